"""Modules that are not imported, so that the program starts fast and an agent that loads it stays small."""

from __future__ import annotations

import pytest

from tests.support.bare import run_bare
from tests.support.cli import Shell

LIBRARIES = {"cryptography", "httpx", "pydantic", "rich", "tomlkit", "tuf", "typer", "yaml"}
NETWORK = {"httpx", "rich", "tuf", "typer"}
MANIFEST = ("skillhub.model.manifest", "skillhub.model.needs")
OTHERS = ("skillhub.model.discovery", "skillhub.scan.secrets", "skillhub.trust.roles")
DUMP = "import sys; print('\\nmodules:', *sorted(name for name in sys.modules if '.' not in name))"
RUN = f"import sys; from skillhub.cli.main import main; status = main(sys.argv[1:]); {DUMP}; sys.exit(status)"


def modules(out: str) -> set[str]:
    return set(out.rpartition("modules:")[2].split())


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


@pytest.mark.parametrize("command", ["list", "sync"])
def test_list_and_sync_load_no_network_and_no_scanner(installed, command):
    run = RUN.replace("if '.' not in name", "")
    found = modules(run_bare(run, command, "--json", environ=installed.environ, cwd=installed.project))
    assert not found & (NETWORK | {"cryptography", "yaml"})
    assert command != "list" or not [name for name in found if name.startswith("skillhub.scan.")]


@pytest.mark.parametrize(
    ("command", "rooms", "unused"),
    [
        ("list", {"archive", "audit", "edits", "runtime", "scan", "trust"}, {"skillhub.formats.yaml", *MANIFEST}),
        ("sync", {"archive", "audit", "runtime"}, set()),
        ("verify", {"archive"}, set()),
        ("install", {"audit", "runtime"}, {*MANIFEST, *OTHERS, "concurrent.futures"}),
    ],
)
def test_commands_without_work_load_no_module_for_it(shell, command, rooms, unused):
    run = RUN.replace("if '.' not in name", "")
    (shell.project / "skillhub.toml").write_text("")
    found = modules(run_bare(run, command, "--json", environ=shell.environ, cwd=shell.project))
    ours = {name for name in found if name.startswith("skillhub.")}
    assert not {name for name in ours if name.split(".")[1] in rooms}
    assert not found & unused
    assert command != "list" or len(ours) <= 60  # a network, a store and the answer among them


def test_verify_loads_cryptography_and_no_network(installed):
    found = loaded(installed, "verify", "--json")
    assert "cryptography" in found
    assert not found & NETWORK


def test_an_offline_audit_loads_no_parser_of_command_lines(installed):
    assert not loaded(installed, "audit", "--offline", "--json") & {"rich", "typer"}


def test_an_install_of_a_folder_loads_no_network(shell):
    shell.skill("project/plain")
    found = loaded(shell, "install", "./plain", "--yes", "--allow-unsigned", "--json")
    assert not found & NETWORK


def test_an_install_with_everything_stored_loads_no_network(installed):
    assert not loaded(installed, "install", "--yes", "--json") & NETWORK
