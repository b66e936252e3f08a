"""The skills of an MCP server: lists, reads and checks them (extension ``io.modelcontextprotocol/skills``)."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from threading import Lock
from typing import Annotated, Any, Final
from urllib.parse import unquote_to_bytes

from skillhub import __version__
from skillhub.archive.limits import Entry
from skillhub.archive.unpack import gather
from skillhub.errors import FormatError, NotFound, SourceError, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.document import Before, ExtensibleDocument, Items, Sha256, Visible, few, integer
from skillhub.formats.json import strict_json
from skillhub.formats.text import clean, grouped, quote
from skillhub.formats.yaml import Node
from skillhub.model.discovery import LISTING_CAP, LeadsOut
from skillhub.model.index import Index, Release
from skillhub.model.manifest import Manifest
from skillhub.model.reference import Mcp, name_in_uri
from skillhub.model.tree import SKILL_MD, File, ListedFile, Listing, Tree, Unpacked
from skillhub.net.fetch import RequestOptions, Response, Web, whole
from skillhub.net.target import plain_warnings
from skillhub.net.threads import threads

# JSON-RPC over Streamable HTTP. In version 2026-07-28 of the protocol each request stands alone; earlier versions
# begin with a handshake. Every request is a POST; the answer is JSON or a finite stream of events.

EXTENSION: Final = "io.modelcontextprotocol/skills"
_STATELESS = "2026-07-28"
_HANDSHAKE = "2025-11-25"
_VERSION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_ANSWER_CAP = 8 << 20
_SESSION_MAX = 1024
_LOGIN_OR_LATER = frozenset({401, 429})
_NOT_THERE = (-32602, -32002)  # the latter from servers before 2026-07-28
_CHANGED_HINT = "if the skill changed while it was read, the same command gets it; else ask whoever runs the server"
_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r")


@dataclass(frozen=True, slots=True)
class _Era:
    """The version of the protocol that a server uses, and the session of the handshake, if it has one."""

    version: str = _STATELESS
    session: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    def headers(self, method: str, params: Mapping[str, object]) -> dict[str, str]:
        accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if self.version != _STATELESS:
            known = {} if method == "initialize" else {"Mcp-Protocol-Version": self.version}
            return {**accepted, **known, "Mcp-Session-Id": self.session}
        name = {"Mcp-Name": _in_header(str(params["uri"]))} if method == "resources/read" else {}
        return {**accepted, "Mcp-Protocol-Version": self.version, "Mcp-Method": method, **name}

    def params(self, params: Mapping[str, object]) -> Mapping[str, object]:
        if self.version != _STATELESS:
            return params
        meta = {"protocolVersion": self.version, "clientInfo": _CLIENT, "clientCapabilities": _CAPABILITIES}
        return {**params, "_meta": {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}}


_CLIENT = {"name": "skillhub", "version": __version__}
_CAPABILITIES: Final[Mapping[str, object]] = {"extensions": {EXTENSION: {}}}


class McpSession:
    """A client of one server, safe for many threads; it sends no request before the first call.

    Args:
        url: The endpoint of the server.
        web: Sends each request.
    """

    def __init__(self, url: str, web: Web) -> None:
        self.url, self._web = url, web
        self._numbers = count(1)
        self._mutex = Lock()
        self._era: _Era | None = None

    def call(self, method: str, params: Mapping[str, object], cap: int = _ANSWER_CAP) -> Mapping[str, Any]:
        """Return the result of a request, of at most ``cap`` bytes.

        Raises:
            NotFound: there is no such server or resource, or the server serves no skills.
            SourceError: the server cannot be reached, or answers with an error.
            FormatError: the answer is malformed.
            WrongBytes, UnsafeTransfer: as for ``Web.ask``.
        """
        era = self._ready(None)
        answer, number = self._post(era, method, params, cap)
        if answer.status == 404 and era.session:  # the server has dropped the session
            answer, number = self._post(self._ready(era), method, params, cap)
        return self._result(answer, number, cap)

    def _ready(self, dropped: _Era | None) -> _Era:
        with self._mutex:
            if self._era is None or self._era is dropped:
                self._era = self._open()
            return self._era

    def _open(self) -> _Era:
        era = _Era()
        answer, number = self._post(era, "server/discover", {}, _ANSWER_CAP)
        if answer.status in _LOGIN_OR_LATER:
            whole(answer)
        try:
            discovered = self._result(answer, number, _ANSWER_CAP)
        except (SourceError, FormatError):
            discovered = {}
        versions = discovered.get("supportedVersions")
        if isinstance(versions, list) and _STATELESS in versions:
            era = _Era(capabilities=_object(discovered, "capabilities"))
        else:
            era = self._after_handshake()
        for kind in ("extensions", "experimental"):  # before 2026-07-28 extensions are experimental
            if isinstance(_object(era.capabilities, kind).get(EXTENSION), dict):
                return era
        raise NotFound("the MCP server serves no skills", where=self.url, hint=f"it does not declare {EXTENSION}")

    def _after_handshake(self) -> _Era:
        params = {"protocolVersion": _HANDSHAKE, "capabilities": _CAPABILITIES, "clientInfo": _CLIENT}
        answer, number = self._post(_Era(_HANDSHAKE), "initialize", params, _ANSWER_CAP)
        result = self._result(answer, number, _ANSWER_CAP)
        version, session = str(result.get("protocolVersion")), answer.headers.get("mcp-session-id", "")
        if not _VERSION.fullmatch(version) or len(session) > _SESSION_MAX:
            raise FormatError(f"expected a version of MCP, found {quote(version)}", where=self.url)
        era = _Era(version, session, _object(result, "capabilities"))
        answer, _ = self._post(era, "notifications/initialized", {}, _ANSWER_CAP)
        if answer.status not in (202, 204):
            whole(answer)
        return era

    def _post(self, era: _Era, method: str, params: Mapping[str, object], cap: int) -> tuple[Response, str]:
        number = f"skillhub-{next(self._numbers)}"
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": era.params(params)}
        if method.startswith("notifications/"):
            message.pop("id")
        options = RequestOptions(headers=era.headers(method, params), body=json.dumps(message).encode())
        return self._web.ask(self.url, cap=cap, options=options), number

    def _result(self, answer: Response, number: str, cap: int) -> Mapping[str, Any]:
        if answer.status != 200:
            # A server of 2026-07-28 sends an error object; without one, only the status says what is wrong.
            raise _refusal(_error_in(answer) or whole(answer), self.url)
        for data in _messages(answer):
            message = strict_json(data, self.url, cap)
            if isinstance(message, dict) and message.get("id") == number and {"result", "error"} & message.keys():
                if "error" in message:
                    raise _refusal(message["error"], self.url)
                result = message["result"]
                if not isinstance(result, dict) or result.get("resultType", "complete") != "complete":
                    raise FormatError("expected the whole result of a request", where=self.url)
                return result
        raise FormatError("expected the answer to a request, found none", where=self.url)


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _messages(answer: Response) -> Iterator[bytes]:
    if answer.media_type == "application/json":
        yield answer.data
    elif answer.media_type == "text/event-stream":
        for event in _BLANK_LINE.split(answer.data):
            lines = (line[5:].removeprefix(b" ") for line in event.splitlines() if line.startswith(b"data:"))
            if data := b"\n".join(lines):
                yield data
    else:
        found = quote(answer.media_type or "no media type")
        raise FormatError(f"expected an answer of MCP, found {found}", where=answer.url)


def _error_in(answer: Response) -> object:
    try:
        (message,) = [strict_json(data, answer.url, _ANSWER_CAP) for data in _messages(answer)]
    except (FormatError, ValueError):
        return None
    return message.get("error") if isinstance(message, dict) else None


def _refusal(error: object, where: str) -> SourceError:
    """Return the error for an error object of JSON-RPC, or for an object without its fields."""
    fields = error if isinstance(error, dict) else {}
    kind = NotFound if fields.get("code") in _NOT_THERE else SourceError
    return kind(f"the MCP server answered: {quote(str(fields.get('message')), 200)}", where=where)


def _in_header(value: str) -> str:
    if value.isascii() and value.isprintable() and value == value.strip():
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


# The list of a server's skills. A malformed entry refuses the whole list, as in an index.

_FILES_MAX = 512  # the number that the extension requires hosts to accept
_BYTES_MAX = 16 << 20
_PAGES_MAX = 1000
_CURSOR_MAX = 4096  # characters of the server that the next request sends back
_SKILLS_MAX = 10_000
_SECONDS_MAX = 600.0  # for the list, and for the files of each skill
_AT_ONCE = 4
_DYNAMIC = "dynamic"


class McpFile(ExtensibleDocument):
    """A file of a skill, with the digest and the size of its bytes."""

    uri: Visible
    digest: Sha256
    size: Annotated[int, integer("a number of bytes")]


class McpSkill(ExtensibleDocument):
    """The entry of a skill. One without ``resources`` has generated content, which no digest pins."""

    uri: Visible
    frontmatter: dict[str, object]
    resources: Annotated[Items[McpFile], Before(lambda value: [] if value == _DYNAMIC else value)]

    def check(self) -> None:
        """Raise for an entry that contradicts itself.

        Raises:
            FormatError: the URI does not end with the name and ``SKILL.md``, the description is missing, a file
                stands twice, or ``SKILL.md`` is not among the files.
            LeadsOut: a file is outside of the skill's folder.
        """
        if not self.uri.endswith(f"/{SKILL_MD}") or name_in_uri(self.folder) is None:
            raise FormatError(f"expected the URI of a {SKILL_MD}, found {quote(self.uri)}", where=".uri")
        if self.frontmatter.get("name") != self.name or not isinstance(self.frontmatter.get("description"), str):
            message = f"expected the name {self.name} and a description, found {quote(self.frontmatter.get('name'))}"
            raise FormatError(message, where=".frontmatter")
        if self.resources and len(self.files) != len(self.resources):
            raise FormatError("expected each file once", where=".resources")
        if self.resources and SKILL_MD not in self.files:
            raise FormatError(f"expected a {SKILL_MD}, found none", where=".resources")

    @property
    def folder(self) -> str:
        """The URI without ``/SKILL.md``, which identifies the skill on this server."""
        return self.uri.removesuffix(f"/{SKILL_MD}")

    @property
    def name(self) -> str:
        """The last segment of ``folder``, which is the name of the skill."""
        return self.folder.rpartition("/")[2]

    @property
    def files(self) -> dict[str, McpFile]:
        """The files by path; the paths are untrusted."""
        return {_path_of(each.uri, f"{self.folder}/"): each for each in self.resources}

    @property
    def objection(self) -> str:
        """The reason why the skill cannot be installed; empty if it can."""
        size = sum(each.size for each in self.resources)
        if not self.resources:
            return "its content is generated anew, so that nothing can pin it"
        if len(self.resources) > _FILES_MAX or size > _BYTES_MAX:
            found = f"{len(self.resources)} files, {size} bytes"
            return f"it has more than the {_FILES_MAX} files or {_BYTES_MAX} bytes that are allowed: {found}"
        return ""

    def release(self, url: str) -> Release:
        """Return the skill as a release of the server at ``url``; its tree is the digest of the listed files."""
        listed = Listing({path: ListedFile(Digest(each.digest).hex, False) for path, each in self.files.items()})
        return Release(
            name=self.name,
            url=url,
            type="files",
            path=self.folder,
            tree=listed.digest,
            size=sum(each.size for each in self.resources),
            description=clean(str(self.frontmatter["description"]))[:1024],
        )


def _path_of(uri: str, folder: str) -> str:
    segments = uri.removeprefix(folder).split("/")
    try:
        found = [unquote_to_bytes(each).decode() for each in segments]
    except UnicodeError as error:
        raise FormatError(f"expected a path in UTF-8, found {quote(uri)}", where=".resources") from error
    if not uri.startswith(folder) or any("/" in each for each in found):
        raise LeadsOut(f"expected a file below {quote(folder)}, found {quote(uri)}", where=".resources")
    return "/".join(found)


class McpPlace:
    """The skills of a server as a place; only the server vouches for them.

    Args:
        ref: The server, and perhaps one skill of it. No request is sent yet.
        web: Sends each request.
        seconds: The time limit for the list, and for the files of each skill.
    """

    def __init__(self, ref: Mcp, web: Web, seconds: float = _SECONDS_MAX) -> None:
        self._ref = ref
        self._server = McpSession(ref.url, web)
        self._seconds = seconds
        self._entries: dict[str, McpSkill] = {}

    def index(self, words: Collection[str] | None = None) -> Index:
        """Return the skills that the server lists, and the unlisted ones that ``words`` name by URI.

        If the reference names one skill, return this one.

        Raises:
            NotFound: there is no such server or skill, or the server serves no skills.
            SourceError: the server cannot be reached, is too slow, or answers with an error.
            FormatError: an answer is malformed, or the list has too many pages.
            WrongBytes, UnsafeTransfer: as for ``Web.ask``.
        """
        if self._ref.path:
            return self._index([self._entry(self._ref.path)])
        listed = self._listed
        named = {word.strip("/").removesuffix(f"/{SKILL_MD}") for word in words or () if "://" in word}
        more = [self._entry(each) for each in sorted(named - {each.folder for each in listed})]
        if listed or more:
            return self._index([*listed, *more])
        return Index({}, warnings=("the server lists none; name one by its URI: --skill skill://…",))

    def committed(self, release: Release) -> None:
        """Return None, since these files are in no commit."""

    def unpacked(self, release: Release) -> Unpacked:
        """Return the skill of a release of ``index``, or of one built from a lock: name, url and path.

        Raises:
            WrongBytes: a file or the frontmatter differs from the entry.
            UnsafeArchive: the skill holds what no skill may hold.
            NotFound, SourceError, FormatError, UnsafeTransfer: as for ``index``.
        """
        entry = self._entries.get(release.path or "") or self._entry(release.path or "")
        if entry.objection:
            raise FormatError(f"{entry.name} cannot be installed: {entry.objection}", where=self._ref.place)
        # Judge the paths before the first request.
        gather((Entry(path, File(b"")) for path in entry.files), wrapper=False)
        deadline = time.monotonic() + self._seconds
        with threads(_AT_ONCE) as pool:
            data = pool.map(lambda each: self._read(each, deadline), entry.files.values())
            read_files = (Entry(path, File(each)) for path, each in zip(entry.files, data, strict=True))
            read = gather(read_files, wrapper=False)
        _check_frontmatter(entry, read.tree)
        return read

    @cached_property
    def _listed(self) -> list[McpSkill]:
        found: dict[str, McpSkill] = {}
        cursors: set[str | None] = {None}
        cursor, left, deadline = None, LISTING_CAP, time.monotonic() + self._seconds
        while True:
            self._check_time(deadline)
            page = self._server.call("skills/list", {} if cursor is None else {"cursor": cursor})
            rows, cursor = page.get("skills"), page.get("nextCursor")
            left -= len(json.dumps(rows))
            if not isinstance(rows, list) or not isinstance(cursor, str | None) or len(cursor or "") > _CURSOR_MAX:
                raise FormatError("expected a page of skills", where=self._ref.place)
            for row in rows:
                entry = McpSkill.parse(row, f"{self._ref.place}: skills")
                if found.setdefault(entry.folder, entry) is not entry:
                    raise FormatError(f"expected {quote(entry.uri)} once", where=self._ref.place)
            if cursor is None:
                return [*found.values()]
            if cursor in cursors or len(cursors) >= _PAGES_MAX or len(found) > _SKILLS_MAX or left < 0:
                message = f"expected at most {_PAGES_MAX} pages and {_SKILLS_MAX} skills in {LISTING_CAP} bytes"
                raise FormatError(message, where=self._ref.place, hint="name one skill by its URI: #skill://…")
            cursors.add(cursor)

    def _entry(self, folder: str) -> McpSkill:
        uri = f"{folder}/{SKILL_MD}"
        answer = self._server.call("skills/get", {"uri": uri})
        entry = McpSkill.parse(answer.get("skill"), f"{self._ref.place}: skill")
        if entry.uri != uri:
            raise FormatError(f"expected {quote(uri)}, found {quote(entry.uri)}", where=self._ref.place)
        self._entries[folder] = entry
        return entry

    def _index(self, entries: list[McpSkill]) -> Index:
        left_out = few([f"{each.name} is left out: {each.objection}" for each in entries if each.objection])
        offered = [each for each in entries if not each.objection]
        self._entries |= {each.folder: each for each in offered}
        skills = grouped((each.name, each.release(self._ref.url)) for each in offered)
        return Index(skills, warnings=(*left_out, *plain_warnings(self._ref.url)))

    def _read(self, file: McpFile, deadline: float) -> bytes:
        self._check_time(deadline)
        cap = 6 * file.size + (64 << 10)  # JSON escapes a character with up to six; and the rest of the answer
        contents = self._server.call("resources/read", {"uri": file.uri}, cap).get("contents")
        data = _content(contents, file.uri)
        if data is None:
            raise FormatError(f"expected the content of {quote(file.uri)}", where=self._ref.place)
        if len(data) != file.size or Digest.of(data) != file.digest:
            message = f"expected {file.size} bytes with {file.digest}, found {len(data)} with {Digest.of(data)}"
            raise WrongBytes(message, where=clean(file.uri), hint=_CHANGED_HINT)
        return data

    def _check_time(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise SourceError(f"the MCP server took more than {self._seconds:.0f} s", where=self._ref.place)


def _content(contents: object, uri: str) -> bytes | None:
    """Return the bytes of the requested file; None unless ``contents`` is this file alone."""
    match contents:
        case [{"uri": str(found), "text": str(text), **more}] if found == uri and "blob" not in more:
            return text.encode()
        case [{"uri": str(found), "blob": str(blob), **more}] if found == uri and "text" not in more:
            try:
                return base64.b64decode(blob, validate=True)
            except ValueError:
                return None
    return None


def _check_frontmatter(entry: McpSkill, tree: Tree) -> None:
    """Raise if the entry of a skill differs from the frontmatter of its ``SKILL.md``.

    Raises:
        WrongBytes: a key is missing or differs.
        FormatError: the file has no frontmatter.
    """
    front = Manifest.read(tree).front
    for key in sorted({*front, *entry.frontmatter}):
        if key not in front or key not in entry.frontmatter or not _is_same(front[key], entry.frontmatter[key]):
            raise WrongBytes(f"the frontmatter differs from the server's list in {quote(key)}", where=entry.uri)


def _is_same(node: Node, value: object) -> bool:
    """Return whether a typed YAML parser would give this value for a node, whose scalars are all text."""
    if isinstance(node, dict):
        has_keys = isinstance(value, dict) and node.keys() == value.keys()
        return has_keys and all(_is_same(node[key], value[key]) for key in node)  # type: ignore[index]
    if isinstance(node, list):
        is_list = isinstance(value, list) and len(value) == len(node)
        return is_list and all(map(_is_same, node, value))  # type: ignore[call-overload]
    word = node.lower()
    if isinstance(value, bool) or value is None:
        spelled = {True: ("true", "yes", "on"), False: ("false", "no", "off"), None: ("", "~", "null")}
        return word in spelled[value]
    if isinstance(value, int | float):
        try:
            return float(node) == value
        except ValueError:
            return re.fullmatch(r"0x[0-9a-f]+|0o[0-7]+", word) is not None and int(word, 0) == value
    return node == value
