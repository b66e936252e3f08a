"""Skills at a URL: a well-known site, an ``index.json``, an archive, or one ``SKILL.md``."""

from __future__ import annotations

import posixpath
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Final
from urllib.parse import unquote

from skillhub.archive.limits import Entry, Limits
from skillhub.archive.unpack import gather, unpack
from skillhub.errors import FormatError, NotFound, SourceError, UnsafeTransfer, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import quote
from skillhub.model.discovery import LISTING_CAP, parse_discovery, url_of
from skillhub.model.index import Index, Release
from skillhub.model.manifest import Manifest
from skillhub.model.reference import errors_masked
from skillhub.model.tree import SKILL_MD, ArchiveKind, File, Unpacked, kind_of
from skillhub.net.download import ARTIFACT_CAP, Downloads
from skillhub.net.fetch import Requester, Response
from skillhub.net.target import RequestTarget, plain_warnings

CURRENT_PLACE: Final = "/.well-known/agent-skills/index.json"
LEGACY_PLACE: Final = "/.well-known/skills/index.json"
_AT_ONCE = 16
_FILES_AHEAD = 4  # files of a skill that wait in memory; each may be as large as a whole skill
_HTML = frozenset({"text/html", "application/xhtml+xml"})


class Site:
    """A place whose operator alone vouches for its skills; safe for many threads.

    Args:
        url: The URL that a person named; no request is sent yet.
        downloads: Fetches documents and artifacts, and remembers which sites offered digests.
        check_allowed: Called with the URL of an artifact before it is fetched; raises if a policy forbids it.

    Raises:
        UnsafeTransfer: the URL is not http or https.
    """

    seconds = 600.0  # for all files of a skill

    def __init__(self, url: str, downloads: Downloads, check_allowed: Callable[[str], None] | None = None) -> None:
        self._target = RequestTarget.parse(url)
        self.url = self._target.url
        self._named_by = Requester("site", self.url)
        self._downloads, self._check_allowed = downloads, check_allowed

    @errors_masked()
    def index(self, words: Collection[str] | None = None) -> Index:
        """Return the skills at the URL; for an archive or a ``SKILL.md``, the one skill in it.

        A site at a path does not fall back to the index of its host: the two may have different authors.

        Raises:
            NotFound: there is no index, archive or ``SKILL.md``.
            FormatError: the document is malformed, or only an HTML page is there, such as one of a captive portal.
                One malformed entry refuses the whole index, except for entries of files at no well-known place.
            TrustDowngrade: the site offered digests before, and now does not.
            SecurityError, SourceError, StateError: as for ``Downloads.document``, and for an unsafe archive.
        """
        return replace(self._offered, warnings=(*self._offered.warnings, *plain_warnings(self.url)))

    def committed(self, release: Release) -> None:
        """Return None, since these files are in no commit."""

    @errors_masked()
    def unpacked(self, release: Release) -> Unpacked:
        """Return the skill of a release of ``index``, or of one built from a lock: name, url and digest.

        Raises:
            WrongBytes: the bytes do not have the digest.
            UnsafeArchive: the skill holds what no skill may hold.
            NotFound, SourceError, FormatError, SecurityError: as for ``index``.
        """
        RequestTarget.parse(release.url)
        if self._check_allowed is not None:
            self._check_allowed(release.url)
        if release.digest is None:
            return gather(self._files(self._listed(release)), wrapper=False)
        try:
            answer = self._downloads.artifact(release.url, release.digest, named_by=self._named_by)
        except WrongBytes as error:
            self._downloads.doubt()
            message = f"{release.name} does not match its digest: {error.message}"
            raise WrongBytes(message, where=release.url, hint="ask its operator whether it was replaced") from error
        return _opened(answer, _kind(answer, release))

    @cached_property
    def _offered(self) -> Index:
        path = self._target.path
        if path.endswith(".json"):
            return self._discovered(self.url)
        if kind_of(path) is None and not path.lower().endswith(".md") and "?" not in self._target.raw_path:
            return self._at_well_known_place(is_host=path == "/")
        return self._single_skill()

    def _at_well_known_place(self, *, is_host: bool) -> Index:
        pages = []
        for place in (CURRENT_PLACE, LEGACY_PLACE):
            url = self.url.rstrip("/") + place
            try:
                answer = self._downloads.document(url, cap=LISTING_CAP)
            except NotFound:
                continue
            if answer.media_type not in _HTML:
                return self._discovered(url)
            pages.append(url)  # many sites answer with a web page at every unknown URL
        try:
            if is_host:
                raise self._no_skills()
            return self._single_skill()
        except NotFound as error:
            if not pages:
                raise
            message = f"{error.message}: expected an index, found a web page"
            raise FormatError(message, where=pages[0], hint=error.hint) from error

    def _discovered(self, url: str) -> Index:
        answer = self._downloads.document(url, cap=LISTING_CAP)
        is_well_known = any("/.well-known/" in _plain_path(each) for each in (url, answer.url))
        found = parse_discovery(answer.data, answer.url, is_well_known)
        if found.has_digests:
            self._downloads.seen.promised(_site_of(url))
        elif RequestTarget.parse(url).path.endswith(CURRENT_PLACE):
            # By the rules of 0.1.0 the index would need no digests: one missing line would drop them all.
            raise FormatError("expected a $schema", where=url, hint=f"version 0.1.0 belongs at {LEGACY_PLACE}")
        else:
            self._downloads.seen.refuse_weaker([_site_of(url), _site_of(answer.url)], answer.url)
        return found.index

    def _single_skill(self) -> Index:
        """Return the one skill at the URL, or the index if the media type is JSON."""
        try:
            answer = self._downloads.document(self.url, cap=ARTIFACT_CAP)
        except NotFound as error:
            raise self._no_skills() from error
        if answer.media_type in _HTML:
            raise self._no_skills()
        if answer.media_type == "application/json":
            return self._discovered(self.url)
        kind = _kind(answer, None)
        manifest = Manifest.read(_opened(answer, kind).tree)
        digest, size = Digest.of(answer.data), len(answer.data)
        facts = {fact: getattr(manifest, fact) for fact in ("name", "version", "description")}
        release = Release(**facts, url=self.url, digest=digest, type="archive" if kind else "skill-md", size=size)
        return Index({release.name: (release,)})

    def _no_skills(self) -> NotFound:
        root = f"{self._target.scheme}://{self._target.authority}"
        hint = f"expected {CURRENT_PLACE} below it, an archive or a {SKILL_MD}"
        if self.url.rstrip("/") != root:
            hint += f"; for the skills of {root} itself, use {root}"
        return NotFound(f"no skills are at {quote(self.url)}", where=self.url, hint=hint)

    def _listed(self, release: Release) -> Release:
        """Return the release with the list of files that the site has for it now."""
        if release.files:
            return release
        for each in self.index().releases(release.name):
            if each.url == release.url and each.files:
                return each
        raise NotFound(f"the site no longer has {release.name} at {quote(release.url)}", where=self.url)

    def _files(self, release: Release) -> Iterator[Entry]:
        # Judge the paths before the first request.
        gather((Entry(path, File(b"")) for path in release.files), wrapper=False)
        deadline = time.monotonic() + self.seconds
        waiting = deque(release.files)
        pending: deque[tuple[str, Future[bytes]]] = deque()
        while waiting or pending:
            while waiting and len(pending) < _FILES_AHEAD:
                path = waiting.popleft()
                pending.append((path, self._pool.submit(self._file, url_of(release, path))))
            path, data = pending.popleft()
            yield Entry(path, File(data.result()))
            if time.monotonic() > deadline:
                raise SourceError(f"the site took more than {self.seconds:g} s for {release.name}", where=self.url)

    def _file(self, url: str) -> bytes:
        answer = self._downloads.unpinned(url, cap=Limits().total, named_by=self._named_by)
        if RequestTarget.parse(answer.url).origin != RequestTarget.parse(url).origin:
            # Only their origin vouches for these bytes.
            raise UnsafeTransfer(f"expected a file of the site, was redirected to {quote(answer.url)}", where=url)
        return answer.data

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_AT_ONCE)


