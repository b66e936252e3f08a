"""A machine with one locked and approved skill, and all content that the library serves to a host there."""

from __future__ import annotations

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from skillhub.errors import SkillhubError
from skillhub.project.project import state_key
from skillhub.runtime import Request, Surroundings, catalog_of, load, mentioned, profile, profiles, section
from tests.support.here import Here

HOSTS = sorted(profiles())
EVIL = "---\nname: demo\ndescription: EVIL\n---\nEVIL\n"


class Machine(Here):
    """A machine with ``demo`` locked, approved and enabled in the project; requests of a host to the library."""

    def around(self, **more):
        environ = {"SKILLHUB_HOME": str(self.hub)}
        given = {"cwd": str(self.project), "home": str(self.home), "environ": environ}
        return Surroundings(**(given | more))

    def catalog(self, host="agents", **more):
        return catalog_of(profile(host), self.around(**more))

    @property
    def copy_of_demo(self):
        return self.project / ".agents/skills/demo"

    def evil(self, place, text=EVIL):
        return self.write(f"project/{place}/SKILL.md", text)


def twin(made, folder):
    """Return a copy of a machine whose state has the new path of its project."""
    shutil.copytree(made.folder, folder, symlinks=True, dirs_exist_ok=True)
    machine = Machine(folder)
    for path in (machine.hub / "state/projects").iterdir():
        text = path.read_text().replace(str(made.project), str(machine.project))
        path.with_name(state_key(str(machine.project), "project") + "".join(path.suffixes)).write_text(text)
        path.unlink()
    return machine


def agreed(folder):
    """Return a machine on which ``demo`` was installed from a folder of the project."""
    return twin(_made(), folder)


@cache
def _made():
    machine = Machine(Path(mkdtemp()))
    atexit.register(shutil.rmtree, machine.folder)
    (machine.project / ".git").mkdir()
    machine.write("project/mine/demo/SKILL.md", "---\nname: demo\ndescription: Good.\n---\nGood.\n")
    machine.write("project/mine/demo/references/style.md", "Short.\n")
    done = machine.run("install", "./mine/demo", "--yes", "--allow-unsigned")
    assert done.status == 0, done.err
    return machine


def served_content(machine, host="agents", **more):
    """Return all text of skills that any function of the library serves, and the status of each withheld skill."""
    catalog = machine.catalog(host, **more)
    text = [section(catalog, profile(host)).text]
    for skill in catalog.skills:
        for each in (skill, *catalog.named(skill.name)):
            try:
                text.append(load(each, Request(rules=profile(host).rules)).body)
            except SkillhubError:
                continue
    for name in [*(skill.full_name for skill in catalog.skills), "demo", "zz", "Demo"]:
        found = mentioned(f"${name} x", catalog)
        text += [load(each).body for each in found.skills]
    return "".join(text), {skill.full_name: skill.held.status for skill in catalog.skills if skill.held}


def serving(word, machine, **more):
    """Return the hosts to which the library serves this word there."""
    return [host for host in HOSTS if word in served_content(machine, host, **more)[0]]
