"""The lines of a policy as a person writes them: ``policy.toml``, and ``[policy]`` in ``skillhub.toml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import ConfigDict

from skillhub.errors import FormatError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.document import Document, Items, Read, integer, one_of, text_that, visible, wrong
from skillhub.formats.text import clean, is_alias, is_name
from skillhub.formats.toml import strict_toml
from skillhub.model.finding import SEVERITIES, Severity
from skillhub.model.hosts import host
from skillhub.model.question import Kind
from skillhub.model.reference import is_prefix
from skillhub.policy.patterns import pattern
from skillhub.policy.policy import AGREEABLE, KEYS, Level, Policy, Signed

SECTION = "policy"
_NEVER_OF_A_PROJECT = ("allow-findings", "agree", "trusted-sources")
_ONCE_AGREEABLE = ("source",)  # files of before are read; it answers nothing any more
_AGE_MAX = 3650
_HEADER = re.compile(r"\s*\[\s*([\w.\" '-]+?)\s*\]")
_KEY = re.compile(r"\s*([\w.\" '-]+?)\s*=")
_RULE = re.compile(r"[A-Za-z]{2,8}[0-9]{1,5}", re.ASCII)


def parse_policy(data: bytes, level: Level, path: str) -> Policy:
    """Return the policy that a ``policy.toml`` spells; ``[policy]`` above its lines may be left out.

    Raises:
        FormatError: not TOML, or a key that is unknown or of the wrong kind.
    """
    document = strict_toml(data, path)
    if document.keys() == {SECTION}:
        return policy_of(document[SECTION], level, path, data)
    return _policy(document, level, path, _lines(data))


def policy_of(value: object, level: Level, path: str, data: bytes) -> Policy:
    """Return the policy that a table spells, which is ``[policy]`` in ``data``.

    Raises:
        FormatError: a key that is unknown or of the wrong kind, or that a project may not have.
    """
    lines = _lines(data)
    within = {key: lines.get(f"{SECTION}.{key}", lines.get(SECTION, 0)) for key in KEYS}
    return _policy(value, level, path, {key: line for key, line in within.items() if line})


def _policy(value: object, level: Level, path: str, lines: Mapping[str, int]) -> Policy:
    rules = PolicyFile.parse({SECTION: value}, path).policy
    for key in _NEVER_OF_A_PROJECT if level == "project" else ():
        if key.replace("-", "_") in rules.model_fields_set:
            message = f"only the machine's and the user's policy may have {key}"
            hint = "a repository may forbid more, and may agree to nothing in anybody's place"
            raise FormatError(message, where=f"{path}: {SECTION}", hint=hint)
    return Policy(level=level, path=path, lines=lines, **dict(rules))


def _lines(data: bytes) -> dict[str, int]:
    """Return on which line each dotted key begins; for a person to find it, and for nothing else."""
    found: dict[str, int] = {}
    header = ""
    for number, line in enumerate(data.decode("utf-8").split("\n"), 1):
        match = _HEADER.match(line)
        if match:
            header = f"{_plain(match[1])}."
            found.setdefault(header[:-1], number)
        elif match := _KEY.match(line):
            found.setdefault(header + _plain(match[1]), number)
    return found


def _plain(key: str) -> str:
    return re.sub(r"[\"' ]", "", key)


def _source(value: object) -> str:
    if isinstance(value, str) and value.startswith("sha256:"):
        return Digest.parse(value)
    if not isinstance(value, str) or clean(value) != value or not is_prefix(value):
        wrong("the fingerprint of a root, or a URL such as https://skills.example/", value)
    return value


def _trusted_source(value: object) -> str:
    """Return the root of a registry, alone or behind the one alias that it may have."""
    alias, equals, root = value.rpartition("=") if isinstance(value, str) else ("", "", "")
    if not root.startswith("sha256:") or (equals and not is_alias(alias)):
        wrong("the fingerprint of a root, sha256:…, or NAME=sha256:…", value)
    return f"{alias}{equals}{Digest.parse(root)}"


def _publisher(value: object) -> str:
    name = visible(value)
    if not name.startswith("sha256:"):
        return name
    root, slash, publisher = name.partition("/")
    if slash and not is_name(publisher):
        wrong("a publisher's name behind the root of its registry, sha256:…/NAME", value)
    return f"{Digest.parse(root)}{slash}{publisher}"


def _capability(value: object) -> str:
    text = visible(value)
    pattern(text)
    return text


def _agent(value: object) -> str:
    try:
        return host(visible(value)).id
    except UsageError as error:
        raise FormatError(error.message, hint=error.hint) from error


_rule = text_that(_RULE.fullmatch, "the id of a rule, such as SH001")


class _Rules(Document):
    """The lines of one policy."""

    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))

    sources: Items[Annotated[str, Read(_source)]] | None = None
    publishers: Items[Annotated[str, Read(_publisher)]] | None = None
    signed: Annotated[Signed, one_of("ask", "required")] | None = None
    fail_on: Annotated[Severity, one_of(*SEVERITIES)] | None = None
    min_age_days: Annotated[int, integer(f"0 to {_AGE_MAX} days", _AGE_MAX)] | None = None
    capabilities: Items[Annotated[str, Read(_capability)]] | None = None
    deny_capabilities: Items[Annotated[str, Read(_capability)]] | None = None
    agents: Items[Annotated[str, Read(_agent)]] | None = None
    allow_findings: Items[Annotated[str, Read(_rule)]] | None = None
    agree: Items[Annotated[Kind, one_of(*AGREEABLE, *_ONCE_AGREEABLE)]] | None = None
    trusted_sources: Items[Annotated[str, Read(_trusted_source)]] | None = None


class PolicyFile(Document):
    """The file as it is written, its lines below ``[policy]``."""

    OBJECT = "a table"
    UNKNOWN = f"known: {', '.join(KEYS)}; mind the spelling"

    policy: _Rules
