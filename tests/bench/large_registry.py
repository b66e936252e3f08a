"""The cost of a release for the operator of a large registry, and of a search for its clients.

``python -m tests.bench.large_registry 1000 10000 100000``
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from skillhub.formats.digest import Digest
from skillhub.model.discovery import PartRow, PinnedPart
from skillhub.model.index import Admission, Index, Release
from skillhub.net.client import Http
from skillhub.registry.build import Setup, add, init
from skillhub.registry.operator import RegistrySettings, Signing, opened
from skillhub.sources.registry_client import TufRegistry
from skillhub.trust.documents import NO_PARTS, PartsWriter, rows_of, signed_documents
from skillhub.trust.registry_rules import keys_of, part_of, searched
from skillhub.trust.roles import PARTS, skill_path
from tests.bench.registry_cost import Counting, Size, key, publisher_name, served, site_of
from tests.support.registry import write_skill

_SKILLS = 10  # skills of a publisher
_ALL_VERBS = "add audit build check clean deploy draft edit fill fix format lint merge parse plan review scan test"
_ALL_THINGS = "api chart cloud code css data docs email form git image json legal log pdf query report table video"
_STEMS = "acme beta core delta edge flux"
_VERBS, _THINGS = _ALL_VERBS.split(), _ALL_THINGS.split()
_PLACES = [f"{one}{two}" for one in _STEMS.split() for two in range(4000)]
_WORDS = [
    f"{one}{two}{three}" for one in "bdfgklmnprst" for two in ("an", "el", "ir", "ot") for three in "abcdefghij"
]


def names(count: int) -> list[str]:
    """Return ``count`` names of skills, made of words of which some are in thousands of names."""
    chance, found = random.Random(18), dict[str, None]()
    while len(found) < count:
        found[f"{chance.choice(_VERBS)}-{chance.choice(_THINGS)}-{chance.choice(_PLACES)}"] = None
    return [*found]


def described(name: str) -> str:
    """Return a description: some words of the name, and rarer words."""
    chance = random.Random(name)
    return (
        f"Use it to {name.replace('-', ' ')}: {' '.join(chance.choices(_WORDS, k=8))}. For {chance.choice(_THINGS)}."
    )


def release(name: str, publisher: str) -> Release:
    digest = Digest.of(name.encode())
    facts = {"digest": digest, "tree": digest, "size": 2_000, "publisher": publisher, "description": described(name)}
    where = f"archives/{name}/1.0.0/{digest.hex}.zip"
    return Release(name=name, url=where, version="1.0.0", published="2026-01-01T00:00:00Z", **facts)


def document_of(name: str) -> bytes:
    index = Index({name: (release(name, "acme"),)})
    return signed_documents(index, [], [name], lambda _: {})[skill_path(name)]


def generate(folder: str, count: int) -> None:
    """Make a registry of ``count`` skills with a listing in parts; only `hello` has an archive."""
    now = datetime.now(UTC)
    init(folder, Setup(settings=RegistrySettings.of("acme", 256).model_copy(update={"listed_whole": 0})), now)
    add(folder, [write_skill(os.path.dirname(folder))], Signing(now=now))
    pem = key("publisher", "p256").public.pem.decode()
    with opened(folder, Signing(now=now)) as hub:
        before = hub.index()
        skills, admissions = dict(before.skills), dict(before.admissions)
        for number, name in enumerate(names(count)):
            publisher = publisher_name(number // _SKILLS)
            known = admissions.get(publisher, Admission(publisher=publisher, keys=(pem,)))
            admissions[publisher] = Admission(publisher=publisher, keys=(pem,), names=known.names | {name})
            skills[name] = (release(name, publisher),)
        mine = sorted({*admissions} - {"acme"})
        hub.publish(Index(skills, admissions), mine, sorted({*skills} - {"hello"}))


def release_once(folder: str) -> dict[str, float]:
    """Publish the next version of `hello` and return its cost; runs alone in its process, for the memory."""
    opens, site = {"read": 0, "written": 0}, os.path.join(folder, "site")

    def opened_file(event: str, args: tuple[object, ...]) -> None:
        if event == "open" and str(args[0]).startswith(site):
            opens["written" if isinstance(args[2], int) and args[2] & os.O_CREAT else "read"] += 1

    source = write_skill(os.path.dirname(folder), version="1.1.0")
    begin = time.time()
    sys.addaudithook(opened_file)
    start = time.process_time()
    add(folder, [source], Signing(now=datetime.now(UTC)))
    spent, opens = time.process_time() - start, dict(opens)
    new = [
        full
        for top, _, files in os.walk(site)
        for each in files
        if os.stat(full := os.path.join(top, each)).st_mtime > begin - 0.02
    ]
    return {
        "files written": len(new),
        "bytes written": sum(map(os.path.getsize, new)),
        "files read": opens["read"],
        "CPU seconds": round(spent, 2),
        "MiB of memory": memory(),
    }


def memory() -> int:
    """Return the peak memory of this process in MiB."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith("VmHWM"))