def _site_of(index: str) -> str:
    """Return the normalized site of an index: its origin, and the path above the well-known place.

    A host and a path on it are different sites, since they may have different authors.
    """
    path = _plain_path(index)
    above, well_known, _ = path.partition("/.well-known/")
    folder = path if well_known or not path.endswith(".json") else posixpath.dirname(path)
    return f"{RequestTarget.parse(index).origin}/{(above if well_known else folder).strip('/')}"


def _plain_path(url: str) -> str:
    return posixpath.normpath("/" + unquote(RequestTarget.parse(url).path))


def _kind(answer: Response, release: Release | None) -> ArchiveKind | None:
    """Return the kind of archive in an answer; None for the text of a ``SKILL.md``.

    Raises:
        FormatError: neither media type nor extension names an archive, and the bytes are no text.
    """
    if release and release.type == "skill-md":
        return None
    for url in (answer.url, release.url if release else answer.url):
        if kind := kind_of(RequestTarget.parse(url).path, answer.content_type):
            return kind
    with suppress(UnicodeDecodeError):
        if "\0" not in answer.data.decode():
            return None
    message = f"expected a zip, a tar.gz or a {SKILL_MD}, found {quote(answer.content_type or 'no media type')}"
    raise FormatError(message, where=answer.url, hint="its media type or extension (.zip, .skill, .tar.gz) decides")


def _opened(answer: Response, kind: ArchiveKind | None) -> Unpacked:
    if kind is None:
        return gather([Entry(SKILL_MD, File(answer.data))], wrapper=False)
    return unpack(answer.data, kind)
