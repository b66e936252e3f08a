"""The search for skills: its order, depth, links, and problems with broken skills."""

from __future__ import annotations

import os

import pytest

from skillhub.model.hosts import Bounds, Rules
from skillhub.model.skill import Problem
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.discover import Root, Search, discover, found_name
from skillhub.runtime.walk import Cache


def write(folder, name=None, text=None, **front):
    folder.mkdir(parents=True, exist_ok=True)
    front = {"name": name or folder.name, "description": f"Does {folder.name}.", **front}
    lines = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in front.items())
    (folder / "SKILL.md").write_text(text if text is not None else f"---\n{lines}---\nBody.\n")
    return folder


def found(*roots, **search):
    given = [root if isinstance(root, Root) else Root(str(root), "project") for root in roots]
    return discover(given, Search(**search))


def names(*roots, **search):
    return [skill.name for skill in found(*roots, **search).skills]


def test_search_goes_level_by_level(tmp_path):
    for path in ("z", "a/deep/one", "a/two", "m"):
        write(tmp_path / path)
    assert names(tmp_path) == ["m", "z", "two", "one"]


def test_facts_of_a_skill_are_known_before_loading(tmp_path):
    folder = write(
        tmp_path / "fix",
        namespace="github",
        argument_hint="[pr]",
        user_invocable="false",
        disable_model_invocation="true",
        metadata='{version: "1.2.0"}',
    )
    (skill,) = found(Root(str(tmp_path), "user")).skills
    assert skill.path == str(folder)
    assert (skill.full_name, skill.scope, skill.root) == ("github:fix", "user", str(tmp_path))
    assert (skill.argument_hint, skill.version, skill.managed) == ("[pr]", "1.2.0", False)
    assert (skill.invocation, skill.user_invocable, skill.reach) == ("user", False, "enabled")


def test_namespace_of_a_root_applies_to_skills_without_one(tmp_path):
    write(tmp_path / "one")
    write(tmp_path / "two", namespace="own")
    root = Root(str(tmp_path), "plugin", "tools")
    assert [skill.full_name for skill in found(root).skills] == ["tools:one", "own:two"]


def test_search_is_six_levels_deep(tmp_path):
    write(tmp_path / "1/2/3/4/5/six")
    write(tmp_path / "1/2/3/4/5/6/seven")
    assert names(tmp_path) == ["six"]
    assert names(tmp_path, bounds=Bounds(depth=7)) == ["six", "seven"]


def test_too_many_folders_are_a_problem(tmp_path):
    for number in range(12):
        write(tmp_path / f"s{number:02}")
    seen = found(tmp_path, bounds=Bounds(folders=6))
    assert len(seen.skills) == 5
    assert seen.problems == (Problem(str(tmp_path), "more than 6 folders; the rest was not checked", is_cut=True),)
    write(tmp_path / "s00", name="the rest was not checked")
    kept = [found(tmp_path, bounds=Bounds(folders=6), cache=Cache(str(tmp_path / ".cache"))) for _ in range(2)]
    assert [[each.message for each in Catalog.of((), one.problems).unchecked] for one in kept] == [
        ["more than 6 folders; the rest was not checked"]
    ] * 2
    misleading = Problem("x", "its author writes that the rest was not checked")
    assert Catalog.of((), [misleading]).unchecked == ()


def test_default_bounds_are_six_levels_and_2000_folders():
    assert Bounds() == Bounds(depth=6, folders=2000)


@pytest.mark.parametrize("folder", [".git", ".hidden", "node_modules"])
def test_hidden_and_vendored_folders_are_skipped(tmp_path, folder):
    write(tmp_path / folder / "inside")
    write(tmp_path / "outside")
    assert names(tmp_path) == ["outside"]


def test_assets_and_scripts_of_a_skill_are_no_skills(tmp_path):
    write(tmp_path / "maker")
    write(tmp_path / "maker/assets/template")
    write(tmp_path / "maker/scripts")
    write(tmp_path / "maker/more")
    assert names(tmp_path) == ["maker", "more"]
    assert names(tmp_path, bounds=Bounds(nested=False)) == ["maker"]


def test_missing_root_is_empty(tmp_path):
    assert found(tmp_path / "nowhere") == found()


def test_linked_folders_are_followed(tmp_path):
    store = write(tmp_path / "store/0123abc", "linked")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills/linked").symlink_to(store)
    (skill,) = found(tmp_path / "skills").skills
    assert (skill.path, skill.links) == (str(store), (str(tmp_path / "skills/linked"),))
    assert found(tmp_path / "skills").problems == ()


