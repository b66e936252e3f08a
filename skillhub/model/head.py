"""The first look at a ``SKILL.md``: what has to be known of a skill before anybody asks for it.

As strict, or as lenient, as the agent that reads: ``Rules`` is data of its profile. ``Manifest`` is the look of
whoever installs or publishes, which has the whole skill before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal
from unicodedata import normalize

from skillhub.errors import FormatError
from skillhub.model.finding import Issue
from skillhub.model.syntax import yaml
from skillhub.model.syntax.frontmatter import Front, Parts, split
from skillhub.model.syntax.yaml import Node
from skillhub.model.text import NAME_MAX, clean, is_name, quote
from skillhub.model.tree import SKILL_MD

DESCRIPTION_MAX: Final = 1024
COMPATIBILITY_MAX: Final = 500
# A value that YAML would take for a mapping, and that no sign of YAML begins: `description: Use when: asked`.
_UNQUOTED = re.compile(r"^([A-Za-z_][\w-]*):[ \t]+([^\s\"'|>\[{&*!%@`#][^\n]*)$", re.MULTILINE | re.ASCII)
_ODD = re.compile(r"[^ -~]+")
_HEADING = re.compile(r"^#[ \t]+([^\n]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rules:
    """How strictly an agent reads.

    Attributes:
        strict: Refuse what the specification forbids; else it is a warning, and YAML that only lacks quotes
            around a colon is read as if it had them.
        nameless: What becomes of a skill without a name: its folder's name, or its first heading, stands in.
        undescribed: What becomes of one without a description: it has none, or its first paragraph stands in.
    """

    strict: bool = False
    nameless: Literal["refused", "folder", "heading"] = "refused"
    undescribed: Literal["refused", "empty", "paragraph"] = "refused"


@dataclass(frozen=True, slots=True)
class Head(Front):
    """What a ``SKILL.md`` says of its skill.

    Attributes:
        name: One line without hidden characters; of strict reading, a name of the specification.
        description: One line without hidden characters.
        body: The instructions, below the frontmatter.
        body_line: The line at which ``body`` begins.
        warnings: What is not as it should be and was read all the same.
    """

    name: str
    description: str
    front: Mapping[str, Node]
    body: str
    body_line: int
    warnings: tuple[Issue, ...]

    @property
    def namespace(self) -> str | None:
        """What the skill puts before ``:`` in its full name; None also if that is no name."""
        given = self.front.get("namespace")
        return given if isinstance(given, str) and is_name(given) else None

    @property
    def argument_hint(self) -> str:
        """What to type behind the name; a list of words is one in brackets, as YAML reads ``[word]``."""
        given = self.front.get("argument-hint")
        if not given:
            return ""
        if isinstance(given, list) and all(isinstance(word, str) for word in given):
            given = f"[{', '.join(map(str, given))}]"
        return one_line(given) if isinstance(given, str) else ""


def read(data: bytes, folder: str, rules: Rules) -> Head:
    """Return the head of the skill in the folder that is named ``folder``.

    Args:
        data: ``SKILL.md``, at least as far as its frontmatter goes.
        folder: The last segment of the path.
        rules: How strictly to read.

    Raises:
        FormatError: it cannot be used, or ``rules`` refuse it; with the line where there is one.
    """
    parts = _parts(data, rules)
    front, warnings = _front(parts.yaml, rules)
    name = _text(front, "name") or _stand_in(rules.nameless, folder, parts.body)
    if not name:
        raise FormatError("expected a name, found none", where=parts.places().get("name", SKILL_MD))
    description = _text(front, "description") or _paragraph(rules, parts.body)
    if not description and rules.undescribed == "refused":
        raise FormatError(
            "expected a description, found none", where=parts.places().get("description", SKILL_MD)
        )
    breaches = tuple(_breaches(name, description, front, folder))
    if rules.strict and breaches:
        key, message = breaches[0]
        raise FormatError(message, where=parts.places().get(key, SKILL_MD))
    places = parts.places() if breaches else {}
    issues = (*warnings, *(Issue(key, message, places.get(key, SKILL_MD)) for key, message in breaches))
    shown = normalize("NFKC", name) if rules.strict else name
    return Head(shown, description, front, parts.body, parts.body_line, issues)


def one_line(text: str) -> str:
    """Return ``text`` on one line, each run of blanks as one, without hidden characters."""
    if not (text.isascii() and text.isprintable()):
        text = _ODD.sub(
            lambda odd: clean(odd[0]), text
        )  # what is plain need not be looked at letter by letter
    return " ".join(text.split()) if "  " in text else text.strip()


def is_specified_name(name: str) -> bool:
    """Say whether the Agent Skills specification allows the name: small letters of any script, digits, hyphens."""
    if is_name(name):
        return True
    given = normalize("NFKC", name)
    is_worded = all(char.isalnum() or char == "-" for char in given) and given == given.lower()
    return 0 < len(given) <= NAME_MAX and is_worded and all(given.split("-"))


def _parts(data: bytes, rules: Rules) -> Parts:
    if rules.nameless == "refused" or data.removeprefix(b"\xef\xbb\xbf").startswith(b"---"):
        return split(data, SKILL_MD)
    return Parts("", data.decode("utf-8", "replace"), 1)


def _front(text: str, rules: Rules) -> tuple[dict[str, Node], tuple[Issue, ...]]:
    warnings: tuple[Issue, ...] = ()
    try:
        front: Node = yaml.parse(text, SKILL_MD, line_offset=1)
    except FormatError as error:
        mended = text if rules.strict else _UNQUOTED.sub(_quoted, text)
        if mended == text:
            raise
        try:
            front = yaml.parse(mended, SKILL_MD, line_offset=1)
        except FormatError:
            raise error from None  # what is wrong with the file, not with our copy of it
        message = "a value that holds ': ' should be in quotes"
        warnings = (Issue("unquoted-colon", message, error.where or SKILL_MD),)
    if front == "":
        return {}, warnings
    if not isinstance(front, dict):
        raise FormatError(f"expected frontmatter of keys and values, found {quote(front)}", where=SKILL_MD)
    return front, warnings


def _quoted(line: re.Match[str]) -> str:
    key, value = line[1], line[2].rstrip()
    if ": " not in value and not value.endswith(":"):
        return line[0]
    doubled = value.replace("'", "''")
    return f"{key}: '{doubled}'"


def _text(front: Mapping[str, Node], key: str) -> str:
    value = front.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FormatError(f"expected text as {key}, found {quote(value)}", where=SKILL_MD)
    return one_line(value)


def _stand_in(nameless: str, folder: str, body: str) -> str:
    if nameless == "folder":
        return one_line(folder)
    heading = _HEADING.search(body) if nameless == "heading" else None
    return one_line(heading[1]) if heading else ""


def _paragraph(rules: Rules, body: str) -> str:
    if rules.undescribed != "paragraph":
        return ""
    for block in re.split(r"\n[ \t\r]*\n", body):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if text := one_line("\n".join(lines)):
            return text
    return ""


def _breaches(
    name: str, description: str, front: Mapping[str, Node], folder: str
) -> Iterator[tuple[str, str]]:
    if not is_specified_name(name):
        expected = f"small letters, digits and single hyphens, at most {NAME_MAX}"
        yield "name", f"expected a name of {expected}, found {quote(name)}"
    if name != folder and normalize("NFKC", name) != normalize("NFKC", folder):
        yield "name", f"expected the folder to be named {quote(name)} as the skill is, found {quote(folder)}"
    yield from limits(description, front)


def limits(description: str, front: Mapping[str, Node]) -> Iterator[tuple[str, str]]:
    """Yield key and message of each text that is longer than the specification allows, or is no text."""
    if len(description) > DESCRIPTION_MAX:
        yield (
            "description",
            f"expected at most {DESCRIPTION_MAX} characters of description, found {len(description)}",
        )
    compatibility = front.get("compatibility", "")
    if not isinstance(compatibility, str):
        yield "compatibility", f"expected text as compatibility, found {quote(compatibility)}"
    elif len(compatibility) > COMPATIBILITY_MAX:
        found = len(compatibility)
        yield (
            "compatibility",
            f"expected at most {COMPATIBILITY_MAX} characters of compatibility, found {found}",
        )
