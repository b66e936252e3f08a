"""The patterns of policies for capabilities, each read by its kind: tools as tools, hosts as hosts.

A pattern that can match nothing is a ``FormatError``, since a policy with such a mistake would forbid nothing.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from skillhub.errors import FormatError
from skillhub.formats.text import deferred, quote
from skillhub.model.mcp_server import runs_any_command

# Kinds of capabilities: those without a name, and those with a name after a colon.
BARE_KINDS = ("agents", "binary", "hooks", "scripts", "shell")
NAMED_KINDS = ("env", "mcp", "network", "permissions", "tools")

_KIND = deferred(r"[a-z*?]+", re.ASCII)
_HOST = deferred(r"[a-z0-9_*?-][a-z0-9._*?-]*|\[?[0-9a-f:.*?]*:[0-9a-f:.*?]*\]?", re.ASCII)
_PORT = deferred(r"[^:]*:[0-9*]+")
_NUMERIC = deferred(r"(?:0x[0-9a-f]+|[0-9]+)(?:\.(?:0x[0-9a-f]+|[0-9]+)){0,3}", re.ASCII)
_NAME = deferred(r"[a-z0-9_*?-]+", re.ASCII)
# A tool is a name, with a restriction in brackets; some agents write `server/tool` or `Server:tool`.
_TOOL = deferred(r"(?a)@?(?P<name>[a-z0-9_.*?-]+)\s*(?:\((?P<narrowed>[^()]*)\)|[:/](?P<part>[a-z0-9_.:/*?-]*))?")
_QUOTES = "\"'`[]{},; \t"
# The characters between two commands.
_JOINS = deferred(r"[;&|`$<>{}\n]+")
_NAMES_SOMETHING = deferred(r"[^\W_]|[*?]")
# The names of the tool that runs commands in other agents: they consist of these words, one of which means a shell.
_SHELL = deferred(
    r"(?=.*(?:sh|shell|cmd|command|terminal|exec|process|stdin|interpreter|runtask))"
    r"(?:run|execute|exec|launch|start|open|write|send|local|unified|container|developer|power|bash|zsh|pwsh|shell|sh|cmd"
    r"|commands?|terminal|in|call|tool|process|tasks?|code|stdin|interpreter|to|the|a|[0-9])+"
)
_OF_WINDOWS = frozenset({"powershell", "pwsh", "cmd"})
# The names that agents read as all of their tools.
_ALL = frozenset({"all", "alltools", "any", "anytool", "builtin", "builtins", "default", "everything", "true", "yes"})
_PARTS = deferred(r"[/:.]")
# The text before the name of a program in a command: words of the shell, variables, redirections.
_LEADS = deferred(
    r"(?:then|do|else|elif|if|while|until|!|time|coproc|--)\s+|\w+\+?=(?:\"[^\"]*\"|'[^']*'|[^\s\"'])*\s+", re.ASCII
)
_REDIRECTED = deferred(r"[0-9]*(?:>>?|<)[&|]?\s*[^\s;&|()]+")
_VARIABLE_PROGRAM = deferred(r"(?:^|[;&|`\n({])\s*[^\s;&|]*\$")
_WORDS_MAX = 50
# The programs whose options may name other programs to run.
_CONFIGURED = frozenset({"git", "hg"})


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a skill requests, or that a policy names.

    Attributes:
        names: The name in lower case, as a glob; for an MCP server also a glob for all of its tools.
        narrowed: The restriction, as a glob; None for any use.
    """

    names: tuple[str, ...]
    narrowed: str | None = None

    @classmethod
    def parse(cls, text: str) -> Tool:
        """Read ``Bash``, ``Bash(git:*)``, ``mcp__server``, ``mcp__server__tool``, ``server/tool``; drop quotes.

        Raises:
            FormatError: the text is not the name of a tool with at most one pair of brackets after it.
        """
        match = _TOOL.fullmatch(text.strip(_QUOTES).lower())
        if match is None or not _NAMES_SOMETHING.search(match["name"]):
            raise FormatError(f"expected a tool such as Bash, Bash(git:*) or mcp__server, found {quote(text)}")
        name = match["name"]
        if name.startswith("mcp__"):
            # Agents replace characters that the name of a function cannot hold by `_`.
            name = re.sub(r"[^\w*?-]", "_", name).rstrip("_")
            return cls((name, f"{name}__*"), _narrowed(match["narrowed"]))
        name = re.sub(r"[_-]", "", name)
        return cls((name,), _narrowed(match["narrowed"] if match["part"] is None else match["part"]))

    def overlaps(self, other: Tool) -> bool:
        """Return whether both allow a common use of a tool, in any spelling of a command in this one."""
        own, denied = _by_any_agent(self), _by_any_agent(other)
        if not any(globs_overlap(name, other_name) for name in own.names for other_name in denied.names):
            return False
        if own.narrowed is None or denied.narrowed is None:
            return True
        widest = _widest(denied.narrowed)
        return any(globs_overlap(command, widest) for command in _commands(own.narrowed))

    def is_within(self, other: Tool) -> bool:
        """Return whether ``other`` allows every use of a tool that this one allows."""
        if not all(any(_glob_is_within(name, other_name) for other_name in other.names) for name in self.names):
            return False
        if self.narrowed is None or other.narrowed is None:
            return other.narrowed is None
        is_bare = other.narrowed.endswith(" *") and self.narrowed == other.narrowed[:-2]
        return is_bare or _glob_is_within(self.narrowed, other.narrowed)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern: a glob for kinds, and a glob for names; the latter is None for all capabilities of the kinds."""

    kind: str
    value: str | None = None

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Return the pattern in ``text``.

        Raises:
            FormatError: no capability could match the pattern, or the name does not have the form of its kind.
        """
        kind, colon, value = text.lower().partition(":")
        kinds = [known_kind for known_kind in (*BARE_KINDS, *NAMED_KINDS) if fnmatchcase(known_kind, kind)]
        if not kinds or not _KIND.fullmatch(kind):
            expected = ", ".join(sorted((*BARE_KINDS, *NAMED_KINDS)))
            raise FormatError(f"expected a capability of the kinds {expected}, found {quote(text)}")
        if not colon or (value and set(value) == {"*"}):
            return cls(kind)
        if not set(kinds) & set(NAMED_KINDS):
            raise FormatError(f"expected {quote(kind)} without a name after it, found {quote(text)}")
        for named_kind in set(kinds) & set(NAMED_KINDS):
            _CHECKS[named_kind](value)
        return cls(kind, value)

    @property
    def is_of_tools(self) -> bool:
        """Whether the pattern names tools; the comparison with each tool of a skill takes long."""
        return self.value is not None and fnmatchcase("tools", self.kind)

    def denies(self, capability: str) -> bool:
        """Return whether the capability overlaps with this pattern, or may do so."""
        return self._fits(capability, self._may_hold)

    def permits(self, capability: str) -> bool:
        """Return whether the capability is entirely within this pattern."""
        return self._fits(capability, self._is_all_of)

    def _fits(self, capability: str, judge: Callable[[str, str, str], bool]) -> bool:
        kind, _, value = capability.partition(":")
        return fnmatchcase(kind.lower(), self.kind) and (self.value is None or judge(kind, value, self.value))

    @staticmethod
    def _may_hold(kind: str, value: str, pattern: str) -> bool:
        # Too many capabilities of a kind become one `network:*`, and a long text is cut with `…`: either
        # may contain a denied one.
        if value in ("*", "?") and kind != "tools":
            return True
        return "…" in value or _DENIES.get(kind, _text_fits)(value, pattern)

    @staticmethod
    def _is_all_of(kind: str, value: str, pattern: str) -> bool:
        if value in ("*", "?") and kind != "tools":
            return pattern == value
        return _PERMITS.get(kind, _text_fits)(value, pattern)


