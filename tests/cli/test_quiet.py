"""``--quiet`` prints answers, missing needs and errors, and no word about success."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from skillhub.cli.app import commands_of
from skillhub.cli.table import COMMANDS
from skillhub.formats.digest import Digest
from tests.support.cli import Shell
from tests.support.here import Here
from tests.support.served import online

# Run in turn on one machine; all succeed. A line that begins with `!` is for the machine, not for skillhub.
WELL = """
    key new mine
    key import {keys}/mine.pem --name twin
    new begun
    validate plain
    sign plain --key mine
    pack plain -o ../packed.zip
    publisher trust me --key {keys}/mine.pub.pem
    validate plain
    publisher trust them --key {keys}/twin.pub.pem
    publisher remove them
    registry init ../other
    registry add ../other ../src/greeting
    registry add ../other ../src/greeting
    registry yank ../other greeting@1.0.0 --reason bad
    registry refresh ../other --within 400
    registry rotate ../other timestamp
    registry delegate ../other acme --key {keys}/mine.pub.pem --name plain
    registry build ../other --url https://skills.example
    registry check ../registry
    registry push ../other ../pushed
    registry push ../other ../pushed
    registry withdraw ../other greeting@1.0.0 --reason worse
    registry advise ../other bad.txt
    source add acme {url} --fingerprint {root}
    source trust acme --fingerprint {root}
    source refresh
    install acme:greeting --yes
    install acme:greeting --yes
    sync
    verify
    update --yes
    update --check
    bundle export ../skills.bundle
    install --from ../skills.bundle
    audit ./plain
    disable greeting
    enable greeting
    profile save review
    profile save kept
    profile use review
    profile remove review
    doctor
    ! edit greeting
    patch greeting --yes
    patch greeting --drop --yes
    lock fix
    lock merge lock lock lock
    remove greeting
    cache gc --yes
    source remove acme
    lock import skills-lock.json --yes --allow-unsigned
    ! put loose
"""
WITH_EXTRAS = """
    env set A_TOKEN
    env unset A_TOKEN
    lock export -o ../bom.json
    mcp install --agent claude-code --yes
    mcp remove --agent claude-code
"""
ANSWERS = """
    list
    show loose
    agents
    show loose --files
    use github:release-notes
    search --local loose
    diff --from-lock lock
    source list
    source show github
    profile list
    publisher list
    key list
    key show mine
    env exec --dry-run -- true
    cache info
    catalog
    schema lock
    resolve $loose
    load loose
    doctor policy
    sync --dry-run
    remove near --dry-run
    registry add ../registry ../src/later --dry-run
    registry cosign ../other
    new nothing --dry-run
