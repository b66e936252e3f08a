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
from skillhub.model.text import NAME_MAX, RESERVED_ALIASES, is_alias, is_inner_path, is_name, is_object_id
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


# Of a key pydantic makes something else than a rule of a `pattern` of its own, but not of one in `allOf`.
_NAMED = {
    "type": "string",
    "pattern": r"^[a-z0-9]+(-[a-z0-9]+)*$",
    "maxLength": NAME_MAX,
    "not": {"pattern": r"\n"},
}
_DIGEST = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$", "minLength": 71, "maxLength": 71}
_BELOW = {"pattern": r"(^|/)\.{0,2}(/|$)|\\"}  # what a path inside of a folder may not have

Alias = Annotated[
    str,
    Read(
        name_that(is_alias, "alias of a source"),
        type="string",
        allOf=[_NAMED, {"not": {"enum": sorted(RESERVED_ALIASES)}}],
    ),
]
Capability = Annotated[
    str,
    Read(
        _capability,
        type="string",
        pattern=r"^((agents|binary|hooks|scripts|shell)$|(env|mcp|network):.|(permissions|tools):)",
    ),
]
Commit = Annotated[
    str,
    Read(
        text_that(is_object_id, "a full commit"),
        type="string",
        pattern="^[0-9a-f]{40}$",
        minLength=40,
        maxLength=40,
    ),
]
FormatVersion = Annotated[int, version_of("lock format", VERSION)]
InnerPath = Annotated[
    str, Read(_inner, type="string", minLength=1, **{"not": {"anyOf": [_BELOW, {"pattern": ":"}]}})
]
LockDigest = Annotated[Digest, Read(Digest.parse, **_DIGEST)]
Need = Annotated[
    str,
    Read(text_that(_NEED.fullmatch, "a need, as kind:name"), type="string", pattern=f"^({_NEED.pattern})$"),
]
Path = Annotated[str, Read(_path, type="string", minLength=1)]
Repository = Annotated[
    str, Read(_repository, type="string", pattern=r"^(https?://[^/@]+/.|ssh://[^/:]+/.|file:///)")
]
Signers = Annotated[
    Items[
        Annotated[
            str, Read(_signer, type="string", pattern=r"^(key|certificate|sigstore):sha256:[0-9a-f]{64}:.")
        ]
    ],
    Before(_some),
]
Size = Annotated[int, integer("a number of bytes")]
SkillName = Annotated[str, Read(name_that(is_name), type="string", allOf=[_NAMED])]
TreeDigest = Annotated[Digest, Read(_tree, **_DIGEST)]
Url = Annotated[str, Read(_url, type="string", minLength=1, **{"not": {"pattern": "^[^/?#]*://[^/?#]*@"}})]

_RELEASE = (
    r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$"
)


def _kind(needed: str, unwanted: str, **properties: object) -> dict[str, object]:
    """Return what JSON Schema says of a kind of entry: the keys that it has, those that it has not, and others."""
    absent = {key: False for key in unwanted.split()}
    return {"required": needed.split(), "properties": {**absent, **properties}}


def _at(pattern: str) -> dict[str, str]:
    return {"type": "string", "pattern": pattern}


_PLACE = {
    "minLength": 1,
    "not": {"anyOf": [{"pattern": "^~"}, {"pattern": r"(^|[/\\])\.\.([/\\]|$)"}]},
}
OFFERED = _kind("url", "git path rev", source=_NAMED)
# How an entry says where its bytes come from: from a registry, a repository, a place on the network, this machine.
ORIGINS = (
    _kind("digest url version", "git path rev", source=_NAMED, version=_at(_RELEASE)),
    _kind(
        "git rev",
        "digest url",
        source=_at(r"^(git\+(https?://[^/@]+/|ssh://[^/:]+/|file:///)|github:[^/]+/[^/])"),
        path={"minLength": 1, "not": _BELOW},
    ),
    _kind("url", "git path rev", source=_at(r"^(https?://[^/?#@]+([/?#]|$)|oci://)")),
    _kind("path", "git rev url", source=_at(r"^local(\?plugin=[a-z0-9]+(-[a-z0-9]+)*)?$"), path=_PLACE),
)
