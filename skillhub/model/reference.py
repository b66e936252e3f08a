"""References to skills and sources, and URLs: their parts, the secrets in them, and their comparison."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from skillhub.errors import SkillhubError, UsageError
from skillhub.formats.text import RESERVED_ALIASES, clean, deferred, hint_to_name, is_inner_path, is_name, quote

# The default port of each scheme; None for a scheme without one.
PORTS = {"https": 443, "http": 80, "ssh": 22, "oci": None, "file": None}
# RFC 3986, appendix B, but stricter: no characters that some parsers drop (tabs, line feeds), a host without blanks,
# a numeric port. The user ends at the last `@`; an IPv6 address may have a zone.
_URL = (
    r"(?![^\0-\x1f\x7f]*[\0-\x1f\x7f])([A-Za-z][A-Za-z0-9+.-]*)://(?:([^/?#\[\]]*)@)?"
    r"(\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:%[0-9A-Za-z._~-]+)?\]|[^\s/?#@:\[\]\\]*)(?::([0-9]{0,5}))?"
    r"(|/[^?#]*)(?:\?([^#]*))?(?:#.*)?"
)
_USER = r"://[^/?#]*@"
_URL_LENGTH_MAX = 16384
_MEMBER = r"[\"'] ?: ?[\"']?"  # in JSON, the characters between a name and its value
# Names of parameters, without the separators of their words: parts of names that always mean a credential; whole
# names that do, too short to match as parts; and parts of names that have other uses too, where the value decides.
_SECRET_NAME = deferred(
    r"token(?!iz|is|s$|type|count|limit)|secret(?!ar)|passw(?!ordless)|passphrase|pwd|credential|signature|apikey|accesskey|privatekey"
    r"|bearer|jwt|hmac|keypairid|accesskeyid|subscriptionkey|authkey|userkey"
)
_SECRET_NAMES = frozenset(("pass", "pw", "sig", "pat", "otp", "cred", "creds", "xauth", "sas"))
_UNSURE_NAME = deferred(r"session|cookie|authoriz|oauth|saml|assertion|passw|key$|^(?:auth|sid|code|ticket)$")
_CHECKSUM_NAME = deferred(r"v|ver|version|rev|revision|ref|commit|hash|h|etag|digest|checksum|md5|sha[0-9]*")
# Values that are no credential: switches; words, and numbers of a few digits.
_SWITCH = deferred(r"(?i)|[0-9]|true|false|yes|no|on|off|none|null")
_WORD = r"(?:[A-Z]?[a-z]{1,20}(?:[A-Z][a-z]{2,20}){0,4}|[A-Z]{1,20}|[0-9]{1,5}|(?:19|20)[0-9]{6})"
_WORDS = deferred(rf"v?{_WORD}(?:[-_.,/ ]{_WORD})*")
_TOKEN = deferred(
    r"(?:gh[opsur]_|github_pat_|glpat-|xox[a-z]-|sk-|sk_live_|npm_|pypi-|hf_|AKIA|ASIA|AIza|eyJ)[A-Za-z0-9_-]{8}"
)
_RUN = r"[0-9]+|[A-Z]?[a-z]+|[A-Z]+"  # a name with a date has few of these runs, a token many
_ESCAPED = rb"%([0-9A-Fa-f]{2})"

NO_SECRET = "a token is sent in a header: name its variable under [tokens] in config.toml, or use netrc"  # noqa: S105


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL.

    Attributes:
        user: The text before the ``@``: the user, maybe with a password; None without ``@``.
        host: In lower case; an IPv6 address without its brackets.
        port: The port in the URL, else the default of the scheme; None if the scheme has none.
    """

    scheme: str
    user: str | None
    host: str
    port: int | None
    path: str
    query: str


def parse(text: str) -> Url | None:
    """Return the parts of a URL with ``://``; None if ``text`` is no such URL."""
    match = re.fullmatch(_URL, text, re.DOTALL)
    if match is None or (match[4] and not 0 < int(match[4]) < 65536):
        return None
    scheme, user, host, port, path, query = match.groups()
    scheme = scheme.lower()
    host = host.lower().strip("[]")
    return Url(scheme, user, host, int(port) if port else PORTS.get(scheme), path, query or "")


def authority(text: str) -> str:
    """Return the part of a URL between ``://`` and the path, unchanged; empty if the text is no URL."""
    return re.split(r"[/?#]", text.partition("://")[2], maxsplit=1)[0]


