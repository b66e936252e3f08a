"""``SKILL.md``: its frontmatter, the glance for lists, the head as agents read it, and the manifest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple
from unicodedata import normalize

from skillhub.errors import FormatError, SkillhubError
from skillhub.formats import yaml
from skillhub.formats.text import NAME_MAX, NAME_RULE, clean, is_name, quote
from skillhub.formats.yaml import Node
from skillhub.model import needs
from skillhub.model.finding import Issue
from skillhub.model.hosts import Rules
from skillhub.model.needs import Requirement
from skillhub.model.tree import SKILL_MD, Tree
from skillhub.model.version import is_version

# Delimiters are whole lines in column 0: a `---` inside a value, or indented in a block of text, is none. Each
# pattern is tried once per line and never backtracks, so that any input takes linear time.
_OPEN = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSE = re.compile(r"^---(.*)", re.MULTILINE)
_FORK: Final = ("context", "agent", "model")
# A tool and its restriction: `Bash(git add:*)`; blanks or commas separate tools.
_TOOL = re.compile(r"[^\s,()]+(?:\([^()]*\))?")
_TOOL_KEYS: Final = ("allowedtool", "allowedtools", "tool", "tools", "toolset", "toolsets")
_ANSWERS: Final = ("true", "false", "yes", "no", "allow", "ask", "deny")
FOLDER_NAME: Final = "expected the folder to be named"


class Parts(NamedTuple):
    """The frontmatter and the body of the file."""

    yaml: str
    body: str

    def places(self) -> dict[str, str]:
        """Return ``SKILL.md:LINE`` of each key of the frontmatter."""
        lines = enumerate(self.yaml.split("\n"), 2)
        return {line.partition(":")[0]: f"{SKILL_MD}:{number}" for number, line in lines}


class Front:
    """The values of the frontmatter besides name and description; an invalid value counts as absent.

    Attributes:
        front: The frontmatter as it was parsed; empty if there is none.
    """

    __slots__ = ()
    front: Mapping[str, Node]

    @property
    def version(self) -> str | None:
        """``metadata.version`` if it is short and visible, since locks and file names contain it; else None."""
        value = self.metadata.get("version")
        is_shown = isinstance(value, str) and 0 < len(value) <= NAME_MAX and clean(value) == value
        return value if is_shown and isinstance(value, str) else None

    @property
    def metadata(self) -> Mapping[str, Node]:
        """The mapping under ``metadata``; its keys are free."""
        value = self.front.get("metadata")
        return MappingProxyType(value if isinstance(value, dict) else {})

    @property
    def allowed_tools(self) -> tuple[str, ...]:
        """The tools that ``allowed-tools`` names, as text or as a list, each once."""
        value = self.front.get("allowed-tools", "")
        texts = [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
        return tuple(dict.fromkeys(tool for text in texts for tool in _TOOL.findall(text)))

    @property
    def granted_tools(self) -> tuple[str, ...]:
        """The tools that some agent would grant to the skill, under every known key and in every form, each once."""
        values = [value for key, value in self.front.items() if _folded(key) in _TOOL_KEYS]
        tools = (tool for value in values for text in _texts(value) for tool in _TOOL.findall(text))
        return tuple(dict.fromkeys((*self.allowed_tools, *tools)))

    @property
    def user_invocable(self) -> bool:
        """Whether a user may invoke the skill by name."""
        return all(self._truth_values("userinvocable", True))

    @property
    def model_invocable(self) -> bool:
        """Whether the model may call the skill by itself."""
        return self._lets_model()

    @property
    def hooks(self) -> Node:
        """The value under ``hooks`` as written, not interpreted; empty if there is none."""
        return self.front.get("hooks", "")

    @property
    def fork(self) -> Mapping[str, str] | None:
        """``context``, ``agent`` and ``model`` if the skill asks for its own context, else None."""
        fields = {key: value for key in _FORK if isinstance(value := self.front.get(key), str) and value}
        return MappingProxyType(fields) if fields.get("context") == "fork" else None

    def _lets_model(self) -> bool:
        is_disabled = any(self._truth_values("disablemodelinvocation", False))
        return not is_disabled and all(self._truth_values("allowimplicitinvocation", True))

    def _truth_values(self, key: str, default: bool) -> Iterator[bool]:
        """Yield the value under each spelling of a key: with hyphens, with underscores, or in capitals."""
        if key[-8:] not in "".join(self.front):  # folding every key takes too long
            return
        for spelling in self.front:
            if _folded(spelling) == key:
                try:
                    yield yaml.truth(self.front[spelling], default)
                except FormatError:
                    yield default


def _folded(key: str) -> str:
    return "".join(char for char in key.lower() if char.isalnum())


def _texts(node: Node) -> Iterator[str]:
    """Yield the texts in a value of any form, with every key of a mapping, whatever its value."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, list):
        for item in node:
            yield from _texts(item)
    else:
        for key, value in node.items():
            yield key
            if not (isinstance(value, str) and value.lower() in _ANSWERS):
                yield from _texts(value)


