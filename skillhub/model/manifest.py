"""What a skill is, as its ``SKILL.md`` says: name, description, who may invoke it, what it needs.

Reading is lenient: what is optional and wrong is a warning, for people have such skills already. ``problems``
holds a skill to the Agent Skills specification, for it is about to be published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from skillhub.errors import FormatError, SkillhubError
from skillhub.model import declared
from skillhub.model.finding import Issue
from skillhub.model.head import limits
from skillhub.model.requirement import Requirement
from skillhub.model.syntax import yaml
from skillhub.model.syntax.frontmatter import Front, Parts, split
from skillhub.model.syntax.yaml import Node
from skillhub.model.text import NAME_MAX, is_name, quote
from skillhub.model.tree import SKILL_MD, Tree
from skillhub.model.version import is_version

_SPECIFIED = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
# Of Claude Code, Codex, openclaw and their relatives: no part of the specification, and no mistake.
_KNOWN = frozenset(
    {
        *("agent", "argument-hint", "arguments", "context", "disable-model-invocation", "disallowed-tools"),
        *("effort", "hooks", "model", "paths", "shell", "user-invocable", "version", "when_to_use"),
        *("always", "command-arg-mode", "command-dispatch", "command-tool", "emoji", "homepage", "os"),
        *("author", "category", "globs", "keywords", "permissions", "tags", "title", "triggers"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Front):
    """A skill's own account of itself, checked as far as can be without believing it.

    Attributes:
        body: The instructions, below the frontmatter.
        body_line: The line of ``SKILL.md`` at which ``body`` begins.
        requires: Needs from all places that declare them, sorted by kind and name.
        implicit: Whether ``agents/*.yaml`` let a model invoke it without being told to.
        warnings: What was wrong and left out, one sentence each.
    """

    name: str
    description: str
    front: Mapping[str, Node]
    body: str
    body_line: int
    requires: tuple[Requirement, ...]
    interface: Mapping[str, str]
    permissions: tuple[str, ...]
    implicit: bool
    warnings: tuple[str, ...]

    @property
    def license(self) -> str | None:
        """As its author puts it."""
        return _text_or_none(self.front.get("license"))

    @property
    def compatibility(self) -> str | None:
        """What it needs around it, in words."""
        return _text_or_none(self.front.get("compatibility"))

    @property
    def model_invocable(self) -> bool:
        """Whether the model may call it by itself; neither the frontmatter nor a file beside it says no."""
        return self.implicit and not self._truth("disable-model-invocation", default=False)

    @property
    def extra(self) -> Mapping[str, Node]:
        """Frontmatter beyond the specification, kept as it was."""
        return MappingProxyType({key: self.front[key] for key in self.front if key not in _SPECIFIED})

    @classmethod
    def read(cls, tree: Tree, strict: bool = False) -> Manifest:
        """Return the manifest of the skill in ``tree``.

        Args:
            tree: The whole skill.
            strict: Refuse also what the specification forbids and a reader can do without.

        Raises:
            FormatError: there is no frontmatter, or its name or description is missing or cannot be used.
            SecurityError: a need reaches for a variable that is not the skill's to have.
        """
        reading = _Reading(tree)
        faults = reading.errors + (reading.breaches if strict else [])
        if faults:
            raise FormatError(faults[0].message, where=faults[0].where)
        said = declared.read(tree, reading.metadata)
        warnings = (*reading.warnings, *reading.breaches, *said.warnings)
        return cls(
            name=reading.name,
            description=reading.description,
            front=MappingProxyType(reading.front),
            body=reading.parts.body,
            body_line=reading.parts.body_line,
            requires=said.requires,
            interface=said.interface,
            permissions=said.permissions,
            implicit=said.implicit,
            warnings=tuple(map(str, warnings)),
        )


def problems(tree: Tree, folder: str | None = None) -> tuple[tuple[Issue, ...], tuple[Issue, ...]]:
    """Return every error and every warning that the specification has for ``tree``; raise nothing.

    A version that is missing, or none by SemVer, is a warning; who publishes makes it an error.

    Args:
        tree: The whole skill.
        folder: The name of the folder that it is in, which has to be the skill's, where it is in one.
    """
    reading = _Reading(tree)
    errors, warnings = reading.errors + reading.breaches, list(reading.warnings)
    try:
        warnings += declared.read(tree, reading.metadata).warnings
    except SkillhubError as error:
        errors.append(Issue(error.code, error.message, error.where or SKILL_MD))
    if reading.name and folder is not None and folder != reading.name:
        message = (
            f"expected the folder to be named {quote(reading.name)} as the skill is, found {quote(folder)}"
        )
        errors.append(Issue("folder-name", message, reading.place("name")))
    return tuple(errors), (*warnings, *_advice(reading))


def _advice(reading: _Reading) -> Iterator[Issue]:
    for key in reading.front:
        if key not in _SPECIFIED and key not in _KNOWN:
            message = f"the key {quote(key)} is not of the specification, nor of a client known here"
            yield Issue("unknown-key", message, reading.place(key))
    for key, value in reading.metadata.items():
        if not isinstance(value, str) and key not in declared.OPENCLAW:
            message = f"expected metadata to map text to text, found more under {quote(key)}"
            yield Issue("metadata-value", message, reading.place("metadata"))
    if reading.front and reading.version is None:
        yield Issue("no-version", "expected metadata.version, found none", reading.place("metadata"))
    elif reading.version is not None and not is_version(reading.version):
        message = f"a registry takes no version but one by SemVer 2.0.0, found {quote(reading.version)}"
        yield Issue("version", message, reading.place("metadata"))


class _Reading(Front):
    """One pass over ``SKILL.md``; what is wrong is sorted by how bad it is."""

    def __init__(self, tree: Tree) -> None:
        self.errors: list[Issue] = []  # the skill cannot be used
        self.breaches: list[Issue] = []  # the specification forbids it, a reader can do without
        self.warnings: list[Issue] = []
        self.name = self.description = ""
        self.parts = Parts("", "", 1)
        self.front: dict[str, Node] = {}
        with self._noting(self.errors, "frontmatter"):
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
        with self._noting(self.errors, "name"):
            name = self._text("name")
            if not is_name(name):
                expected = f"small letters, digits and single hyphens, at most {NAME_MAX}"
                raise FormatError(f"expected a name of {expected}, found {quote(name)}")
            self.name = name
        with self._noting(self.errors, "description"):
            self.description = self._text("description")
            if not self.description:
                raise FormatError("expected a description, found none")
        for key, message in limits(self.description, self.front):
            self.breaches.append(Issue(key, message, self.place(key)))
        with self._noting(self.breaches, "license"):
            self._text("license")
        with self._noting(self.breaches, "metadata"):
            if not isinstance(metadata := self.front.get("metadata", {}), dict):
                raise FormatError(f"expected metadata to map text to text, found {quote(metadata)}")

    def _clients(self) -> None:
        version = self.metadata.get("version")
        if version and self.version is None:
            message = (
                f"expected a version of at most {NAME_MAX} characters, all visible, found {quote(version)}"
            )
            self.warnings.append(Issue("version", message, self.place("metadata")))
        with self._noting(self.breaches, "allowed-tools"):
            tools = self.front.get("allowed-tools", "")
            if not all(isinstance(each, str) for each in (tools if isinstance(tools, list) else [tools])):
                raise FormatError(f"expected names of tools with blanks between, found {quote(tools)}")
        for key in ("user-invocable", "disable-model-invocation"):
            with self._noting(self.warnings, key):
                yaml.truth(self.front.get(key, ""), default=True)

    def place(self, key: str) -> str:
        """Return ``SKILL.md:LINE`` of a key of the frontmatter, without the line if it has none."""
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
    def _noting(self, issues: list[Issue], key: str) -> Iterator[None]:
        try:
            yield
        except FormatError as error:
            message = f"{error.message}; {error.hint}" if error.hint else error.message
            issues.append(Issue(key, message, error.where or self.place(key)))


def _text_or_none(value: Node | None) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else None
