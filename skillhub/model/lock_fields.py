"""What each key of ``skillhub.lock`` may hold."""

from __future__ import annotations

import re
from functools import lru_cache

from skillhub.errors import FormatError, UsageError
from skillhub.model.dataclass import dataclass
from skillhub.model.decode import Read, array, integer, one_of, record, wrong
from skillhub.model.digest import NO_FILES, Digest
from skillhub.model.signer import Signer
from skillhub.model.text import clean, is_object_id

_AUTHORITY_WITH_USER = re.compile(r"[^/?#]*://[^/?#]*@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch that a team agreed to, on top of what the source of a skill has.

    Attributes:
        base: The tree that the source has and its publisher signed.
        digest: Of the patch's bytes.
        path: Where it is, below the folder of the lock.
    """

    base: Digest
    digest: Digest
    path: str


def _text(value: object) -> str:
    if (
        isinstance(value, str)
        and value
        and ((value.isascii() and value.isprintable()) or clean(value) == value)
    ):
        return value
    wrong("text without hidden characters", value)


# What a later version adds has another `version` of the format: whoever reads this one knows them all.
_CAPABILITY = re.compile(r"agents|binary|hooks|scripts|shell|(?:env|mcp|network):.+|(?:permissions|tools):.*")
_NEED = re.compile(
    r"env:[A-Za-z_][A-Za-z0-9_]{0,254}|mcp:[A-Za-z0-9_-]{1,64}|program:[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}"
    r"|skill:[a-z0-9]+(?:-[a-z0-9]+)*",
    re.ASCII,
)


def _capability(value: object) -> str:
    text = _text(value)
    return text if _CAPABILITY.fullmatch(text) else wrong("a capability", value)


def _need(value: object) -> str:
    text = _text(value)
    return text if _NEED.fullmatch(text) else wrong("a need, as kind:name", value)


def _signer(value: object) -> str:
    return _spelled(_text(value))


@lru_cache(maxsize=256)  # few publishers sign the many skills of a lock
def _spelled(text: str) -> str:
    return Signer.parse(text).spell()


_read_signers = array(_signer)


def _signers(value: object) -> tuple[str, ...]:
    # An empty list would be a second way to say unsigned.
    return _read_signers(value) or wrong("a signer", value)


def _url(value: object) -> str:
    text = _text(value)
    # The lock is committed: no secret may get into it.
    if "@" in text and _AUTHORITY_WITH_USER.match(text):
        raise FormatError("expected a URL without user and password")  # which are not repeated here
    return text


def _path(value: object) -> str:
    text = _text(value)
    if text.startswith("~") or ".." in re.split(r"[/\\]", text):
        wrong("a path below the project, or an absolute one", value)
    return text


def _inner(value: object) -> str:
    text = _text(value)
    is_inner = all(part not in ("", ".", "..") and not set(part) & {"\\", ":"} for part in text.split("/"))
    return text if is_inner else wrong("a path below the project", value)


def _tree(value: object) -> Digest:
    tree = Digest.parse(value)
    return tree if tree != NO_FILES else wrong("a tree with files", value)


_read_patch = record({"base": _tree, "digest": Digest.parse, "path": _inner})


def _patch(value: object) -> Patch:
    patch = Patch(**_read_patch(value))
    if isinstance(value, dict) and (more := sorted(value.keys() - _PATCH)):
        wrong("base, digest and path alone", more[0])
    return patch


_PATCH = {"base", "digest", "path"}


def _repository(value: object) -> str:
    from skillhub.model.ref import parse_remote  # noqa: PLC0415 - 4 ms, which most locks have no use for

    text = _text(value)
    try:
        parse_remote(f"git+{text}")
    except UsageError as error:
        raise FormatError(error.message) from error
    return text


def _commit(value: object) -> str:
    text = _text(value)
    return text if is_object_id(text) else wrong("a full commit", value)


FIELDS: dict[str, Read] = {
    **dict.fromkeys(("source", "version"), _text),
    "capabilities": array(_capability),
    "requires": array(_need),
    **dict.fromkeys(("digest", "root"), Digest.parse),
    "git": _repository,
    "kind": one_of("registry", "well-known"),
    "patch": _patch,
    "path": _path,
    "rev": _commit,
    "signed_by": _signers,
    "size": integer("a number of bytes"),
    "tree": _tree,
    "url": _url,
}
