"""The folders that each host reads, in their order."""

from __future__ import annotations

import os

import pytest

from skillhub.model.hosts import profile, profiles
from skillhub.runtime.agent import catalog_of
from skillhub.runtime.discover import Surroundings, project_root, roots
from tests.runtime.test_discover import write


@pytest.fixture
def around(tmp_path):
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/pkg/deep").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    return Surroundings(cwd=str(tmp_path / "repo/pkg/deep"), home=str(tmp_path / "home"))


def seen(host, around):
    """Return the roots relative to the repository and the home; roots of the machine stay absolute."""
    base = os.path.dirname(around.home)
    return [
        root.path.removeprefix(base + "/") + (f" {root.namespace}:" if root.namespace else "")
        for root in roots(profile(host), around)
    ]


def chain(*folders):
    return [f"{base}{folder}" for folder in folders for base in ("repo/pkg/deep/", "repo/pkg/", "repo/")]


EXPECTED = {
    "agents": [*chain(".agents/skills"), "home/.agents/skills"],
    "codewhale": [
        *(f"repo/pkg/deep/{folder}" for folder in (".agents/skills", "skills", ".opencode/skills")),
        *(f"repo/pkg/deep/{folder}" for folder in (".claude/skills", ".cursor/skills", ".codewhale/skills")),
        *(f"home/.{folder}/skills" for folder in ("agents", "claude", "codewhale", "deepseek")),
    ],
    "codex": [
        *chain(".codex/skills"),
        *(f"{base}.agents/skills" for base in ("repo/", "repo/pkg/", "repo/pkg/deep/")),
        "home/.codex/skills",
        "home/.agents/skills",
        "home/.codex/skills/.system",
        "/etc/codex/skills",
    ],
    "opencode": [
        "home/.opencode/skills",
        "home/.opencode/skill",
        *(f"{base}.opencode/skills" for base in ("repo/", "repo/pkg/", "repo/pkg/deep/")),
        *(f"{base}.opencode/skill" for base in ("repo/", "repo/pkg/", "repo/pkg/deep/")),
        "home/.config/opencode/skills",
        "home/.config/opencode/skill",
        *(f"{base}.agents/skills" for base in ("repo/", "repo/pkg/", "repo/pkg/deep/")),
        *(f"{base}.claude/skills" for base in ("repo/", "repo/pkg/", "repo/pkg/deep/")),
        "home/.agents/skills",
        "home/.claude/skills",
    ],
    "claude-code": [
        "/etc/claude-code/.claude/skills",
        "/Library/Application Support/ClaudeCode/.claude/skills",
        "home/.claude/skills",
        *chain(".claude/skills"),
        "home/.claude/commands",
        *chain(".claude/commands"),
    ],
    "openoxide": [
        *chain(".openoxide/skills", ".agents/skills"),
        *("home/.openoxide/skills", "home/.agents/skills", "home/.claude/skills"),
        "home/.openoxide/skills/.system",
        "/etc/openoxide/skills",
    ],
    "codelia": [*chain(".agents/skills"), "home/.agents/skills"],
    "pegasus": ["repo/pkg/deep/data/skills", "repo/pkg/deep/skills"],
    "gencode": [
        *("repo/pkg/deep/.gen/skills", "repo/pkg/deep/.claude/skills"),
        *("home/.gen/skills", "home/.claude/skills"),
    ],
}


@pytest.mark.skipif(os.sep != "/", reason="the paths are written as POSIX has them")
@pytest.mark.parametrize("host", profiles())
def test_folders_of_a_host_are_in_order(host, around):
    assert seen(host, around) == EXPECTED[host]


@pytest.mark.parametrize(
    ("host", "variable", "was", "now"),
    [
        ("codex", "CODEX_HOME", "home/.codex/skills", "moved/skills"),
        ("claude-code", "CLAUDE_CONFIG_DIR", "home/.claude/skills", "moved/skills"),
        ("openoxide", "OPENOXIDE_HOME", "home/.openoxide/skills/.system", "moved/skills/.system"),
        ("opencode", "XDG_CONFIG_HOME", "home/.config/opencode/skills", "moved/opencode/skills"),
    ],
)
def test_variable_moves_the_folder_of_a_host(host, variable, was, now, around, tmp_path):
    moved = Surroundings(cwd=around.cwd, home=around.home, environ={variable: str(tmp_path / "moved")})
    assert was in seen(host, around)
    assert now in seen(host, moved)
    assert was not in seen(host, moved)