@pytest.mark.parametrize("inside", [True, False])
def test_link_out_of_a_system_root_is_not_followed(tmp_path, inside):
    target = write(tmp_path / ("system/real/kept" if inside else "elsewhere/kept"))
    (tmp_path / "system").mkdir(exist_ok=True)
    (tmp_path / "system/link").symlink_to(target)
    assert names(Root(str(tmp_path / "system"), "system")) == (["kept"] if inside else [])
    assert names(Root(str(tmp_path / "system"), "admin")) == ["kept"]


def test_loop_of_links_ends(tmp_path):
    write(tmp_path / "a/one")
    (tmp_path / "a/up").symlink_to(tmp_path)
    (tmp_path / "a/self").symlink_to(tmp_path / "a/self")
    assert names(tmp_path) == ["one"]


def test_skill_in_two_roots_is_found_once(tmp_path):
    write(tmp_path / "r/one")
    (tmp_path / "other").symlink_to(tmp_path / "r")
    skills = found(tmp_path / "r", tmp_path / "other", Root(str(tmp_path / "r/one"), "user")).skills
    assert [(skill.name, skill.scope) for skill in skills] == [("one", "project")]


def test_link_inside_of_a_skill_is_not_followed(tmp_path):
    write(tmp_path / "skills/one")
    write(tmp_path / "else/two")
    (tmp_path / "skills/one/link").symlink_to(tmp_path / "else")
    (tmp_path / "skills/one/folder").mkdir()
    assert names(tmp_path / "skills") == ["one"]


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_skill_md_that_is_not_a_file_is_never_opened(tmp_path, kind):
    secret = tmp_path / "secret"
    secret.write_text("---\nname: leak\ndescription: A private key.\n---\n")
    place = tmp_path / "skills/leak"
    place.mkdir(parents=True)
    if kind == "link":
        (place / "SKILL.md").symlink_to(secret)
    elif kind == "folder":
        (place / "SKILL.md").mkdir()
    else:
        os.mkfifo(place / "SKILL.md")
    seen = found(tmp_path / "skills")
    assert seen.skills == ()
    (problem,) = seen.problems
    assert problem.path == str(place / "SKILL.md")
    assert "expected a file" in problem.message


@pytest.mark.parametrize(
    "text",
    [
        b"---\nname: plain\ndescription: x\n---\nBody \xff.\n",
        b"---\nname: plain\ndescription: x\n---\n\0\n",
        b"---\ndescription: &a !!str x\n'name' : \"plain\" # so\r\n---\n",
        b"---\nname: plain\ndescription: " + 400_000 * "\u20ac".encode() + b"\n---\n",
    ],
    ids=["no UTF-8", "NUL", "refused YAML", "too long"],
)
def test_attack_the_name_of_a_refused_skill_md_is_found(tmp_path, text):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/SKILL.md").write_bytes(text)
    assert found_name(str(tmp_path / "other")) == "plain"


def test_attack_the_name_in_a_linked_skill_md_is_found(tmp_path):
    write(tmp_path / "docs", "plain")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/SKILL.md").symlink_to(tmp_path / "docs/SKILL.md")
    assert found_name(str(tmp_path / "other")) == "plain"


