"""The needs and the interface of a skill as declared in ``agents/*.yaml`` and in other clients' metadata.

A broken declaration is a warning and is left out, for none of this is needed to read a skill. What would
reach for a variable that is not the skill's to have is a ``SecurityError`` and is never left out quietly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from skillhub.errors import FormatError, SecurityError, UndeclaredVariable, UsageError
from skillhub.model.finding import Issue
from skillhub.model.ref import Named, parse_ref
from skillhub.model.requirement import (
    TEXT_MAX,
    Kind,
    McpServer,
    Requirement,
    Transport,
    references,
    split_command,
)
from skillhub.model.syntax import yaml
from skillhub.model.syntax.yaml import Node
from skillhub.model.text import quote
from skillhub.model.tree import SKILL_MD, Tree
from skillhub.model.version import Range

# The later file wins where both speak about the same thing.
FILES: Final = ("agents/openai.yaml", "agents/skillhub.yaml")
OPENCLAW: Final = ("openclaw", "clawdbot", "clawdis")
_TYPES: Final[Mapping[str, Kind]] = {"env_var": "env", "mcp": "mcp", "program": "program", "skill": "skill"}
_TRANSPORTS: Final[Mapping[str, Transport]] = {"stdio": "stdio", "streamable_http": "http", "http": "http"}


@dataclass(frozen=True, slots=True)
class Declared:
    """What a skill says of itself outside of the specification.

    Attributes:
        requires: Its needs, sorted by kind and name, each once.
        interface: ``display_name``, ``short_description``, ``default_prompt`` and so on.
        permissions: Each declared permission as ``path.to.key=value``, sorted; those of both files.
        implicit: Whether a model may invoke it without being told to.
    """

    requires: tuple[Requirement, ...]
    interface: Mapping[str, str]
    permissions: tuple[str, ...]
    implicit: bool
    warnings: tuple[Issue, ...]


def read(tree: Tree, metadata: Mapping[str, Node]) -> Declared:
    """Return what ``agents/*.yaml`` of ``tree`` and the frontmatter's ``metadata`` declare.

    Raises:
        ForbiddenVariable: a variable is asked for that no skill may have.
        UndeclaredVariable: an MCP server refers to a variable that the skill does not declare.
    """
    reading = _Reading()
    reading.skills(metadata.get("requires", ""), f"{SKILL_MD}: metadata.requires")
    for name in OPENCLAW:
        if isinstance(found := metadata.get(name), dict):
            reading.openclaw(found, f"{SKILL_MD}: metadata.{name}")
            break
    documents = [(path, reading.document(tree, path)) for path in FILES if path in tree]
    for path, document in documents:
        reading.interface_of(document, path)
    tools = [entry for path, document in documents for entry in reading.tools(document, path)]
    # Variables first: a server may refer to one that another file declares.
    for entry, where in sorted(tools, key=lambda tool: tool[0].get("type") == "mcp"):
        reading.tool(entry, where)
    return Declared(
        requires=tuple(need for _, need in sorted(reading.needs.items())),
        interface=MappingProxyType(reading.interface),
        permissions=tuple(sorted(reading.permissions)),
        implicit=reading.implicit,
        warnings=tuple(reading.warnings),
    )


@dataclass(slots=True)
class _Reading:
    """What has been gathered so far; a need that comes later replaces an earlier one of its name."""

    needs: dict[tuple[Kind, str], Requirement] = field(default_factory=dict)
    interface: dict[str, str] = field(default_factory=dict)
    permissions: set[str] = field(default_factory=set)
    implicit: bool = True
    warnings: list[Issue] = field(default_factory=list)

    @contextmanager
    def leniently(self, where: str) -> Iterator[None]:
        try:
            yield
        except FormatError as error:
            self.warnings.append(Issue("bad-declaration", error.message, error.where or where))
        except SecurityError as error:
            error.where = error.where or where
            raise

    def add(self, need: Requirement) -> None:
        self.needs[need.kind, need.name] = need

    def document(self, tree: Tree, path: str) -> dict[str, Node]:
        with self.leniently(path):
            try:
                text = tree[path].data.decode("utf-8").removeprefix("\ufeff")
            except UnicodeDecodeError as error:
                raise FormatError("expected UTF-8 text", where=path) from error
            return _mapping(yaml.parse(text, path))
        return {}

    def interface_of(self, document: dict[str, Node], path: str) -> None:
        with self.leniently(f"{path}: interface"):
            for key, value in _mapping(document.get("interface", "")).items():
                with self.leniently(f"{path}: interface.{quote(key)}"):
                    self.interface[key] = _text(value)
        with self.leniently(f"{path}: policy.allow_implicit_invocation"):
            policy = _mapping(document.get("policy", ""))
            self.implicit = yaml.truth(policy.get("allow_implicit_invocation", ""), self.implicit)
        self.permissions.update(_flat(document.get("permissions", "")))

    def tools(self, document: dict[str, Node], path: str) -> list[tuple[dict[str, Node], str]]:
        entries: list[Node] = []
        found: list[tuple[dict[str, Node], str]] = []
        with self.leniently(f"{path}: dependencies.tools"):
            entries = _list(_mapping(document.get("dependencies", "")).get("tools", ""))
        for number, entry in enumerate(entries):
            where = f"{path}: dependencies.tools[{number}]"
            with self.leniently(where):
                found.append((_mapping(entry), where))
        return found

    def tool(self, entry: dict[str, Node], where: str) -> None:
        with self.leniently(where):
            kind = _TYPES.get(_text(entry.get("type", "")))
            if kind is None:
                expected = ", ".join(_TYPES)
                raise FormatError(f"expected a type of {expected}, found {quote(entry.get('type', ''))}")
            required = yaml.truth(entry.get("required", ""), default=True)
            server = self.server(entry) if kind == "mcp" else None
            name, description = _text(entry.get("value", "")), _text(entry.get("description", ""))
            if kind == "skill":
                self.add(_skill(name, description, required=required))
            else:
                self.add(Requirement(kind, name, description, required, server))

    def server(self, entry: dict[str, Node]) -> McpServer | None:
        command, url = _text(entry.get("command", "")), _text(entry.get("url", ""))
        env = tuple(_text(name) for name in _list(entry.get("env", "")))
        bearer = _text(entry.get("bearer_token_env_var", "")) or None
        named = (*env, *(() if bearer is None else (bearer,)), *references(command), *references(url))
        for name in named:
            if ("env", name) not in self.needs:
                raise UndeclaredVariable(
                    f"an MCP server would be given {quote(name)}, a variable that the skill does not declare",
                    hint="the author can declare it as a tool of type env_var",
                )
        if not (command or url):
            return None
        transport = _text(entry.get("transport", "")) or ("stdio" if command else "streamable_http")
        if transport not in _TRANSPORTS:
            raise FormatError(f"expected a transport of {', '.join(_TRANSPORTS)}, found {quote(transport)}")
        return McpServer(_TRANSPORTS[transport], split_command(command), url or None, env, bearer)

    def openclaw(self, declared: dict[str, Node], where: str) -> None:
        requires: dict[str, Node] = {}
        with self.leniently(f"{where}.requires"):
            requires = _mapping(declared.get("requires", ""))
        with self.leniently(f"{where}.primaryEnv"):
            if primary := _text(declared.get("primaryEnv", "")):
                # Names the variable that a settings page fills; on its own it holds nothing back there.
                self.add(Requirement("env", primary, required=False))
        kinds: tuple[tuple[str, Kind], ...] = (("env", "env"), ("bins", "program"))
        for key, kind in kinds:
            for name, place in self.items(requires.get(key, ""), f"{where}.requires.{key}"):
                with self.leniently(place):
                    self.add(Requirement(kind, _text(name)))
        if isinstance(any_of := requires.get("anyBins"), list) and any_of:
            names = ", ".join(quote(name) for name in any_of[:20])
            message = f"one of these programs is needed, which is not checked: {names}"
            self.warnings.append(Issue("any-program", message, f"{where}.requires.anyBins"))
        for item, place in self.items(declared.get("envVars", ""), f"{where}.envVars"):
            with self.leniently(place):
                variable = _mapping(item)
                required = yaml.truth(variable.get("required", ""), default=True)
                description = _text(variable.get("description", ""))
                self.add(Requirement("env", _text(variable.get("name", "")), description, required))

    def skills(self, node: Node, where: str) -> None:
        if isinstance(node, list):
            for item, place in self.items(node, where):
                with self.leniently(place):
                    self.add(_skill(_text(item), "", required=True))
            return
        with self.leniently(where):
            # A sentence has words that are good names: it is names throughout, or none of it is.
            for need in [_skill(word, "", required=True) for word in _text(node).replace(",", " ").split()]:
                self.add(need)

    def items(self, node: Node, where: str) -> list[tuple[Node, str]]:
        with self.leniently(where):
            return [(item, f"{where}[{number}]") for number, item in enumerate(_list(node))]
        return []


def _skill(text: str, description: str, *, required: bool) -> Requirement:
    """Return the need of another skill: ``name``, ``name@range`` or ``source:name@range``."""
    try:
        ref = parse_ref(text)
        if isinstance(ref, Named) and ref.range is not None:
            Range(ref.range)
    except UsageError as error:
        raise FormatError(error.message) from error
    if not isinstance(ref, Named):
        raise FormatError(f"expected the name of a skill, found {quote(text)}")
    return Requirement("skill", ref.name, description, required, range=ref.range, source=ref.source)


def _mapping(node: Node) -> dict[str, Node]:
    if isinstance(node, dict):
        return node
    if node == "":
        return {}
    raise FormatError(f"expected a mapping, found {quote(node)}")


def _list(node: Node) -> list[Node]:
    if isinstance(node, list):
        return node
    if node == "":
        return []
    raise FormatError(f"expected a list, found {quote(node)}")


def _text(node: Node) -> str:
    if not isinstance(node, str):
        raise FormatError(f"expected text, found {quote(node)}")
    if len(node) > TEXT_MAX:
        raise FormatError(f"expected at most {TEXT_MAX} characters, found {len(node)}")
    return node


def _flat(node: Node, path: str = "") -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _flat(value, f"{path}.{key}" if path else key)
    elif isinstance(node, list):
        for item in node:
            yield from _flat(item, path)
    elif path or node:
        yield f"{path}={node}" if path and node else path or node