@pytest.mark.parametrize("marker", [".git", ".jj"])
def test_root_of_the_project_has_a_marker(tmp_path, marker):
    (tmp_path / "a" / marker).mkdir(parents=True)
    (tmp_path / "a/b").mkdir()
    around = Surroundings(cwd=str(tmp_path / "a/b"), home="/home")
    assert project_root(profile("agents"), around) == str(tmp_path / "a")


def test_markers_can_be_added(tmp_path):
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b/WORKSPACE").write_text("")
    around = Surroundings(cwd=str(tmp_path / "a/b/c"), home="/home", markers=("WORKSPACE",))
    assert project_root(profile("agents"), around) == str(tmp_path / "a/b")


def test_codelia_has_its_own_marker_and_variable(tmp_path):
    (tmp_path / "a/.codelia").mkdir(parents=True)
    (tmp_path / "a/b").mkdir()
    around = Surroundings(cwd=str(tmp_path / "a/b"), home="/home")
    assert project_root(profile("codelia"), around) == str(tmp_path / "a")
    named = Surroundings(cwd=around.cwd, home="/home", environ={"CODELIA_AGENTS_ROOT": str(tmp_path)})
    assert project_root(profile("codelia"), named) == str(tmp_path)


def test_plugins_of_gencode_are_namespaces(around):
    cwd, home = around.cwd, around.home
    for folder in (f"{cwd}/.gen/plugins/git/skills", f"{home}/.claude/plugins/jira/skills"):
        os.makedirs(folder)
    found = seen("gencode", around)
    assert found[1] == "repo/pkg/deep/.gen/plugins/git/skills git:"
    assert found[-2] == "home/.claude/plugins/jira/skills jira:"


def test_plugins_from_the_host_are_namespaces(around, tmp_path):
    write(tmp_path / "plugin/skills/gh-fix-ci")
    named = Surroundings(cwd=around.cwd, home=around.home, plugins={"github": str(tmp_path / "plugin/skills")})
    (skill,) = catalog_of(profile("claude-code"), named).skills
    assert (skill.full_name, skill.scope) == ("github:gh-fix-ci", "plugin")


def test_extra_folders_are_relative_or_absolute(around, tmp_path):
    write(tmp_path / "repo/pkg/deep/more/one")
    write(tmp_path / "two/two")
    named = Surroundings(cwd=around.cwd, home=around.home, extra=("more", str(tmp_path / "two")))
    for host in profiles():
        assert {skill.name for skill in catalog_of(profile(host), named).skills} >= {"one", "two"}


@pytest.mark.parametrize("host", ["agents", "codewhale", "opencode", "claude-code", "pegasus", "gencode"])
def test_first_skill_of_a_name_shadows_the_others(host, around, tmp_path):
    first, second = [root.path for root in roots(profile(host), around) if root.path.startswith(str(tmp_path))][:2]
    for folder in (second, first):
        os.makedirs(folder, exist_ok=True)
        write(tmp_path.__class__(folder) / "demo")
    catalog = catalog_of(profile(host), around)
    assert [skill.root for skill in catalog.skills] == [first]
    assert [(each.skill.root, each.by.root) for each in catalog.shadowed] == [(second, first)]


@pytest.mark.parametrize("host", ["codex", "openoxide", "codelia"])
def test_hosts_without_shadowing_list_both(host, around, tmp_path):
    write(tmp_path / "repo/.agents/skills/demo")
    write(tmp_path / "home/.agents/skills/demo")
    catalog = catalog_of(profile(host), around)
    assert [skill.scope for skill in catalog.named("demo")] == ["project", "user"]
    assert catalog.shadowed == ()


