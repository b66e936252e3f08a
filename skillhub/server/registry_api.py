"""The answers of `registry serve` besides the files of a site: searches, the APIs of other clients, git, and MCP."""

from __future__ import annotations

import os
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from threading import BoundedSemaphore, Lock, Thread
from typing import Any, BinaryIO, Final
from urllib.parse import parse_qsl, unquote, urlsplit
from weakref import WeakValueDictionary

from skillhub.disk import files
from skillhub.disk.proved import stamp_of
from skillhub.errors import FormatError, NotFound, SkillhubError, SourceError, UsageError
from skillhub.formats.document import json_bytes
from skillhub.formats.json import strict_json
from skillhub.formats.text import clean, parse_time, quote
from skillhub.model.index import Release
from skillhub.registry import other_clients
from skillhub.registry.operator import OpenRegistry, RegistryDir, Signing
from skillhub.registry.other_clients import BRANCH, NPM, REPOSITORY, ClientDocument, OfferedSkill
from skillhub.registry.outputs import Offer, document_for
from skillhub.runtime.ranking import SearchIndex, Stored, search
from skillhub.scan.results import ScanCache
from skillhub.server.site import Page, SiteHandler
from skillhub.sources.git_program import GitProgram, stop

BODY_MAX: Final = 4 << 20
_INFLATED_MAX: Final = 16 << 20
_PART: Final = 1 << 16
_AT_ONCE: Final = 4  # running git processes
_WAIT: Final = 20.0  # seconds until one of them must have ended
_CAP: Final = 64 << 20
_HOST: Final = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_PROTOCOL: Final = re.compile(r"version=[0-2]")
# Only the branch is advertised, and clients may request the objects that it reaches by id.
_GIT_OPTIONS: Final = (
    *("uploadpack.allowFilter=true", "uploadpack.allowReachableSHA1InWant=true"),
    *("uploadpack.hideRefs=refs", f"uploadpack.hideRefs=!{BRANCH}"),
)
_TOOLHIVE: Final = r"/registry/(?P<registry>[^/]+)/v0\.1/x/dev\.toolhive/skills"
_PAGE_MAX: Final = 100
_SERVICE: Final = "git-upload-pack"

Query = Mapping[str, str]


@dataclass(frozen=True)
class _State:
    """The releases and documents of the registry at one moment."""

    stamp: object
    offer: Offer
    skills: Mapping[str, OfferedSkill]
    documents: Mapping[str, ClientDocument]
    index: SearchIndex
    downloads: WeakValueDictionary[str, Page] = field(default_factory=WeakValueDictionary)
    reading: Lock = field(default_factory=Lock)

    @property
    def name(self) -> str:
        return self.offer.hub.settings.publisher

    @property
    def namespace(self) -> str:
        """The namespace of all skills, for clients whose names have one."""
        return f"skillhub.{self.name}"

    def matching(self, words: str, limit: int) -> list[ClientDocument]:
        hits = search(words, [self.index], limit).hits if words.strip() else ()
        return [self.documents[hit.name] for hit in hits]

    def document(self, name: str) -> ClientDocument:
        if name not in self.documents:
            raise NotFound(f"there is no skill {quote(name)}")
        return self.documents[name]

    def releases(self, name: str) -> list[Release]:
        """Return the releases of a skill that are neither withdrawn nor known bad, newest first."""
        self.document(name)
        skill = self.skills[name]
        return [release for release in skill.releases if release.withdrawn is None and not skill.known_bad(release)]

    def release(self, name: str, version: str) -> Release:
        exact = version or self.document(name).version
        for release in self.releases(name):
            if release.version == exact:
                return release
        raise NotFound(f"there is no version {quote(exact)} of {quote(name)}")


