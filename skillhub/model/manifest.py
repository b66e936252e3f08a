"""What a skill is, as its ``SKILL.md`` says: name, description, who may invoke it, what it needs.

Reading is lenient: what is optional and wrong is a warning, for people have such skills already. ``problems``
holds a skill to the Agent Skills specification, for it is about to be published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from types import MappingProxyType

from skillhub.errors import FormatError, SkillhubError
from skillhub.model import declared, yaml
from skillhub.model.dataclass import dataclass
from skillhub.model.finding import Issue
from skillhub.model.frontmatter import split
from skillhub.model.head import COMPATIBILITY_MAX, DESCRIPTION_MAX, fork_of, tools_of, version_of
from skillhub.model.requirement import Requirement
from skillhub.model.text import NAME_MAX, is_name, quote
from skillhub.model.tree import SKILL_MD, Tree
from skillhub.model.yaml import Node

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
class Manifest:
    """A skill's own account of itself, checked as far as can be without believing it.

    Attributes:
        version: ``metadata.version``, the one that registries compare.
        hooks: As written, not interpreted; empty if there are none.
        fork: ``context``, ``agent`` and ``model`` where the skill wants a context of its own, else None.
        extra: Frontmatter beyond the specification, kept as it was.
        requires: Needs from all places that declare them, sorted by kind and name.
        body: The instructions, below the frontmatter.
        body_line: The line of ``SKILL.md`` at which ``body`` begins.
        warnings: What was wrong and left out, one sentence each.
    """

    name: str
    description: str
    version: str | None
    license: str | None
    compatibility: str | None
    allowed_tools: tuple[str, ...]
    user_invocable: bool
    model_invocable: bool
    hooks: Node
    fork: Mapping[str, str] | None
    metadata: Mapping[str, Node]
    interface: Mapping[str, str]
    extra: Mapping[str, Node]
    requires: tuple[Requirement, ...]
    permissions: tuple[str, ...]
    body: str
    body_line: int
    warnings: tuple[str, ...]

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
            version=reading.version,
            license=reading.license,
            compatibility=reading.compatibility,
            allowed_tools=reading.tools,
            user_invocable=reading.user_invocable,
            model_invocable=reading.model_invocable and said.implicit,
            hooks=reading.top.get("hooks", ""),
            fork=reading.fork,
            metadata=MappingProxyType(reading.metadata),
            interface=said.interface,
            extra=MappingProxyType({k: v for k, v in reading.top.items() if k not in _SPECIFIED}),
            requires=said.requires,
            permissions=said.permissions,
            body=reading.body,
            body_line=reading.body_line,
            warnings=tuple(map(str, warnings)),
        )


def problems(tree: Tree, folder: str | None = None) -> tuple[tuple[Issue, ...], tuple[Issue, ...]]:
    """Return every error and every warning that the specification has for ``tree``; raise nothing.

    A version that is missing is the warning ``no-version``; who publishes makes it an error.

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
    for key in reading.top:
        if key not in _SPECIFIED and key not in _KNOWN:
            message = f"the key {quote(key)} is not of the specification, nor of a client known here"
            yield Issue("unknown-key", message, reading.place(key))
    for key, value in reading.metadata.items():
        if not isinstance(value, str) and key not in declared.OPENCLAW:
            message = f"expected metadata to map text to text, found more under {quote(key)}"
            yield Issue("metadata-value", message, reading.place("metadata"))
    if reading.top and reading.version is None:
        yield Issue("no-version", "expected metadata.version, found none", reading.place("metadata"))


class _Reading:
    """One pass over ``SKILL.md``; what is wrong is sorted by how bad it is."""

    def __init__(self, tree: Tree) -> None:
        self.errors: list[Issue] = []  # the skill cannot be used
        self.breaches: list[Issue] = []  # the specification forbids it, a reader can do without
        self.warnings: list[Issue] = []
        self.yaml = self.body = self.name = self.description = ""
        self.body_line = 1
        self.top: dict[str, Node] = {}
        self.metadata: dict[str, Node] = {}
        with self._noting(self.errors, "frontmatter"):
            self._open(tree)
            self._specified()
            self._clients()

    def _open(self, tree: Tree) -> None:
        if SKILL_MD not in tree:
            raise FormatError(f"expected a file {SKILL_MD}, found none")
        self.yaml, self.body, self.body_line = split(tree[SKILL_MD].data, SKILL_MD)
        top = yaml.parse(self.yaml, SKILL_MD, line_offset=1)
        if not isinstance(top, dict):
            raise FormatError("expected frontmatter of keys and values, found none")
        self.top = top

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
        with self._noting(self.breaches, "description"):
            _limit("description", self.description, DESCRIPTION_MAX)
        self.license = self._optional("license")
        self.compatibility = self._optional("compatibility")
        with self._noting(self.breaches, "compatibility"):
            _limit("compatibility", self.compatibility or "", COMPATIBILITY_MAX)
        with self._noting(self.breaches, "metadata"):
            metadata = self.top.get("metadata", {})
            if not isinstance(metadata, dict):
                raise FormatError(f"expected metadata to map text to text, found {quote(metadata)}")
            self.metadata = metadata

    def _clients(self) -> None:
        version = self.metadata.get("version")
        self.version = version_of(self.metadata)
        if version and self.version is None:
            message = f"expected a version of at most {NAME_MAX} visible characters, found {quote(version)}"
            self.warnings.append(Issue("version", message, self.place("metadata")))
        self.tools: tuple[str, ...] = ()
        with self._noting(self.breaches, "allowed-tools"):
            tools = self.top.get("allowed-tools", "")
            listed = tools if isinstance(tools, list) else [tools]
            if not all(isinstance(each, str) for each in listed):
                raise FormatError(f"expected names of tools with blanks between, found {quote(tools)}")
            self.tools = tools_of(tools)
        self.user_invocable = self._truth("user-invocable", default=True)
        self.model_invocable = not self._truth("disable-model-invocation", default=False)
        self.fork = fork_of(self.top)

    def place(self, key: str) -> str:
        """Return ``SKILL.md:LINE`` of a key of the frontmatter, without the line if it has none."""
        return f"{SKILL_MD}:{self._lines[key]}" if key in self._lines else SKILL_MD

    @cached_property
    def _lines(self) -> dict[str, int]:
        return {line.partition(":")[0]: number for number, line in enumerate(self.yaml.split("\n"), 2)}

    def _text(self, key: str) -> str:
        value = self.top.get(key, "")
        if not isinstance(value, str):
            raise FormatError(f"expected text as {key}, found {quote(value)}")
        return value.strip()

    def _optional(self, key: str) -> str | None:
        with self._noting(self.breaches, key):
            return self._text(key) or None
        return None

    def _truth(self, key: str, default: bool) -> bool:
        with self._noting(self.warnings, key):
            return yaml.truth(self.top.get(key, ""), default)
        return default

    @contextmanager
    def _noting(self, issues: list[Issue], key: str) -> Iterator[None]:
        try:
            yield
        except FormatError as error:
            message = f"{error.message}; {error.hint}" if error.hint else error.message
            issues.append(Issue(key, message, error.where or self.place(key)))


def _limit(key: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise FormatError(f"expected at most {limit} characters of {key}, found {len(text)}")
