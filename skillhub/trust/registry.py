"""Judging what a registry's signed documents say: bytes have been verified by now, meaning has not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from skillhub.errors import BadMetadata, FormatError, NameNotOwned, NotFound, SourceMismatch, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import quote
from skillhub.model.index import Admission, Release, Revocation
from skillhub.trust.publishers import Publisher, certificates_of

if TYPE_CHECKING:
    from skillhub.model.discovery import PartDocument, Pinned, PinnedPart
    from skillhub.trust.keys import PublicKey


def refuse_shared(admissions: Iterable[Admission]) -> None:
    """Return if each name has one publisher, which only who reads the documents of all can tell.

    Raises:
        NameNotOwned: a name has two.
    """
    owners: dict[str, str] = {}
    for each in admissions:
        for name in sorted(each.names):
            if (other := owners.setdefault(name, each.publisher)) != each.publisher:
                raise NameNotOwned(
                    f"the name {quote(name)} is given to both {quote(other)} and {quote(each.publisher)}"
                )


def admission_of(name: str, publisher: str, admissions: Mapping[str, Admission]) -> Admission:
    """Return what the registry admits ``publisher`` to, which ``name`` is part of.

    Raises:
        NameNotOwned: the registry has not given the name to that publisher.
    """
    found = admissions.get(publisher)
    if found is None or name not in found.names:
        raise NameNotOwned(f"the registry has not given the name {quote(name)} to {quote(publisher)}")
    return found


def publisher_of(admission: Admission, published: str | None = None) -> Publisher:
    """Return the publisher that a registry vouches for; a key that it has revoked is kept as such.

    Args:
        admission: What the registry says of it.
        published: When the release in question was published (UTC): a revocation from a later time on leaves
            it alone. None holds every revocation against it.

    Raises:
        FormatError: a key or a certificate is none that may sign skills.
    """
    void = (each for each in admission.revoked if published is None or published >= each.since)
    # Its names say nothing of its keys, and to compare a thousand of them a thousand times takes long.
    return _publisher(replace(admission, names=frozenset()), tuple(void))


@lru_cache  # each skill of a command is judged by the same
def _publisher(admission: Admission, void: tuple[Revocation, ...]) -> Publisher:
    # Here and below: where no registry is asked, cryptography and the classes of its documents stay out.
    from skillhub.trust.keys import PublicKey  # noqa: PLC0415

    revoked = {revocation.fingerprint: _revoked_key(revocation) for revocation in void}
    gone = {*revoked, *(key.fingerprint for key in revoked.values())}
    keys = (PublicKey.load(pem.encode()) for pem in admission.keys)
    roots = certificates_of(admission.certificates)
    return Publisher(
        name=admission.publisher,
        keys=tuple(key for key in keys if key.fingerprint not in gone),
        roots=tuple(root for root in roots if root.fingerprint not in gone and root.key.fingerprint not in gone),
        revoked=tuple(revoked.values()),
        former=frozenset(each.fingerprint for each in admission.revoked),
    )


def _revoked_key(revocation: Revocation) -> PublicKey:
    """Return the key that is revoked; of a certificate, the key that it bears."""
    from skillhub.trust.keys import PublicKey  # noqa: PLC0415

    if "CERTIFICATE" in revocation.pem.partition("\n")[0]:
        certificate = certificates_of([revocation.pem])[0]
        key, names = certificate.key, {certificate.fingerprint, certificate.key.fingerprint}
    else:
        key = PublicKey.load(revocation.pem.encode())
        names = {key.fingerprint}
    if revocation.fingerprint not in names:
        raise FormatError(f"expected the key {revocation.fingerprint}, found {key.fingerprint}")
    return key


def released_by(
    admission: Admission, publisher: str, releases: tuple[Release, ...]
) -> Mapping[str, tuple[Release, ...]]:
    """Return the releases of an index document by name.

    Raises:
        NameNotOwned: the document is another publisher's, or one of its names is.
    """
    if publisher != admission.publisher:
        raise NameNotOwned(f"expected the releases of {quote(admission.publisher)}, found {quote(publisher)}'s")
    by_name: dict[str, tuple[Release, ...]] = {}
    for release in releases:
        admission_of(release.name, publisher, {publisher: admission})
        by_name[release.name] = (*by_name.get(release.name, ()), release)
    return by_name


def agrees(release: Release, *, name: str, version: str | None, tree: Digest) -> None:
    """Return if the artifact is what its registry says of it; else old content could be replayed as new.

    Args:
        release: What the registry says.
        name: The name in its ``SKILL.md``.
        version: ``metadata.version`` there.
        tree: The digest of its tree.

    Raises:
        WrongBytes: the tree is another.
        SourceMismatch: the name or the version is another.
    """
    if release.tree not in (None, tree):
        raise WrongBytes(f"expected the tree {release.tree}, found {tree}", where=release.url)
    if release.name != name:
        message = f"expected the skill {quote(release.name)}, its SKILL.md says {quote(name)}"
        raise SourceMismatch(message, where=release.url)
    if release.version not in (None, version):
        message = f"expected version {quote(release.version)}, its SKILL.md says {quote(version)}"
        raise SourceMismatch(message, where=release.url)


def checked(release: Release, data: bytes) -> bytes:
    """Return the artifact of ``release``, whose size and digest it has.

    Raises:
        WrongBytes: it has another.
        NotFound: the release has no digest to check.
    """
    if release.digest is None:
        raise NotFound("the source has no digest of it", where=release.url)
    if release.size is not None and len(data) != release.size:
        raise WrongBytes(f"expected {release.size} bytes, found {len(data)}", where=release.url)
    if (found := Digest.of(data)) != release.digest:
        raise WrongBytes(f"expected {release.digest}, found {found}", where=release.url)
    return data


# The listing of a large registry, in parts: a tree in which each skill stands under its words. Each part pins those
# below it, so that the signature of the first one covers all. What a search reads does not grow with the registry.

ROWS_MAX = 48  # of a part that has none below it
BEST_MAX = 16  # of the rows below a part, which it repeats
DEPTH_MAX = 24  # parts that a client reads for one word
_WORD = re.compile(r"[^\W_]+")
_WORD_MAX = 40
_SEARCHED_MAX = 4
_INDEXED_MAX = 24
_COMMON = frozenset(
    {"and", "are", "can", "for", "from", "into", "not", "that", "the", "this", "use", "used", "uses", "when", "with"}
)  # besides what has less than three letters


def words_of(text: str) -> list[str]:
    """Return the words by which a large listing is searched, each once; of other letters, the hex of their UTF-8."""
    found = (word if word.isascii() else word.encode().hex() for word in _WORD.findall(text.lower()))
    return list(dict.fromkeys(word[:_WORD_MAX] for word in found))


def searched(text: str) -> list[str]:
    """Return how the keys of what a person looks for begin: with all words in their order, and with each of them."""
    words = words_of(text)[:_SEARCHED_MAX]
    return list(dict.fromkeys(filter(None, ("-".join(words), *words))))


def keys_of(name: str, description: str) -> list[str]:
    """Return under what a skill stands: its name, what follows each hyphen in it, the words of its description."""
    parts = name.split("-")
    words = [word for word in words_of(description) if len(word) > 2 and word not in {*_COMMON, *parts}]
    begins = ("-".join(parts[at:]) for at in range(len(parts)))
    return [f"{begin}--{name}." for begin in dict.fromkeys((*begins, *words[:_INDEXED_MAX]))]


def part_of(prefix: str, pinned: PinnedPart | None, data: bytes, where: str) -> PartDocument:
    """Return the part whose keys begin with ``prefix``, of which the one above says ``pinned``.

    Raises:
        BadMetadata: it is another part, or contradicts itself.
        FormatError: it is malformed.
    """
    from skillhub.model.discovery import PartDocument  # noqa: PLC0415

    part = PartDocument.parse(data, where)
    keys, below = [row.key for row in part.rows], part.parts
    count = sum(each.count for each in below.values()) if below else len(keys)
    is_sound = (
        part.prefix == prefix
        and part.count == count == (count if pinned is None else pinned.count)
        and len(keys) <= (BEST_MAX if below else ROWS_MAX)
        and all(row.key.startswith(prefix) and row.key.endswith(f"--{row.name}.") for row in part.rows)
        and (len({*keys}) == len(keys) if below else all(one < other for one, other in pairwise(keys)))
        and all(len(each) > len(prefix) and each.startswith(prefix) for each in below)
        and len({each[len(prefix)] for each in below}) == len(below)
    )
    if not is_sound:
        raise BadMetadata("a part of the listing contradicts itself or the part above it", where=where)
    return part


def skill_of(name: str, data: bytes, where: str) -> tuple[Release, ...]:
    """Return every release in the document of a skill, newest first.

    Raises:
        BadMetadata: it is another skill's.
        FormatError: it is malformed.
    """
    from skillhub.model.discovery import parse_skill  # noqa: PLC0415

    found = parse_skill(data, where)
    if found[0].name != name:
        raise BadMetadata(f"expected the releases of {quote(name)}, found {quote(found[0].name)}'s", where=where)
    return found


def leading_to(part: PartDocument, text: str) -> str | None:
    """Return the one part below that has all keys which begin with ``text``; None if ``part`` is where to stop."""
    if part.prefix.startswith(text):
        return None
    return next((each for each in part.parts if each.startswith(text) or text.startswith(each)), None)


def walk(
    part: PartDocument, text: str, read: Callable[[str, PinnedPart], PartDocument], most: int = DEPTH_MAX
) -> PartDocument:
    """Return the last part on the way from ``part`` to the keys that begin with ``text``, as far as one looks.

    Args:
        part: The first one.
        text: The beginning of a key.
        read: Returns a part that another one pins.
        most: How many parts are read; no key has as many letters as an operator looks for.
    """
    for _ in range(most):
        if (below := leading_to(part, text)) is None:
            break
        part = read(below, part.parts[below])
    return part


def every_part(part: PartDocument, read: Callable[[str, PinnedPart], PartDocument]) -> Iterator[PartDocument]:
    """Yield a part and all below it; ``read`` is as for ``walk``."""
    yield part
    for prefix, pinned in part.parts.items():
        yield from every_part(read(prefix, pinned), read)


def documents_of(part: PartDocument) -> Iterator[tuple[str, Pinned]]:
    """Yield the name of each skill whose document a part pins, and the pin; a part above others repeats rows only."""
    for row in () if part.parts else part.rows:
        if row.document:
            yield row.name, row.document


def part_path(prefix: str) -> str:
    """Return the path of a part as of a target; its name has its digest besides."""
    return f"lists/{prefix}.json"