def split(data: bytes, where: str) -> Parts:
    """Return the frontmatter and the body of ``data``, unchanged; the YAML always begins at line 2 of the file.

    A byte order mark and CRLF line ends are allowed.

    Raises:
        FormatError: the file is larger than ``SKILL_MD_MAX``, is not UTF-8 text, or a delimiter is missing.
    """
    if len(data) > SKILL_MD_MAX:
        raise FormatError(f"expected at most {SKILL_MD_MAX} bytes, found {len(data)}", where=where)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"expected UTF-8 text, found another byte at offset {error.start}", where=where) from error
    if "\0" in text:
        raise FormatError("expected text, found a NUL byte", where=where)
    opening = _OPEN.match(text)
    if opening is None:
        first_line = quote(text.split("\n", 1)[0][:60])
        raise FormatError(f"expected '---' as the first line, found {first_line}", where=f"{where}:1")
    closing = _CLOSE.search(text, opening.end())
    if closing is None:
        raise FormatError("expected a line '---' that ends the frontmatter, found none", where=where)
    if closing[1].removesuffix("\r").strip(" \t"):
        # Here some agents end the frontmatter, and others read a key such as `---x`.
        line = text.count("\n", 0, closing.start()) + 1
        raise FormatError("expected a line '---' alone, found more behind it", where=f"{where}:{line}")
    body = text[closing.end() :].removeprefix("\n")
    return Parts(text[opening.end() : closing.start()], body)


@dataclass(frozen=True, slots=True)
class Glance:
    """The facts of a ``SKILL.md`` that lists of a source show, before any check of the skill.

    Attributes:
        name: None if the frontmatter has no valid name.
        internal: Whether its author hides it from the list.
    """

    name: str | None = None
    description: str = ""
    internal: bool = False


def glance(data: bytes) -> Glance:
    """Return the facts of a ``SKILL.md`` for a list; none of an unreadable file, whose install reports the error."""
    try:
        top = yaml.parse(split(data, SKILL_MD).yaml, SKILL_MD)
    except FormatError:
        return Glance()
    if not isinstance(top, dict):
        return Glance()
    name, description, metadata = (top.get(key) for key in ("name", "description", "metadata"))
    internal = metadata.get("internal") if isinstance(metadata, dict) else ""
    name = name.strip() if isinstance(name, str) and is_name(name.strip()) else None
    description = clean(description)[:1024] if isinstance(description, str) else ""
    return Glance(name, description, internal in ("true", "True", "TRUE"))  # each is true in YAML 1.2


# ``Head`` is read as strictly as an agent reads: ``Rules`` is data of its profile. Install and publish read
# ``Manifest``, which needs the whole skill.

