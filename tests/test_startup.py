"""What is not imported: the reason why the program starts fast, and why an agent that loads it stays small."""

from __future__ import annotations

import pytest

from tests.support.bare import run_bare
from tests.support.cli import Shell

LIBRARIES = {"cryptography", "httpx", "pydantic", "rich", "tomlkit", "tuf", "typer", "yaml"}
NETWORK = {"httpx", "rich", "tuf", "typer"}
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
def test_what_needs_no_work_loads_no_library(shell, word):
    assert not loaded(shell, word) & LIBRARIES


@pytest.mark.parametrize("command", ["list", "sync"])
def test_what_reads_the_disk_loads_no_network(installed, command):
    assert not loaded(installed, command, "--json") & (NETWORK | {"cryptography", "yaml"})


def test_what_reads_no_skill_loads_no_pattern_of_the_scan(installed):
    run = RUN.replace("if '.' not in name", "if name.startswith('skillhub.scan.')")
    assert not modules(run_bare(run, "list", "--json", environ=installed.environ, cwd=installed.project))


@pytest.mark.parametrize(
    ("command", "rooms"),
    [
        ("list", {"archive", "audit", "edits", "runtime", "scan", "trust"}),
        ("sync", {"archive", "audit", "runtime"}),
        ("verify", {"archive"}),
        ("install", {"audit", "runtime"}),
    ],
)
def test_what_has_nothing_to_do_loads_no_room_for_it(shell, command, rooms):
    run = RUN.replace("if '.' not in name", "if name.startswith('skillhub.')")
    (shell.project / "skillhub.toml").write_text("")
    found = modules(run_bare(run, command, "--json", environ=shell.environ, cwd=shell.project))
    assert not {name for name in found if name.split(".")[1] in rooms}


def test_a_list_loads_no_manifest_and_none_of_the_needs(shell):
    run = RUN.replace("if '.' not in name", "if name.startswith('skillhub.')")
    found = modules(run_bare(run, "list", "--json", environ=shell.environ, cwd=shell.project))
    assert not found & {"skillhub.formats.yaml", "skillhub.model.manifest", "skillhub.model.needs"}
    assert len(found) <= 60  # a network, a store and the answer among them


def test_verify_loads_cryptography_and_no_network(installed):
    found = loaded(installed, "verify", "--json")
    assert "cryptography" in found
    assert not found & NETWORK


def test_an_install_of_a_folder_loads_no_network(shell):
    shell.skill("project/plain")
    found = loaded(shell, "install", "./plain", "--yes", "--allow-unsigned", "--json")
    assert not found & NETWORK


def test_an_install_with_everything_stored_loads_no_network(installed):
    assert not loaded(installed, "install", "--yes", "--json") & NETWORK


def test_an_install_with_nothing_to_do_loads_no_manifest_and_no_threads(shell):
    run = RUN.replace("if '.' not in name", "")
    (shell.project / "skillhub.toml").write_text("")
    found = modules(run_bare(run, "install", "--json", environ=shell.environ, cwd=shell.project))
    unused = {"skillhub.model.manifest", "skillhub.model.needs", "skillhub.scan.secrets", "skillhub.trust.roles"}
    assert not found & {*unused, "concurrent.futures"}
