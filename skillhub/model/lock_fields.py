"""What each key of ``skillhub.lock`` may hold."""

from __future__ import annotations

import re
from typing import Annotated

from skillhub.errors import FormatError, UsageError
from skillhub.model.digest import NO_FILES, Digest
from skillhub.model.ref import parse_remote
from skillhub.model.signer import Signer
from skillhub.model.syntax.document import (
    Before,
    Items,
    Read,
    integer,
    name_that,
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


def _some(value: object) -> object:
    # An empty list would be a second way to say unsigned.
    return wrong("a signer", value) if value == [] else value


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
    text = visible(value)
    try:
        parse_remote(f"git+{text}")
    except UsageError as error:
        raise FormatError(error.message) from error
    return text


Alias = Annotated[str, Read(name_that(is_alias, "alias of a source"))]
Capability = Annotated[str, Read(_capability)]
Commit = Annotated[str, Read(text_that(is_object_id, "a full commit"))]
FormatVersion = Annotated[int, version_of("lock format", VERSION)]
InnerPath = Annotated[str, Read(_inner)]
Need = Annotated[str, Read(text_that(_NEED.fullmatch, "a need, as kind:name"))]
Path = Annotated[str, Read(_path)]
Repository = Annotated[str, Read(_repository)]
Signers = Annotated[Items[Annotated[str, Read(_signer)]], Before(_some)]
Size = Annotated[int, integer("a number of bytes")]
SkillName = Annotated[str, Read(name_that(is_name))]
TreeDigest = Annotated[Digest, Read(_tree)]
Url = Annotated[str, Read(_url)]
