"""Instructions for open needs: each works in the scope of its skill."""

import re
from importlib.util import find_spec

import pytest

from skillhub.install.need_questions import _packages, how_to_satisfy
from skillhub.model.skill import Need


def test_each_way_to_give_a_variable_ends_in_a_command_without_the_value(tmp_path, monkeypatch):
    need = Need("env", "TOKEN", "", required=True, satisfied=False)
    (tmp_path / "keyring.py").write_text("")
    with monkeypatch.context() as installed:
        installed.syspath_prepend(tmp_path)
        ways = how_to_satisfy("top", need, "project")
    assert [way.rpartition(": ")[2] for way in ways] == [
        "skillhub enable top",
        "skillhub enable top",
        "skillhub env set TOKEN",
    ]


@pytest.mark.skipif(find_spec("keyring") is not None, reason="the extra keyring is here")
def test_without_keyring_storing_a_value_is_not_offered():
    ways = how_to_satisfy("top", Need("env", "TOKEN", "", required=True, satisfied=False), "project")
    assert not any("env set" in way for way in ways)


@pytest.mark.parametrize("kind", ["skill", "mcp", "env", "program"])
@pytest.mark.parametrize("scope", ["project", "user"])
def test_instructions_are_for_the_scope_of_the_skill(kind, scope):
    need = Need(kind, "base", "", required=True, satisfied=False)
    assert all("--global" in way for way in how_to_satisfy("top", need, scope)) is (scope == "user")


def test_a_missing_program_gives_the_names_of_its_packages():
    need = Need("program", "gh", "version >=2.40", required=True, satisfied=False)
    (way,) = how_to_satisfy("top", need, "project")
    hints = "apt install gh, brew install gh, winget install GitHub.cli"
    assert way == f"install the program gh ({hints}), then: skillhub enable top"


def test_every_package_name_is_a_plain_word():
    for program, packages in _packages().items():
        assert re.fullmatch(r"[a-z0-9-]+", program)
        assert packages.keys() <= {"apt", "brew", "winget"}
        assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", each) for each in packages.values())


def test_attack_text_of_a_skill_is_no_install_instruction(tmp_path):
    for name in ("gh-cli", "GH", "jq2", "nodejs"):
        need = Need("program", name, "apt install evil", required=True, satisfied=False)
        assert how_to_satisfy("top", need, "project") == (f"install the program {name}, then: skillhub enable top",)
