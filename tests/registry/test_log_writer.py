"""The log of an operator: its entries, their publication, and the results of `check` and `push`."""

import json
import os
import shutil

import pytest

from skillhub.errors import BadLog, BadMetadata, Refused, SkillhubError, StateError
from skillhub.registry.build import Setup, add, init
from skillhub.registry.check import check
from skillhub.registry.log_writer import append_entries, consistency
from skillhub.registry.operator import RegistryDir, RegistrySettings, Signing
from skillhub.registry.outputs import cache_control, is_fixed, media_type
from skillhub.registry.push import push
from skillhub.registry.push_targets import FolderTarget
from skillhub.registry.upkeep import AdmissionChange, delegate, refresh, rotate, withdraw, yank
from skillhub.trust.keys import PrivateKey
from skillhub.trust.log import (
    LogHead,
    NoteKey,
    leaf_hash,
    nodes_of,
    proof_nodes,
    proof_path,
    read_bundle,
    root_of,
    subtrees,
    top_of,
)
from tests.support.killing import kill_everywhere
from tests.support.merkle import is_consistent
from tests.support.published import tree_of
from tests.support.registry import Simulator, key_of, now, write_skill


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    simulator = Simulator(tmp_path_factory.mktemp("made"), bits=1, log=True)
    simulator.publish()
    return simulator


def head(hub):
    registry = RegistryDir(hub.dir.path)
    return LogHead.parse(registry.target(registry.metadata(), "log/head"))


