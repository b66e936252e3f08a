"""A machine with one locked skill that was agreed to, and all that a host can get out of the library there."""

from __future__ import annotations

from skillhub.errors import SkillhubError
from skillhub.runtime import Request, Surroundings, catalog_of, load, mentioned, profile, section
from tests.support.here import Here

EVIL = "---\nname: demo\ndescription: EVIL\n---\nEVIL\n"


class Machine(Here):
    """A machine with ``demo`` locked, agreed to and enabled in the project; what a host asks of the library there."""

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


def agreed(folder):
    """Return a machine on which ``demo`` was installed from a folder of the project."""
    machine = Machine(folder)
    (machine.project / ".git").mkdir()
    machine.write("project/mine/demo/SKILL.md", "---\nname: demo\ndescription: Good.\n---\nGood.\n")
    machine.write("project/mine/demo/references/style.md", "Short.\n")
    done = machine.run("install", "./mine/demo", "--yes", "--allow-unsigned")
    assert done.status == 0, done.err
    return machine


def got(machine, host="agents", **more):
    """Return all text that any way into the library hands out of any skill, and why each is held back."""
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