"""
ALL = "\n".join((WELL.strip(), WITH_EXTRAS.strip(), ANSWERS.strip()))
GROUPS = {"source", "publisher", "key", "cache", "env", "registry", "lock", "mcp", "bundle", "profile", "self"}
# Commands that need a terminal (2), that run until stopped (3), that need a keyring, or that leave nothing after
# them.
ELSEWHERE = {"pick", "publish", "mcp check", "registry serve", "mcp", "serve", "env list", "self uninstall"}
EXTRAS = find_spec("keyring") and find_spec("cyclonedx") and find_spec("mcp")


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.fixture(scope="module")
def quiet(offered, tmp_path_factory):
    """A machine on which all of ``WELL`` ran, and the output of each line."""
    folder = tmp_path_factory.mktemp("quiet")
    offered.copy(folder)
    shell = Here(folder)
    for path in ("project/plain", "src/later"):
        shell.skill(path, head='metadata:\n  version: "1.0.0"\n')
    near = {"near": {"source": "./near", "sourceType": "local"}}
    shell.skill("project/near")
    shell.write("project/skills-lock.json", json.dumps({"version": 1, "skills": near}))
    shell.write("project/bad.txt", f"sha256:{'3' * 64} worse\n")
    shell.write("project/lock", '{\n  "skills": {},\n  "sources": {},\n  "version": 1\n}\n')
    root = folder / "registry/site/metadata/1.root.json"
    results = []
    with online(offered.folder / "registry/site") as url:
        known = {"url": url, "root": Digest.of(root.read_bytes()), "keys": shell.hub / "state/keys"}
        for line in lines(WELL):
            words = line.format(**known).split()
            if line == "! edit greeting":
                with open(shell.project / ".agents/skills/greeting/SKILL.md", "a") as file:
                    file.write("More.\n")
            elif line == "! put loose":
                shell.skill("project/.agents/skills/loose")
            else:
                done = shell.run(*words, "--quiet")
                results.append((line, done.status, done.out + done.err))
    return shell, results


def test_quiet_prints_nothing_on_success(quiet):
    _, outputs = quiet
    spoken = [each for each in outputs if each[1:] != (0, "")]
    assert not spoken, spoken


@pytest.mark.skipif(not EXTRAS, reason="takes the extras keyring and sbom")
def test_quiet_prints_nothing_on_success_of_commands_with_an_extra(shell):
    keyring = {
        "PYTHON_KEYRING_BACKEND": "tests.support.keyring_file.FileKeyring",
        "TEST_KEYRING": str(shell.folder / "keyring.json"),
    }
    for line in lines(WITH_EXTRAS):
        done = shell.run(*line.split(), "--quiet", stdin=b"sesame\n", **keyring)
        assert (done.status, done.out, done.err) == (0, "", ""), line


@pytest.mark.parametrize("line", lines(ANSWERS))
def test_quiet_prints_only_the_answer(quiet, line):
    shell, _ = quiet
    words, more, rest = line.partition(" -- ")
    loud = shell.run(*line.split())
    done = shell.run(*words.split(), "--quiet", *(more + rest).split())
    assert (done.status, done.out) == (loud.status, loud.out)
    assert done.out
    assert done.err == ""


def test_every_command_is_tried_with_quiet():
    every = set()
    for name in COMMANDS:
        every |= set(commands_of(name))
    tried = [*lines(ALL), *(line for line, *_ in WRONG)]
    tried = {" ".join(line.split()[: 2 if line.split()[0] in GROUPS else 1]) for line in tried}
    assert every - tried == ELSEWHERE


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """A machine with a missing need and several errors."""
    shell = Shell(tmp_path_factory.mktemp("wrong"))
    assert shell.run("install", "github:release-notes", "--yes", "--quiet").raw == b""
    assert shell.run("install", "github:gh-fix-ci", "--yes", "--quiet").status == 6
    with open(shell.project / ".agents/skills/release-notes/SKILL.md", "a") as file:
        file.write("More.\n")
    shell.skill("project/.agents/skills/loose")
    shell.write("project/.agents/skills/broken/SKILL.md", "no frontmatter\n")
    return shell


NEED = "gh-fix-ci is stored and locked, and stays disabled; missing:"
MISSING = "env GITHUB_TOKEN"
WRONG = [
    ("enable gh-fix-ci", 6, (NEED, MISSING, "export GITHUB_TOKEN")),
    ("install gh-fix-ci --yes", 6, (NEED, MISSING, "export GITHUB_TOKEN")),
    ("install gh-fix-ci --yes --dry-run", 0, ("gh-fix-ci", "missing:", MISSING)),
    ("verify", 1, ("[changed-file]",)),
    ("doctor", 1, ("problem  ",)),
    ("audit", 1, ("high: ",)),
    ("catalog", 0, ("broken/SKILL.md",)),
    ("validate .agents/skills/broken", 1, ("not ok", "error: ")),
    ("show nope", 3, ("[not-found]",)),
    ("registry watch github", 3, ("no log of a registry has",)),
    ("adopt loose --yes --allow-unsigned", 0, ("warning: loose: its origin is unknown",)),
    ("sync", 6, ("release-notes was edited by hand",)),
]


@pytest.mark.parametrize(("line", "status", "words"), WRONG, ids=lambda each: str(each)[:40])
def test_quiet_still_reports_errors_and_missing_needs(wrong, line, status, words):
    done = wrong.run(*line.split(), "--quiet")
    assert done.status == status, done.out + done.err
    assert all(each in done.out + done.err for each in words), done.out + done.err


def test_quiet_doctor_prints_only_problems(wrong):
    assert not any(line.startswith("ok ") for line in wrong.run("doctor", "-q").out.splitlines())
