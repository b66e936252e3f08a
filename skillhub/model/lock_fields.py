"""What each key of ``skillhub.lock`` may hold."""

from __future__ import annotations

import re

from skillhub.errors import FormatError, UsageError
from skillhub.model.decode import Read, array, wrong
from skillhub.model.digest import Digest
from skillhub.model.ref import parse_remote
from skillhub.model.signer import Signer
from skillhub.model.text import clean

_AUTHORITY_WITH_USER = re.compile(r"[^/?#]*://[^/?#]*@")
_COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or clean(value) != value:
        wrong("text without hidden characters", value)
    return value


_texts = array(_text)


def _signer(value: object) -> str:
    return Signer.parse(_text(value)).spell()


def _signers(value: object) -> tuple[str, ...]:
    # An empty list would be a second way to say unsigned.
    return array(_signer)(value) or wrong("a signer", value)


def _size(value: object) -> int:
    # Not isinstance: true is an int to Python.
    return value if type(value) is int and value >= 0 else wrong("a number of bytes", value)


def _url(value: object) -> str:
    text = _text(value)
    # The lock is committed: no secret may get into it.
    return wrong("a URL without user and password", value) if _AUTHORITY_WITH_USER.match(text) else text


def _path(value: object) -> str:
    text = _text(value)
    if text.startswith("~") or ".." in re.split(r"[/\\]", text):
        wrong("a path below the project, or an absolute one", value)
    return text


def _kind(value: object) -> str:
    return str(value) if value in ("registry", "well-known") else wrong("registry or well-known", value)


def _repository(value: object) -> str:
    text = _text(value)
    try:
        parse_remote(f"git+{text}")
    except UsageError as error:
        raise FormatError(error.message) from error
    return text


def _commit(value: object) -> str:
    text = _text(value)
    return text if _COMMIT.fullmatch(text) else wrong("a full commit", value)


FIELDS: dict[str, Read] = {
    **dict.fromkeys(("source", "version"), _text),
    **dict.fromkeys(("capabilities", "requires"), _texts),
    **dict.fromkeys(("tree", "digest", "root"), Digest.parse),
    "git": _repository,
    "kind": _kind,
    "path": _path,
    "rev": _commit,
    "signed_by": _signers,
    "size": _size,
    "url": _url,
}