class RegistryApi:
    """The answers of one registry, which may change while it is served.

    Args:
        folder: The folder of the registry.
        scans: The scan cache that ``Offer`` needs; this class scans nothing.
    """

    def __init__(self, folder: str, scans: ScanCache) -> None:
        self.registry = RegistryDir(folder)
        self._scans = scans
        self._lock, self._packing = Lock(), BoundedSemaphore(_AT_ONCE)
        self._state: _State | None = None

    def state(self) -> _State:
        """Return the present state of the registry; raises as ``OpenRegistry.index``."""
        watched = ("metadata/timestamp.json", "index.json")
        with self._lock:
            stamp = []
            for path in watched:
                with suppress(OSError):  # there is no such file
                    stamp.append(stamp_of(os.stat(os.path.join(self.registry.site, path))))
            if self._state is None or self._state.stamp != stamp:
                self._state = self._read(stamp)
            return self._state

    def _read(self, stamp: object) -> _State:
        registry, signing = self.registry, Signing(now=datetime.now(UTC))
        hub = OpenRegistry(registry, registry.settings(), registry.metadata(), registry.keys(), signing)
        offer = Offer(hub, self._scans)
        skills = {skill.name: skill for skill in offer.skills()}
        by_name = {name: each for name, skill in skills.items() if (each := document_for(offer, skill)) is not None}
        rows = (Stored(name=name, description=each.description, source="registry") for name, each in by_name.items())
        return _State(stamp, offer, skills, by_name, SearchIndex.build(rows))

    def base(self, host: str) -> str:
        """Return the URL of the site for a request with this ``Host``: the configured one if its host is the same.

        Raises:
            UsageError: ``host`` is malformed.
        """
        url = self.registry.settings().url
        if url is not None and urlsplit(url).netloc == host:
            return url
        if not _HOST.fullmatch(host):
            raise UsageError("expected a Host")
        return f"http://{host}"

    def answer(self, target: str, host: str) -> Page | None:
        """Return the answer to a request for ``target``; None if the target is a file of the site.

        Raises:
            NotFound: there is no such skill or release.
            UsageError: the request is malformed.
            SkillhubError: the registry is invalid.
        """
        path, _, query_string = target.partition("?")
        for pattern, make in _ROUTES:
            if match := re.fullmatch(pattern, path):
                try:
                    query = dict(parse_qsl(query_string, max_num_fields=16, errors="strict"))
                except ValueError as error:
                    raise UsageError("expected a query of a few names and values") from error
                query |= {key: unquote(text) for key, text in match.groupdict().items()}
                value = make(self.state(), query, self.base(host))
                return value if isinstance(value, Page) else Page(json_bytes(value))
        return None

    # Git over HTTP, for shallow clones.

    def git(self, words: tuple[str, ...], protocol: str, request: bytes, *, is_gzip: bool = False) -> Iterator[bytes]:
        """Yield the output of ``git upload-pack`` for a request; to close the iterator ends the process.

        Raises:
            SourceError: git is not installed, or too many git processes are running.
            UsageError: the request is not valid gzip, or too large.
        """
        variables = {"GIT_PROTOCOL": protocol} if _PROTOCOL.fullmatch(protocol) else {}
        folder = os.path.join(self.registry.site, REPOSITORY)
        deque(inflated(request) if is_gzip else (), 0)  # to refuse an invalid request before git runs
        if not self._packing.acquire(timeout=_WAIT):
            raise SourceError("too many repositories are packed at once")
        try:
            program = GitProgram(folder, os.environ, _GIT_OPTIONS, variables)
            process = program.start(("upload-pack", "--strict", "--stateless-rpc", *words, folder))
            parts = inflated(request) if is_gzip else (request,)
            feeding = Thread(target=_write_all, args=(process.stdin, parts), daemon=True)
            feeding.start()
            try:
                while process.stdout and (part := process.stdout.read1(_PART)):  # type: ignore[attr-defined]
                    yield part
            finally:
                stop(process)
                feeding.join()
                if process.stdout:
                    process.stdout.close()
        finally:
            self._packing.release()


