"""A registry with a log on the command line: watched by a publisher, cosigned by a witness, and attacked."""

import json
from base64 import b64decode
from dataclasses import replace

import pytest

from skillhub.formats.digest import Digest
from skillhub.registry import log_writer
from skillhub.registry.operator import RegistryDir, Signing, opened
from skillhub.trust.keys import PrivateKey
from skillhub.trust.log import Checkpoint, LogHead, Note, NoteKey, entry, leaf_hash, nodes_of, signed_checkpoint
from skillhub.trust.registry_metadata import path_of
from tests.support.here import Here
from tests.support.merkle import is_consistent
from tests.support.registry import now
from tests.support.served import Served, online
from tests.support.start import Start

WITNESS = PrivateKey.from_seed(b"w" * 32, "ed25519")
VKEY = NoteKey("witness.example/w", 4, WITNESS.public)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    hub = Served(tmp_path_factory.mktemp("watched") / "hub")
    hub.publish("1.0.0")
    return hub, Start(hub.site.parents[1])


@pytest.fixture
def hub(start):
    """A registry with one release."""
    hub, start = start
    start.restore()
    return hub


@pytest.fixture
def shell(hub, tmp_path):
    shell = Here(tmp_path / "user")
    with online(hub.site) as url:
        assert shell.run("source", "add", "acme", url, "--fingerprint", root(hub)).status == 0
        yield shell


def root(hub):
    return Digest.of(hub.root.read_bytes())


def cosignature(site):
    text = (site / "checkpoint").read_bytes().partition(b"\n\n")[0].decode() + "\n"
    time = 1_700_000_000
    data = VKEY.id + time.to_bytes(8) + WITNESS.sign(f"cosignature/v1\ntime {time}\n{text}".encode())
    return Note(text, ((VKEY.name, data),)).dump().partition(b"\n\n")[2]


def kinds(done):
    return [each["kind"] for each in done.json["entries"]]


def test_watch_reports_each_entry_once(hub, shell):
    first = shell.run("registry", "watch", "acme:acme", "--json")
    assert (first.status, first.json["ok"]) == (1, False)
    assert kinds(first) == ["key-added", "name", "release"]
    assert first.json["entries"][2]["name"] == "greeting"
    quiet = shell.run("registry", "watch", "acme:acme")
    assert (quiet.status, quiet.out, quiet.err) == (0, "", "")
    assert shell.at_terminal("registry", "watch", "acme:acme").out == "no new entries\r\n"
    assert shell.at_terminal("registry", "watch", "acme:acme", "--quiet").out == ""
    hub.publish("1.1.0")
    hub.operate("yank", "greeting@1.0.0", "--reason", "broken")
    looked = shell.run("registry", "watch", "acme:acme", "--dry-run")
    assert looked.status == 1
    reported = shell.run("registry", "watch", "acme:acme")
    assert (reported.status, reported.out) == (1, looked.out)
    one, two = reported.out.splitlines()
    assert "acme: release acme greeting 1.1.0 sha256:" in one
    assert "acme: yanked acme greeting 1.0.0 broken" in two
    assert shell.run("registry", "watch", "acme:acme", "--json").json == {"schema": 1, "ok": True, "entries": []}
    assert kinds(shell.run("registry", "watch", "greeting", "--json")) == ["name", "release", "release", "yanked"]
    assert len(kinds(shell.run("registry", "watch", "acme", "--json"))) == 5
    hub.operate("yank", "greeting@1.0.0", "--undo")
    assert "acme: offered-again acme greeting 1.0.0\n" in shell.run("registry", "watch", "greeting").out


def test_watch_of_an_unknown_name_or_without_a_log_fails(hub, shell):
    assert shell.run("registry", "watch", "nobody").status == 3
    assert shell.run("registry", "watch", "elsewhere:acme").status == 3
    assert "no log" in shell.run("registry", "watch", "github").err
    assert shell.run("registry", "watch", "acme", "--offline").status == 3


def test_a_release_is_installed_with_its_proof_and_refused_without_a_proof(hub, shell):
    assert shell.run("install", "acme:greeting", "--yes").status == 0
    hub.publish("1.1.0")
    for path in hub.site.glob("tile/proof/*/*"):
        path.unlink()
    before = shell.files()
    done = shell.run("update", "--yes", "--json")
    assert (done.status, done.error["code"]) == (5, "bad-log")
    assert {path: data for path, data in shell.files().items() if "project" in path} == {
        path: data for path, data in before.items() if "project" in path
    }