SKILL_MD_MAX: Final = 1 << 20  # bytes, which a host holds in memory
DESCRIPTION_MAX: Final = 1024
COMPATIBILITY_MAX: Final = 500
# A value that YAML would read as a mapping and that begins with no sign of YAML: `description: Use when: asked`.
_UNQUOTED = re.compile(r"^([A-Za-z_][\w-]*):[ \t]+([^\s\"'|>\[{&*!%@`#][^\n]*)$", re.MULTILINE | re.ASCII)
_ODD = re.compile(r"[^ -~]+")
_HEADING = re.compile(r"^#[ \t]+([^\n]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Head(Front):
    """A ``SKILL.md`` as an agent reads it.

    Attributes:
        name: One line without hidden characters; by strict rules, a name that the specification allows.
        description: One line without hidden characters.
        body: The instructions, below the frontmatter.
        warnings: The breaches of the specification that the agent tolerates.
    """

    name: str
    description: str
    front: Mapping[str, Node]
    body: str
    warnings: tuple[Issue, ...]

    @property
    def namespace(self) -> str | None:
        """The part before ``:`` in the skill's full name; None if it is absent or no name."""
        value = self.front.get("namespace")
        return value if isinstance(value, str) and is_name(value) else None

    @property
    def argument_hint(self) -> str:
        """The arguments to type after the name; YAML reads ``[word]`` as a list, which is put in brackets again."""
        value = self.front.get("argument-hint")
        if not value:
            return ""
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            value = f"[{', '.join(map(str, value))}]"
        return one_line(value) if isinstance(value, str) else ""


def read_head(data: bytes, folder: str, rules: Rules) -> Head:
    """Return the head of the skill in ``folder``.

    Args:
        data: ``SKILL.md``, at least to the end of its frontmatter.
        folder: The name of the folder, the last segment of its path.
        rules: How strictly to read.

    Raises:
        FormatError: the file is unusable, or ``rules`` refuse it; with the line if it is known.
    """
    parts = _parts(data, rules)
    front, warnings = _front(parts.yaml, rules)
    name = _text(front, "name") or _stand_in(rules.nameless, folder, parts.body)
    if not name:
        raise FormatError("expected a name, found none", where=parts.places().get("name", SKILL_MD))
    description = _text(front, "description") or _paragraph(rules, parts.body)
    if not description and rules.undescribed == "refused":
        raise FormatError("expected a description, found none", where=parts.places().get("description", SKILL_MD))
    breaches = tuple(_breaches(name, description, front, folder))
    too_long = "name" if len(name) > NAME_MAX else "description" if len(description) > DESCRIPTION_MAX else ""
    refused = breaches if rules.strict else [each for each in breaches if rules.limited and each[0] == too_long]
    places = parts.places() if breaches else {}
    if refused:
        key, message = refused[0]
        raise FormatError(message, where=places.get(key, SKILL_MD))
    issues = (*warnings, *(Issue(key, message, places.get(key, SKILL_MD)) for key, message in breaches))
    shown_name = normalize("NFKC", name) if rules.strict else name
    return Head(shown_name, description, front, parts.body, issues)


def one_line(text: str) -> str:
    """Return ``text`` on one line, each run of blanks as one, without hidden characters."""
    if not (text.isascii() and text.isprintable()):
        text = _ODD.sub(lambda match: clean(match[0]), text)  # `clean` is slow, and plain ASCII does not need it
    return " ".join(text.split()) if "  " in text else text.strip()


class NamedCommand(NamedTuple):
    """A command that a plugin's ``plugin.json`` names; the command's file fills in the empty fields."""

    name: str
    description: str = ""
    argument_hint: str = ""

    @classmethod
    def of(cls, name: str, member: object) -> NamedCommand | None:
        """Return a member of ``commands`` in a ``plugin.json``; None if it is invalid or names no file."""
        if not name or "/" in name or name != one_line(name) or not isinstance(member, dict) or "content" in member:
            return None
        texts = (member.get(key) for key in ("description", "argumentHint"))
        return cls(name, *(one_line(text) if isinstance(text, str) else "" for text in texts))


def is_specified_name(name: str) -> bool:
    """Return whether the Agent Skills specification allows the name: small letters of any script, digits, hyphens."""
    if is_name(name):
        return True
    normalized = normalize("NFKC", name)
    is_worded = all(char.isalnum() or char == "-" for char in normalized) and normalized == normalized.lower()
    return 0 < len(normalized) <= NAME_MAX and is_worded and all(normalized.split("-"))


def _parts(data: bytes, rules: Rules) -> Parts:
    if rules.nameless == "refused" or data.removeprefix(b"\xef\xbb\xbf").startswith(b"---"):
        return split(data, SKILL_MD)
    return Parts("", data.decode("utf-8", "replace"))


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
            raise error from None  # the error in the file, not in the copy with quotes
        warnings = (Issue("unquoted-colon", "a value that holds ': ' should be in quotes", error.where or SKILL_MD),)
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


def _breaches(name: str, description: str, front: Mapping[str, Node], folder: str) -> Iterator[tuple[str, str]]:
    if not is_specified_name(name):
        expected = f"small letters, digits and single hyphens, at most {NAME_MAX}"
        yield "name", f"expected a name of {expected}, found {quote(name)}"
    if name != folder and normalize("NFKC", name) != normalize("NFKC", folder):
        yield "name", f"{FOLDER_NAME} {quote(name)} as the skill is, found {quote(folder)}"
    yield from limits(description, front)


def limits(description: str, front: Mapping[str, Node]) -> Iterator[tuple[str, str]]:
    """Yield key and message of each text that is longer than the specification allows, or is not a text."""
    if len(description) > DESCRIPTION_MAX:
        yield "description", f"expected at most {DESCRIPTION_MAX} characters of description, found {len(description)}"
    compatibility = front.get("compatibility", "")
    if not isinstance(compatibility, str):
        yield "compatibility", f"expected text as compatibility, found {quote(compatibility)}"
    elif len(compatibility) > COMPATIBILITY_MAX:
        expected = f"expected at most {COMPATIBILITY_MAX} characters of compatibility"
        yield "compatibility", f"{expected}, found {len(compatibility)}"


# Reading is lenient: an invalid optional value is a warning, since such skills exist. ``problems`` checks a skill
# against the whole Agent Skills specification before it is published.

_SPECIFIED = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
# Keys of Claude Code, Codex, openclaw and similar clients: not in the specification, but no mistake.
_KNOWN = frozenset(
    {
        *("agent", "argument-hint", "arguments", "context", "disable-model-invocation", "disallowed-tools"),
        *("effort", "hooks", "model", "paths", "shell", "user-invocable", "version", "when_to_use"),
        *("disable_model_invocation", "user_invocable"),
        *("always", "command-arg-mode", "command-dispatch", "command-tool", "emoji", "homepage", "os"),
        *("author", "category", "globs", "keywords", "permissions", "tags", "title", "triggers"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Front):
    """The declarations of a skill about itself, of valid form; whether they are true is not checked.

    Attributes:
        body: The instructions, below the frontmatter.
        requires: The needs from all files that declare needs, sorted by kind and name.
        implicit: Whether ``agents/*.yaml`` let a model invoke the skill by itself.
        warnings: The invalid values, which were left out, one sentence each.
        breaches: The violations of the specification in values that a reader does not need, also in ``warnings``.
        is_whole: Whether no declaration was left out; another reader might read the one that was.
    """

    name: str
    description: str
    front: Mapping[str, Node]
    body: str
    requires: tuple[Requirement, ...]
    interface: Mapping[str, str]
    permissions: tuple[str, ...]
    implicit: bool
    warnings: tuple[str, ...]
    breaches: tuple[Issue, ...] = ()
    is_whole: bool = True

    @property
    def license(self) -> str | None:
        """The license, in the author's words."""
        return _text_or_none(self.front.get("license"))

    @property
    def compatibility(self) -> str | None:
        """The environment that the skill needs, in the author's words."""
        return _text_or_none(self.front.get("compatibility"))

    @property
    def model_invocable(self) -> bool:
        """Whether the model may call the skill by itself; the frontmatter and ``agents/*.yaml`` may forbid it."""
        return self.implicit and self._lets_model()

    @property
    def extra(self) -> Mapping[str, Node]:
        """The frontmatter beyond the specification, unchanged."""
        return MappingProxyType({key: self.front[key] for key in self.front if key not in _SPECIFIED})

    @classmethod
    def read(cls, tree: Tree, strict: bool = False) -> Manifest:
        """Return the manifest of the skill in ``tree``.

        Args:
            tree: The whole skill.
            strict: Refuse every breach of the specification, even in values that a reader does not need.

        Raises:
            FormatError: there is no frontmatter, or its name or description is missing or invalid.
            SecurityError: a need asks for a variable that the skill must not have.
        """
        reading = _Reading(tree)
        faults = reading.errors + (reading.breaches if strict else [])
        if faults:
            raise FormatError(faults[0].message, where=faults[0].where)
        declared = needs.read(tree, reading.metadata)
        return cls(
            name=reading.name,
            description=reading.description,
            front=MappingProxyType(reading.front),
            body=reading.parts.body,
            requires=declared.requires,
            interface=declared.interface,
            permissions=declared.permissions,
            implicit=declared.implicit,
            warnings=tuple(map(str, (*reading.warnings, *reading.breaches, *declared.warnings))),
            breaches=tuple(reading.breaches),
            is_whole=all(each.code != "bad-declaration" for each in declared.warnings),
        )


def problems(tree: Tree, folder: str | None = None) -> tuple[tuple[Issue, ...], tuple[Issue, ...]]:
    """Return every error and every warning by the specification for ``tree``; raise nothing.

    A missing version, or one not by SemVer, is a warning; publishing makes it an error.

    Args:
        tree: The whole skill.
        folder: The name of its folder, which has to be the name of the skill; None if it is in no folder.
    """
    reading = _Reading(tree)
    errors, warnings = reading.errors + reading.breaches, list(reading.warnings)
    try:
        warnings += (declared := needs.read(tree, reading.metadata)).warnings + declared.unread
    except SkillhubError as error:
        errors.append(Issue(error.code, error.message, error.where or SKILL_MD))
    if reading.name and folder is not None and folder != reading.name:
        message = f"{FOLDER_NAME} {quote(reading.name)} as the skill is, found {quote(folder)}"
        errors.append(Issue("folder-name", message, reading.place("name")))
    return tuple(errors), (*warnings, *_advice(reading))


def _advice(reading: _Reading) -> Iterator[Issue]:
    for key in reading.front:
        if key not in _SPECIFIED and key not in _KNOWN:
            message = f"the key {quote(key)} is neither in the specification nor used by a known client"
            yield Issue("unknown-key", message, reading.place(key))
    for key, value in reading.metadata.items():
        if not isinstance(value, str) and key not in needs.OPENCLAW:
            message = f"expected metadata to map text to text, found more under {quote(key)}"
            yield Issue("metadata-value", message, reading.place("metadata"))
    if reading.front and reading.version is None:
        yield Issue("no-version", "expected metadata.version, found none", reading.place("metadata"))
    elif reading.version is not None and not is_version(reading.version):
        message = f"a registry accepts only a version by SemVer 2.0.0, found {quote(reading.version)}"
        yield Issue("version", message, reading.place("metadata"))


class _Reading(Front):
    """One pass over ``SKILL.md``; its issues by their severity."""

    def __init__(self, tree: Tree) -> None:
        self.errors: list[Issue] = []  # the skill is unusable
        self.breaches: list[Issue] = []  # breaches of the specification in values that a reader does not need
        self.warnings: list[Issue] = []
        self.name = self.description = ""
        self.parts = Parts("", "")
        self.front: dict[str, Node] = {}
        with self._recording(self.errors, "frontmatter"):
            self._open(tree)
            self._specified()
            self._clients()

    def _open(self, tree: Tree) -> None:
        if SKILL_MD not in tree:
            raise FormatError(f"expected a file {SKILL_MD}, found none")
        self.parts = split(tree[SKILL_MD].data, SKILL_MD)
        front = yaml.parse(self.parts.yaml, SKILL_MD, line_offset=1)
        if not isinstance(front, dict):
            raise FormatError("expected frontmatter of keys and values, found none")
        self.front = front

    def _specified(self) -> None:
        with self._recording(self.errors, "name"):
            name = self._text("name")
            if not is_name(name):
                raise FormatError(f"expected a name of {NAME_RULE}, found {quote(name)}")
            self.name = name
        with self._recording(self.errors, "description"):
            self.description = self._text("description")
            if not self.description:
                raise FormatError("expected a description, found none")
        for key, message in limits(self.description, self.front):
            self.breaches.append(Issue(key, message, self.place(key)))
        with self._recording(self.breaches, "license"):
            self._text("license")
        with self._recording(self.breaches, "metadata"):
            if not isinstance(metadata := self.front.get("metadata", {}), dict):
                raise FormatError(f"expected metadata to map text to text, found {quote(metadata)}")

    def _clients(self) -> None:
        version = self.metadata.get("version")
        if version and self.version is None:
            message = f"expected a version of at most {NAME_MAX} characters, all visible, found {quote(version)}"
            self.warnings.append(Issue("version", message, self.place("metadata")))
        with self._recording(self.breaches, "allowed-tools"):
            tools = self.front.get("allowed-tools", "")
            if not all(isinstance(tool, str) for tool in (tools if isinstance(tools, list) else [tools])):
                raise FormatError(f"expected names of tools with blanks between, found {quote(tools)}")
        for key in ("user-invocable", "disable-model-invocation"):
            with self._recording(self.warnings, key):
                yaml.truth(self.front.get(key, ""), default=True)

    def place(self, key: str) -> str:
        """Return ``SKILL.md:LINE`` of a key of the frontmatter, or ``SKILL.md`` if its line is unknown."""
        return self._places.get(key, SKILL_MD)

    @cached_property
    def _places(self) -> dict[str, str]:
        return self.parts.places()

    def _text(self, key: str) -> str:
        value = self.front.get(key, "")
        if not isinstance(value, str):
            raise FormatError(f"expected text as {key}, found {quote(value)}")
        return value.strip()

    @contextmanager
    def _recording(self, issues: list[Issue], key: str) -> Iterator[None]:
        try:
            yield
        except FormatError as error:
            message = f"{error.message}; {error.hint}" if error.hint else error.message
            issues.append(Issue(key, message, error.where or self.place(key)))


def _text_or_none(value: Node | None) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else None
