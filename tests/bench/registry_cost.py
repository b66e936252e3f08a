"""The cost of a registry of many publishers for a client: requests and bytes before the artifact, the log, and time.

Every document that the client reads is real: roles, bins and signatures come from the code that operators run
(``skillhub.trust``). All publishers in the bin or namespace document of the requested one exist; of the others, only
the signed entries of their namespace documents exist.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from types import MappingProxyType

from tuf.ngclient.urllib3_fetcher import Urllib3Fetcher

from skillhub.formats.digest import Digest
from skillhub.model.index import Admission, Index, Release, index_path, namespace_path
from skillhub.net.client import Http
from skillhub.net.fetch import PERSON, Requester, Response
from skillhub.server.site import site_server
from skillhub.sources.registry_client import TufRegistry
from skillhub.trust.documents import LISTING_PATH, pinned_documents, signed_documents
from skillhub.trust.keys import PrivateKey
from skillhub.trust.log import (
    CHUNK,
    Checkpoint,
    LogHead,
    leaf_hash,
    nodes_of,
    origin_of,
    parent,
    proof_of,
    proof_path,
    release_entry,
    root_of,
    signed_checkpoint,
    subtrees,
    top_of,
)
from skillhub.trust.registry_metadata import Dates, MetadataSet, path_of
from skillhub.trust.roles import LOG, LOG_HEAD, WELL_KNOWN, key_names, skill_path


@dataclass(frozen=True)
class Size:
    """The size of a registry, and its number of bins."""

    publishers: int
    skills: int
    bin_bits: int
    releases: int = 1

    @property
    def entries(self) -> int:
        """Return the number of entries of its log: a key of each publisher, each name, each release."""
        return self.publishers * (1 + self.skills * (1 + self.releases))


def key(name: str, kind: str = "ed25519") -> PrivateKey:
    return PrivateKey.from_seed(sha256(f"cost {name}".encode()).digest(), kind)


def keys_of(role: str) -> list[PrivateKey]:
    return [key(name) for name in key_names(role)]


def publisher_name(number: int) -> str:
    return f"publisher-{number:06}"


def skill_names(publisher: str, count: int) -> list[str]:
    return [f"{publisher[10:]}-skill-{number}" for number in range(count)]


def releases(publisher: str, size: Size) -> Iterator[Release]:
    for name in skill_names(publisher, size.skills):
        for minor in reversed(range(size.releases)):
            digest = Digest.of(f"{name} {minor}".encode())
            yield Release(
                name=name,
                url=f"archives/{name}/1.{minor}.0/{digest.hex}.zip",
                digest=digest,
                version=f"1.{minor}.0",
                published="2026-01-01T00:00:00Z",
                size=41_000,
                tree=digest,
                publisher=publisher,
                description="Does what it is for, and says when to use it.",
                log=int(digest.hex[:12], 16) % size.entries,
                requires=("env:GITHUB_TOKEN",),
                capabilities=("network:api.github.com", "scripts"),
            )


def site_of(size: Size, asked: str, more: Mapping[str, bytes] = MappingProxyType({})) -> dict[str, bytes]:
    """Return the files of a registry by path, as needed for an install of a skill of ``asked``.

    ``more`` are further targets.
    """
    empty = MetadataSet.create(keys_of, size.bin_bits, Dates(datetime.now(UTC)))
    everybody = [publisher_name(number) for number in range(size.publishers)]
    same_bin = [each for each in everybody if bin_of(each, size) == bin_of(asked, size)]
    bucket = [each for each in everybody if namespace_path(each) == namespace_path(asked)]
    pem = key("publisher", "p256").public.pem.decode()
    admissions = {
        each: Admission(publisher=each, keys=(pem,), names=frozenset(skill_names(each, size.skills)))
        for each in {*same_bin, *bucket}
    }
    shelves: dict[str, tuple[Release, ...]] = {}
    for each in same_bin:
        for release in releases(each, size):
            shelves[release.name] = (*shelves.get(release.name, ()), release)
    index = Index(shelves, admissions)
    names = skill_names(asked, size.skills)
    found = dict(signed_documents(index, same_bin, names))
    targets = {f"ns/{number:02x}.json": found[namespace_path(asked)] for number in range(256)} | found
    head, log = log_of(size, index.skills[names[0]][0], Digest.of(empty.documents["root"]))
    targets = {**targets, LOG_HEAD: head, **more}
    if more:
        del targets[LISTING_PATH]  # the listing is in parts
    metadata = empty.revise(targets, keys_of, Dates(datetime.now(UTC)))
    documents = {
        path_of(target): targets[path]
        for path in (namespace_path(asked), index_path(asked), LOG_HEAD, *more)
        if (target := metadata.find(path))
    }
    documents |= pinned_documents(index, [asked])
    public = {f"{WELL_KNOWN}/{skill_path(name)}": found[skill_path(name)] for name in names}
    return {**metadata.files(), "metadata/1.root.json": metadata.documents["root"], **documents, **public, **log}


def log_of(size: Size, release: Release, root: Digest) -> tuple[bytes, dict[str, bytes]]:
    """Return the head of a log that has this release, and the proof of it; other entries are hashes of no entry."""
    assert release.log is not None
    chunk = release.log >> CHUNK
    leaves = [
        sha256(b"%d" % number).digest() for number in range(chunk << CHUNK, min((chunk + 1) << CHUNK, size.entries))
    ]
    leaves[release.log - (chunk << CHUNK)] = leaf_hash(release_entry(release))
    nodes = nodes_of(leaves, chunk << CHUNK)
    for level in range(CHUNK, top_of(size.entries)):
        index = chunk >> (level - CHUNK)
        nodes[level, index ^ 1] = sha256(b"beside %d" % level).digest()
        nodes[level + 1, index >> 1] = parent(nodes[level, index & ~1], nodes[level, index | 1])
    nodes = {node: sha256(repr(node).encode()).digest() for node in subtrees(size.entries)} | nodes
    checkpoint = Checkpoint(origin_of(root), size.entries, root_of(nodes, size.entries))
    head = LogHead.of(signed_checkpoint(checkpoint, key(LOG)), nodes)
    return head.dump(), {proof_path(chunk, size.entries): proof_of(nodes, chunk, size.entries)}


def bin_of(publisher: str, size: Size) -> int:
    """Return the bin with the index of a publisher, by TAP 15."""
    return int(sha256(index_path(publisher).encode()).hexdigest()[:8], 16) >> (32 - size.bin_bits)


@dataclass
class Counting:
    """A ``Fetcher`` that records the size of each path."""

    http: Http
    seen: Counter[str] = field(default_factory=Counter)
    requests: int = 0

    def get(self, url: str, *, cap: int, named_by: Requester = PERSON) -> Response:
        self.requests += 1
        answer = self.http.get(url, cap=cap, named_by=named_by)
        self.seen[url.split("/", 3)[3]] += len(answer.data)
        return answer


@contextmanager
def served(site: dict[str, bytes]) -> Iterator[str]:
    """Serve these files on loopback; the value is the URL."""
    with tempfile.TemporaryDirectory() as folder:
        for path, data in site.items():
            full = os.path.join(folder, *path.split("/"))
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(data)
        server = site_server(folder, "127.0.0.1", 0)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@dataclass(frozen=True)
class Cost:
    """The cost of one refresh and one look-up."""

    requests: int
    size: int
    seconds: float
    by_path: Counter[str]


def measure(size: Size) -> tuple[Cost, Cost]:
    """Return the cost of a skill before its artifact: on a new machine, and again."""
    asked = publisher_name(size.publishers // 3)
    site = site_of(size, asked)
    name = skill_names(asked, size.skills)[0]
    with served(site) as url, tempfile.TemporaryDirectory() as folder:
        costs = []
        for _ in range(2):
            with Http() as http:
                fetcher, start = Counting(http), time.perf_counter()
                registry = TufRegistry.open(url, site["metadata/1.root.json"], fetcher, folder)
                assert registry.log is not None
                registry.log.require(registry.release_index([name]).releases(name)[0])
                seconds = time.perf_counter() - start
            costs.append(Cost(fetcher.requests, fetcher.seen.total(), seconds, fetcher.seen))
    return costs[0], costs[1]


def fetchers(rounds: int = 5, requests: int = 200) -> dict[str, float]:
    """Return the seconds that a request takes with our fetcher and with python-tuf's own, the better of several."""
    body = bytes(4096)
    with served({"metadata/1.root.json": body}) as url:
        place = f"{url}/metadata/1.root.json"
        theirs = Urllib3Fetcher()
        with Http() as ours:
            calls = {
                "ours": lambda: ours.get(place, cap=len(body)).data,
                "python-tuf's": lambda: theirs.download_bytes(place, len(body)),
            }
            return {name: min(_per_call(call, requests) for _ in range(rounds)) for name, call in calls.items()}


def _per_call(call: Callable[[], bytes], requests: int) -> float:
    start = time.perf_counter()
    for _ in range(requests):
        call()
    return (time.perf_counter() - start) / requests


SIZES = {
    "10,000 publishers of 10 skills": Size(10_000, 10, 8),
    "1,000,000 releases: 10,000 of 10 of 10": Size(10_000, 10, 8, 10),
    "1,000,000 skills: 10,000 of 100": Size(10_000, 100, 8),
    "1,000,000 skills: 100,000 of 10": Size(100_000, 10, 9),
}


def main() -> None:
    """Print the results."""
    for label, size in SIZES.items():
        for state, cost in zip(("cold", "warm"), measure(size), strict=True):
            facts = f"{cost.requests:3} requests {cost.size:8,} bytes {cost.seconds * 1000:6.0f} ms"
            print(f"{label:40} {state}: {facts}")
    found = fetchers()
    ratio = found["ours"] / found["python-tuf's"]
    print(
        f"a request of 4 kB: {', '.join(f'{name} {each * 1e6:.0f} us' for name, each in found.items())}; {ratio:.2f}"
    )


if __name__ == "__main__":
    main()
