"""What is known to be bad here: by the registries of the user, and by the files and mirrors that they name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from skillhub.disk import files
from skillhub.errors import NotFound, SourceError
from skillhub.formats.digest import Digest
from skillhub.formats.text import as_command
from skillhub.model.advisory import CAP, AdvisoryIndex, Said
from skillhub.project.user_state import NO_FILE
from skillhub.sources.configured import Sources

Fetch = Callable[[str], bytes]  # URL -> bytes; it raises SourceError where nobody answers


class Advisories:
    """All of it for one command, read when it is first asked for.

    Args:
        sources: The registries; what each last said counts until it was opened.
        own: Returns what the user names.

    Attributes:
        outdated: Of which mirrors only an earlier answer counts, and why; known once something was looked up.
    """

    def __init__(self, sources: Sources, own: Callable[[], Iterable[Said]] = tuple) -> None:
        self._sources = sources
        self._own = own
        self._heard: dict[Digest, Callable[[], Said]] = {}
        self._index: AdvisoryIndex | None = None
        self.outdated: list[str] = []

    def hear(self, root: Digest, said: Callable[[], Said]) -> None:
        """Take the word of a registry that was opened by now, instead of its last one."""
        if root not in self._heard:
            self._heard[root], self._index = said, None

    def forget(self) -> None:
        """Take it that nothing is known, for who only looks and has told why."""
        self._index = AdvisoryIndex(())

    def known(self) -> AdvisoryIndex:
        """Return everything that is said.

        Raises:
            SourceError, SecurityError, FormatError, StateError: nobody can tell what a registry or a file says.
        """
        if self._index is None:
            roots = [each.root for each in self._sources.all().values() if each.root and each.root not in self._heard]
            before = [self._sources.last_seen(root).advisories(root) for root in roots]
            mine = [*self._own()]
            self.outdated = [each.outdated for each in mine if each.outdated]
            self._index = AdvisoryIndex([*before, *(each() for each in self._heard.values()), *mine])
        return self._index


def own_advisories(places: Iterable[str], base: str, state: str, fetch: Fetch) -> Iterator[Said]:
    """Yield what the files and mirrors say that a user names; where a mirror does not answer, what it said last.

    Args:
        places: Paths, relative ones below ``base``, and URLs.
        base: The folder of the user's settings.
        state: Where the last answer of each mirror is kept.
        fetch: Asks a mirror.

    Raises:
        NotFound: a file is not there.
        SourceError: a mirror does not answer, and never did.
        FormatError: what one says is no list of advisories or digests.
        StateError: the disk refuses.
    """
    for place in places:
        if "://" not in place:
            data = files.read(os.path.realpath(os.path.join(base, os.path.expanduser(place))), CAP)
            if data is None:
                raise NotFound("there is no file with advisories", where=place, hint=NO_FILE)
            yield Said.parse(data, place)
            continue
        kept = os.path.join(state, "advisories", f"{Digest.of(place.encode()).hex}.json")
        try:
            data = fetch(place)
            said = Said.parse(data, place)
            files.write_atomic(kept, data, mode=0o600, sync=False)
            yield said
        except SourceError as error:
            last = files.read(kept, CAP)
            if last is None:
                error.hint = f"its first answer is needed: {as_command('skillhub', 'audit')} asks it"
                raise
            yield replace(Said.parse(last, kept), outdated=f"{place} was not contacted: {error.message}")
