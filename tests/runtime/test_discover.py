"""Where skills are found, how far the search goes, what is followed, and what is told of what is broken."""

from __future__ import annotations

import os

import pytest

from skillhub.model.hosts import Bounds, Rules
from skillhub.runtime.catalog import Catalog, Problem
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


def test_each_level_is_looked_at_before_the_next(tmp_path):
    for path in ("z", "a/deep/one", "a/two", "m"):
        write(tmp_path / path)
    assert names(tmp_path) == ["m", "z", "two", "one"]


def test_what_a_skill_says_is_known_before_it_is_loaded(tmp_path):
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


def test_a_root_gives_its_namespace_to_skills_that_have_none(tmp_path):
    write(tmp_path / "one")
    write(tmp_path / "two", namespace="own")
    root = Root(str(tmp_path), "plugin", "tools")
    assert [skill.full_name for skill in found(root).skills] == ["tools:one", "own:two"]


def test_six_levels_and_no_more(tmp_path):
    write(tmp_path / "1/2/3/4/5/six")
    write(tmp_path / "1/2/3/4/5/6/seven")
    assert names(tmp_path) == ["six"]
    assert names(tmp_path, bounds=Bounds(depth=7)) == ["six", "seven"]


def test_too_many_folders_are_told(tmp_path):
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
    said = Problem("x", "its author writes that the rest was not checked")
    assert Catalog.of((), [said]).unchecked == ()


def test_two_thousand_is_the_bound_that_is_meant():
    assert Bounds() == Bounds(depth=6, folders=2000)


@pytest.mark.parametrize("folder", [".git", ".hidden", "node_modules"])
def test_folders_that_hold_no_skills_are_skipped(tmp_path, folder):
    write(tmp_path / folder / "inside")
    write(tmp_path / "outside")
    assert names(tmp_path) == ["outside"]


def test_what_a_skill_keeps_for_itself_is_no_skill(tmp_path):
    write(tmp_path / "maker")
    write(tmp_path / "maker/assets/template")
    write(tmp_path / "maker/scripts")
    write(tmp_path / "maker/more")
    assert names(tmp_path) == ["maker", "more"]
    assert names(tmp_path, bounds=Bounds(nested=False)) == ["maker"]


def test_an_absent_root_is_empty(tmp_path):
    assert found(tmp_path / "nowhere") == found()


def test_links_to_folders_are_followed(tmp_path):
    store = write(tmp_path / "store/0123abc", "linked")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills/linked").symlink_to(store)
    (skill,) = found(tmp_path / "skills").skills
    assert (skill.path, skill.links) == (str(store), (str(tmp_path / "skills/linked"),))
    assert found(tmp_path / "skills").problems == ()


@pytest.mark.parametrize("inside", [True, False])
def test_a_link_out_of_a_system_root_is_not_followed(tmp_path, inside):
    target = write(tmp_path / ("system/real/kept" if inside else "elsewhere/kept"))
    (tmp_path / "system").mkdir(exist_ok=True)
    (tmp_path / "system/link").symlink_to(target)
    assert names(Root(str(tmp_path / "system"), "system")) == (["kept"] if inside else [])
    assert names(Root(str(tmp_path / "system"), "admin")) == ["kept"]


def test_loops_of_links_end(tmp_path):
    write(tmp_path / "a/one")
    (tmp_path / "a/up").symlink_to(tmp_path)
    (tmp_path / "a/self").symlink_to(tmp_path / "a/self")
    assert names(tmp_path) == ["one"]


def test_a_skill_that_is_met_twice_is_one(tmp_path):
    write(tmp_path / "r/one")
    (tmp_path / "other").symlink_to(tmp_path / "r")
    skills = found(tmp_path / "r", tmp_path / "other", Root(str(tmp_path / "r/one"), "user")).skills
    assert [(skill.name, skill.scope) for skill in skills] == [("one", "project")]


def test_a_link_in_a_skill_is_its_own_affair(tmp_path):
    write(tmp_path / "skills/one")
    write(tmp_path / "else/two")
    (tmp_path / "skills/one/link").symlink_to(tmp_path / "else")
    (tmp_path / "skills/one/folder").mkdir()
    assert names(tmp_path / "skills") == ["one"]


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_skill_md_that_is_no_file_is_never_opened(tmp_path, kind):
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
    ids=["no UTF-8", "NUL", "YAML that we refuse", "longer than we read"],
)
def test_attack_a_name_in_a_file_that_we_refuse_and_agents_read(tmp_path, text):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/SKILL.md").write_bytes(text)
    assert found_name(str(tmp_path / "other")) == "plain"


