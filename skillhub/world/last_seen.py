"""What registries said when they were last asked, read off the documents that were verified and kept then.

A release that was withdrawn, or a key that was revoked, stays refused without a network, and without TUF.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated

from skillhub.errors import FormatError, NameNotOwned, StateError
from skillhub.model import time as times
from skillhub.model.index import DOCUMENT_CAP, parse_namespaces, parse_releases
from skillhub.model.release import Admission, Index, Release
from skillhub.model.syntax.document import Document, Members, Read, text_that
from skillhub.model.syntax.json import strict_json
from skillhub.model.text import is_name
from skillhub.trust.registry import admitted
from skillhub.trust.roles import index_path, namespace_path, publisher_path
from skillhub.world import files

HINTS = "publishers.json"


def kept(folder: str, target: str) -> str:
    """Return where the document of a target lies once it is verified."""
    return os.path.join(folder, "targets", target.replace("/", "%2F"))


def owners(folder: str) -> Mapping[str, str]:
    """Return who owned which name when it was last seen: a hint, which the signed documents must bear out."""
    # Written without being flushed: after a power cut it may be torn, and is then no worse than absent.
    with suppress(FormatError, StateError):
        data = files.read(os.path.join(folder, HINTS), DOCUMENT_CAP) or b"{}"
        return _Owners.parse({"owners": strict_json(data, HINTS, DOCUMENT_CAP)}, HINTS).owners
    return {}


class _Owners(Document):
    owners: Members[str, Annotated[str, Read(text_that(is_name, "a publisher"))]]


@dataclass(frozen=True, slots=True)
class _Said:
    """What was signed about one publisher."""

    admission: Admission | None
    skills: Mapping[str, tuple[Release, ...]]


class LastSeen:
    """The word of one registry as it was last heard on this machine; nothing at all if it never was.

    Args:
        folder: Where its trusted metadata is kept.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._said: dict[str, _Said] = {}

    def index(self, names: Iterable[str]) -> Index:
        """Return the releases of these names, as far as any were seen, and the publishers that they are said to have.

        One that the registry no longer admits is here with no name of its own; where the document is not at hand, or
        is damaged, there is no admission at all.
        """
        skills: dict[str, tuple[Release, ...]] = {}
        admissions: dict[str, Admission] = {}
        for name in names:
            publisher = self._owners.get(name)
            if publisher is None:
                continue
            said = self._of(publisher)
            if name in said.skills:
                skills[name] = said.skills[name]
            if said.admission is not None:
                admissions[publisher] = said.admission
        return Index(skills, admissions)

    @property
    def refreshed(self) -> str | None:
        """When the registry was last asked (UTC); None if never."""
        try:
            changed = os.stat(os.path.join(self._folder, "timestamp.json")).st_mtime
        except OSError:
            return None
        return times.spell(datetime.fromtimestamp(changed, UTC))

    @cached_property
    def _owners(self) -> Mapping[str, str]:
        return owners(self._folder)

    def _of(self, publisher: str) -> _Said:
        if publisher not in self._said:
            self._said[publisher] = _Said(self._admission(publisher), self._skills(publisher))
        return self._said[publisher]

    def _admission(self, publisher: str) -> Admission | None:
        # A neighbour's document may be newer here than the publisher's own: what the bucket pins by now was
        # perhaps never asked for, or withheld, and that must not make a revocation forgotten that was heard of.
        bucket, path = (
            kept(self._folder, each) for each in (namespace_path(publisher), publisher_path(publisher))
        )
        with suppress(FormatError, NameNotOwned, StateError):
            if publisher not in parse_namespaces(files.read(bucket, DOCUMENT_CAP) or b"", bucket):
                return Admission(publisher=publisher)
            return admitted(publisher, files.read(path, DOCUMENT_CAP) or b"", path)
        return None

    def _skills(self, publisher: str) -> Mapping[str, tuple[Release, ...]]:
        path = kept(self._folder, index_path(publisher))
        found: dict[str, list[Release]] = {}
        with suppress(FormatError, StateError):
            for release in parse_releases(files.read(path, DOCUMENT_CAP) or b"", path)[1]:
                found.setdefault(release.name, []).append(release)
        return {name: tuple(releases) for name, releases in found.items()}