def test_skill_md_that_is_no_file_has_no_name(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, target in (("none", "nowhere"), ("pipe", tmp_path / "pipe"), ("self", "SKILL.md")):
        (tmp_path / f"of {name}").mkdir()
        (tmp_path / f"of {name}/SKILL.md").symlink_to(target)
        assert found_name(str(tmp_path / f"of {name}")) is None


def test_broken_skill_is_a_problem_with_a_line_and_hides_no_other(tmp_path):
    write(tmp_path / "bad", text="---\nname: bad\ndescription: [\n---\n")
    write(tmp_path / "good")
    seen = found(tmp_path)
    assert [skill.name for skill in seen.skills] == ["good"]
    (problem,) = seen.problems
    assert (problem.path, problem.level) == (str(tmp_path / "bad/SKILL.md"), "error")
    assert problem.line in (3, 4)


def test_lenient_reading_warns_about_an_invalid_name(tmp_path):
    write(tmp_path / "folder", "Other Name")
    seen = found(tmp_path)
    assert [skill.name for skill in seen.skills] == ["Other Name"]
    assert [(each.line, each.level) for each in seen.problems] == [(2, "warning"), (2, "warning")]


def test_strict_reading_refuses_an_invalid_name(tmp_path):
    write(tmp_path / "folder", "other-name")
    seen = found(tmp_path, rules=Rules(strict=True))
    assert seen.skills == ()
    assert [(each.line, each.level) for each in seen.problems] == [(2, "error")]


def test_declarations_for_agents_set_the_reach(tmp_path):
    folder = write(tmp_path / "quiet")
    (folder / "agents").mkdir()
    (folder / "agents/openai.yaml").write_text("policy:\n  allow_implicit_invocation: false\n")
    assert [skill.reach for skill in found(tmp_path).skills] == ["enabled"]
    (folder / "agents/skillhub.yaml").write_text("policy:\n  allow_implicit_invocation: true\n")
    assert [skill.reach for skill in found(tmp_path).skills] == ["active"]


@pytest.mark.parametrize(
    ("line", "of_user", "of_model"),
    [
        ("disable_model_invocation: true", True, False),
        ("disable_model_invocation: Yes", True, False),
        ("disableModelInvocation: true", True, False),
        ("disable-model-invocation: false\ndisable_model_invocation: true", True, False),
        ("disable_model_invocation: false", True, True),
        ("allow_implicit_invocation: false", True, False),
        ("user_invocable: false", False, True),
        ("user_invocable: true\nuser-invocable: false", False, True),
        ("user_invocable: false\ndisable_model_invocation: true", False, False),
    ],
)
def test_invocation_is_read_in_each_spelling(tmp_path, line, of_user, of_model):
    write(tmp_path / "demo", text=f"---\nname: demo\ndescription: Yes.\n{line}\n---\n")
    (skill,) = found(tmp_path).skills
    assert (skill.user_invocable, skill.reach == "active") == (of_user, of_model)


@pytest.mark.parametrize(
    ("openai", "openoxide", "shown"),
    [(None, False, False), (None, True, True), (True, False, False), (False, True, False), (True, True, True)],
)
def test_file_of_openoxide_cannot_show_a_skill_that_codex_hides(tmp_path, openai, openoxide, shown):
    folder = write(tmp_path / "demo")
    (folder / "agents").mkdir()
    for name, value in (("openai", openai), ("openoxide", openoxide)):
        if value is not None:
            text = f"policy: {{allow_implicit_invocation: {str(value).lower()}}}\n"
            (folder / f"agents/{name}.yaml").write_text(text)
    assert [skill.reach for skill in found(tmp_path).skills] == ["active" if shown else "enabled"]


def test_attack_a_forbidden_variable_in_openoxide_yaml_is_refused(tmp_path):
    folder = write(tmp_path / "thief")
    (folder / "agents").mkdir()
    (folder / "agents/openoxide.yaml").write_text("dependencies: {tools: [{type: env_var, value: LD_PRELOAD}]}\n")
    assert found(tmp_path).skills == ()


def test_invalid_optional_metadata_is_only_a_warning(tmp_path):
    folder = write(tmp_path / "odd")
    (folder / "agents").mkdir()
    (folder / "agents/openai.yaml").write_text("interface: [\n")
    seen = found(tmp_path)
    assert [skill.name for skill in seen.skills] == ["odd"]
    (problem,) = seen.problems
    assert (problem.path, problem.level) == (str(folder / "agents/openai.yaml"), "warning")


def test_skill_with_a_forbidden_variable_is_not_found(tmp_path):
    folder = write(tmp_path / "thief")
    (folder / "agents").mkdir()
    (folder / "agents/openai.yaml").write_text("dependencies:\n  tools:\n  - {type: env_var, value: LD_PRELOAD}\n")
    seen = found(tmp_path)
    assert seen.skills == ()
    assert [each.level for each in seen.problems] == ["error"]


def test_invalid_bytes_late_in_a_long_body_are_not_read(tmp_path):
    write(tmp_path / "long", text="---\nname: long\ndescription: Yes.\n---\n" + "é" * 9000 + "\n\xff" * 10)
    assert names(tmp_path) == ["long"]


def test_long_frontmatter_is_read_completely(tmp_path):
    write(tmp_path / "wordy", description='"' + "é" * 3000 + '"')
    (skill,) = found(tmp_path).skills
    assert len(skill.description) == 3000


@pytest.mark.parametrize("is_commands", [False, True])
def test_attack_a_link_to_a_very_deep_folder_hides_no_other_skill(tmp_path, is_commands):
    deep = tmp_path.joinpath("deep", *["a"] * 401)
    write(deep / "far")
    (deep / "far/go.md").write_text("---\ndescription: Goes.\n---\nGo.\n")
    write(tmp_path / "skills/near")
    (tmp_path / "skills/far").symlink_to(deep / "far")
    roots = [Root(str(tmp_path / "skills"), "project")]
    roots += [Root(str(tmp_path / "skills/far"), "project", is_commands=True)] if is_commands else []
    result = found(*roots)
    assert [skill.name for skill in result.skills] == ["near"]
    assert {problem.path for problem in result.problems} >= {str(tmp_path / "skills/far/SKILL.md")}