@lru_cache(maxsize=1024)
def pattern(text: str) -> Pattern:
    """Return ``Pattern.parse(text)``, parsed once."""
    return Pattern.parse(text)


def globs_overlap(one: str, two: str) -> bool:
    """Return whether a text exists that matches both globs; `*` is any characters and `?` is one."""
    places, every = _places(two)
    stars, any_char = places.get("*", 0), places.get("?", 0)
    reached = 1  # a bit for each place in `two` that may be reached before a character of `one`
    for char in one:
        reached |= (reached & stars) << 1
        if char == "*":
            reached = -(reached & -reached) & every
            continue
        reached &= every if char == "?" else stars | any_char | places.get(char, 0)
        reached = (reached & stars) | (reached & ~stars) << 1 & every
        if not reached:
            return False
    return (reached | (reached & stars) << 1) > every >> 1


@lru_cache(maxsize=4096)
def _places(glob: str) -> tuple[Mapping[str, int], int]:
    """Return a bit for each place of each character in a glob, and the bits of all places and of the end."""
    glob, places = re.sub(r"\*+", "*", glob), defaultdict[str, int](int)
    for place, char in enumerate(glob):
        places[char] |= 1 << place
    return places, (2 << len(glob)) - 1


def _glob_is_within(inner: str, outer: str) -> bool:
    """Return whether every text that matches ``inner`` matches ``outer``; False if that is hard to decide."""
    return fnmatchcase(inner, outer.replace("[", "[[]").replace("?", "[!*]"))


@lru_cache(maxsize=1024)
def _by_any_agent(tool: Tool) -> Tool:
    """Return the tool under the names by which it runs commands in any agent."""
    name = tool.names[0]
    if name == "bash" or name in _OF_WINDOWS or not _SHELL.fullmatch(name):
        return tool
    # Some of these agents read the restriction as the beginning of a command.
    return Tool(("bash", *tool.names), None if tool.narrowed is None else f"{tool.narrowed}*")


def _narrowed(text: str | None) -> str | None:
    """Return the normalized restriction of a tool: `git:*` is `git *`; an empty one or `*` is None."""
    text = re.sub(r"\*+", "*", " ".join((text or "").strip(_QUOTES).split()))
    text = re.sub(r"\s*:\s*\*$", " *", text)
    return None if not text.strip("*: ") else text