def check_port(url: str) -> None:
    """Refuse a URL with an impossible port.

    Raises:
        UsageError: the port is 0, over 65535, or no number of ASCII digits.
    """
    place = authority(url).rpartition("@")[2]
    port = re.fullmatch(r"(?:\[[^\]]*\]|[^:\[]*):([^:\]]+)", place)
    if port and not (port[1].isascii() and port[1].isdigit() and 0 < int(port[1][:6]) < 65536):
        raise UsageError(f"expected a port from 1 to 65535, found {quote(port[1][:80])} in a URL")


def of_repository(text: str) -> str:
    """Return the URL that git means by ``user@host:path``; any other text is returned unchanged."""
    match = None if "://" in text else re.fullmatch(_SCP, text)
    return f"ssh://{match[1]}/{match[2]}" if match else text


def names_user(text: str) -> bool:
    """Return whether the URL names a user, maybe with a password, before the host."""
    return "@" in text and re.match(rf"[^/?#]*{_USER}", text) is not None


def holds_secret(text: str) -> bool:
    """Return whether a URL must not be stored, since it has a password or something like another credential.

    A user without a password is no secret over ssh, where keys authenticate the user. After the first ``?``, ``#`` or
    ``;`` each parameter is judged, percent-decoded as often as some server may decode it. It is a credential if its
    name says so, if its value looks like a token, or if its name is doubtful and its value is no word. This is the
    only such rule: it decides about stored URLs, and ``masked`` applies it to shown texts.
    """
    scheme, colon, after_scheme = text.partition("://")
    if not colon:
        scheme, after_scheme = "", text
    host = _decoded(re.split(r"[/?#]", after_scheme, maxsplit=1)[0])
    if "@" in host and not (scheme.lower().endswith("ssh") and ":" not in host.rpartition("@")[0]):
        return True
    delimiter = re.search(r"[?#;]", after_scheme)
    if delimiter is None or len(after_scheme) > _URL_LENGTH_MAX:
        return delimiter is not None  # too long to examine
    tail = re.sub(_MEMBER, "=", _decoded(after_scheme[delimiter.start() :]))
    # A parameter may hold another URL with its own user.
    users = re.findall(r"://([^/?#@\s]*)@", tail)
    return any(":" in user for user in users) or any(map(_is_secret, re.split(r"[?#;&,{}]", tail)))


def masked(text: str) -> str:
    """Return the text with ``…`` in place of every possible password or other credential in its URLs."""
    if "://" not in text:
        return text
    kind = type(text)  # a ``Quoted`` text stays one
    # A password may contain characters that end a host: in doubt, more text is hidden.
    if "@" in text or "%40" in text:
        text = re.sub(r"([a-z+]{0,9})://([^/\s]*)(?:@|%40)", _without_user, text, flags=re.IGNORECASE)
    if "?" in text or "#" in text or ";" in text:
        text = re.sub(r"://[^\s\"'<>]*", _without_query, text)
    return kind(text)