def test_codex_sorts_by_scope_name_and_path(around, tmp_path):
    for path in ("repo/.agents/skills/b", "repo/pkg/.agents/skills/a", "home/.agents/skills/a-a"):
        write(tmp_path / path)
    write(tmp_path / "repo/.agents/skills/other", "a")
    catalog = catalog_of(profile("codex"), around)
    assert [(skill.scope, skill.name) for skill in catalog.skills] == [
        *(("project", "a"), ("project", "a"), ("project", "b")),
        ("user", "a-a"),
    ]
    assert catalog.skills[0].path < catalog.skills[1].path


@pytest.mark.parametrize("host", profiles())
def test_only_codelia_is_strict(host, around, tmp_path):
    first = next(root.path for root in roots(profile(host), around) if root.path.startswith(str(tmp_path)))
    write(tmp_path.__class__(first) / "folder", "other")
    found = [skill.name for skill in catalog_of(profile(host), around).skills]
    assert found == ([] if host == "codelia" else ["other"])


@pytest.mark.parametrize("host", profiles())
def test_search_depth_of_a_host(host, around, tmp_path):
    first = next(root.path for root in roots(profile(host), around) if root.path.startswith(str(tmp_path)))
    for depth in range(1, 10):
        write(tmp_path.__class__(first).joinpath(*"abcdefghi"[: depth - 1], f"level-{depth}"))
    found = sorted(skill.name for skill in catalog_of(profile(host), around).skills)
    assert found == [f"level-{depth}" for depth in range(1, 9 if host == "codewhale" else 7)]


@pytest.mark.parametrize(
    ("host", "name", "description"),
    [
        ("codewhale", "A Title", ""),
        ("claude-code", "demo", "First words."),
        ("pegasus", "demo", "First words."),
        ("gencode", "demo", ""),
    ],
)
def test_missing_name_and_description_have_substitutes(host, name, description, around, tmp_path):
    first = next(root.path for root in roots(profile(host), around) if root.path.startswith(str(tmp_path)))
    write(tmp_path.__class__(first) / "demo", text="---\nlicense: MIT\n---\n# A Title\n\nFirst words.\n")
    found = [(skill.name, skill.description) for skill in catalog_of(profile(host), around).skills]
    assert found == ([] if name is None else [(name, description)])


@pytest.mark.parametrize("host", profiles())
@pytest.mark.parametrize(
    "head", ["description: Does it.", "name:\ndescription: Does it.", "name: ''\ndescription: Does it.", "name: ' '"]
)
def test_skill_without_a_name_is_refused_by_hosts_that_require_one(host, head, around, tmp_path):
    first = next(root.path for root in roots(profile(host), around) if root.path.startswith(str(tmp_path)))
    write(tmp_path.__class__(first) / "demo", text=f"---\n{head}\n---\nDo it.\n")
    write(tmp_path.__class__(first) / "bare", text="Do it.\n")
    catalog = catalog_of(profile(host), around)
    if host in ("agents", "codewhale", "codex", "opencode", "openoxide", "codelia"):
        assert catalog.skills == ()
        assert len(catalog.problems) == 2
    else:
        assert {skill.name for skill in catalog.skills} == {"bare", "demo"}


def test_catalogue_finds_skills_by_name_full_name_and_path(around, tmp_path):
    folder = write(tmp_path / "repo/.agents/skills/demo", namespace="git")
    catalog = catalog_of(profile("agents"), around)
    (skill,) = catalog.skills
    assert catalog.named("demo") == catalog.named("git:demo") == (skill,)
    assert catalog.named("hub:demo") == ()
    assert catalog.at(str(folder)) == catalog.at(str(folder / "SKILL.md")) == skill
    assert catalog.at(str(folder / "other")) is None


@pytest.mark.parametrize("host", profiles())
@pytest.mark.parametrize(("name", "description"), [("n" * 65, "Short."), ("demo", "d" * 1025)])
def test_oversized_name_or_description_is_refused_by_strict_hosts(host, name, description, around, tmp_path):
    first = next(root.path for root in roots(profile(host), around) if root.path.startswith(str(tmp_path)))
    write(tmp_path.__class__(first) / name, name, description=description)
    catalog = catalog_of(profile(host), around)
    is_refused = host in ("codex", "openoxide", "codelia")
    assert len(catalog.skills) == (0 if is_refused else 1)
    assert {each.level for each in catalog.problems} == {"error" if is_refused else "warning"}
