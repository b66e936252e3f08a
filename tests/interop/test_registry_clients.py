"""Other clients, each the real program, install from a registry: from static files, and from `registry serve`.

``SKILLHUB_NPM_SKILLS`` names the ``node_modules`` with the clients, with Node 22 beside them; npm and git are those
of this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from skillhub.model.tree import SIGNATURE
from skillhub.server.site import site_server
from tests.interop.test_npm_skills import SOURCES, files
from tests.support.cli import Shell
from tests.support.serving import serving

pytestmark = pytest.mark.interop
REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def modules():
    found = Path(os.environ.get("SKILLHUB_NPM_SKILLS", REPO / ".venv-interop/npm/node_modules"))
    if not (found / "clawhub").is_dir():
        pytest.skip("there are no clients from npm")
    return found


@pytest.fixture(scope="module")
def maker(tmp_path_factory):
    """A machine whose user operates a registry of three skills."""
    shell = Shell(tmp_path_factory.mktemp("registry"))
    named = shell.folder / "skills"
    for name, source in SOURCES.items():
        shutil.copytree(source, named / name)
    assert shell.run("registry", "init", "registry", "--publisher", "acme").status == 0
    added = shell.run("registry", "add", "registry", *named.iterdir())
    assert added.status == 0, added.err
    return shell


@pytest.fixture(scope="module")
def served(maker):
    """The URL of the registry served by ``registry serve``."""
    process, url = maker.serve(maker.project / "registry")
    yield url
    process.terminate()
    process.communicate()


@pytest.fixture(scope="module")
def static(maker, tmp_path_factory):
    """The URL of the registry on a plain web server for static files."""
    registry = shutil.copytree(maker.project / "registry", tmp_path_factory.mktemp("static") / "registry")
    with serving(site_server(str(registry / "site"))) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        assert maker.run("registry", "build", registry, "--url", url).status == 0
        yield url


@pytest.fixture
def run(modules, tmp_path):
    """Run a program in an empty project with an empty home; return its output if it succeeded."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()

    def run(*words, **environ):
        given = {
            "PATH": f"{modules / '.bin'}:{os.environ['PATH']}",
            "HOME": str(home),
            "NO_COLOR": "1",
            "CI": "1",
            "DISABLE_TELEMETRY": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            **environ,
        }
        done = subprocess.run(
            [*words], cwd=project, env=given, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run.project, run.home = project, home
    return run


def is_whole(folder, name, *more):
    """Return whether a folder has the published bytes and the signature, else only files of the client."""
    found = files(folder)
    assert found.pop(SIGNATURE, None) is not None
    assert all(found.pop(each, None) is not None for each in more)
    return found == files(SOURCES[name])


def test_npm_installs_a_package(run, static):
    run("npm", "install", "gh-fix-ci", "--registry", f"{static}/-/npm/", "--no-audit", "--no-fund")
    folder = run.project / "node_modules/gh-fix-ci/skills/gh-fix-ci"
    assert is_whole(folder, "gh-fix-ci")
    assert (folder / "scripts/inspect_checks.py").stat().st_mode & 0o100
    locked = json.loads((run.project / "package-lock.json").read_text())["packages"]["node_modules/gh-fix-ci"]
    assert locked["integrity"].startswith("sha512-") and locked["resolved"].startswith(static)


def test_npm_installs_from_a_server_without_known_url(run, served):
    run("npm", "install", "code-review", "--registry", f"{served}/-/npm/", "--no-audit", "--no-fund")
    assert is_whole(run.project / "node_modules/code-review/skills/code-review", "code-review")


@pytest.mark.parametrize("words", [(), ("--depth", "1"), ("--filter=blob:none", "--sparse")])
def test_git_clones_from_registry_serve(run, served, words):
    run("git", "clone", "-q", *words, f"{served}/skills.git", "clone")
    run("git", "-C", "clone", "sparse-checkout", "disable")
    assert all(is_whole(run.project / f"clone/plugins/{name}/skills/{name}", name) for name in SOURCES)


def test_git_clones_from_static_files(run, static):
    run("git", "clone", "-q", f"{static}/skills.git", "clone")
    run("git", "-C", "clone", "fsck", "--strict")
    assert all(is_whole(run.project / f"clone/plugins/{name}/skills/{name}", name) for name in SOURCES)


@pytest.mark.parametrize("how", ["static", "git"])
def test_claude_code_installs_plugins(run, static, served, how):
    place = f"{static}/marketplace.json" if how == "static" else f"{served}/skills.git"
    run("claude", "plugin", "marketplace", "add", place)
    run("claude", "plugin", "install", "code-review@acme")
    folder = run.home / ".claude/plugins/cache/acme/code-review/1.0.0/skills/code-review"
    assert is_whole(folder, "code-review")
    assert "Skills (1)" in run("claude", "plugin", "details", "code-review")
    run("claude", "plugin", "marketplace", "update", "acme")


def test_claude_code_finds_no_fault_in_the_catalog(run, static):
    run("git", "clone", "-q", f"{static}/skills.git", "clone")
    assert "warning" not in run("claude", "plugin", "validate", "clone")


def test_codex_installs_plugins(run, served):
    run("codex", "plugin", "marketplace", "add", f"{served}/skills.git")
    run("codex", "plugin", "add", "release-notes@acme")
    folder = run.home / ".codex/plugins/cache/acme/release-notes/1.0.0/skills/release-notes"
    assert is_whole(folder, "release-notes")
    run("codex", "plugin", "marketplace", "upgrade")


@pytest.mark.parametrize("how", ["static", "served"])
def test_opencode_loads_skills_from_a_url(run, request, how):
    url = request.getfixturevalue(how)
    (run.project / "opencode.json").write_text(json.dumps({"skills": {"urls": [f"{url}/"]}}))
    found = {each["name"] for each in json.loads(run("opencode", "debug", "skill"))}
    assert set(SOURCES) <= found
    [folder] = [each.parent for each in (run.home / ".cache/opencode/skills").rglob("gh-fix-ci/SKILL.md")]
    assert is_whole(folder, "gh-fix-ci", ".opencode-version")


def test_clawhub_finds_installs_and_updates(run, served):
    hub = ("clawhub", "--site", served)
    assert "gh-fix-ci" in run(*hub, "search", "ci")
    run(*hub, "install", "gh-fix-ci")
    assert is_whole(run.project / "skills/gh-fix-ci", "gh-fix-ci", ".clawhub/origin.json")
    run(*hub, "update", "--all")
    run(*hub, "install", "code-review", "--version", "1.0.0")
    assert "code-review" in run(*hub, "explore")


def test_npx_skills_finds_and_adds_from_git(run, modules, static, served):
    program = (modules / ".bin/node", modules / "skills/bin/cli.mjs")
    for url in (static, served):
        assert f"{url}/release-notes" in run(*program, "find", "release notes", SKILLS_API_URL=url)
    run(*program, "add", f"{served}/skills.git", "-y", "-a", "claude-code", "--skill", "code-review")
    assert is_whole(run.project / ".claude/skills/code-review", "code-review")


def test_skillhub_shows_a_skill_over_mcp_with_a_valid_signature(maker, served):
    keys = maker.project / "registry/keys/publishers/acme.pem"
    assert keys.exists()
    found = maker.run("show", f"mcp+{served}/mcp", "--skill", "code-review", "--json")
    assert found.status == 0, found.err
    assert found.json["name"] == "code-review"


def test_the_manifests_are_of_the_published_schema(run, static):
    jsonschema = pytest.importorskip("jsonschema")
    run("git", "clone", "-q", f"{static}/skills.git", "clone")
    name = r"^(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$"
    text = {"type": "string"}
    author = {
        "type": "object",
        "properties": {"name": text, "email": text, "url": text},
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "required": ["$schema", "name"],
        "additionalProperties": False,
        "properties": {
            "$schema": {"const": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"},
            "name": {"type": "string", "pattern": name, "maxLength": 64},
            **dict.fromkeys(("version", "description", "homepage", "repository", "license"), text),
            "author": author,
            "extensions": {"type": "object", "additionalProperties": {"type": "object"}},
        },
    }
    for each in (run.project / "clone/plugins").iterdir():
        jsonschema.validate(json.loads((each / "plugin.json").read_text()), schema)
        assert [path.name for path in (each / "skills").iterdir()] == [each.name]