def all_masked(value: Any) -> Any:  # noqa: ANN401 - a JSON value, and the same
    """Return a JSON value with each text ``masked``; keys are unchanged."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: all_masked(member) for key, member in value.items()}
    return [*map(all_masked, value)] if isinstance(value, list | tuple) else value


@contextmanager
def errors_masked() -> Iterator[None]:
    """Mask the texts of an error that is raised inside; the caller may write them into a log."""
    try:
        yield
    except SkillhubError as error:
        error.message, error.args = masked(error.message), (masked(error.message),)
        error.where, error.hint = (text and masked(text) for text in (error.where, error.hint))
        raise


def _without_user(match: re.Match[str]) -> str:
    is_name = match[1].lower().endswith("ssh") and re.fullmatch(r"[\w.-]+", match[2])
    return match[0] if is_name else f"{match[1]}://…@"


def _without_query(match: re.Match[str]) -> str:
    place, *query = re.split(r"(?<=[?#;])", match[0], maxsplit=1)
    return f"{place}…" if query and holds_secret(match[0].replace("…@", "")) else match[0]


def _decoded(text: str) -> str:
    """Return a text percent-decoded until it no longer changes, at most four times."""
    for _ in range(4):
        plain = re.sub(r"%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)
        if plain == text:
            break
        text = plain
    return text


def _is_secret(parameter: str) -> bool:
    name, _, value = parameter.replace("+", " ").partition("=")
    words = re.sub(r"[^a-z0-9]", "", name.lower())
    if (_SECRET_NAME.search(words) or words in _SECRET_NAMES) and not _SWITCH.fullmatch(value):
        return True
    if _UNSURE_NAME.search(words) and not _WORDS.fullmatch(value) and len(value) > 5:
        return True
    if _CHECKSUM_NAME.fullmatch(words) and re.fullmatch(r"[0-9a-f]{7,128}", value):
        return False
    return any(map(_is_random, re.split(r"[\s/:,.]", parameter.removeprefix(name + "=") if value else name)))


def _is_random(piece: str) -> bool:
    """Return whether this looks like a token: by a known prefix, or long, with letters and digits mixed at random."""
    if _TOKEN.match(piece):
        return True
    if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", piece):
        return False  # a commit and a digest are no secrets
    return any(
        len(word) >= 16 and len(set(word)) >= 8 and len(re.findall(_RUN, word)) > 5
        for word in re.split(r"[-_]", piece)
        if re.search(r"[0-9]", word) and re.search(r"[A-Za-z]", word)
    )


def is_prefix(text: str) -> bool:
    """Return whether other URLs can lie below the URL ``text``: https, http, ssh or oci with a host, or file."""
    return _placed(text) is not None


def is_under(text: str, prefix: str) -> bool:
    """Return whether a URL is ``prefix`` or lies below it; whole segments are compared, user names are not.

    An ambiguous path lies below no prefix: one with ``.``, ``..`` or an empty segment, plain or percent-encoded, or
    with an encoded slash.
    """
    place, prefix_place = _placed(text), _placed(prefix)
    if place is None or prefix_place is None or place[0] != prefix_place[0]:
        return False
    return place[1][: len(prefix_place[1])] == prefix_place[1]


def _placed(text: str) -> tuple[tuple[str, str, int | None], tuple[bytes, ...]] | None:
    """Return scheme, host and port of a URL, and the decoded segments of its path; None if these are ambiguous."""
    url = parse(text)
    if url is None or url.scheme not in PORTS or (not url.host) != (url.scheme == "file") or "\\" in text:
        return None
    pieces = url.path.encode("utf-8", "surrogatepass").split(b"/")[1:]
    path = [re.sub(_ESCAPED, lambda match: bytes([int(match[1], 16)]), piece) for piece in pieces]
    if path and not path[-1]:
        path.pop()
    if any(segment in (b"", b".", b"..") or not {*segment}.isdisjoint(b"/\\\0") for segment in path):
        return None
    return (url.scheme, url.host, url.port), tuple(path)


# References: a skill of a source by name, a local path, or a location on the network.

# Patterns are compiled at their first match, since `list` does not need most of them.
_LOCAL = r"(?a)(?:\.{1,2}(?:[/\\]|$)|[/\\~]|[A-Za-z]:[/\\])"
# The characters of a range; its user checks the range itself, which needs a slow import.
_RANGE = r"(?a)[0-9A-Za-z.*^~<>=!,+ -]{1,256}"
# A branch, a tag or a commit: neither an option of git nor one of its expressions (`a..b`, `a^{}`).
_REV = r"(?a)(?!.*(?:\.\.|//))[A-Za-z0-9_][A-Za-z0-9._/+-]{0,254}"
_GIT = r"(?s)git\+((?:https?|ssh|file)://(?:[^/@#]*@)?[^@#]*)(?:@([^#]*))?(?:#(.*))?"
# Labels of 1 to 63 characters (RFC 1035); resolvers refuse others.
_NAME = r"[A-Za-z0-9][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63})*\.?"
_HOST = rf"(?:{_NAME}|\[[0-9A-Fa-f:.]+\])(?::\d{{1,5}})?"
# The forms `user@host:path` and `host.name:path` of git and scp.
_SCP_HOST = rf"[A-Za-z0-9._][A-Za-z0-9._-]*@{_NAME}|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
_SCP = rf"(?as)({_SCP_HOST}):/?((?=[^:@][^:@/]*/[^:@])[^:@]+|[^:@]+\.git)(@[^:@]+)?"
_SSH = "git+ssh://git@host/repository"
_URI_MAX = 1024
_USER_MAX = 16  # a longer name may be a token, which must not get into a log with an error
_GIT_URL = (
    rf"(?a)(?:https?://{_HOST}|ssh://(?:[A-Za-z0-9._][A-Za-z0-9._-]*@)?{_HOST})(?:/[A-Za-z0-9._~!$&'()*+,;=:%-]*)+"
    r"|file:///[^@#?\\]*"
)
_SPELLED = (
    r"(?as)((?:git\+|mcp\+)?)(https?|ssh|file)://((?:[^/@]*@)?)([^/:@\[]*|\[[^\]]*\])(?::(\d{1,5}))?"
    r"((?:/[^@?#]*)?)((?:[@?#].*)?)"
)
_SITE_URL = rf"(?a)https?://{_HOST}(?:[/?][A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
_GITHUB = r"(?s)([A-Za-z0-9][A-Za-z0-9-]{0,38})/([A-Za-z0-9._-]{1,100})((?:/[^@]*)?)(?:@(.*))?"
_GITHUB_WEB = (
    r"https://(?:www\.)?github\.com/([^/]+)/([^/@#?]+?)(?:\.git)?(?:/(?:tree|blob)/([^/#?]+)((?:/[^#?]*)?))?/?"
)
_OCI = (
    rf"(?a)oci://({_HOST}(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)+)(?::([A-Za-z0-9_][A-Za-z0-9._-]{{0,127}}))?"
    r"(?:@(sha256:[0-9a-f]{64}))?"
)
# The URI of a skill's folder: the server chooses all of it but the last segment, the name of the skill.
_MCP = r"(?s)mcp\+([^#]*)(?:#(.*))?"
_SKILL_URI = r"(?a)[A-Za-z][A-Za-z0-9+.-]*://(?:[A-Za-z0-9._~!$&'()*+,;=:@%-]+/)*([a-z0-9]+(?:-[a-z0-9]+)*)"
_HOST_ALONE = r"(?a)(?![^/]*\.(?:zip|skill|t?gz|lock|toml|md)$)\w[\w.-]*(?:\.\w+|:\d{1,5})(?:/[\w./@#~-]*)?"
_LOGIN_PART = r"(?s)\A([^:]*:).*@(?=(?:[\w-]+\.)+[A-Za-z]{2,63}(?:[:/]|\Z))"  # a password without a scheme before it
_SERVER = r"(?a)mcp:([A-Za-z0-9_-]{1,64})"
_GRAMMAR = "github:gh-fix-ci, gh-fix-ci@^1.2, owner/repo, https://host, ./folder or ./skill.zip"


@dataclass(frozen=True, slots=True)
class Named:
    """A skill of a configured source, within a version range; without ``source``, of any source that has it."""

    name: str
    source: str | None = None
    range: str | None = None

    def __str__(self) -> str:
        alias = f"{self.source}:" if self.source else ""
        return f"{alias}{self.name}{'@' + self.range if self.range else ''}"


@dataclass(frozen=True, slots=True)
class Local:
    """A folder or an archive on this machine; the path is as the person wrote it."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Git:
    """A git repository at any URL, at a branch, tag or commit; ``path`` is a folder in it."""

    url: str
    rev: str | None = None
    path: str | None = None

    @property
    def place(self) -> str:
        """The repository without a revision."""
        return f"git+{self.url}"

    @property
    def source(self) -> str:
        """The ``source`` of the lock: the repository and the requested revision."""
        return f"{self.place}{'@' + self.rev if self.rev else ''}"

    def is_at(self, url: str) -> bool:
        """Return whether ``url`` is the URL of the repository."""
        return url == self.url

    def __str__(self) -> str:
        return f"{self.source}{'#' + self.path if self.path else ''}"


