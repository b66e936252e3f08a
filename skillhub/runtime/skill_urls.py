"""Skills at URLs that a host's settings name (OpenCode's ``skills.urls``), fetched with the host's own client."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from string import punctuation
from typing import Any
from urllib.parse import quote as percent_encoded
from urllib.parse import urlsplit

from skillhub.archive.limits import Entry
from skillhub.archive.unpack import gather
from skillhub.disk.files import read
from skillhub.errors import FormatError, SkillhubError, SourceError, StateError
from skillhub.formats.digest import Digest
from skillhub.formats.json import strict_json
from skillhub.formats.text import is_name, quote
from skillhub.model.discovery import FilesListing, url_of
from skillhub.model.hosts import Profile
from skillhub.model.hosts import profile as profile_of
from skillhub.model.index import Release
from skillhub.model.manifest import Manifest
from skillhub.model.skill import Problem, check_paths
from skillhub.model.tree import File, Tree
from skillhub.runtime.discover import Surroundings, folder_for
from skillhub.runtime.folder import Agreed, Folder
from skillhub.runtime.state import layers
from skillhub.runtime.walk import reason_of, write_own

Fetch = Callable[[str], bytes]  # returns the body at a URL; raises OSError or SkillhubError
_STATE_CAP = 1 << 24


@dataclass(frozen=True, slots=True)
class Pulled:
    """The skills that ``pull`` fetched or found in its cache.

    Attributes:
        folders: Folders to search, for ``Surroundings.extra``; each is named for the tree that it must hold.
        trees: The tree of each skill, by the canonical path of its folder.
        problems: The URLs and skills that were skipped, and why.
    """

    folders: tuple[str, ...] = ()
    trees: Mapping[str, Digest] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def urls_of(profile: Profile | str, around: Surroundings) -> dict[str, str]:
    """Return each URL in the host's settings, with the file that names it; a repository may bring that file.

    Raises:
        UsageError: there is no host of that name.
    """
    files: dict[str, str] = {}
    for layer in layers(profile_of(profile), around)[0]:
        for url in layer.urls:
            files.setdefault(url, layer.file.path if layer.file else "")
    return files


def pull(urls: Iterable[str], fetch: Fetch, folder: str, reload: bool = False) -> Pulled:
    """Fetch the skills that ``<url>/index.json`` lists, each with its ``files[]``, into a cache by digest.

    A skill in the cache is hashed, and fetched again only with ``reload``. If an index or a file of a listed skill is
    unreachable, the trees that were pulled before are returned, and the failure is reported. Broken entries are
    skipped and reported; their earlier trees, and those of skills that are no longer listed, are dropped. No one
    signs these skills: ask the user first, above all about a URL that a repository names.

    Args:
        urls: Base URLs: https, or http on this machine's loopback.
        fetch: Returns the body at a URL, and decides which hosts requests may reach. If it cannot, it raises an
            ``OSError`` or a ``SkillhubError``, which becomes a problem; any other exception ends the call.
        folder: The folder of the cache, absolute.
        reload: Whether to fetch everything again.

    Raises:
        UsageError: ``folder`` is no valid path.
    """
    check_paths(folder)
    folder = os.path.realpath(folder)  # the paths of skills in a catalogue are canonical
    trees: dict[str, Digest] = {}
    problems: list[Problem] = []
    for url in dict.fromkeys(urls):
        try:
            pulled = _Base(url, fetch, folder, reload)
            trees |= pulled.skills(problems)
        except (SkillhubError, OSError) as error:
            problems.append(_problem(url, error))
    return Pulled(tuple(map(os.path.dirname, trees)), trees, tuple(problems))


class _Base:
    """One base URL, and the skills that were pulled from it before."""

    def __init__(self, url: str, fetch: Fetch, folder: str, reload: bool) -> None:
        url = _requestable(url)
        self.index_url = url if url.endswith("/index.json") else f"{url.rstrip('/')}/index.json"
        self._fetch, self._folder, self._reload = fetch, folder, reload
        name = sha256(self.index_url.encode("utf-8", "surrogatepass")).hexdigest()
        self._record = os.path.join(folder, f"{name}.json")

    def skills(self, problems: list[Problem]) -> dict[str, Digest]:
        """Return the tree of each skill by its folder, and append to ``problems`` one for each skipped entry."""
        recorded = self._stored()
        try:
            entries = FilesListing.parse(self._fetch(self.index_url), self.index_url).offered(self.index_url)
        except (OSError, SourceError) as error:
            problems.append(_problem(self.index_url, error))
            return self._cached(recorded)
        trees: dict[str, Digest] = {}
        record: dict[str, tuple[str, list[str]]] = {}
        for number, entry in enumerate(entries):
            where = f"{self.index_url}: skills[{number}]"
            if isinstance(entry, FormatError):
                problems.append(_problem(where, entry))
                continue
            row = recorded.get(entry.name)
            try:
                path, tree = self._skill(entry, row)
                trees[path] = tree
                record[entry.name] = str(tree), [*entry.files]
            except (SkillhubError, OSError) as error:
                problems.append(_problem(where, error))
                # The index still lists the skill: a failed request or write proves nothing about the earlier tree.
                if row is not None and isinstance(error, (OSError, SourceError, StateError)):
                    record[entry.name] = row
                    trees |= self._cached({entry.name: row})
        with suppress(StateError):
            write_own(self._record, json.dumps(record, sort_keys=True).encode())
        return trees

    def _cached(self, rows: Mapping[str, tuple[str, list[str]]]) -> dict[str, Digest]:
        """Return the tree of each recorded skill whose folder still holds it, by its folder."""
        parsed = ((name, Digest.parse(tree)) for name, (tree, _) in rows.items())
        trees = {self._place(tree, name): tree for name, tree in parsed}
        return {path: tree for path, tree in trees.items() if _holds(path, tree)}

    def _place(self, tree: Digest, name: str) -> str:
        return os.path.join(self._folder, folder_for(tree), name)

    def _stored(self) -> dict[str, tuple[str, list[str]]]:
        with suppress(SkillhubError, ValueError, TypeError, AttributeError):
            block: Any = strict_json(read(self._record, _STATE_CAP) or b"{}", self._record, _STATE_CAP)
            rows = {name: (str(Digest.parse(tree)), [*files]) for name, (tree, files) in block.items()}
            return {name: row for name, row in rows.items() if is_name(name)}
        return {}  # a damaged file counts as absent

    def _skill(self, release: Release, recorded: tuple[str, list[str]] | None) -> tuple[str, Digest]:
        if recorded and not self._reload and recorded[1] == [*release.files]:
            tree = Digest.parse(recorded[0])
            path = self._place(tree, release.name)
            if _holds(path, tree):
                return path, tree
        entries = (Entry(path, File(self._fetch(url_of(release, path)))) for path in release.files)
        fetched = gather(entries, wrapper=False).tree
        name = Manifest.read(fetched).name
        if name != release.name:
            raise FormatError(f"expected the skill {quote(release.name)}, found {quote(name)}")
        path = self._place(fetched.digest, name)
        if not _holds(path, fetched.digest):
            _write(path, fetched)
        return path, fetched.digest


def _requestable(url: str) -> str:
    """Return a base URL with a percent-encoded path, so that no client fails before the request.

    Each client has its own error for a URL that it cannot request, and such an error would end ``pull``.

    Raises:
        FormatError: the URL is malformed, or not for a request of ``pull``.
    """
    try:
        parts = urlsplit(url)
        port, host = parts.port, (parts.hostname or "").encode("idna").decode()
        path = percent_encoded(parts.path, safe=punctuation)
    except ValueError as error:  # such as an IPv6 address without its closing bracket, or a port that is no number
        raise FormatError("expected a URL with a valid host and port", where=url) from error
    if port == 0 or not host.isprintable() or " " in host:
        raise FormatError("expected a URL with a valid host and port", where=url)
    is_loopback = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme not in ("https", *(["http"] if is_loopback else [])) or not parts.hostname or parts.username:
        raise FormatError("expected an https URL without user (http is only for this machine)", where=url)
    if parts.query or parts.fragment:
        raise FormatError("expected a URL without ? and #", where=url)
    return parts._replace(path=path).geturl()


def _holds(path: str, tree: Digest) -> bool:
    try:
        Folder(path).check(Agreed(tree))
    except SkillhubError:
        return False
    return True


def _write(path: str, tree: Tree) -> None:
    """Write a tree, no file of which is executable, to its folder atomically: others see all of it or nothing."""
    making = f"{path}.{os.urandom(6).hex()}.tmp"
    try:
        for name, file in tree.items():
            write_own(os.path.join(making, *name.split("/")), file.data)
        shutil.rmtree(path, ignore_errors=True)
        os.replace(making, path)
    except OSError as error:
        raise StateError(f"cannot be written: {error.strerror}", where=path) from error
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _problem(where: str, error: SkillhubError | OSError) -> Problem:
    if isinstance(error, SkillhubError):
        return Problem(where, error.message)
    return Problem(where, f"cannot be fetched: {reason_of(error)}")