def _write_all(pipe: BinaryIO, parts: Iterable[bytes]) -> None:
    try:
        pipe.writelines(parts)
        pipe.close()
    except (OSError, ValueError):
        pass  # The process ended or was stopped before it read all of its input.


def inflated(body: bytes) -> Iterator[bytes]:
    """Yield the content of a gzipped body in small parts; raises UsageError if it is malformed, or too large."""
    inflater, size = zlib.decompressobj(31), 0
    while not inflater.eof:
        try:
            part = inflater.decompress(body, _PART)
        except zlib.error as error:
            raise UsageError("expected a body in gzip") from error
        body, size = inflater.unconsumed_tail, size + len(part)
        if size > _INFLATED_MAX or not (part or inflater.eof):
            raise UsageError(f"expected a whole body of at most {_INFLATED_MAX} bytes")
        yield part


def _limit(query: Query, usual: int) -> int:
    text = query.get("limit", "")
    return min(max(int(text), 1), _PAGE_MAX) if text.isascii() and text.isdigit() and len(text) < 9 else usual


# `npx skills find`, npm, Claude Code: files with the URL of the site, as the client requested it.


def _find(state: _State, query: Query, base: str) -> object:
    words = query.get("q", "")
    found = state.matching(words, _limit(query, 10)) if words else state.documents.values()
    return other_clients.found_by_search(found, base)


def _marketplace(state: _State, query: Query, base: str) -> object:
    return other_clients.marketplace(state.documents.values(), state.name, base)


def _packument(state: _State, query: Query, base: str) -> object:
    path = os.path.join(state.offer.hub.registry.site, *NPM.split("/"), state.document(query["name"]).name)
    package: Any = strict_json(files.read(path, _CAP) or b"", path, _CAP)
    try:
        for version, row in package["versions"].items():
            row["dist"]["tarball"] = f"{base}/{NPM}/{other_clients.tarball_path(package['name'], version)}"
    except (TypeError, KeyError, AttributeError) as error:
        raise FormatError("expected a package of npm", where=path) from error
    return package


# ClawHub.


def _clawhub_search(state: _State, query: Query, base: str) -> object:
    documents = state.matching(query.get("q", ""), _limit(query, 25))
    rows = ({**_facts(state, skill), "version": skill.version, "ownerHandle": skill.publisher} for skill in documents)
    return {"results": [{**row, "score": 1 / (rank + 1)} for rank, row in enumerate(rows)]}


def _clawhub_list(state: _State, query: Query, base: str) -> object:
    newest = sorted(state.documents.values(), key=lambda skill: skill.published, reverse=True)[: _limit(query, 25)]
    rows = [{**_facts(state, skill), "latestVersion": _latest(skill)} for skill in newest]
    return {"items": rows, "nextCursor": None}


def _clawhub_skill(state: _State, query: Query, base: str) -> object:
    document = state.document(query["name"])
    owner = {"handle": document.publisher, "displayName": document.publisher, "image": None}
    return {"skill": _facts(state, document), "latestVersion": _latest(document), "owner": owner, "moderation": None}


def _clawhub_version(state: _State, query: Query, base: str) -> object:
    release = state.release(query["name"], query["version"])
    row = {"version": release.version, "createdAt": _milliseconds(release.published), "changelog": ""}
    return {"version": row, "skill": {"slug": release.name, "displayName": release.name}}


def _clawhub_resolve(state: _State, query: Query, base: str) -> object:
    # The client itself knows the version that it installed, and whether its files changed.
    return {"match": None, "latestVersion": {"version": state.document(query.get("slug", "")).version}}


def _clawhub_download(state: _State, query: Query, base: str) -> object:
    release = state.release(query.get("slug", ""), query.get("version", ""))
    with state.reading:
        page = state.downloads.get(release.url)  # shared, since a slow client keeps it for long
        if page is None:
            page = state.downloads[release.url] = Page(state.offer.hub.artifact(release), "application/zip")
    return page