@dataclass(frozen=True, slots=True)
class GitHub:
    """A repository on GitHub, at a branch, tag or commit; ``path`` is a folder in it."""

    owner: str
    repo: str
    rev: str | None = None
    path: str | None = None

    @property
    def place(self) -> str:
        """The repository without a revision."""
        return f"github:{self.owner}/{self.repo}"

    @property
    def source(self) -> str:
        """The ``source`` of the lock: the repository and the requested revision."""
        return f"{self.place}{'@' + self.rev if self.rev else ''}"

    def is_at(self, url: str) -> bool:
        """Return whether ``url`` may be the URL of the repository, on any host: the environment selects the host."""
        return url.removesuffix(".git").lower().endswith(f"/{self.owner}/{self.repo}".lower())

    def __str__(self) -> str:
        path = f"/{self.path}" if self.path else ""
        return f"{self.place}{path}{'@' + self.rev if self.rev else ''}"


@dataclass(frozen=True, slots=True)
class SiteReference:
    """The URL of a well-known skills site, an ``index.json``, an archive or one ``SKILL.md``."""

    url: str

    @property
    def place(self) -> str:
        """The URL."""
        return self.url

    source = place

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, slots=True)
class Oci:
    """An artifact in an OCI registry; ``repository`` begins with the registry's host."""

    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def place(self) -> str:
        """The repository without a tag or digest."""
        return f"oci://{self.repository}"

    @property
    def source(self) -> str:
        """The ``source`` of the lock: the repository and the requested tag or digest."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.place}{tag}{'@' + self.digest if self.digest else ''}"

    def __str__(self) -> str:
        return self.source


@dataclass(frozen=True, slots=True)
class Mcp:
    """An MCP server that serves skills, at the URL of its endpoint; ``path`` is the URI of a skill's folder there."""

    url: str
    path: str | None = None

    @property
    def place(self) -> str:
        """The server without a skill."""
        return f"mcp+{self.url}"

    source = place

    def __str__(self) -> str:
        return f"{self.place}{'#' + self.path if self.path else ''}"


