"""What a URL is to us: one way to take it apart, and what lies below another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from skillhub.errors import SkillhubError

TYPE_CHECKING = False  # as type checkers know it: without `typing` a command starts 2 ms sooner
if TYPE_CHECKING:
    from typing import Any

# The usual port of each scheme that has one here.
PORTS = {"https": 443, "http": 80, "ssh": 22, "oci": None, "file": None}
# RFC 3986, appendix B, stricter: nothing in it that some drop (tabs, line feeds), a host without blanks, a port that
# is a number. The user ends at the last `@`; an IPv6 address may have a zone.
_URL = (
    r"(?![^\0-\x1f\x7f]*[\0-\x1f\x7f])([A-Za-z][A-Za-z0-9+.-]*)://(?:([^/?#\[\]]*)@)?"
    r"(\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:%[0-9A-Za-z._~-]+)?\]|[^\s/?#@:\[\]\\]*)(?::([0-9]{0,5}))?"
    r"(|/[^?#]*)(?:\?([^#]*))?(?:#.*)?"
)
_USER = r"://[^/?#]*@"
_LENGTH_MAX = 16384
_MEMBER = r"[\"'] ?: ?[\"']?"  # of JSON: what stands between a name and its value
_SCP = r"(?a)([\w.-]+@[\w.-]+):/?([^/:\s][^:\s]*)"
# Names of parameters, without what separates their words. The first are credentials whatever they hold, the second
# are too short to be looked for in others, the third are used for other things as well: there the value decides.
_SECRET_NAME = re.compile(
    r"token(?!iz|is|s$|type|count|limit)|secret(?!ar)|passw(?!ordless)|passphrase|pwd|credential|signature|apikey|accesskey|privatekey"
    r"|bearer|jwt|hmac|keypairid|accesskeyid|subscriptionkey|authkey|userkey"
)
_SECRET_NAMES = frozenset(("pass", "pw", "sig", "pat", "otp", "cred", "creds", "xauth", "sas"))
_UNSURE_NAME = re.compile(
    r"session|cookie|authoriz|oauth|saml|assertion|passw|key$|^(?:auth|sid|code|ticket)$"
)
_CHECKSUM_NAME = re.compile(
    r"v|ver|version|rev|revision|ref|commit|hash|h|etag|digest|checksum|md5|sha[0-9]*"
)
# Values that are no credential: what switches something on or off; words, and numbers of a few digits.
_SWITCH = re.compile(r"(?i)|[0-9]|true|false|yes|no|on|off|none|null")
_WORD = r"(?:[A-Z]?[a-z]{1,20}(?:[A-Z][a-z]{2,20}){0,4}|[A-Z]{1,20}|[0-9]{1,5}|(?:19|20)[0-9]{6})"
_WORDS = re.compile(rf"v?{_WORD}(?:[-_.,/ ]{_WORD})*")
_TOKEN = re.compile(
    r"(?:gh[opsur]_|github_pat_|glpat-|xox[a-z]-|sk-|sk_live_|npm_|pypi-|hf_|AKIA|ASIA|AIza|eyJ)[A-Za-z0-9_-]{8}"
)
_RUN = r"[0-9]+|[A-Z]?[a-z]+|[A-Z]+"  # a name with a date has few, a token many
_ESCAPED = rb"%([0-9A-Fa-f]{2})"


NO_SECRET = "a token is sent in a header: name its variable under [tokens] in config.toml, or use netrc"  # noqa: S105


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL.

    Attributes:
        user: What stands before the ``@``, a password among it; None without one.
        host: In lower case, an IPv6 address without its brackets.
        port: The usual one where none is said; None if there is none.
    """

    scheme: str
    user: str | None
    host: str
    port: int | None
    path: str
    query: str


def parse(text: str) -> Url | None:
    """Return the parts of a URL with ``://`` in it, None if it is none."""
    found = re.fullmatch(_URL, text, re.DOTALL)
    if found is None or (found[4] and not 0 < int(found[4]) < 65536):
        return None
    scheme, user, host, port, path, query = found.groups()
    scheme = scheme.lower()
    host = host.lower().strip("[]")
    return Url(scheme, user, host, int(port) if port else PORTS.get(scheme), path, query or "")


def authority(text: str) -> str:
    """Return what a URL says between ``://`` and the path, as it is spelled; empty of what is none."""
    return re.split(r"[/?#]", text.partition("://")[2], maxsplit=1)[0]


def of_repository(text: str) -> str:
    """Return the URL that git means by ``user@host:path``; what is not spelled so is left as it is."""
    found = None if "://" in text else re.fullmatch(_SCP, text)
    return f"ssh://{found[1]}/{found[2]}" if found else text


def names_user(text: str) -> bool:
    """Say whether something stands before the host: a user, and maybe a password."""
    return "@" in text and re.match(rf"[^/?#]*{_USER}", text) is not None


