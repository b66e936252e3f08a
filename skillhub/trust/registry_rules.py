"""The rules for a registry's signed documents, whose bytes are verified already, and the parts of a large listing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from skillhub.errors import BadMetadata, NameNotOwned, NotFound, SourceMismatch, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import grouped, quote
from skillhub.model.index import Admission, Release, Releases

if TYPE_CHECKING:
    from skillhub.model.discovery import PartDocument, Pinned, PinnedPart, ReadPart


def refuse_shared(admissions: Iterable[Admission]) -> None:
    """Raise unless each name has one publisher; ``admissions`` are those of all publishers.

    Raises:
        NameNotOwned: a name has two publishers.
    """
    owners: dict[str, str] = {}
    for admission in admissions:
        for name in sorted(admission.names):
            if (owner := owners.setdefault(name, admission.publisher)) != admission.publisher:
                publishers = f"{quote(owner)} and {quote(admission.publisher)}"
                raise NameNotOwned(f"the name {quote(name)} is given to both {publishers}")


def admission_of(name: str, publisher: str, admissions: Mapping[str, Admission]) -> Admission:
    """Return the admission of ``publisher``, which must include ``name``.

    Raises:
        NameNotOwned: the registry has not given the name to the publisher.
    """
    admission = admissions.get(publisher)
    if admission is None or name not in admission.names:
        raise NameNotOwned(f"the registry has not given the name {quote(name)} to {quote(publisher)}")
    return admission


def released_by(admission: Admission, publisher: str, releases: tuple[Release, ...]) -> Releases:
    """Return the releases of an index document by name.

    Raises:
        NameNotOwned: the document is that of another publisher, or another publisher owns one of its names.
    """
    if publisher != admission.publisher:
        raise NameNotOwned(f"expected the releases of {quote(admission.publisher)}, found {quote(publisher)}'s")
    by_name = grouped((release.name, release) for release in releases)
    for name in by_name:
        admission_of(name, publisher, {publisher: admission})
    return by_name


def agrees(release: Release, *, name: str, version: str | None, tree: Digest) -> None:
    """Raise unless an artifact matches its release; otherwise old content could be replayed as a new release.

    Args:
        release: The release that the registry signs.
        name: The name in the artifact's ``SKILL.md``.
        version: ``metadata.version`` there.
        tree: The digest of the artifact's tree.

    Raises:
        WrongBytes: the release has another tree.
        SourceMismatch: the release has another name or version.
    """
    if release.tree not in (None, tree):
        raise WrongBytes(f"expected the tree {release.tree}, found {tree}", where=release.url)
    if release.name != name:
        raise SourceMismatch(f"expected {quote(release.name)}, SKILL.md says {quote(name)}", where=release.url)
    if release.version not in (None, version):
        raise SourceMismatch(f"expected {quote(release.version)}, SKILL.md says {quote(version)}", where=release.url)


def checked(release: Release, data: bytes) -> bytes:
    """Return ``data`` if it has the size and digest of ``release``.

    Raises:
        WrongBytes: the size or digest differs.
        NotFound: the release has no digest.
    """
    if release.digest is None:
        raise NotFound("the release has no digest", where=release.url)
    if release.size is not None and len(data) != release.size:
        raise WrongBytes(f"expected {release.size} bytes, found {len(data)}", where=release.url)
    if (digest := Digest.of(data)) != release.digest:
        raise WrongBytes(f"expected {release.digest}, found {digest}", where=release.url)
    return data


# The listing of a large registry, in parts: a tree in which each skill has a row under each of its words. Each part
# pins those below it, so that the signature of the first one covers all. A search reads few parts of any registry.

ROWS_MAX = 48  # rows of a part without parts below it
BEST_MAX = 16  # rows that a part repeats from those below it
DEPTH_MAX = 24  # parts that a client reads for one word
_WORD = re.compile(r"[^\W_]+")
_WORD_MAX = 40
_SEARCHED_MAX = 4
_INDEXED_MAX = 24
_COMMON = frozenset(
    {"and", "are", "can", "for", "from", "into", "not", "that", "the", "this", "use", "used", "uses", "when", "with"}
)  # besides words of less than three letters


def words_of(text: str) -> list[str]:
    """Return the words of a text for the large listing, each once; words outside ASCII as the hex of their UTF-8."""
    words = (word if word.isascii() else word.encode().hex() for word in _WORD.findall(text.lower()))
    return list(dict.fromkeys(word[:_WORD_MAX] for word in words))


def searched(text: str) -> list[str]:
    """Return the beginnings of keys for a searched text: all its words in their order, and each word alone."""
    words = words_of(text)[:_SEARCHED_MAX]
    return list(dict.fromkeys(filter(None, ("-".join(words), *words))))


def keys_of(name: str, description: str) -> list[str]:
    """Return the keys of a skill: its name, the rest of the name after each hyphen, the words of its description."""
    parts = name.split("-")
    words = [word for word in words_of(description) if len(word) > 2 and word not in {*_COMMON, *parts}]
    begins = ("-".join(parts[start:]) for start in range(len(parts)))
    return [f"{begin}--{name}." for begin in dict.fromkeys((*begins, *words[:_INDEXED_MAX]))]


def part_of(prefix: str, pinned: PinnedPart | None, data: bytes, where: str) -> PartDocument:
    """Return the part whose keys begin with ``prefix``, and which the part above pins as ``pinned``.

    Raises:
        BadMetadata: the document is another part, or contradicts itself or the pin.
        FormatError: the document is malformed.
    """
    from skillhub.model.discovery import PartDocument  # noqa: PLC0415

    part = PartDocument.parse(data, where)
    keys, below = [row.key for row in part.rows], part.parts
    count = sum(part.count for part in below.values()) if below else len(keys)
    is_sound = (
        part.prefix == prefix
        and part.count == count
        and (pinned is None or pinned.count == count)
        and len(keys) <= (BEST_MAX if below else ROWS_MAX)
        and all(row.key.startswith(prefix) and row.key.endswith(f"--{row.name}.") for row in part.rows)
        and (len({*keys}) == len(keys) if below else all(earlier < later for earlier, later in pairwise(keys)))
        and all(len(longer) > len(prefix) and longer.startswith(prefix) for longer in below)
        and len({longer[len(prefix)] for longer in below}) == len(below)
    )
    if not is_sound:
        raise BadMetadata("a part of the listing contradicts itself or the part above it", where=where)
    return part


def skill_of(name: str, data: bytes, where: str) -> tuple[Release, ...]:
    """Return every release in the document of a skill, newest first.

    Raises:
        BadMetadata: the document is that of another skill.
        FormatError: the document is malformed.
    """
    from skillhub.model.discovery import parse_skill  # noqa: PLC0415

    releases = parse_skill(data, where)
    if releases[0].name != name:
        raise BadMetadata(f"expected the releases of {quote(name)}, found {quote(releases[0].name)}'s", where=where)
    return releases


def leading_to(part: PartDocument, text: str) -> str | None:
    """Return the prefix of the one part below that has all keys beginning with ``text``; None to stop at ``part``."""
    if part.prefix.startswith(text):
        return None
    return next((prefix for prefix in part.parts if prefix.startswith(text) or text.startswith(prefix)), None)


def walk(part: PartDocument, text: str, read: ReadPart, most: int = DEPTH_MAX) -> PartDocument:
    """Return the lowest part on the path from ``part`` to the keys that begin with ``text``.

    Args:
        part: The first part.
        text: The beginning of a key.
        read: Returns a part that another one pins.
        most: The limit on the parts to read; an operator uses the length of a whole key, which is never reached.
    """
    for _ in range(most):
        if (below := leading_to(part, text)) is None:
            break
        part = read(below, part.parts[below])
    return part


def every_part(part: PartDocument, read: ReadPart) -> Iterator[PartDocument]:
    """Yield a part and all below it; ``read`` is as for ``walk``."""
    yield part
    for prefix, pinned in part.parts.items():
        yield from every_part(read(prefix, pinned), read)


def documents_of(part: PartDocument) -> Iterator[tuple[str, Pinned]]:
    """Yield the name and the pin of each document that a part pins; a part above others pins none."""
    for row in () if part.parts else part.rows:
        if row.document:
            yield row.name, row.document


def part_path(prefix: str) -> str:
    """Return the path of a part as a target; the served name has the digest, too."""
    return f"lists/{prefix}.json"