@dataclass(frozen=True, slots=True)
class McpConfigured:
    """An MCP server by its name in the configuration of an agent."""

    name: str

    def __str__(self) -> str:
        return f"mcp:{self.name}"


Remote = Git | GitHub | SiteReference | Oci | Mcp
Ref = Named | Local | Remote | McpConfigured


def is_range(text: str) -> bool:
    """Return whether ``text`` has only characters of version ranges."""
    return not text.isspace() and re.fullmatch(_RANGE, text) is not None


def is_rev(text: str) -> bool:
    """Return whether ``text`` may be a branch, a tag or a commit: it is no option and no expression of git."""
    return re.fullmatch(_REV, text) is not None


def name_in_uri(uri: str) -> str | None:
    """Return the name at the end of the URI of a skill's folder on an MCP server; None if ``uri`` is no such URI."""
    match = re.fullmatch(_SKILL_URI, uri)
    if match is None or len(uri) > _URI_MAX or {".", ".."} & {*_decoded(uri).replace("\\", "/").split("/")}:
        return None
    return match[1] if is_name(match[1]) else None


def parse_ref(text: str) -> Ref:
    """Return the reference in ``text``, without a look at disk or network.

    Raises:
        UsageError: ``text`` is no reference.
    """
    if clean(text) != text:
        raise UsageError(f"expected a reference without hidden characters, found {quote(text)}")
    if re.match(_LOCAL, text):
        return Local(text)
    if "://" in text:
        if holds_secret(text):
            raise UsageError(f"expected a reference without credentials, found {quote(masked(text))}", hint=NO_SECRET)
        check_port(text)
        return _remote(text)
    if match := re.fullmatch(_SCP, text):
        user, _, place = text.partition("@")
        if len(user) > _USER_MAX and place:
            raise unknown(f"…@{place}", f"git over ssh is {_SSH}")
        url = f"ssh://{match[1]}/{match[2]}"
        if not re.fullmatch(_GIT_URL, url.partition("#")[0]) or holds_secret(url):
            raise unknown(text, f"git over ssh is {_SSH}")
        return _git(f"git+{url}{match[3] or ''}")
    head, _, version = text.partition("@")
    alias, colon, name = head.rpartition(":")
    if "/" in head and alias in ("", "github"):
        return _github(text.removeprefix("github:"), text)
    if match := re.fullmatch(_SERVER, text):
        return McpConfigured(match[1])
    if "/" in head or alias in RESERVED_ALIASES:
        raise unknown(text, "put ./ before a path; any git repository is git+https://host/repository@rev#folder")
    if (colon and not is_name(alias)) or not is_name(name) or ("@" in text and not is_range(version)):
        raise unknown(text, hint_to_name(text))
    return Named(name, alias or None, version.strip() or None)


@lru_cache(maxsize=1 << 14)  # documents repeat the source in each skill
def parse_remote(text: str) -> Remote:
    """Return the reference in ``text`` to a location on the network.

    Raises:
        UsageError: ``text`` is no such reference.
    """
    ref = parse_ref(text)
    # A person may type `user@host:path` or `ssh://host/path`; a document has `git+ssh://`.
    is_typed = isinstance(ref, Git) and not text.startswith(("git+", "http"))
    if is_typed or isinstance(ref, Named | Local | McpConfigured):
        raise UsageError(f"expected a place on the network, found {quote(text)}")
    return ref


def repository(url: str) -> Git | GitHub:
    """Return the reference to the repository at a URL, such as ``git`` in the lock."""
    match = re.fullmatch(_GITHUB_WEB, url)
    return GitHub(match[1], match[2]) if match else Git(url)


