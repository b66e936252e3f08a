"""A whole registry of a million skills on the disk, and its cost for the operator and clients.

``python -m tests.bench.whole_registry DIR 1000000`` writes every signed document, part of the listing, public
document, list and file of the log with the code that operators run, in several processes and without an fsync for
each file. Only the ten skills that are installed have archives. The index below the name of each skill, for clients
that read no list, is also left out (four folders for each skill).
``python -m tests.bench.whole_registry DIR`` publishes in the registry and runs its clients.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from multiprocessing import get_context
from typing import BinaryIO

from skillhub.formats.digest import Digest
from skillhub.model.discovery import PartDocument, PartRow, Pinned
from skillhub.model.index import Admission, Index
from skillhub.registry.build import Setup, add, init
from skillhub.registry.operator import RegistrySettings, Signing, opened
from skillhub.trust.documents import PartsWriter, pinned_documents, rows_of, shard_path, shards, signed_documents
from skillhub.trust.registry_metadata import path_of, pinned_target
from skillhub.trust.roles import PARTS, WELL_KNOWN, skill_path
from tests.bench.large_registry import memory, names
from tests.bench.large_registry import release as release_of
from tests.bench.registry_cost import key, publisher_name
from tests.support.registry import write_skill

_COLOURS = "blue gold gray jade lime mint pink plum rose teal"
OWN = [f"hello-{word}" for word in _COLOURS.split()]
_OF_PUBLISHER = 10
_LETTERS = 2  # length of the key prefix by which rows are split; one process makes the parts of one prefix
_PROCESSES = 3
_work: dict[str, object] = {}  # inherited by forked processes


def make(folder: str, count: int) -> None:
    """Make a registry of ``count`` skills, ten to a publisher; the ten of ``acme`` have archives."""
    start = time.time()

    def say(text: str) -> None:
        spent = sum(os.times()[:4])
        print(f"{time.time() - start:6.0f} s, {spent:5.0f} s CPU: {text}", flush=True)

    now = datetime.now(UTC)
    init(folder, Setup(settings=RegistrySettings.of("acme", 512).model_copy(update={"listed_whole": 0})), now)
    add(folder, [write_skill(os.path.dirname(folder), name) for name in OWN], Signing(now=now))
    every = names(count - len(OWN))
    lists: dict[str, list[tuple[int, str]]] = {}
    for at, name in enumerate(every):
        lists.setdefault(shard_path(name), []).append((at, name))
    _work.update(folder=folder, lists=lists, spool=os.path.join(folder, "rows"))
    os.makedirs(os.path.join(folder, "rows"))
    for path in ("targets/skills", "targets/lists", f"{WELL_KNOWN}/skills", f"{WELL_KNOWN}/lists"):
        os.makedirs(os.path.join(folder, "site", path), exist_ok=True)
    _put_aside(_own_rows(folder))
    say(f"{count:,} names")
    with ProcessPoolExecutor(_PROCESSES, get_context("fork")) as pool:  # a fork has ``_work``
        for number, _ in enumerate(pool.map(_of_shard, range(256)), 1):
            if number % 32 == 0:
                say(f"documents of {number} of 256 lists")
        starts = sorted({name.partition(" ")[0] for name in os.listdir(os.path.join(folder, "rows"))})
        tops: list[PartDocument] = []
        for number, top in enumerate(pool.map(_of_start, starts), 1):
            tops.append(top)
            if number % 100 == 0:
                say(f"parts of {number} of {len(starts)} beginnings")
    writer = PartsWriter(lambda *_: None)  # type: ignore[arg-type, return-value]
    letters = groupby(tops, key=lambda part: part.rows[0].key[0] if len(part.prefix) < 1 else part.prefix[0])
    first = writer._of_parts("", None, [one for _, below in letters if (one := _above([*below], writer))], {})
    _write(writer.made)
    os.rmdir(os.path.join(folder, "rows"))
    say("the listing")
    _sign(folder, every, first.dump(), now)
    say("all is signed")


def _above(below: list[PartDocument], writer: PartsWriter) -> PartDocument | None:
    return writer._of_parts(below[0].prefix[0], None, below, {})


def _own_rows(folder: str) -> Iterator[PartRow]:
    with opened(folder, Signing(now=datetime.now(UTC))) as hub:
        for name in OWN:
            yield from rows_of(name, hub.large.document(name)).values()


def _of_shard(number: int) -> None:
    """Write the documents of the skills in one of the public lists, and the list."""
    path = f"{WELL_KNOWN}/lists/{number:02x}.json"
    rows, files, skills = [], {}, {}
    for at, name in _work["lists"].get(path, ()):
        found = release_of(name, publisher_name(at // _OF_PUBLISHER))
        data = signed_documents(Index({name: (found,)}), [], [name], lambda _: {})[skill_path(name)]
        pin = Pinned(Digest.of(data), len(data))
        files[path_of(pinned_target(skill_path(name), pin))] = data
        rows += rows_of(name, data).values()
        skills[name] = (found,)
    _write(files)
    for each in files:
        name = each.rpartition("/")[2].partition(".")[2]
        os.link(_full(each), _full(f"{WELL_KNOWN}/skills/{name}"))
    _put_aside(rows)
    before = {path: data} if (data := _read(path)) else {}
    _write(shards(Index(skills), skills, before.get))


def _put_aside(rows: Iterable[PartRow]) -> None:
    groups: dict[str, list[str]] = {}
    for row in rows:
        pin = row.document and [row.document.digest.hex, row.document.size]
        facts = (row.key, row.name, row.publisher, row.version, row.description, pin)
        groups.setdefault(row.key[:_LETTERS], []).append(json.dumps(facts))
    for start, lines in groups.items():
        with open(os.path.join(_work["spool"], f"{start} {os.getpid()}"), "a", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))


def _of_start(start: str) -> PartDocument:
    """Write the parts below the part of all keys with this start; return that part."""
    rows = []
    for name in os.listdir(_work["spool"]):
        if name.partition(" ")[0] == start:
            with open(os.path.join(_work["spool"], name), encoding="utf-8") as file:
                rows += map(_row, file)
            os.remove(os.path.join(_work["spool"], name))
    rows.sort(key=lambda row: row.key)
    writer = PartsWriter(lambda *_: None)  # type: ignore[arg-type, return-value]
    found = writer._of_rows(rows)
    _write(writer.made)
    return found


def _row(line: str) -> PartRow:
    found, name, publisher, version, text, pin = json.loads(line)
    facts = {"key": found, "name": name, "publisher": publisher, "version": version, "description": text}
    pinned = pin and Pinned(Digest(f"sha256:{pin[0]}"), pin[1])
    return PartRow.model_construct(None, **facts, yanked=None, withdrawn=None, document=pinned)


def _sign(folder: str, every: list[str], first: bytes, now: datetime) -> None:
    """Sign and log everything; only metadata is written like an operator's."""
    pem = key("publisher", "p256").public.pem.decode()
    with opened(folder, Signing(now=now)) as hub:
        before = hub.index()
        skills, admissions = dict(before.skills), dict(before.admissions)
        for at in range(0, len(every), _OF_PUBLISHER):
            publisher, mine = publisher_name(at // _OF_PUBLISHER), every[at : at + _OF_PUBLISHER]
            admissions[publisher] = Admission(publisher=publisher, keys=(pem,), names=frozenset(mine))
            skills.update({name: (release_of(name, publisher),) for name in mine})
        index, head, logged = hub._logged(Index(skills, admissions), hub.metadata, [])
        _write(logged)
        del logged, skills
        signed = signed_documents(index, admissions, [], hub.pins) | {PARTS: first} | head
        revised = hub.metadata.revise(signed, hub.keys.of, hub.dates)
        _write(pinned_documents(index, admissions))
        _write({path_of(target): data for path, data in signed.items() if (target := revised.find(path))})
        hub.serve(revised)


def _full(path: str) -> str:
    return os.path.join(str(_work["folder"]), "site", *path.split("/"))


def _read(path: str) -> bytes | None:
    with suppress(FileNotFoundError), open(_full(path), "rb") as file:
        return file.read()
    return None


def _write(files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        try:
            file = open(_full(path), "wb")  # noqa: SIM115 - closed below
        except FileNotFoundError:
            os.makedirs(os.path.dirname(_full(path)), exist_ok=True)
            file = open(_full(path), "wb")  # noqa: SIM115
        with file:
            file.write(data)


# The cost of a release for its operator.


def release(folder: str, name: str, version: str) -> dict[str, object]:
    """Publish a version of a skill and return its cost; runs alone in its process, for the memory."""
    read, written, site = set[str](), set[str](), os.path.join(folder, "site")

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event == "open" and str(args[0]).startswith(site):
            read.add(str(args[0]))
        elif event == "os.rename":
            at = f"/proc/self/fd/{args[3]}/" if args[3] != -1 else ""
            written.add(os.path.realpath(f"{at}{os.fsdecode(args[1])}"))  # type: ignore[arg-type]

    with tempfile.TemporaryDirectory() as parent:
        source = write_skill(parent, name, version)
        sys.addaudithook(hook)
        start = time.process_time()
        add(folder, [source], Signing(now=datetime.now(UTC)))
        spent = time.process_time() - start
        new = [each for each in written if each.startswith(site)]
    sizes = sorted((os.path.getsize(each), os.path.relpath(each, site)) for each in new)
    return {
        "files written": len(new),
        "bytes written": sum(size for size, _ in sizes),
        "the largest": [f"{size:,} {path}" for size, path in sizes[-4:]],
        "files read": len(read - written),
        "CPU seconds": round(spent, 2),
        "MiB of memory": memory(),
    }


# The cost for its clients: the real program in separate processes.


class _Plain(SimpleHTTPRequestHandler):
    """A plain static server that counts what it sends: requests, and bytes without headers."""

    protocol_version = "HTTP/1.1"
    counted: list[int]

    def copyfile(self, source: BinaryIO, outputfile: BinaryIO) -> None:  # type: ignore[override]
        data = source.read()
        self.counted[1] += len(data)
        outputfile.write(data)

    def log_request(self, *_: object) -> None:
        self.counted[0] += 1

    def log_error(self, *_: object) -> None:
        """Keep silent."""


@contextmanager
def _served(folder: str) -> Iterator[tuple[str, list[int]]]:
    counted = [0, 0]
    handler = type("_Counting", (_Plain,), {"counted": counted})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=os.path.join(folder, "site")))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", counted
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Client:
    """A user with a home and a project of their own."""

    def __init__(self, parent: str, name: str, counted: list[int]) -> None:
        self._place, self._name, self._counted = os.path.join(parent, name), name, counted
        os.makedirs(os.path.join(self._place, "project", ".claude"))

    def run(self, *words: str) -> None:
        """Run a command; print the requests and bytes of the server."""
        before = [*self._counted]
        env = {"HOME": self._place, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        command = [sys.executable, "-I", "-m", "skillhub", *words]
        done = subprocess.run(command, cwd=f"{self._place}/project", env=env, capture_output=True, text=True)
        spent = [now - then for now, then in zip(self._counted, before, strict=True)]
        first = (done.stdout or done.stderr).partition("\n")[0][:70]
        cost = f"{spent[0]:3} requests {spent[1]:8,} bytes, exit {done.returncode}"
        print(f"{self._name:9} {' '.join(words[:3])[:34]:34} {cost}: {first}", flush=True)


def use(folder: str) -> None:
    """Publish in a made registry; print the cost for operator and clients."""

    def released(name: str, version: str) -> None:
        found = subprocess.run([*_ME, folder, name, version], check=True, capture_output=True, text=True)
        print(f"add {name} {version}: {found.stdout.strip()}", flush=True)

    print(f"{len(os.listdir(os.path.join(folder, 'site/targets/lists'))):,} parts", flush=True)
    with tempfile.TemporaryDirectory() as parent, _served(folder) as (url, counted):
        with opened(folder, Signing(now=datetime.now(UTC))) as hub:
            pinned = ("source", "add", "big", url, "--fingerprint", str(hub.registry.fingerprint()), "--yes")
        searching, installing = (_Client(parent, name, counted) for name in ("searches", "installs"))
        steps: Sequence[tuple[_Client, tuple[str, ...]]] = (
            (searching, pinned),
            (searching, ("search", "pdf")),
            (searching, ("search", "pdf")),
            (searching, ("search", "fill pdf")),
            (searching, ("search", "hello-jade")),
            (searching, ("search", "helo-jade")),
            (installing, pinned),
            (installing, ("install", "big:hello-jade", "--yes")),
            (installing, ("install", "big:hello-mint", "--yes")),
            (installing, ("update", "--check")),
        )
        for client, words in steps:
            client.run(*words)
        released("hello-jade", "1.1.0")
        installing.run("update", "--check")
        installing.run("update", "--yes")
        searching.run("search", "pdf")
        searching.run("search", "hello-jade")
        released("hello-white", "1.0.0")
        installing.run("install", "big:hello-white", "--yes")


_ME = [sys.executable, "-m", "tests.bench.whole_registry"]


def main() -> None:
    """Make it, use it, or publish in it."""
    folder, *rest = sys.argv[1:]
    if len(rest) == 2:
        print(json.dumps(release(os.path.abspath(folder), *rest)))
    elif rest:
        make(os.path.abspath(folder), int(rest[0]))
    else:
        use(os.path.abspath(folder))


if __name__ == "__main__":
    main()