def holds_secret(text: str) -> bool:
    """Say whether a URL may be kept by nobody: it holds a password, or what looks like another credential.

    A user without a password is none over ssh, where keys prove who it is. Of what follows the first ``?``, ``#`` or
    ``;`` names and values are looked at, decoded as often as some server may: a name that credentials have, one that
    they may have with a value that is no word, or a value that is made like one. This is the one rule for what is
    stored; ``masked`` has it for what is shown.
    """
    scheme, colon, rest = text.partition("://")
    if not colon:
        scheme, rest = "", text
    host = _decoded(re.split(r"[/?#]", rest, maxsplit=1)[0])
    if "@" in host and not (scheme.lower().endswith("ssh") and ":" not in host.rpartition("@")[0]):
        return True
    found = re.search(r"[?#;]", rest)
    if found is None or len(rest) > _LENGTH_MAX:
        return found is not None  # nobody reads what is so long, nor do we
    tail = re.sub(_MEMBER, "=", _decoded(rest[found.start() :]))
    # Another URL among them may have a user of its own.
    users = re.findall(r"://([^/?#@\s]*)@", tail)
    return any(":" in user for user in users) or any(map(_is_secret, re.split(r"[?#;&,{}]", tail)))


def masked(text: str) -> str:
    """Return the text without what may be a password in it, or another credential of a URL."""
    if "://" not in text:
        return text
    # A password may hold what ends a host: of what it is in doubt, more is hidden.
    text = re.sub(r"([a-z+]{0,9})://([^/\s]*)(?:@|%40)", _without_user, text, flags=re.IGNORECASE)
    return re.sub(r"://[^\s\"'<>?#;]*[?#;][^\s\"'<>]*", _without_query, text)


def all_masked(value: Any) -> Any:  # noqa: ANN401 - a JSON value, and the same
    """Return a JSON value, each text in which is ``masked``."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: all_masked(member) for key, member in value.items()}
    return [*map(all_masked, value)] if isinstance(value, list | tuple) else value


@contextmanager
def errors_masked() -> Iterator[None]:
    """Mask what an error that passes tells; whoever calls us may write it into a log."""
    try:
        yield
    except SkillhubError as error:
        error.message, error.args = masked(error.message), (masked(error.message),)
        error.where, error.hint = (each and masked(each) for each in (error.where, error.hint))
        raise


def _without_user(found: re.Match[str]) -> str:
    is_name = found[1].lower().endswith("ssh") and re.fullmatch(r"[\w.-]+", found[2])
    return found[0] if is_name else f"{found[1]}://…@"


def _without_query(found: re.Match[str]) -> str:
    url = found[0]
    return re.split(r"(?<=[?#;])", url, maxsplit=1)[0] + "…" if holds_secret(url.replace("…@", "")) else url


def _decoded(text: str) -> str:
    """Return a text percent-decoded until nothing is left to decode, four times at most."""
    for _ in range(4):
        plain = re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)
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
    """Say whether this is made like a token: known by its beginning, or long, mixed and without order."""
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
    """Say whether ``text`` is a URL that others can lie below: https, http, ssh, oci with a host, or file."""
    return _placed(text) is not None


def is_under(text: str, prefix: str) -> bool:
    """Say whether a URL is ``prefix`` or lies below it; segments are compared whole, a user name not at all.

    A path that a server may take for another one is below nothing: one with ``.``, ``..`` or an empty segment, plain
    or percent-encoded, or with an encoded slash.
    """
    mine, theirs = _placed(text), _placed(prefix)
    if mine is None or theirs is None or mine[0] != theirs[0]:
        return False
    return mine[1][: len(theirs[1])] == theirs[1]


def base_of(url: str, bases: Iterable[str]) -> str | None:
    """Return the longest of these, none of which ends with a slash, that ``url`` begins with, letter by letter."""
    found = [base for base in bases if url == base or url.startswith((base + "/", base + "?"))]
    return max(found, key=len, default=None)


def _segments(path: str) -> list[bytes]:
    """Return what stands between the slashes of a path, percent-decoded."""
    return [
        re.sub(_ESCAPED, lambda found: bytes([int(found[1], 16)]), each)
        for each in path.encode("utf-8", "surrogatepass").split(b"/")
    ]


def _placed(text: str) -> tuple[tuple[str, str, int | None], tuple[bytes, ...]] | None:
    """Return where a URL is, and the segments of its path."""
    url = parse(text)
    if url is None or url.scheme not in PORTS or (not url.host) != (url.scheme == "file") or "\\" in text:
        return None
    path = _segments(url.path)[1:]
    if path and not path[-1]:
        path.pop()
    if any(each in (b"", b".", b"..") or not {*each}.isdisjoint(b"/\\\0") for each in path):
        return None
    return (url.scheme, url.host, url.port), tuple(path)
