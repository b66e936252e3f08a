"""A client of a registry with a log: every offer must be in the log, and the log may only grow."""

import json
import os
import threading

import pytest

from skillhub.errors import BadLog, FormatError, NotFound, Rollback, SecurityError, StateError
from skillhub.model.discovery import ReleasesDocument
from skillhub.model.index import index_path
from skillhub.registry.log_writer import files
from skillhub.trust.keys import PrivateKey
from skillhub.trust.log import (
    Checkpoint,
    LogHead,
    Note,
    entry,
    leaf_hash,
    nodes_of,
    origin_of,
    read_bundle,
    root_of,
    signed_checkpoint,
)
from skillhub.trust.log_client import LogWatch
from skillhub.trust.registry_metadata import Dates
from skillhub.trust.roles import LOG, LOG_HEAD, LOG_SEEN, SNAPSHOT, TARGETS
from tests.support.registry import Simulator, key_of

STOLEN = key_of("test")("log", "ed25519")
OTHER = PrivateKey.from_seed(b"o" * 32, "ed25519")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    simulator = Simulator(tmp_path_factory.mktemp("made"), bits=1, log=True)
    simulator.publish()
    simulator.publish("other")
    return simulator


@pytest.fixture
def client(hub, tmp_path):
    """Return the folder of a client that has seen the log."""
    folder = tmp_path / "client"
    install(hub, folder)
    return folder


def install(hub, folder, name="hello", version="1.0.0"):
    registry = hub.open(folder)
    index = registry.release_index([name])
    release = next(each for each in index.releases(name) if each.version == version)
    return registry.artifact(release)


def seen(folder):
    with open(os.path.join(folder, LOG_SEEN)) as file:
        return json.load(file)


def entries_of(hub):
    head = LogHead.parse(head_of(hub))
    width = head.checkpoint.size
    return read_bundle(hub.files[f"tile/entries/000.p/{width}"])


def head_of(hub):
    return hub.dir.target(hub.dir.metadata(), LOG_HEAD)


def rewrite(hub, entries, *, key=STOLEN, origin=None, size=None):
    """Serve a log of these entries, signed with the online keys of the registry."""
    nodes = nodes_of([leaf_hash(each) for each in entries])
    end = len(entries)
    origin = origin or origin_of(hub.dir.fingerprint())
    note = signed_checkpoint(Checkpoint(origin, size or end, root_of(nodes, end)), key)
    data = LogHead(note, Checkpoint.parse(note.text), {}).dump()
    if size is None:
        data = LogHead.of(note, nodes).dump()
    hub.dir.publish(files(entries, nodes, 0, end))
    hub.revise({LOG_HEAD: data})


def reposition(hub, **positions):
    """Change the positions in the documents of releases, signed with the online keys."""
    path = index_path("acme")
    document = json.loads(hub.dir.target(hub.dir.metadata(), path))
    for row in document["releases"]:
        row.pop("log")
        if positions.get(row["name"]) is not None:
            row["log"] = positions[row["name"]]
    saved = dict(hub.files)
    hub.revise({path: json.dumps(document).encode()})
    hub.files = {**saved, **hub.files}


def without(*roles):
    def change(hub):
        """Sign targets, or a snapshot, without these roles, with the offline keys."""
        metadata, keys = hub.dir.metadata(), hub.dir.keys().of
        for role in roles:
            document = metadata.read(role)
            if role == TARGETS:
                document.delegations.roles.pop(LOG)
            metadata = metadata.changed({role: document}, keys, Dates(hub.when))
        hub.files |= metadata.files()

    return change


def replace_proof(change):
    def replace(hub):
        for path in [path for path in hub.files if path.startswith("tile/proof/")]:
            hub.files[path] = change(hub.files[path])

    return replace


def lose(start, end=""):
    def change(hub):
        # The bundle for new clients would hide the loss.
        for path in [*hub.files]:
            if (path.startswith(start) and path.endswith(end)) or path == "metadata/ahead.txt":
                del hub.files[path]

    return change


def as_of(moment):
    """Return an attack that serves the log with its first entries only."""
    return lambda hub: rewrite(hub, entries_of(hub)[:moment])


def resigned(note_of):
    def change(hub):
        head = LogHead.parse(head_of(hub))
        hub.revise({LOG_HEAD: LogHead(note_of(head.note), head.checkpoint, head.nodes).dump()})

    return change