@lru_cache(maxsize=1024)
def _commands(narrowed: str) -> set[str]:
    """Return the commands in a restriction, as it is written and as a shell would parse it, each at its widest."""
    commands = {narrowed}
    if _VARIABLE_PROGRAM.search(narrowed):
        commands.add("*")  # only the shell knows the program in a variable
    for part in _JOINS.split(_REDIRECTED.sub(" ", narrowed)):
        command = part.strip()
        while lead := _LEADS.match(command):
            command = command[lead.end() :]
        words = re.sub(r"[\\\"'^]", "", command).split()[:_WORDS_MAX]
        is_wrapped = False
        while words:
            program, args = words[0].rpartition("/")[2].removesuffix(".exe"), words[1:]
            commands |= {" ".join(words), " ".join((program, *args))}
            is_any = runs_any_command(program) or (program in _CONFIGURED and args[:1] and args[0][:1] == "-")
            if is_any and "*" in "".join(args):
                commands.add("*")
            # After the name of a wrapper and some options a command of its own may follow.
            is_wrapped = is_wrapped or bool(is_any)
            words = args if is_wrapped else []
    return {_widest(command) for command in commands - {""}}


def _widest(narrowed: str) -> str:
    """Return the restriction in the broadest reading of any agent: `git *` allows all text that begins with `git`."""
    return f"{narrowed[:-2]}*" if narrowed.endswith(" *") else narrowed


@lru_cache(maxsize=2048)
def _host(value: str) -> str:
    """Return the normalized host: an address in its usual form, a name in punycode without its last dot."""
    value = value.strip("[]").rstrip(".")
    try:
        if _NUMERIC.fullmatch(value):
            return socket.inet_ntoa(socket.inet_aton(value))
        if ":" in value:
            address = ipaddress.IPv6Address(value)
            return str(address.ipv4_mapped or address)
    except (OSError, ValueError):
        return value
    labels = value.split(".")
    return ".".join(each if each.isascii() else f"xn--{each.encode('punycode').decode()}" for each in labels)


def _text_fits(value: str, pattern: str) -> bool:
    return fnmatchcase(value.lower(), pattern.replace("[", "[[]"))


def _host_fits(value: str, pattern: str) -> bool:
    return fnmatchcase(_host(value.lower()), _host(pattern))


def _tool_is_denied(value: str, pattern: str) -> bool:
    if not _NAMES_SOMETHING.search(value):
        return False  # no name, but the dash of a list, or the `&` between two names
    denied = _tool(pattern)
    try:
        return any(tool.overlaps(denied) for tool in _possible_tools(value))
    except FormatError:
        return True  # some agent may read it as any tool


_tool = lru_cache(maxsize=1024)(Tool.parse)


@lru_cache(maxsize=1024)
def _possible_tools(value: str) -> tuple[Tool, ...]:
    """Return the tools that some agent may read in this text: by the whole name, or by a part of it."""
    tool = Tool.parse(value.replace("?", "*"))
    name, bracket, narrowed = value.strip(_QUOTES).lower().partition("(")
    parts = [] if name.startswith("mcp__") else [part for part in _PARTS.split(name) if part.strip(" @*?-_")]
    tools = [tool, *(Tool.parse(f"{part}{bracket}{narrowed}") for part in parts if part != name)]
    names = {possible.names[0].lstrip("@") for possible in tools}
    if names & _ALL:
        tools.append(Tool(("*",)))
    if names & _OF_WINDOWS:
        tools.append(Tool(("bash",), tool.narrowed))
    return tuple(dict.fromkeys(tools))


def _tool_is_permitted(value: str, pattern: str) -> bool:
    try:
        return _tool(value).is_within(_tool(pattern))
    except FormatError:
        return False


def _check_tool(value: str) -> None:
    if value.count("(") != value.count(")"):
        message = f"expected a tool such as Bash, Bash(git:*) or mcp__server, found {quote(value)}"
        raise FormatError(message, hint="for every use of a tool write only its name, such as tools:Bash")
    Tool.parse(value)


def _check_host(value: str) -> None:
    if _PORT.fullmatch(value) or not _HOST.fullmatch(_host(value)):
        raise FormatError(
            f"expected a host such as api.github.com or *.github.com, without port and path, found {quote(value)}"
        )


def _check_name(value: str) -> None:
    if not _NAME.fullmatch(value):
        raise FormatError(f"expected a name, with * and ? as wildcards, found {quote(value)}")


def _check_text(value: str) -> None:
    if not value.strip():
        raise FormatError("expected a permission after the colon, found none")


_CHECKS: Mapping[str, Callable[[str], None]] = {
    "env": _check_name,
    "mcp": _check_name,
    "network": _check_host,
    "permissions": _check_text,
    "tools": _check_tool,
}
_DENIES: Mapping[str, Callable[[str, str], bool]] = {"network": _host_fits, "tools": _tool_is_denied}
_PERMITS: Mapping[str, Callable[[str, str], bool]] = {"network": _host_fits, "tools": _tool_is_permitted}