def _facts(state: _State, document: ClientDocument) -> dict[str, Any]:
    facts = {"slug": document.name, "displayName": document.name, "summary": document.description}
    created = _milliseconds(state.skills[document.name].releases[-1].published)
    return {**facts, "createdAt": created, "updatedAt": _milliseconds(document.published), "tags": {}, "stats": {}}


def _latest(document: ClientDocument) -> dict[str, Any]:
    return {"version": document.version, "createdAt": _milliseconds(document.published), "changelog": ""}


def _milliseconds(time: str | None) -> int:
    moment = parse_time(time)
    return int(moment.timestamp() * 1000) if moment else 0


# ToolHive.


def _toolhive_list(state: _State, query: Query, base: str) -> object:
    _own_registry(state, query)
    words, limit = query.get("search", "").strip(), _limit(query, 50)
    names = sorted(name for name in state.documents if name > query.get("cursor", "") and name[1:])
    documents = state.matching(words, limit) if words else [state.documents[name] for name in names[:limit]]
    next_page = {"nextCursor": names[limit - 1]} if not words and len(names) > limit else {}
    # The schema of ToolHive allows no names of one character.
    rows = [_toolhive_row(state, state.release(each.name, each.version), base) for each in documents if each.name[1:]]
    return {"skills": rows, "metadata": {"count": len(rows), **next_page}}


def _toolhive_skill(state: _State, query: Query, base: str) -> object:
    _own_registry(state, query)
    version = query.get("version", "latest")
    return _toolhive_row(state, state.release(query["name"], "" if version == "latest" else version), base)


def _toolhive_versions(state: _State, query: Query, base: str) -> object:
    _own_registry(state, query)
    rows = [_toolhive_row(state, release, base) for release in state.releases(query["name"])]
    return {"skills": rows, "metadata": {"count": len(rows)}}


def _own_registry(state: _State, query: Query) -> None:
    if query["registry"] != state.name or query.get("namespace", state.namespace) != state.namespace:
        raise NotFound(f"expected the registry {quote(state.name)} and its namespace {quote(state.namespace)}")


def _toolhive_row(state: _State, release: Release, base: str) -> dict[str, Any]:
    """Return a release in the form of ToolHive; only the release in the git repository has a package."""
    status = "deprecated" if release.yanked is not None else "active"
    facts = {"name": release.name, "version": release.version, "description": release.description, "status": status}
    extension = {"io.github.skillhub": {"tree": release.tree, "publisher": release.publisher}}
    row: dict[str, Any] = {"namespace": state.namespace, **facts, "_meta": extension}
    if state.document(release.name).version != release.version:
        return row
    tip = files.read(os.path.join(state.offer.hub.registry.site, REPOSITORY, *BRANCH.split("/")), 64) or b""
    package = {"registryType": "git", "url": f"{base}/{REPOSITORY}", "ref": "main", "commit": tip.decode().strip()}
    return {**row, "packages": [{**package, "subfolder": f"plugins/{release.name}/skills/{release.name}"}]}


# Over HTTP.


