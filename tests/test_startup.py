"""Modules that are not imported, so that the program starts fast and an agent that loads it stays small."""

from __future__ import annotations

import pytest

from tests.support.bare import run_bare
from tests.support.cli import Shell

LIBRARIES = {"cryptography", "httpx", "pydantic", "rich", "tomlkit", "tuf", "typer", "yaml"}
NETWORK = {"httpx", "rich", "tuf", "typer"}
MANIFEST = ("skillhub.model.manifest", "skillhub.model.needs")
OTHERS = ("skillhub.model.discovery", "skillhub.scan.secrets", "skillhub.trust.roles")
DUMP = "import sys; print('\\nmodules:', *sorted(sys.modules))"
RUN = f"import sys; from skillhub.cli.main import main; status = main(sys.argv[1:]); {DUMP}; sys.exit(status)"
# One command after another in one process, for commands of which each must load nothing that is forbidden to all.
RUN_EACH = f"""
import shlex, sys
from skillhub.cli.main import main
for line in sys.argv[1:]:
    assert main(shlex.split(line)) == 0, line
    {DUMP}
"""


def modules(out: str) -> set[str]:
    return set(out.rpartition("modules:")[2].split())


def loaded_after(shell: Shell, *lines: str) -> list[set[str]]:
    """Run commands one after another in one new process; return which modules it has after each."""
    out = run_bare(RUN_EACH, *lines, environ=shell.environ, cwd=shell.project)
    return [set(line.split()[1:]) for line in out.splitlines() if line.startswith("modules:")]


@pytest.fixture
def installed(shell):
    done = shell.run("install", "github:release-notes", "--yes")
    assert done.status == 0, done.err
    return shell


def loaded(shell: Shell, *words: str) -> set[str]:
    return modules(run_bare(RUN, *words, environ=shell.environ, cwd=shell.project))


def test_the_library_loads_no_library():
    assert not modules(run_bare(f"import skillhub; {DUMP}")) & LIBRARIES


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_version_and_help_load_no_library(shell, word):
    assert not loaded(shell, word) & LIBRARIES


def test_commands_about_installed_skills_load_no_network(installed):
    """Besides, ``list`` loads no scanner, ``sync`` no cryptography, and ``audit`` no parser of command lines."""
    lines = ("list --json", "sync --json", "install --yes --json", "verify --json", "audit --offline --json")
    *quiet, audited = loaded_after(installed, *lines)
    listed, synced, _, verified = quiet
    assert not [name for name in listed if name.startswith("skillhub.scan.")]
    assert not synced & {"cryptography", "yaml"}
    assert "cryptography" in verified
    for line, found in zip(lines, quiet, strict=False):
        assert not found & NETWORK, line
    assert not audited & {"rich", "typer"}


def test_commands_without_work_load_no_module_for_it(shell):
    """One process has three commands: what one must not load, those before it must not either."""
    (shell.project / "skillhub.toml").write_text("")
    forbidden = {
        "list": ({"archive", "audit", "edits", "runtime", "scan", "trust"}, {"skillhub.formats.yaml", *MANIFEST}),
        "sync": ({"archive", "audit", "runtime"}, set()),
        "install": ({"audit", "runtime"}, {*MANIFEST, *OTHERS, "concurrent.futures"}),
    }
    found = loaded_after(shell, *(f"{command} --json" for command in forbidden))
    for (command, (rooms, unused)), names in zip(forbidden.items(), found, strict=True):
        ours = {name for name in names if name.startswith("skillhub.")}
        assert not {name for name in ours if name.split(".")[1] in rooms}, command
        assert not names & unused, command
        assert command != "list" or len(ours) <= 60  # a network, a store and the answer among them
    assert "skillhub.archive" not in loaded(shell, "verify", "--json")


def test_an_install_of_a_folder_loads_no_network(shell):
    shell.skill("project/plain")
    found = loaded(shell, "install", "./plain", "--yes", "--allow-unsigned", "--json")
    assert not found & NETWORK