def canonical(place: str) -> str:
    """Return the canonical spelling of a repository's URL, or of a ``source`` with one, for comparisons.

    It has the host in lower case, no default port and no slash at the end: no server distinguishes these. The case of
    the path and ``.git`` stay, which some servers distinguish.
    """
    match = re.fullmatch(_SPELLED, place)
    if match is None:
        return place
    git, scheme, user, host, port, path, tail = match.groups()
    port_part = f":{port}" if port and int(port) != PORTS[scheme] else ""
    return f"{git}{scheme}://{user}{host.lower()}{port_part}{path.removesuffix('/')}{tail}"


def unknown(text: str, hint: str) -> UsageError:
    """Return the error about a text that is no reference; a password in it is masked, since errors get into logs."""
    if re.fullmatch(_HOST_ALONE, text):
        hint = f"put https:// or http:// before a host: https://{text}; ./ before a path"
    shown_text = re.sub(_LOGIN_PART, r"\1…@", masked(text))
    return UsageError(f"expected a reference such as {_GRAMMAR}, found {quote(shown_text)}", hint=hint)


def _remote(text: str) -> Remote:
    if text.startswith(("git+", "ssh://")):
        return _git(f"git+{text.removeprefix('git+')}")
    if text.startswith("mcp+"):
        return _mcp(text)
    if text.startswith("oci://"):
        match = re.fullmatch(_OCI, text)
        if match is None:
            raise unknown(text, "oci://registry/repository:tag, or @sha256: and 64 hex digits")
        return Oci(*match.groups())
    if not text.startswith(("https://", "http://")):
        raise unknown(text, "a repository is git+https://, git+ssh:// or git+file:///; a path begins with / or ./")
    if match := re.fullmatch(_GITHUB_WEB, text):
        owner, repo, rev, path = match.groups()
        return _github(f"{owner}/{repo}{path or ''}{'@' + rev if rev else ''}", text)
    if not re.fullmatch(_SITE_URL, text):
        raise unknown(text, "a URL names no user and no password, and has no blanks and no #")
    return Git(text) if text.endswith(".git") else SiteReference(text)


def _git(text: str) -> Git:
    match = re.fullmatch(_GIT, text)
    url, rev, path = match.groups() if match else ("", None, None)
    if not re.fullmatch(_GIT_URL, url):
        raise unknown(text, "git+https://, git+ssh:// or git+file://, then @rev and #folder; it names no password")
    return Git(url, _checked_rev(rev, text), _checked_path(path, text))


def _mcp(text: str) -> Mcp:
    match = re.fullmatch(_MCP, text)
    url, path = match.groups() if match else ("", None)
    if not re.fullmatch(_SITE_URL, url) or (path is not None and name_in_uri(path) is None):
        raise unknown(text, "an MCP server is mcp+https://host/path, then # and the URI of one skill")
    return Mcp(url, path)


def _github(body: str, text: str) -> GitHub:
    match = re.fullmatch(_GITHUB, body)
    if match is None or match[2] in (".", ".."):
        raise unknown(text, "a repository on GitHub is owner/repo, then /folder and @rev; put ./ before a folder")
    owner, repo, path, rev = match.groups()
    return GitHub(owner, repo, _checked_rev(rev, text), _checked_path(path.strip("/") or None, text))


def _checked_rev(rev: str | None, text: str) -> str | None:
    if rev is not None and not is_rev(rev):
        raise unknown(text, "what follows @ is a branch, a tag or a commit")
    return rev


def _checked_path(path: str | None, text: str) -> str | None:
    path = path.strip("/") if path else None
    if path and not is_inner_path(path):
        raise unknown(text, "the folder in a repository has no . and no .. in its path")
    return path or None


# The URLs of references; those of ``owner/repo`` depend on the environment.
PUBLIC = "https://github.com"


def site_of(environ: Mapping[str, str]) -> str:
    """Return the URL of the GitHub server in ``GH_HOST`` or ``GITHUB_SERVER_URL``, or github.com, in lower case."""
    site = f"https://{environ['GH_HOST']}" if environ.get("GH_HOST") else environ.get("GITHUB_SERVER_URL")
    return re.sub(r"^[^/]*//[^/]*", lambda match: match[0].lower(), (site or PUBLIC).rstrip("/"))


def url_of(ref: Remote, environ: Mapping[str, str]) -> str:
    """Return the URL of a reference without its revision and its folder."""
    if isinstance(ref, GitHub):
        return f"{site_of(environ)}/{ref.owner}/{ref.repo}"
    return ref.place if isinstance(ref, Oci) else ref.url
