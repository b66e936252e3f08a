"""``SKILL.md`` in two: the YAML between two lines of ``---``, and the Markdown below; and what the YAML says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from skillhub.errors import FormatError
from skillhub.model.syntax import yaml
from skillhub.model.syntax.yaml import Node
from skillhub.model.text import NAME_MAX, clean, is_name, quote
from skillhub.model.tree import SKILL_MD

# Whole lines in column 0: a `---` inside a value, or indented in a block of text, is no end. Each pattern
# is tried once per line and never looks back, so that any input takes linear time.
_OPEN = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSE = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
_FORK: Final = ("context", "agent", "model")
# A tool and what it is narrowed to: `Bash(git add:*)`; between tools stand blanks or commas.
_TOOL = re.compile(r"[^\s,()]+(?:\([^()]*\))?")
# As agents spell the key.
_TOOL_KEYS: Final = ("allowedtool", "allowedtools", "tool", "tools", "toolset", "toolsets")
_ANSWERS: Final = ("true", "false", "yes", "no", "allow", "ask", "deny")


class Parts(NamedTuple):
    """The two halves of the file, and the line (from 1) at which the lower half begins."""

    yaml: str
    body: str
    body_line: int

    def places(self) -> dict[str, str]:
        """Return ``SKILL.md:LINE`` of each key of the frontmatter."""
        lines = enumerate(self.yaml.split("\n"), 2)
        return {line.partition(":")[0]: f"{SKILL_MD}:{number}" for number, line in lines}


class Front:
    """What the frontmatter says besides name and description; what makes no sense there says nothing.

    Attributes:
        front: The frontmatter as it was parsed; empty where there is none.
    """

    __slots__ = ()
    front: Mapping[str, Node]

    @property
    def version(self) -> str | None:
        """``metadata.version``, if it can be shown: it goes into locks and file names."""
        given = self.metadata.get("version")
        is_shown = isinstance(given, str) and 0 < len(given) <= NAME_MAX and clean(given) == given
        return given if is_shown and isinstance(given, str) else None

    @property
    def metadata(self) -> Mapping[str, Node]:
        """What others may put there, by key."""
        given = self.front.get("metadata")
        return MappingProxyType(given if isinstance(given, dict) else {})

    @property
    def allowed_tools(self) -> tuple[str, ...]:
        """The tools that ``allowed-tools`` names, as text or as a list, each once."""
        value = self.front.get("allowed-tools", "")
        texts = [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
        return tuple(dict.fromkeys(tool for text in texts for tool in _TOOL.findall(text)))

    @property
    def granted_tools(self) -> tuple[str, ...]:
        """The tools that any agent would grant for it: under whichever key and in whichever shape, each once."""
        values = [value for key, value in self.front.items() if _folded(key) in _TOOL_KEYS]
        named = (tool for value in values for text in _texts(value) for tool in _TOOL.findall(text))
        return tuple(dict.fromkeys((*self.allowed_tools, *named)))

    @property
    def user_invocable(self) -> bool:
        """Whether a user may ask for it by name."""
        return self._truth("user-invocable", default=True)

    @property
    def model_invocable(self) -> bool:
        """Whether the model may call it by itself."""
        return not self._truth("disable-model-invocation", default=False)

    @property
    def hooks(self) -> Node:
        """As written, not interpreted; empty if there are none."""
        return self.front.get("hooks", "")

    @property
    def fork(self) -> Mapping[str, str] | None:
        """``context``, ``agent`` and ``model`` where the skill wants a context of its own, else None."""
        found = {key: value for key in _FORK if isinstance(value := self.front.get(key), str) and value}
        return MappingProxyType(found) if found.get("context") == "fork" else None

    def _truth(self, key: str, default: bool) -> bool:
        try:
            return yaml.truth(self.front[key], default) if key in self.front else default
        except FormatError:
            return default


def _folded(key: str) -> str:
    return "".join(char for char in key.lower() if char.isalnum())


def _texts(node: Node) -> Iterator[str]:
    """Yield the texts in a value of any shape; of a mapping the keys too, whatever is said of them."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, list):
        for each in node:
            yield from _texts(each)
    else:
        for key, value in node.items():
            yield key
            yield from () if isinstance(value, str) and value.lower() in _ANSWERS else _texts(value)


def split(data: bytes, where: str) -> Parts:
    """Cut ``data`` at its frontmatter; the YAML always begins at line 2 of the file.

    A byte order mark and CRLF line ends are tolerated; the text of both halves is left as it is.

    Raises:
        FormatError: it is not UTF-8 text, or a delimiter is missing.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"expected UTF-8 text, found byte {error.start} to be none", where=where) from error
    if "\0" in text:
        raise FormatError("expected text, found a NUL byte", where=where)
    opening = _OPEN.match(text)
    if opening is None:
        found = quote(text.split("\n", 1)[0][:60])
        raise FormatError(f"expected '---' as the first line, found {found}", where=f"{where}:1")
    closing = _CLOSE.search(text, opening.end())
    if closing is None:
        raise FormatError("expected a line '---' that ends the frontmatter, found none", where=where)
    body = text[closing.end() :].removeprefix("\n")
    return Parts(text[opening.end() : closing.start()], body, text.count("\n", 0, closing.end()) + 2)


@dataclass(frozen=True, slots=True)
class Glance:
    """What the frontmatter of a ``SKILL.md`` says, believed as little as it need be to list it.

    Attributes:
        name: None if it says none that may be one.
        internal: Whether its author keeps it out of what others are offered.
    """

    name: str | None = None
    description: str = ""
    internal: bool = False


def glance(data: bytes) -> Glance:
    """Return what lists show of a ``SKILL.md``; of one that cannot be read nothing: the install will say why."""
    try:
        top = yaml.parse(split(data, SKILL_MD).yaml, SKILL_MD)
    except FormatError:
        return Glance()
    if not isinstance(top, dict):
        return Glance()
    name, description, metadata = (top.get(key) for key in ("name", "description", "metadata"))
    internal = metadata.get("internal") if isinstance(metadata, dict) else ""
    return Glance(
        name.strip() if isinstance(name, str) and is_name(name.strip()) else None,
        clean(description)[:1024] if isinstance(description, str) else "",
        internal == "true",
    )