def test_attack_a_log_without_the_cosignatures_of_the_policy_is_refused(hub, shell):
    line = f'witnesses = ["{root(hub)}={VKEY}"]\n'
    shell.write("hub/config/policy.toml", line)
    done = shell.run("install", "acme:greeting", "--yes", "--json")
    assert (done.status, done.error["code"]) == (6, "policy")
    assert "not cosigned by 'witness.example/w'" in done.error["message"]
    shell.write("lines", cosignature(hub.site).decode())
    hub.operate("cosign", shell.folder / "lines")
    assert shell.run("install", "acme:greeting", "--yes").status == 0
    hub.operate("cosign")
    hub.publish("1.0.0")
    assert shell.run("update", "--check").status == 0
    hub.publish("1.1.0")
    assert shell.run("update", "--yes").status == 6
    # A project can require another witness and cannot waive one.
    shell.write("lines", cosignature(hub.site).decode())
    hub.operate("cosign", shell.folder / "lines")
    other = NoteKey("witness.example/other", 4, PrivateKey.from_seed(b"o" * 32, "ed25519").public)
    intent = (shell.project / "skillhub.toml").read_text()
    shell.write("project/skillhub.toml", f'{intent}\n[policy]\nwitnesses = ["{root(hub)}={other}"]\n')
    assert shell.run("update", "--yes").status == 6
    shell.write("project/skillhub.toml", f"{intent}\n[policy]\nwitnesses = []\n")
    assert shell.run("update", "--yes").status == 0


def test_attack_more_cosignatures_than_clients_read_are_not_published(hub, shell):
    seen = []
    for name, status in (("one", 0), ("two", 6)):
        shell.write("lines", "".join(f"\u2014 {name}-{number} {'A' * 100}\n" for number in range(480)))
        assert shell.run("registry", "cosign", hub.site.parent, shell.folder / "lines").status == status
        seen.append({path: path.read_bytes() for path in hub.site.rglob("*") if path.is_file()})
    assert seen[0] == seen[1]
    assert shell.run("registry", "check", hub.site.parent).status == 0


def test_cosign_prints_the_key_of_the_log_on_a_line_of_its_own(hub, shell):
    with opened(str(hub.site.parent), Signing(now=now())) as it:
        name = it.log_head(it.metadata).checkpoint.origin
        key = str(NoteKey.of_log(name, it.log_key(it.metadata).public))
    shell.write("lines", cosignature(hub.site).decode())
    done = shell.run("registry", "cosign", hub.site.parent, shell.folder / "lines")
    assert (done.status, done.out) == (0, f"{key}\nsigned by: {name}, {VKEY.name}\n")
    again = shell.run("registry", "cosign", hub.site.parent, "--json")
    assert again.json == {"schema": 1, "key": key, "signers": [name, VKEY.name], "request": None}


class WitnessOfOne:
    """A witness (C2SP tlog-witness) that keeps the size and the root of its last cosignature."""

    size, root = 0, b""

    def answer(self, body):
        head, _, note = body.partition("\n\n")
        old, *proof = head.split("\n")
        checkpoint = Checkpoint.parse(note.partition("\n\n")[0] + "\n")
        assert old == f"old {self.size}"  # status 409 of the protocol
        assert is_consistent(self.size, self.root, checkpoint.size, checkpoint.root, [*map(b64decode, proof)])
        self.size, self.root = checkpoint.size, checkpoint.root
        time = 1_700_000_000
        data = VKEY.id + time.to_bytes(8) + WITNESS.sign(f"cosignature/v1\ntime {time}\n{checkpoint.text}".encode())
        return Note(checkpoint.text, ((VKEY.name, data),)).dump().partition(b"\n\n")[2].decode()


def test_a_witness_cosigns_each_state_of_the_log_for_the_operator(hub, shell):
    witness, place = WitnessOfOne(), hub.site.parent
    for version in (None, "1.1.0", "1.2.0"):
        if version:
            hub.publish(version)
        asked = shell.run("registry", "cosign", place, "--request", witness.size)
        assert asked.status == 0, asked.err
        shell.write("lines", witness.answer(asked.out))
        done = shell.run("registry", "cosign", place, shell.folder / "lines", "--json")
        assert done.json["signers"][-1] == VKEY.name
        again = shell.run("registry", "cosign", place, "--request", witness.size, "--json").json["request"]
        assert again.startswith(f"old {witness.size}\n\n") and VKEY.name in again
    too_many = shell.run("registry", "cosign", place, "--request", witness.size + 1, "--json")
    assert (too_many.status, too_many.error["code"]) == (2, "usage")
    assert shell.run("registry", "cosign", place, "--request", "-1").status == 2


def test_attack_an_invalid_cosignature_changes_nothing(hub, shell):
    def cosign(text):
        shell.write("lines", text)
        return shell.run("registry", "cosign", hub.site.parent, shell.folder / "lines").status

    before = (hub.site / "checkpoint").read_bytes()
    own = before.partition(b"\n\n")[2].decode()
    assert cosign("nonsense\n") == 4
    assert cosign(cosignature(hub.site).decode()[:-1]) == 4
    assert cosign(own[:-12] + "AAAAAAA=\n") in (4, 5)
    assert (hub.site / "checkpoint").read_bytes() == before


def write_entry(folder, line):
    """Append an entry with the key of the log."""
    with opened(str(folder), Signing(now=now())) as it:
        head = it.log_head(it.metadata)
        new, files = log_writer.append_entries(
            head, [line], head.checkpoint.origin, it.registry.served, it.log_key(it.metadata)
        )
        revised = it.metadata.revise({"log/head": new.dump()}, it.keys.of, it.dates)
        it.serve(revised, {**files, path_of(revised.find("log/head")): new.dump()})


