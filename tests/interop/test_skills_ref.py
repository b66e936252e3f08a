"""Against ``skills-ref``, the reference library of the specification, with several hundred real skills.

``SKILLHUB_SKILLS_REF`` names a Python that has it, ``SKILLHUB_REAL_SKILLS`` a folder with checkouts of public
repositories. There are two differences, both intended:

- Keys outside of the specification are an error there. Here they are known, kept and shown: every client writes
  some, and a skill for two clients has the keys of both.
- The reference reads a subset of YAML without ``[a, b]`` and ``{a: b}``, which the specification's "YAML" includes.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from skillhub.errors import SkillhubError
from skillhub.model.hosts import Rules, profile
from skillhub.model.manifest import read_head
from skillhub.model.skill import Skill
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.overview import section

pytestmark = pytest.mark.interop
STRICT = Rules(strict=True)
ASK = """
import json, sys
from pathlib import Path
from skills_ref import to_prompt
from skills_ref.validator import validate
folders = json.load(sys.stdin)
verdicts = {folder: validate(Path(folder)) for folder in folders}
sound = [folder for folder in folders if not verdicts[folder]]
print(json.dumps({"verdicts": verdicts, "prompt": to_prompt([Path(folder) for folder in sound])}))
"""


def given(variable):
    value = os.environ.get(variable)
    if not value or not os.path.exists(value):
        pytest.skip(f"{variable} names nothing")
    return value


def ask(folders):
    done = subprocess.run(
        [given("SKILLHUB_SKILLS_REF"), "-c", ASK],
        input=json.dumps([str(folder) for folder in folders]),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def real():
    found = sorted(path.parent for path in Path(given("SKILLHUB_REAL_SKILLS")).rglob("SKILL.md"))
    return found or pytest.skip("no real skills at hand: their repositories could not be reached")


def ours(folder):
    try:
        return read_head((folder / "SKILL.md").read_bytes(), folder.name, STRICT)
    except SkillhubError as error:
        return error.message


def meant(errors):
    """Return the intended difference that explains the reference's verdict."""
    if all(error.startswith("Unexpected fields in frontmatter") for error in errors):
        return "keys"
    if all("disallowed JSONesque flow" in error for error in errors):
        return "flow"
    return None


def test_the_same_verdict_on_real_skills(real):
    theirs = ask(real)["verdicts"]
    assert len(theirs) >= 300
    counts = {"same": 0, "keys": 0, "flow": 0}
    for folder in real:
        errors, head = theirs[str(folder)], ours(folder)
        is_same = bool(errors) == isinstance(head, str)
        reason = "same" if is_same else meant(errors)
        assert reason is not None, (folder, errors, head)
        counts[reason] += 1
    print(counts)


FAULTS = {
    "none": lambda text, name: text,
    "name in capitals": lambda text, name: text.replace(f"name: {name}", f"name: {name.upper()}", 1),
    "two hyphens": lambda text, name: text.replace(f"name: {name}", f"name: {name}--x", 1),
    "hyphen last": lambda text, name: text.replace(f"name: {name}", f"name: {name}-", 1),
    "name too long": lambda text, name: text.replace(f"name: {name}", f"name: {'x' * 65}", 1),
    "another name": lambda text, name: text.replace(f"name: {name}", f"name: {name}x", 1),
    "no name": lambda text, name: text.replace(f"name: {name}\n", "", 1),
    "empty description": lambda text, name: f"---\nname: {name}\ndescription: ''\n---\n",
    "long description": lambda text, name: f"---\nname: {name}\ndescription: {'x' * 1025}\n---\n",
    "longest description": lambda text, name: f"---\nname: {name}\ndescription: {'x' * 1024}\n---\n",
    "long compatibility": lambda text, name: text.replace("\n", f"\ncompatibility: {'x' * 501}\n", 1),
    "no frontmatter": lambda text, name: text.partition("\n")[2],
    "open frontmatter": lambda text, name: f"---\nname: {name}\ndescription: x\n",
    "broken YAML": lambda text, name: text.replace("\n", "\nbroken: [\n", 1),
    "unquoted colon": lambda text, name: text.replace("\n", "\nlicense: when: asked\n", 1),
    "a key twice": lambda text, name: text.replace("\n", f"\nname: {name}\n", 1),
    "name of another script": lambda text, name: "---\nname: größe\ndescription: x\n---\n",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_invalid_skills_get_the_same_verdict(fault, real, tmp_path):
    sound = [folder for folder, errors in ask(real)["verdicts"].items() if not errors][:40]
    made = []
    for folder in map(Path, sound):
        place = tmp_path / ("größe" if fault == "name of another script" else folder.name)
        place.mkdir(exist_ok=True)
        text = (folder / "SKILL.md").read_text("utf-8")
        (place / "SKILL.md").write_text(FAULTS[fault](text, folder.name), "utf-8")
        made.append(place)
    theirs = ask(made)["verdicts"]
    for place in made:
        errors, head = theirs[str(place)], ours(place)
        assert bool(errors) == isinstance(head, str), (place, errors, head)


def test_the_list_of_skills_equals_the_references(real):
    answer = ask(real)
    folders = [folder for folder in real if not answer["verdicts"][str(folder)]]
    heads = {folder: ours(folder) for folder in folders}
    plain = [folder for folder, head in heads.items() if head.description == head.front["description"].strip()]
    skills = [
        Skill(
            name=heads[folder].name,
            path=os.path.realpath(folder),
            scope="user",
            state="enabled",
            description=heads[folder].description,
        )
        for folder in plain
    ]
    row = profile("claude-code")
    text = section(Catalog(tuple(skills)), row, 10**9).text
    assert len(plain) > 100
    assert text == ask(plain)["prompt"]