def logged(hub):
    hub.pull()
    size = head(hub).checkpoint.size
    names = [f"tile/entries/{number:03}" for number in range(size // 256)]
    names += [f"tile/entries/{size // 256:03}.p/{size % 256}"] if size % 256 else []
    return [json.loads(each) for name in names for each in read_bundle(hub.files[name])]


def kinds_and_names(hub):
    return [(each["kind"], each.get("name", each.get("publisher"))) for each in logged(hub)]


def signing(hub, **more):
    return Signing(now=hub.when, **more)


def sound(hub):
    return check(hub.dir.path, now()).problems == ()


def test_changes_of_releases_keys_and_names_are_logged(hub, tmp_path):
    assert kinds_and_names(hub) == [("key-added", "acme"), ("name", "hello"), ("release", "hello")]
    yank(hub.dir.path, "hello@1.0.0", "broken", signing(hub))
    yank(hub.dir.path, "hello@1.0.0", None, signing(hub))
    withdraw(hub.dir.path, "hello@1.0.0", "hostile", signing(hub))
    pem = key_of("test")("partner", "p256").public.pem
    delegate(hub.dir.path, AdmissionChange(publisher="partner", keys=(pem,), names=("theirs",)), signing(hub))
    second = PrivateKey.from_seed(b"s" * 32).public.pem
    delegate(hub.dir.path, AdmissionChange(publisher="partner", keys=(second,), revoke=(pem.decode(),)), signing(hub))
    delegate(hub.dir.path, AdmissionChange(publisher="partner", names=("hello",), move=True), signing(hub))
    rotate(hub.dir.path, "log", signing(hub))
    assert kinds_and_names(hub)[3:] == [
        ("yanked", "hello"),
        ("yanked", "hello"),
        ("withdrawn", "hello"),
        ("key-added", "partner"),
        ("name", "theirs"),
        ("key-added", "partner"),
        ("key-revoked", "partner"),
        ("name", "hello"),
        ("release", "hello"),
        ("log-key", None),
    ]
    moved = logged(hub)[10]
    assert (moved["publisher"], moved["former"]) == ("partner", "acme")
    assert [each["reason"] for each in logged(hub)[3:6]] == ["broken", None, "hostile"]
    assert sound(hub)


def test_command_without_changes_is_not_logged(hub, tmp_path):
    before = head(hub).checkpoint
    add(hub.dir.path, [write_skill(tmp_path)], signing(hub))
    refresh(hub.dir.path, signing(hub), within=400, roles=["targets", "namespaces", "root"])
    rotate(hub.dir.path, "timestamp", signing(hub))
    add(hub.dir.path, [write_skill(tmp_path, version="2.0.0")], signing(hub, dry_run=True))
    assert head(hub).checkpoint == before
    assert sound(hub)


def test_public_checkpoint_equals_that_of_clients(hub):
    hub.publish(version="1.1.0")
    assert hub.files["checkpoint"] == head(hub).note.dump()
    assert head(hub).checkpoint.text.encode() in hub.files["checkpoint"]


def test_only_online_keys_are_needed(hub, tmp_path):
    shutil.move(os.path.join(hub.dir.path, "keys", "offline"), tmp_path / "away")
    hub.publish(version="1.1.0")
    yank(hub.dir.path, "hello@1.0.0", "broken", signing(hub))
    assert sound(hub)


def test_missing_key_of_the_log_refuses_a_publication(hub):
    os.remove(os.path.join(hub.dir.path, "keys", "online", "log.pem"))
    before = tree_of(hub.dir.path)
    with pytest.raises(Refused, match="key of the registry's log") as refused:
        hub.publish(version="1.1.0")
    assert refused.value.hint.endswith(f"skillhub registry rotate {hub.dir.path} log")
    assert tree_of(hub.dir.path) == before
    rotate(hub.dir.path, "log", signing(hub))
    hub.publish(version="1.1.0")
    assert sound(hub)


def test_rotation_of_the_log_key_creates_the_log(tmp_path):
    hub = Simulator(tmp_path, bits=1)
    hub.publish()
    hub.publish("other")
    yank(hub.dir.path, "hello@1.0.0", "broken", signing(hub))
    hub.open(tmp_path / "old").release_index(["hello"])
    done = rotate(hub.dir.path, "log", signing(hub))
    assert (done.gone, len(done.new)) == ((), 1)
    assert kinds_and_names(hub) == [
        ("key-added", "acme"),
        ("name", "hello"),
        ("name", "other"),
        ("release", "hello"),
        ("yanked", "hello"),
        ("release", "other"),
        ("log-key", None),
    ]
    assert sound(hub)
    for folder in ("old", "new"):
        registry = hub.open(tmp_path / folder)
        registry.artifact(registry.release_index(["other"]).releases("other")[0])
        assert registry.log is not None


def test_attack_a_skill_named_like_a_file_of_the_log_is_refused(hub, tmp_path):
    name = "checkpoint"
    before = tree_of(hub.dir.path)
    with pytest.raises(Refused, match="taken by a file of the registry's log"):
        hub.publish(name)
    assert tree_of(hub.dir.path) == before
    plain = Simulator(tmp_path / "plain", bits=1)
    plain.publish(name)
    with pytest.raises(Refused, match="taken by a file"):
        rotate(plain.dir.path, "log", signing(plain))
    assert sound(plain)
    hub.publish("tile")
    assert sound(hub)


def test_the_same_commands_write_the_same_bytes(tmp_path):
    found = []
    for folder in ("one", "two"):
        hub = Simulator(tmp_path / folder, when=found[0][0] if found else now(), bits=1, log=True)
        hub.publish()
        yank(hub.dir.path, "hello@1.0.0", "broken", signing(hub))
        found.append((hub.when, {path: data for path, data in hub.files.items() if "metadata" not in path}))
    assert found[0] == found[1]


def test_killed_add_with_a_log_stays_readable_and_is_completed_later(hub, tmp_path):
    skill = write_skill(tmp_path, version="1.1.0")
    client = tmp_path / "client"
    hub.open(client).release_index(["hello"])
    start = shutil.copytree(client, tmp_path / "start")
    at_first = head(hub).checkpoint

    def look(_, done):
        shutil.rmtree(client)
        shutil.copytree(start, client)
        hub.pull()
        for folder in (client, tmp_path / f"new-{os.urandom(4).hex()}"):
            registry = hub.open(folder)
            release = registry.release_index(["hello"]).releases("hello")[0]
            assert registry.artifact(release)
        public = LogHead.parse(hub.files["checkpoint"] + b"\0" + b"".join(head(hub).nodes.values())) if done else None
        assert not done or public == head(hub)
        # A public checkpoint is never removed.
        assert done or hub.files["checkpoint"].startswith(
            (at_first.text.encode(), head(hub).checkpoint.text.encode())
        )
        assert not done or (sound(hub) and head(hub).checkpoint.size == at_first.size + 1)

    assert kill_everywhere(hub.dir.path, lambda: add(hub.dir.path, [skill], signing(hub)), look) > 10


def test_killed_creation_of_a_log_is_completed_by_the_same_command(tmp_path):
    hub = Simulator(tmp_path, bits=1)
    hub.publish()

    def look(_, done):
        hub.pull()
        registry = hub.open(tmp_path / f"new-{os.urandom(4).hex()}")
        assert registry.artifact(registry.release_index(["hello"]).releases("hello")[0])
        assert not done or (sound(hub) and head(hub).checkpoint.size == 4)

    assert kill_everywhere(hub.dir.path, lambda: rotate(hub.dir.path, "log", signing(hub)), look) > 5


def test_release_adds_only_new_tiles_to_a_log(hub):
    keys = [PrivateKey.from_seed(number.to_bytes(32)).public.pem for number in range(1, 301)]
    delegate(hub.dir.path, AdmissionChange(publisher="partner", keys=tuple(keys)), signing(hub))
    assert head(hub).checkpoint.size == 303
    hub.pull()
    assert {"tile/0/000", "tile/0/001.p/47", "tile/1/000.p/1", "tile/entries/000"} <= {*hub.files}
    before = dict(hub.files)
    hub.publish(version="1.1.0")
    new = {path for path in hub.files if path.startswith("tile") and path not in before}
    assert new == {"tile/0/001.p/48", "tile/entries/001.p/48", "tile/proof/4/p48"}
    assert sound(hub)


def spoil(path, change):
    def act(hub):
        full = os.path.join(hub.dir.site, *path.split("/"))
        with open(full, "rb") as file:
            data = file.read()
        with open(full, "wb") as file:
            file.write(change(data))

    return act


def cut(data):
    return data[:-1]


SPOILT = {
    "the public checkpoint": spoil("checkpoint", cut),
    "a tile": spoil("tile/0/000.p/3", cut),
    "a forged tile": spoil("tile/0/000.p/3", lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    "the entries": spoil("tile/entries/000.p/3", cut),
    "a forged entry": spoil("tile/entries/000.p/3", lambda data: data.replace(b"hello", b"jello")),
    "a proof": spoil("tile/proof/0/p3", cut),
    "a tile that is missing": lambda hub: os.remove(os.path.join(hub.dir.site, "tile/0/000.p/3")),
    "a public checkpoint that is missing": lambda hub: os.remove(os.path.join(hub.dir.site, "checkpoint")),
}


@pytest.mark.parametrize("name", SPOILT)
def test_attack_a_changed_log_on_the_site_is_found(hub, tmp_path, name):
    """`check` reports the change, `push` refuses, and no command signs a state from the changed tiles."""
    SPOILT[name](hub)
    assert check(hub.dir.path, now()).problems != ()
    with pytest.raises(Refused):
        push(hub.dir.path, str(tmp_path / "www"), FolderTarget, now=now())
    assert not os.path.exists(tmp_path / "www")
    if "checkpoint" in name:
        refresh(hub.dir.path, signing(hub))
        add(hub.dir.path, [write_skill(tmp_path)], signing(hub))
        assert sound(hub)
    elif "proof" not in name:
        with pytest.raises((BadMetadata, StateError)):
            hub.publish(version="1.1.0")


def test_attack_a_release_removed_from_the_registry_is_found_by_the_log(hub):
    hub.publish(version="1.1.0")
    metadata = hub.dir.metadata()
    document = json.loads(hub.dir.target(metadata, "idx/acme.json"))
    document["releases"].pop()
    hub.revise({"idx/acme.json": json.dumps(document).encode()})
    found = [(each.code, each.message) for each in check(hub.dir.path, now()).problems]
    assert ("bad-log", "the log has this release, but the registry does not offer it") in found


def test_attack_a_key_admitted_without_the_log_is_found(hub):
    quiet = key_of("test")("quiet", "p256").public.pem.decode()
    known = json.loads(hub.files[hub.publisher("acme")])
    hub.admit("acme", keys=[*known["keys"], quiet], names=[*known["names"], "stolen"])
    found = [each.message for each in check(hub.dir.path, now()).problems]
    assert found.count("the log does not assign it to acme") == 2


def test_checkpoint_is_pushed_after_its_tiles(hub, tmp_path):
    seen = []

    class Recorder(FolderTarget):
        def publish(self, site, changed, *rest):
            seen.extend(file.path for file in changed)
            super().publish(site, changed, *rest)

    for version in ("1.1.0", "1.2.0"):
        hub.publish(version=version)
        seen.clear()
        push(hub.dir.path, str(tmp_path / "www"), Recorder, now=now())
        order = [seen.index(path) for path in seen if path.startswith("tile/")]
        head_at = next(number for number, path in enumerate(seen) if path.startswith("targets/log/"))
        stamp = seen.index("metadata/timestamp.json")
        assert max(order) < min(head_at, stamp) < max(head_at, stamp) < seen.index("checkpoint")
    assert sound(hub)


def test_killed_push_shows_no_log_without_proofs(hub, tmp_path):
    www = str(tmp_path / "www")
    push(hub.dir.path, www, FolderTarget, now=now())
    hub.publish(version="1.1.0")

    def look(_, done):
        for top, _, names in os.walk(www):
            for name in names:
                path = os.path.relpath(os.path.join(top, name), www).replace(os.sep, "/")
                with open(os.path.join(top, name), "rb") as file:
                    hub.files[path] = file.read()
        registry = hub.open(tmp_path / f"new-{os.urandom(4).hex()}")
        assert registry.artifact(registry.release_index(["hello"]).releases("hello")[0])
        assert not done or hub.files["checkpoint"] == head(hub).note.dump()

    hub.files = {}
    assert kill_everywhere(www, lambda: push(hub.dir.path, www, FolderTarget, now=now()), look) > 5


def test_attack_a_second_copy_of_a_registry_cannot_be_pushed(hub, tmp_path):
    www = str(tmp_path / "www")
    push(hub.dir.path, www, FolderTarget, now=now())
    other = hub.copy(tmp_path / "copy")
    hub.publish(version="1.1.0")
    push(hub.dir.path, www, FolderTarget, now=now())
    before = tree_of(www)
    other.publish(version="1.2.0")
    with pytest.raises(SkillhubError):
        push(other.dir.path, www, FolderTarget, now=now())
    assert tree_of(www) == before


def test_files_of_a_log_have_their_types_and_lifetimes():
    assert media_type("checkpoint") == "text/plain; charset=utf-8"
    assert media_type("tile/0/000") == "application/octet-stream"
    assert "immutable" not in cache_control("checkpoint")
    for path in ("tile/0/x001/000", "tile/0/000.p/3", "tile/entries/000.p/3", "tile/proof/0/p3"):
        assert is_fixed(path)
    assert not is_fixed("tile/.well-known/agent-skills/index.json")


def test_key_of_a_log_has_the_form_of_monitors_and_witnesses(hub):
    key = NoteKey.of_log(head(hub).checkpoint.origin, key_of("test")("log", "ed25519").public)
    assert str(key).startswith(f"skillhub-registry/{hub.dir.fingerprint().hex}+")
    assert key.signs(head(hub).note)


def test_registry_can_be_created_without_a_log(tmp_path):
    path = str(tmp_path / "plain")
    init(path, Setup(settings=RegistrySettings.of("acme", 2), new_key=key_of("p"), log=False), now())
    assert not os.path.exists(os.path.join(path, "site", "checkpoint"))
    assert not os.path.exists(os.path.join(path, "keys", "online", "log.pem"))


# A log of many entries: the files of a client and of a release do not grow with it.


def grown(sizes):
    """Yield head, files, read files and written files of a log that grows to each of these sizes."""
    key, site, head, before = PrivateKey.from_seed(b"g" * 32, "ed25519"), {}, None, 0
    for size in sizes:
        read = []

        def served(path, read=read):
            read.append(path)
            return site[path]  # noqa: B023

        head, made = append_entries(head, [b"%d" % number for number in range(before, size)], "origin", served, key)
        assert all(site.get(path, data) == data for path, data in made.items())
        site |= made
        before = size
        yield head, site, read, made


def test_release_reads_and_writes_equally_many_files_of_any_log():
    effort = [(len(read), len(made)) for _, _, read, made in grown([300, 301, 70_000, 70_001, 140_000, 140_001])]
    assert effort[1::2] == [(2, 4), (3, 5), (3, 5)]


def test_log_is_consistent_with_every_smaller_size():
    """The verification of RFC 9162 is independent of the algorithm that makes the proof."""
    sizes = [1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 255, 256, 257, 300, 511, 513, 1024, 1025]
    heads, site = [], {}
    for head, files, *_ in grown(sizes):
        heads.append(head)
        site |= files
        for old in heads:
            size, proof = old.checkpoint.size, consistency(head, old.checkpoint.size, site.__getitem__)
            facts = size, old.checkpoint.root, head.checkpoint.size, head.checkpoint.root
            assert is_consistent(*facts, proof)
            assert not proof or not is_consistent(*facts, [*proof[:-1], bytes(32)])
            assert len(proof) <= head.checkpoint.size.bit_length() + 1
        assert consistency(head, 0, site.__getitem__) == []


def test_attack_changed_tiles_give_no_proof():
    *_, (head, site, *_) = grown([300, 700])
    changed = {path: data[:-1] + bytes([data[-1] ^ 1]) for path, data in site.items() if path.startswith("tile/0/")}
    with pytest.raises(BadMetadata):
        consistency(head, 300, {**site, **changed}.__getitem__)


def test_log_with_larger_subtrees_gives_proofs_to_old_and_new_clients():
    """From 132,096 entries on, subtrees have 65,536 leaves; a client of a smaller log continues."""
    (old, *_), (new, site, *_), (last, *_) = list(grown([132_095, 132_097, 132_160]))
    assert [len(each.nodes) for each in (old, new, last)] == [138, 4, 4]
    leaves = nodes_of([leaf_hash(b"%d" % number) for number in range(132_160)])
    for head in (new, last):
        size = head.checkpoint.size
        assert LogHead.parse(head.dump()) == head
        assert root_of(leaves, size) == head.checkpoint.root
        for chunk in (0, 1, 1023, 1024, 2047, 2048, 2062, (size - 1) >> 6):
            found = proof_nodes(site[proof_path(chunk, size)], chunk, head)
            assert all(leaves[node] == value for node, value in found.items())
    seen = {**new.nodes, **proof_nodes(site[proof_path(2063, 132_097)], 2063, new)}
    assert root_of(seen, 132_095) == old.checkpoint.root
    with pytest.raises(BadLog):
        proof_nodes(site[proof_path(0, 132_095)], 0, new)


def test_head_and_proof_take_less_than_10_kb():
    for size in (
        300,
        2_000,
        131_071,
        132_096,
        1 << 20,
        2_100_000,
        (1 << 23) - 1,
        (1 << 23) + (1 << 16),
        10**9,
        10**15,
    ):
        assert 32 * len(list(subtrees(size))) + 32 * (64 + top_of(size) - 6) + 500 < 10_000


def test_attack_a_forged_tile_is_refused_by_a_release():
    head, site, *_ = next(grown([70_000]))
    key = PrivateKey.from_seed(b"g" * 32, "ed25519")
    changes = (lambda _: b"", cut, lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: data + data)
    for change in changes:
        for path in ("tile/0/273.p/112", "tile/1/001.p/17", "tile/entries/273.p/112"):
            with pytest.raises(BadMetadata):
                append_entries(head, [b"new"], "origin", {**site, path: change(site[path])}.__getitem__, key)
        path = "tile/2/000.p/1"  # its content follows from the head
        made = append_entries(head, [b"new"], "origin", {**site, path: change(site[path])}.__getitem__, key)[1]
        assert made[path] == site[path]