class RegistryHandler(SiteHandler):
    """The handler of requests for the files of a registry, and for the answers of ``RegistryApi``."""

    api: RegistryApi
    mcp: Callable[[list[tuple[str, str]], bytes], tuple[int, dict[str, str], bytes]] | None = None

    def is_own(self, host: str) -> bool:
        """Return whether this is a name of this machine, or that of the configured URL, which a proxy passes on."""
        return super().is_own(host) or host == urlsplit(self.api.registry.settings().url or "").netloc

    def serve(self, with_body: bool) -> None:
        """Answer by git or the API, or else with a file."""
        path, _, query_string = self.path.partition("?")
        if path == f"/{REPOSITORY}/info/refs" and query_string == f"service={_SERVICE}" and self._git_refs():
            return
        if path == "/mcp" and self.mcp is not None:
            self.send_error(405)  # the endpoint has no streams
            return
        try:
            page = self.api.answer(self.path, self.headers.get("Host", ""))
        except SkillhubError as error:
            status = 404 if isinstance(error, NotFound) else 400 if isinstance(error, UsageError) else 503
            self.send_page(status, Page(clean(error.message).encode(), "text/plain; charset=utf-8"), with_body)
            return
        if page is None:
            super().serve(with_body)
        else:
            self.send_page(200, page, with_body)

    def do_POST(self) -> None:  # noqa: N802 - as http.server has it
        """Answer a request for git or MCP; both only read."""
        length = self.headers.get("Content-Length", "")
        if self.path not in (f"/{REPOSITORY}/{_SERVICE}", "/mcp") or (self.path == "/mcp" and self.mcp is None):
            self.send_error(501)
        elif not (length.isascii() and length.isdigit() and len(length) < 9 and int(length) <= BODY_MAX):
            self.send_error(413 if length else 411)
        elif self.path == "/mcp" and self.mcp is not None:
            status, headers, body = self.mcp(self.headers.items(), self.rfile.read(int(length)))
            self.send_page(status, Page(body, headers.get("content-type", "application/json")), True)
        else:
            self._git_pack(self.rfile.read(int(length)))

    def _git_refs(self) -> bool:
        """Return whether git answered with the branches; if it fails, clients read them from a file."""
        output = self.api.git(("--http-backend-info-refs",), self.headers.get("Git-Protocol", ""), b"")
        try:
            head = next(output, b"")
        except SkillhubError:
            return False
        if head:
            self._stream(f"{_SERVICE}-advertisement", chain((b"001e# service=git-upload-pack\n0000", head), output))
        return bool(head)

    def _git_pack(self, body: bytes) -> None:
        is_gzip = self.headers.get("Content-Encoding") in ("gzip", "x-gzip")
        output = self.api.git((), self.headers.get("Git-Protocol", ""), body, is_gzip=is_gzip)
        try:
            head = next(output, b"")
        except SkillhubError as error:
            return self.send_error(400 if isinstance(error, UsageError) else 503)
        self._stream(f"{_SERVICE}-result", chain((head,), output))

    def _stream(self, kind: str, parts: Iterable[bytes]) -> None:
        self.close_connection = True  # marks the end of the body
        self.send_response(200)
        self.send_header("Content-Type", f"application/x-{kind}")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        with suppress(OSError, SkillhubError):  # The client is gone, or notices the early end of the stream.
            self.send_parts(parts)


_Make = Callable[[_State, Query, str], object]
_ROUTES: Final[tuple[tuple[str, _Make], ...]] = (
    (f"/{other_clients.SEARCH}", _find),
    ("|".join(f"/{re.escape(path)}" for path in other_clients.MARKETPLACES), _marketplace),
    (rf"/{NPM}/(?P<name>[a-z0-9-]*[a-z0-9])", _packument),
    (r"/\.well-known/clawhub\.json", lambda state, query, base: {"apiBase": base}),
    ("/api/v1/search", _clawhub_search),
    ("/api/v1/skills", _clawhub_list),
    ("/api/v1/skills/(?P<name>[^/]+)", _clawhub_skill),
    ("/api/v1/skills/(?P<name>[^/]+)/versions/(?P<version>[^/]+)", _clawhub_version),
    ("/api/v1/resolve", _clawhub_resolve),
    ("/api/v1/download", _clawhub_download),
    (f"{_TOOLHIVE}/?", _toolhive_list),
    (f"{_TOOLHIVE}/(?P<namespace>[^/]+)/(?P<name>[^/]+)", _toolhive_skill),
    (f"{_TOOLHIVE}/(?P<namespace>[^/]+)/(?P<name>[^/]+)/versions", _toolhive_versions),
    (f"{_TOOLHIVE}/(?P<namespace>[^/]+)/(?P<name>[^/]+)/versions/(?P<version>[^/]+)", _toolhive_skill),
)