# A search of a million: the parts that it reads are real, the others are pinned by a digest of nothing.


def parts_of(count: int, texts: Sequence[str]) -> tuple[bytes, dict[str, bytes]]:
    """Return the first part of a registry of ``count`` skills, and the parts below it that these searches read."""
    wanted = {each[:2] for text in texts for each in searched(text)}
    kept: dict[str, dict[str, PartRow]] = {each: {} for each in wanted}
    beside: dict[str, int] = {}
    for name in names(count):
        keys = keys_of(name, described(name))
        rows = rows_of(name, document_of(name)) if any(each[:2] in wanted for each in keys) else {}
        for each in keys:
            if each[:2] in wanted:
                kept[each[:2]][each] = rows[each]
            else:
                beside[each[:2]] = beside.get(each[:2], 0) + 1

    def nothing(prefix: str, _: PinnedPart) -> object:
        return part_of("", None, NO_PARTS, "").model_copy(update={"prefix": prefix})

    writer = PartsWriter(nothing)  # type: ignore[arg-type]
    letters: dict[str, list[object]] = {}
    for each, number in beside.items():
        pin = PinnedPart(Digest.of(each.encode()), 5_000, max(number, 1))
        letters.setdefault(each[0], []).append((each, pin))
    for each, rows in kept.items():
        if rows:
            letters.setdefault(each[0], []).append(writer._of_rows([rows[row_key] for row_key in sorted(rows)]))
    tops = [writer._of_parts(letter, None, below, {}) for letter, below in sorted(letters.items())]
    first = writer._of_parts("", None, tops, {})
    return first.dump(), writer.made


def search_costs(count: int, texts: Sequence[str]) -> Iterator[str]:
    """Yield requests and bytes of each search, for a new client and again."""
    size = Size(count // _SKILLS, _SKILLS, 9)
    first, below = parts_of(count, texts)
    site = site_of(size, publisher_name(size.publishers // 3), {PARTS: first}) | below
    with served(site) as url:
        for text in texts:
            with tempfile.TemporaryDirectory() as folder:
                for state in ("cold", "warm"):
                    with Http() as http:
                        fetcher = Counting(http)
                        registry = TufRegistry.open(url, site["metadata/1.root.json"], fetcher, folder)
                        hits = len(registry.listing(text).skills)
                    seen = fetcher.seen
                    parts = [each for path, each in seen.items() if "/lists/" in path or "_all" in path]
                    cost = f"{fetcher.requests:3} requests {seen.total():8,} bytes"
                    yield f"search {text:16} {state}: {cost}, {len(parts)} parts {sum(parts):7,}, {hits} skills"


def main() -> None:
    """Print the results."""
    if sys.argv[1:2] == ["--release"]:
        print(json.dumps(release_once(sys.argv[2])))
        return
    for count in map(int, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as parent:
            folder = os.path.join(parent, "hub")
            start = time.process_time()
            generate(folder, count)
            print(f"{count:,} skills, made in {time.process_time() - start:.0f} s CPU and {memory()} MiB", flush=True)
            subprocess.run([sys.executable, "-m", "tests.bench.large_registry", "--release", folder], check=True)
    for line in search_costs(1_000_000, ("pdf", "fill pdf", "fill-pdf-acme12", "ban")):
        print(line, flush=True)


if __name__ == "__main__":
    main()