def doctored(change):
    return lambda hub: hub.revise({LOG_HEAD: change(head_of(hub))})


def unlogged(hub):
    """Offer a release that is in no log, with all online keys but that of the log, and the publisher's key."""
    quiet = hub.dir.metadata()
    path = index_path("acme")
    document = ReleasesDocument.parse(hub.dir.target(quiet, path), path)
    rows = [row.model_copy(update={"published": "2026-01-02T03:04:05Z"}) for row in document.releases]
    hub.revise({path: ReleasesDocument.model_construct(publisher="acme", releases=tuple(rows)).dump()})


def fork(hub):
    entries = entries_of(hub)
    rewrite(hub, [*entries[:-1], entry("release", name="quiet")])


ATTACKS = {
    "a release is removed": lambda hub: rewrite(hub, entries_of(hub)[:2] + entries_of(hub)[3:]),
    "a release is removed and another one added": lambda hub: rewrite(
        hub, [*entries_of(hub)[:2], *entries_of(hub)[3:], entry("release", name="quiet")]
    ),
    "the log forks": fork,
    "the log forks and goes on": lambda hub: rewrite(hub, [*entries_of(hub)[1:], b"x", b"y", b"z"]),
    "an entry comes before all others": lambda hub: rewrite(hub, [b"x", *entries_of(hub)]),
    "two entries change places": lambda hub: rewrite(hub, entries_of(hub)[:3] + entries_of(hub)[:2:-1]),
    "the checkpoint is rolled back": as_of(3),
    "the log begins anew": as_of(1),
    "the log is empty": as_of(0),
    "the checkpoint is signed by another key": lambda hub: rewrite(hub, entries_of(hub), key=OTHER),
    "the log of another registry": lambda hub: rewrite(hub, entries_of(hub), origin="skillhub-registry/other"),
    "the tree is of a size that is to come": lambda hub: rewrite(hub, entries_of(hub), size=6),
    "the tree is of a size beyond all sense": lambda hub: rewrite(hub, entries_of(hub), size=10**15),
    "nobody has signed the checkpoint": resigned(lambda note: Note(note.text, (("x", bytes(72)),))),
    "the signature is forged": resigned(lambda note: Note(note.text, ((note.signatures[0][0], bytes(68)),))),
    "a signature of before on another text": resigned(lambda note: Note(note.text + "x\n", note.signatures)),
    "the subtrees are cut off": doctored(lambda data: data[:-1]),
    "the subtrees are forged": doctored(lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    "the head is no checkpoint": doctored(lambda _: b"<!doctype html>"),
    "the log is no longer announced": without(TARGETS),
    "the announced log has no checkpoint": lambda hub: lose("targets/log/")(hub),
    "the announced log has no metadata": lose("metadata/", ".log.json"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_on_a_known_log_is_refused(hub, client, name):
    before = seen(client)
    if name.startswith("the announced"):
        hub.publish("third")
    ATTACKS[name](hub)
    for wanted in ("hello", "other"):
        with pytest.raises(SecurityError) as caught:
            install(hub, client, wanted)
        assert isinstance(caught.value, (BadLog, Rollback)), caught.value
    assert seen(client) == before


PROOFS = {
    "the proof is cut off": replace_proof(lambda data: data[:-1]),
    "the proof is a hash short": replace_proof(lambda data: data[:-32]),
    "the proof is a hash longer": replace_proof(lambda data: data + bytes(32)),
    "the proof is too large": replace_proof(lambda data: data * 1000),
    "the proof is empty": replace_proof(lambda _: b""),
    "the proof is forged": replace_proof(lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    "the proof is of entries in another order": replace_proof(lambda data: data[32:] + data[:32]),
    "the proof is missing": lose("tile/proof"),
    "the release is at no position": lambda hub: reposition(hub, other=4),
    "the release is at the position of another one": lambda hub: reposition(hub, hello=4, other=4),
    "the release is at the position of a name": lambda hub: reposition(hub, hello=1, other=4),
    "the release is at a position that is to come": lambda hub: reposition(hub, hello=5, other=4),
    "the release is at a position beyond all sense": lambda hub: reposition(hub, hello=10**12, other=4),
    "the release is in no log": unlogged,
    "the log is of another registry": lambda hub: rewrite(hub, entries_of(hub), origin="skillhub-registry/other"),
    "the log was signed by another key": lambda hub: rewrite(hub, entries_of(hub), key=OTHER),
    "the announced log has no checkpoint": lose("targets/log/"),
    "the announced log has no metadata": lose("metadata/", ".log.json"),
}


@pytest.mark.parametrize("name", PROOFS)
def test_attack_on_a_new_client_is_refused(hub, tmp_path, name):
    PROOFS[name](hub)
    with pytest.raises(BadLog):
        install(hub, tmp_path / "new")
    assert not any(path.startswith("archives/") for path in hub.asked)


def test_attack_a_snapshot_without_the_announced_log_is_refused(hub, tmp_path):
    metadata = hub.dir.metadata()
    snapshot = metadata.read(SNAPSHOT)
    del snapshot.meta[f"{LOG}.json"]
    hub.files |= metadata.changed({SNAPSHOT: snapshot}, hub.dir.keys().of, Dates(hub.when)).files()
    with pytest.raises(SecurityError):
        install(hub, tmp_path / "new")


@pytest.mark.parametrize("position", [-1, "2", 2.0, True, None])
def test_attack_an_invalid_position_in_the_log_is_refused(hub, tmp_path, position):
    path = index_path("acme")
    document = json.loads(hub.dir.target(hub.dir.metadata(), path))
    document["releases"][0]["log"] = position
    hub.revise({path: json.dumps(document).encode()})
    with pytest.raises(FormatError, match="expected a position"):
        install(hub, tmp_path / "new")


def test_registry_without_a_log_needs_no_log_request(tmp_path):
    hub = Simulator(tmp_path, bits=1)
    hub.publish()
    assert install(hub, tmp_path / "client")
    assert not any("log" in path or path.startswith(("tile", "checkpoint")) for path in [*hub.asked, *hub.files])
    assert not os.path.exists(tmp_path / "client" / LOG_SEEN)


def test_log_takes_two_requests_and_less_than_10_kb(hub, tmp_path):
    """The log has 300 entries; the subtrees of 100,000 entries take 3 kB more."""
    rewrite(hub, [*entries_of(hub), *(entry("name", name=f"n{number}") for number in range(300))])
    hub.publish("third")
    hub.asked.clear()
    assert install(hub, tmp_path / "new", "hello")
    of_log = [path for path in hub.asked if "log" in path or path.startswith(("tile", "checkpoint"))]
    assert len(of_log) == 2
    plain = Simulator(tmp_path / "plain", bits=1)
    plain.publish()
    plain.publish("other")
    plain.publish("third")
    assert install(plain, tmp_path / "plain-client")
    assert hub.asked.total() == plain.asked.total() + 2
    bytes_of = [sum(len(each.files.get(path, b"")) for path in each.asked) for each in (hub, plain)]
    assert bytes_of[0] - bytes_of[1] < 10_000


def test_grown_log_takes_one_proof(hub, client):
    hub.publish(version="1.1.0")
    hub.asked.clear()
    assert install(hub, client, version="1.1.0")
    assert [path for path in hub.asked if path.startswith("tile")] == ["tile/proof/0/p6"]
    assert seen(client)["size"] == 6
    hub.asked.clear()
    hub.open(client).release_index(["hello"])
    assert not any("log" in path or path.startswith("tile") for path in hub.asked)


def test_each_size_is_consistent_with_earlier_ones(hub, client, tmp_path):
    """Earlier trees end at, before and behind the bounds of subtrees."""
    start = entries_of(hub)
    install(hub, tmp_path / "0")
    sizes = (6, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 1600)
    for number, size in enumerate(sizes):
        rewrite(hub, [*start, *(b"%d" % each for each in range(len(start), size))])
        for folder in [tmp_path / str(each) for each in range(number + 1)][-3:]:
            install(hub, folder)
            assert seen(folder)["size"] == size
        install(hub, tmp_path / str(number + 1))
    install(hub, client)


def test_attack_a_damaged_memory_of_the_log_is_an_error(hub, client):
    with open(client / LOG_SEEN, "w") as file:
        file.write("{}")
    with pytest.raises(StateError):
        install(hub, client)


def test_older_command_does_not_overwrite_a_newer_log_state(hub, client):
    older = hub.open(client)
    hub.publish(version="1.1.0")
    install(hub, client)
    newer = seen(client)
    older.release_index(["hello"])
    assert seen(client) == newer


def test_threads_share_one_request_for_a_proof(hub, tmp_path):
    registry = hub.open(tmp_path / "new")
    index = registry.release_index(["hello", "other"])
    found = []
    threads = [
        threading.Thread(target=lambda name=name: found.append(registry.artifact(index.releases(name)[0])))
        for name in ("hello", "other") * 4
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8
    assert hub.asked["tile/proof/0/p5"] == 1


# Watches of a log.


def watch(hub, folder, name="acme", *, remember=True):
    found = LogWatch(hub.open(folder).log, str(folder), name)
    if remember:
        found.remember()
    return [(each["kind"], each.get("name")) for each in found.entries]


def test_watch_reports_each_entry_once(hub, client):
    assert [kind for kind, _ in watch(hub, client)] == ["key-added", "name", "release", "name", "release"]
    assert watch(hub, client) == []
    hub.publish(version="1.1.0")
    assert watch(hub, client, remember=False) == [("release", "hello")]
    assert watch(hub, client, "other") == [("name", "other"), ("release", "other")]
    assert watch(hub, client) == [("release", "hello")]
    assert watch(hub, client) == []
    assert [name for _, name in watch(hub, client, "")][-1] == "hello"


def test_watch_reads_many_bundles(hub, client):
    start = entries_of(hub)
    watch(hub, client)
    more = [entry("release", name="hello", version=f"2.0.{each}") for each in range(600)]
    rewrite(hub, [*start, *more])
    assert len(watch(hub, client)) == 600


def test_partial_bundle_may_be_served_as_a_full_one(hub, client):
    rewrite(hub, [*entries_of(hub), *(entry("release", name="hello", version=str(each)) for each in range(300))])
    width = 305 - 256
    registry = hub.open(client)
    whole = hub.files.pop(f"tile/entries/001.p/{width}")
    hub.files["tile/entries/001"] = whole + b"\0\1x"
    assert len(list(registry.log.entries())) == 305


def bundle(change):
    def spoil(hub):
        hub.files["tile/entries/000.p/5"] = change(hub.files["tile/entries/000.p/5"])

    return spoil


WATCHED = {
    "the entries are cut off": bundle(lambda data: data[:-1]),
    "an entry is missing": bundle(lambda data: data[: data.rindex(b"\1")]),
    "an entry is forged": bundle(lambda data: data.replace(b"hello", b"jello")),
    "an entry is hidden behind its length": bundle(lambda data: b"\xff\xff" + data[2:]),
    "there are no entries": bundle(lambda _: b""),
    "the entries are missing": lose("tile/entries/"),
    "an entry is no JSON": lambda hub: rewrite(hub, [*entries_of(hub), b"\xff"]),
    "an entry is no object": lambda hub: rewrite(hub, [*entries_of(hub), b"[]"]),
    "an entry has no kind": lambda hub: rewrite(hub, [*entries_of(hub), b"{}"]),
    "an entry has a kind that is none": lambda hub: rewrite(hub, [*entries_of(hub), b'{"kind":[]}']),
    "an entry has a key twice": lambda hub: rewrite(hub, [*entries_of(hub), b'{"kind":"name","kind":"x"}']),
    "the log forks": fork,
}


@pytest.mark.parametrize("name", WATCHED)
def test_attack_on_a_watch_is_refused(hub, client, name):
    WATCHED[name](hub)
    with pytest.raises((BadLog, Rollback)):
        watch(hub, client)
    assert not os.path.exists(client / "log-watched.json")


def test_watch_follows_the_names_of_a_publisher_and_the_keys_of_a_skill(hub, client):
    watch(hub, client)
    watch(hub, client, "hello")
    about = [
        entry("name", name="hello", publisher="thief", former="acme", time="2026-01-02T03:04:05Z"),
        entry("key-added", publisher="thief", fingerprint="sha256:x", time="2026-01-02T03:04:05Z"),
        entry("release", name="hello", publisher="thief", version="6.6.6"),
        entry("release", name="elsewhere", publisher="thief", version="6.6.6"),
    ]
    rewrite(hub, [*entries_of(hub), *about])
    assert watch(hub, client) == [("name", "hello"), ("release", "hello")]
    assert watch(hub, client, "hello") == [("name", "hello"), ("key-added", None), ("release", "hello")]


def test_missing_skill_is_not_found_in_a_registry_with_a_log(hub, client):
    with pytest.raises(NotFound):
        hub.open(client).release_index(["missing"])
