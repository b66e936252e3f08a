"""The folders in which skills of a repository are found."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.errors import FormatError
from skillhub.sources.layout import SKILLS_MAX, holders, name_of_folder, plugin_folders, shelves, skill_folders
from tests.support.effort import steps


def found(*folders, top="", declared=()):
    paths = [f"{folder}/SKILL.md" if folder else "SKILL.md" for folder in folders]
    return list(skill_folders(holders([*paths, "README.md", "src/main.py"]), top, declared))


def test_folders_of_skills_are_found_in_order_of_precedence():
    folders = [
        *("near", "skills/a", "skills/.curated/b", "skills/.experimental/c", "skills/.system/d"),
        *(".agents/skills/e", ".claude/skills/f", ".factory/skills/g", ".github/skills/h"),
        "plugins/p/skills/i",
    ]
    assert found(*reversed(folders)) == folders


def test_skill_at_the_top_hides_all_but_declared_skills():
    assert found("", "skills/a", "b") == [""]
    assert found("", "skills/a", "b", declared=("skills/a",)) == ["", "skills/a"]


def test_other_folders_are_searched_to_a_limited_depth_if_the_usual_are_empty():
    assert found("docs/x/y") == ["docs/x/y"]
    assert found("docs/x/y", "skills/a") == ["skills/a"]
    assert found("1/2/3/4/5", "1/2/3/4/six/6") == ["1/2/3/4/5"]


def test_folders_of_skills_are_searched_to_a_limited_depth():
    assert found("skills/a/b/c", "skills/a/b/c/d/e") == ["skills/a/b/c"]
    assert found("skills/a/b/c/d/e", "near") == ["near"]


def test_skill_inside_of_a_skill_is_part_of_the_outer_skill():
    assert found("skills/a", "skills/a/examples/b", "skills/ab") == ["skills/a", "skills/ab"]
    assert found("x/y", "x/y/z") == ["x/y"]


@pytest.mark.parametrize("skipped", ["node_modules", ".git", "dist", "build", "__pycache__"])
def test_generated_and_vendored_folders_are_skipped(skipped):
    assert found(f"{skipped}/a", f"skills/{skipped}/b", f"x/{skipped}/c") == []


def test_subfolder_is_searched_like_a_repository():
    assert found("a/skills/x", "a/y", "skills/z", top="a") == ["a/y", "a/skills/x"]
    assert found("a/skills/x", "ab", top="a") == ["a/skills/x"]
    assert found("a", "a/skills/x", top="a") == ["a"]


def test_only_files_named_skill_md_mark_a_skill():
    assert holders(["a/MY-SKILL.md", "b/SKILL.md/x", "SKILL.md", "c/SKILL.md"]) == {"", "c"}


def test_too_many_skills_are_refused():
    with pytest.raises(FormatError, match="4001"):
        found(*(f"skills/s{number}" for number in range(SKILLS_MAX + 1)))


def test_folders_of_a_plugin_are_found():
    holding = holders(f"{folder}/SKILL.md" for folder in ("p", "p/skills/a", "p/more/b", "p/c", "q/skills/d"))
    shelved = shelves(holding)
    assert plugin_folders(holding, shelved, "p", ["skills"]) == ("p/skills/a",)
    assert plugin_folders(holding, shelved, "p", ["c", "more", "gone"]) == ("p/c", "p/more/b")
    assert plugin_folders(holding, shelved, "p", ["gone"]) == ("p",)
    assert plugin_folders(holding, shelved, "", ["q/skills/d"]) == ("q/skills/d",)
    assert plugin_folders(holding, shelved, "r", ["skills"]) == ()


def test_attack_a_plugin_with_thousands_of_folders_costs_one_look_at_each_skill():
    holding = holders(f"more/s{number}/SKILL.md" for number in range(500))
    places = [f"p{number}" for number in range(2000)]
    cost = steps(lambda: plugin_folders(holding, shelves(holding), "", [*places, "more"]))
    assert cost < 50_000  # a look at each skill for each place takes a million


@pytest.mark.parametrize(
    ("folder", "name"),
    [("a/My Skill_2", "my-skill-2"), ("https://x/y/repo.git", "repo"), ("…", "skill"), ("x" * 80, "x" * 64)],
)
def test_skill_without_a_name_is_named_after_its_folder(folder, name):
    assert name_of_folder(folder) == name


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["", "skills", "a", ".git", "plugins", "x/y", "SKILL.md", "é"]), max_size=6))
def test_any_paths_give_only_folders_with_a_skill(parts):
    paths = ["/".join(parts[:end]) + "/SKILL.md" for end in range(len(parts) + 1)]
    assert set(skill_folders(holders(paths))) <= holders(paths)