def test_attack_an_entry_does_not_steer_the_terminal(hub, shell):
    """The owner of the log's key writes entries that are read at a terminal or in a mail of cron."""
    hostile = "\x1b[2J\u202e evil\nacme: release"
    line = entry("yanked", name="greeting", publisher="acme", version=hostile, reason=hostile, time=hostile)
    write_entry(hub.site.parent, line)
    done = shell.run("registry", "watch", "greeting")
    assert done.status == 1
    assert not set(done.out) & {"\x1b", "\u202e"}
    assert len(done.out.splitlines()) == 3
    assert json.loads(shell.run("registry", "watch", "acme", "--json").out)["entries"]


def test_attack_an_entry_cannot_name_another_registry(hub, shell):
    time = "2026-01-01T00:00:00Z good: release greeting"
    log_entry = entry("yanked", name="greeting", publisher="acme", source="good", position=0, time=time)
    write_entry(hub.site.parent, log_entry)
    line = shell.run("registry", "watch", "greeting", "--dry-run").out.splitlines()[-1]
    assert line == f"'{time}' acme: offered-again acme greeting"
    found = shell.run("registry", "watch", "greeting", "--json").json["entries"][-1]
    assert (found["source"], found["position"]) == ("acme", 3)


def test_a_late_cosignature_is_replaced_by_the_next(hub, shell):
    shell.write("hub/config/policy.toml", f'witnesses = ["{root(hub)}={VKEY}"]\n')
    late = cosignature(hub.site)
    hub.publish("1.1.0")
    for lines, status in ((late, 5), (cosignature(hub.site), 0), (cosignature(hub.site), 0)):
        shell.write("lines", lines.decode())
        hub.operate("cosign", shell.folder / "lines")
        assert shell.run("install", "acme:greeting", "--yes").status == status
    assert (hub.site / "checkpoint").read_text().count("witness.example/w") == 1


def test_attack_a_log_dropped_before_the_first_install_is_reported(hub, shell):
    drop_log(hub.site.parent)
    for words in (("search", "greeting"), ("install", "acme:greeting", "--yes")):
        done = shell.run(*words, "--json")
        assert (done.status, done.error["code"]) == (5, "bad-log"), words


def test_attack_no_bundle_is_made_of_a_forked_log(hub, shell, tmp_path):
    """Export fetches all content again on a machine that has seen the honest log."""
    assert shell.run("install", "acme:greeting", "--yes").status == 0
    hub.publish("1.1.0")
    assert shell.run("bundle", "export", tmp_path / "honest").status == 0
    with opened(str(hub.site.parent), Signing(now=now())) as it:
        head = it.log_head(it.metadata)
        nodes = nodes_of([leaf_hash(bytes(each)) for each in range(head.checkpoint.size)])
        root = nodes[2, 0]
        new = LogHead.of(signed_checkpoint(replace(head.checkpoint, root=root), it.log_key(it.metadata)), nodes)
        revised = it.metadata.revise({"log/head": new.dump()}, it.keys.of, it.dates)
        it.serve(revised, {path_of(revised.find("log/head")): new.dump()})
    assert shell.run("update", "--yes", "--json").error["code"] == "bad-log"
    done = shell.run("bundle", "export", tmp_path / "forked", "--json")
    assert (done.status, done.error["code"], (tmp_path / "forked").exists()) == (5, "bad-log", False)


def drop_log(folder):
    with opened(str(folder), Signing(now=now())) as it:
        targets = it.metadata.read("targets")
        del targets.delegations.roles["log"]
        it.registry.publish(it.metadata.changed({"targets": targets}, it.keys.of, it.dates).files())


def test_attack_a_registry_that_dropped_its_announced_log_is_refused(hub, shell):
    assert shell.run("install", "acme:greeting", "--yes").status == 0
    path = str(hub.site.parent)
    drop_log(path)
    shell.run("remove", "greeting")
    before = shell.files()
    for words in (("install", "acme:greeting", "--yes"), ("search", "greeting"), ("registry", "watch", "acme")):
        done = shell.run(*words, "--json")
        assert (done.status, done.error["code"]) == (5, "bad-log"), words
    assert {path for path in shell.files() if "project" in path} == {path for path in before if "project" in path}
    assert RegistryDir(path).exists


@pytest.mark.parametrize("command", [["search", "greeting"], ["update", "--check"]])
def test_the_hint_for_a_damaged_memory_of_the_log_helps(shell, command):
    assert shell.run("install", "acme:greeting", "--yes").status == 0
    (kept,) = shell.hub.glob("state/tuf/*/log-seen.json")
    kept.write_text("{")
    done = shell.run(*command, "--json")
    assert (done.status, done.error["code"]) == (7, "state")
    assert "delete it below tuf in the state folder" in done.error["hint"]
    kept.unlink()
    assert shell.run(*command).status == 0