def test_attack_a_name_behind_a_link_that_agents_follow(tmp_path):
    write(tmp_path / "docs", "plain")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/SKILL.md").symlink_to(tmp_path / "docs/SKILL.md")
    assert found_name(str(tmp_path / "other")) == "plain"


def test_what_has_no_name_for_any_agent(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, target in (("none", "nowhere"), ("pipe", tmp_path / "pipe"), ("self", "SKILL.md")):
        (tmp_path / f"of {name}").mkdir()
        (tmp_path / f"of {name}/SKILL.md").symlink_to(target)
        assert found_name(str(tmp_path / f"of {name}")) is None


def test_a_broken_skill_is_a_problem_with_path_and_line_and_hides_no_other(tmp_path):
    write(tmp_path / "bad", text="---\nname: bad\ndescription: [\n---\n")
    write(tmp_path / "good")
    seen = found(tmp_path)
    assert [skill.name for skill in seen.skills] == ["good"]
    (problem,) = seen.problems
    assert (problem.path, problem.level) == (str(tmp_path / "bad/SKILL.md"), "error")
    assert problem.line in (3, 4)


def test_lenient_reading_warns_and_loads(tmp_path):
    write(tmp_path / "folder", "Other Name")
    seen = found(tmp_path)
    assert [skill.name for skill in seen.skills] == ["Other Name"]
    assert [(each.line, each.level) for each in seen.problems] == [(2, "warning"), (2, "warning")]


def test_strict_reading_refuses_the_same(tmp_path):
    write(tmp_path / "folder", "other-name")
    seen = found(tmp_path, rules=Rules(strict=True))
    assert seen.skills == ()
    assert [(each.line, each.level) for each in seen.problems] == [(2, "error")]


def test_what_agents_declare_beside_it_counts(tmp_path):
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
def test_who_may_invoke_a_skill_is_read_in_each_spelling(tmp_path, line, of_user, of_model):
    write(tmp_path / "demo", text=f"---\nname: demo\ndescription: Yes.\n{line}\n---\n")
    (skill,) = found(tmp_path).skills
    assert (skill.user_invocable, skill.reach == "active") == (of_user, of_model)


@pytest.mark.parametrize(
    ("openai", "openoxide", "is_shown"),
    [(None, False, False), (None, True, True), (True, False, False), (False, True, False), (True, True, True)],
)
def test_openoxides_own_file_is_read_and_shows_nothing_that_codexs_hides(tmp_path, openai, openoxide, is_shown):
    folder = write(tmp_path / "demo")
    (folder / "agents").mkdir()
    for name, said in (("openai", openai), ("openoxide", openoxide)):
        if said is not None:
            text = f"policy: {{allow_implicit_invocation: {str(said).lower()}}}\n"
            (folder / f"agents/{name}.yaml").write_text(text)
    assert [skill.reach for skill in found(tmp_path).skills] == ["active" if is_shown else "enabled"]


def test_attack_openoxides_file_reaches_for_a_forbidden_variable(tmp_path):
    folder = write(tmp_path / "thief")
    (folder / "agents").mkdir()
    (folder / "agents/openoxide.yaml").write_text("dependencies: {tools: [{type: env_var, value: LD_PRELOAD}]}\n")
    assert found(tmp_path).skills == ()


def test_optional_metadata_that_is_wrong_warns_and_never_blocks(tmp_path):
    folder = write(tmp_path / "odd")
    (folder / "agents").mkdir()
    (folder / "agents/openai.yaml").write_text("interface: [\n")
    seen = found(tmp_path)
    assert [skill.name for skill in seen.skills] == ["odd"]
    (problem,) = seen.problems
    assert (problem.path, problem.level) == (str(folder / "agents/openai.yaml"), "warning")


def test_a_skill_that_reaches_for_a_forbidden_variable_is_not_loaded(tmp_path):
    folder = write(tmp_path / "thief")
    (folder / "agents").mkdir()
    (folder / "agents/openai.yaml").write_text("dependencies:\n  tools:\n  - {type: env_var, value: LD_PRELOAD}\n")
    seen = found(tmp_path)
    assert seen.skills == ()
    assert [each.level for each in seen.problems] == ["error"]


def test_a_long_body_is_not_read_to_its_end(tmp_path):
    write(tmp_path / "long", text="---\nname: long\ndescription: Yes.\n---\n" + "é" * 9000 + "\n\xff" * 10)
    assert names(tmp_path) == ["long"]


def test_a_long_frontmatter_is(tmp_path):
    write(tmp_path / "wordy", description='"' + "é" * 3000 + '"')
    (skill,) = found(tmp_path).skills
    assert len(skill.description) == 3000
