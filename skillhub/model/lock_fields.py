"""What each key of ``skillhub.lock`` may hold: the readers of a skill and of a source."""

from __future__ import annotations

import re

from skillhub.errors import FormatError, UsageError
from skillhub.model.digest import NO_FILES, Digest
from skillhub.model.lock_entry import Locked, LockedSource, Patch
from skillhub.model.signer import Signer
from skillhub.model.syntax.decode import (
    Read,
    array,
    integer,
    mapping,
    name_that,
    one_of,
    record,
    text_that,
    version_of,
    visible,
    wrong,
)
from skillhub.model.text import is_alias, is_inner_path, is_name, is_object_id
from skillhub.model.url import holds_secret

VERSION = 1
# What a later version adds has another `version` of the format: whoever reads this one knows them all.
_CAPABILITY = re.compile(r"agents|binary|hooks|scripts|shell|(?:env|mcp|network):.+|(?:permissions|tools):.*")
_NEED = re.compile(
    r"env:[A-Za-z_][A-Za-z0-9_]{0,254}|mcp:[A-Za-z0-9_-]{1,64}|program:[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}"
    r"|skill:[a-z0-9]+(?:-[a-z0-9]+)*",
    re.ASCII,
)


def _capability(value: object) -> str:
    text = visible(value)
    return text if _CAPABILITY.fullmatch(text) else wrong("a capability", value)


def _signer(value: object) -> str:
    text = visible(value)
    Signer.parse(text)
    return text


_read_signers = array(_signer)


def _signers(value: object) -> tuple[str, ...]:
    # An empty list would be a second way to say unsigned.
    return _read_signers(value) or wrong("a signer", value)


def _url(value: object) -> str:
    text = visible(value)
    # The lock is committed: no secret may get into it.
    if holds_secret(text):
        raise FormatError("expected a URL without user, password or another credential")  # not repeated here
    return text


def _path(value: object) -> str:
    text = visible(value)
    if text.startswith("~") or ".." in re.split(r"[/\\]", text):
        wrong("a path below the project, or an absolute one", value)
    return text


def _inner(value: object) -> str:
    text = visible(value)
    return text if is_inner_path(text) and ":" not in text else wrong("a path below the project", value)


def _tree(value: object) -> Digest:
    tree = Digest.parse(value)
    return tree if tree != NO_FILES else wrong("a tree with files", value)


def _repository(value: object) -> str:
    from skillhub.model.ref import parse_remote  # noqa: PLC0415 - 4 ms, which most locks have no use for

    text = visible(value)
    try:
        parse_remote(f"git+{text}")
    except UsageError as error:
        raise FormatError(error.message) from error
    return text


_UNKNOWN = "a newer skillhub may have written it"
_PATCH = record({"base": _tree, "digest": Digest.parse, "path": _inner}, unknown=_UNKNOWN)
_LOCKED = record(
    {
        "source": visible,
        "tree": _tree,
        "size": integer("a number of bytes"),
        "capabilities": array(_capability),
        "requires": array(text_that(_NEED.fullmatch, "a need, as kind:name")),
    },
    {
        "version": visible,
        "url": _url,
        "digest": Digest.parse,
        "git": _repository,
        "rev": text_that(is_object_id, "a full commit"),
        "path": _path,
        "signed_by": _signers,
        "patch": lambda value: Patch(**_PATCH(value)),
    },
    unknown=_UNKNOWN,
)
_SOURCE = record(
    {"kind": one_of("registry", "well-known"), "url": _url}, {"root": Digest.parse}, unknown=_UNKNOWN
)


def _source(value: object) -> LockedSource:
    source = LockedSource(**_SOURCE(value))
    if (source.root is None) == (source.kind == "registry"):
        article = "a" if source.root is None else "no"
        raise FormatError(f"expected {article} root of a {source.kind}", where=".root")
    return source


DOCUMENT: Read = record(
    {
        "version": version_of("lock format", VERSION),
        "sources": mapping(name_that(is_alias, "alias of a source"), _source),
        "skills": mapping(name_that(is_name), lambda value: Locked(**_LOCKED(value))),
    },
    unknown=_UNKNOWN,
)
