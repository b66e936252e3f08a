"""An MCP server in the configuration of an agent: its command or its URL, without its secrets.

The configuration does not mark secrets. So the output has only the names of variables and headers, the host of a URL,
and those words of a command that are no value of an option and look no more random than names.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from skillhub.formats.text import deferred
from skillhub.model.question import SERVER_RUNS
from skillhub.model.server_command import WORDS, Risk, has_shell, is_loopback, loads_code, risk

# The keys of an entry that run nothing besides its command; `headersHelper` and `envFile` are not among them.
_UNDERSTOOD = WORDS["entry_keys"]
_SHOWN = 300  # characters of a line
_URLS = ("url", "httpUrl", "serverUrl", "uri")
_VARIABLES = ("env", "environment", "env_vars", "envs", "env_keys")
_GIVEN = (*_VARIABLES, "headers", "http_headers", "env_http_headers")
_VALUE = deferred(r"[\s=:].*", re.DOTALL)  # the value in `NAME=value` or `Name: value`, an item of a list
# The host as clients read it: the text between the scheme and the last `@` before any slash is user and password.
_URL = deferred(
    r"([a-z][a-z0-9+.-]*://)(?:[^\s/?#\\]*@)?(\[[0-9a-f:.]+\]|[\w.-]*)(:\d+)?([^\s'\"|;)]*)", re.IGNORECASE
)
_ASSIGNED = deferred(r"(['\"]?-{0,2}[\w.-]+=)(?=.)")
_GLUED = deferred(r"-\w(?=\S{3})")  # `-psecret`
# Options without a value, or whose value is the command that runs.
_BARE = deferred(r"-(?:[abefilnpuvx]*c|[imy])|--(?:call|command|from|interactive|package|rm|yes)", re.IGNORECASE)
_RANDOM = deferred(r"(?=[A-Za-z_]*[0-9])(?=[0-9_]*[A-Za-z])\w{16,}", re.ASCII)


def runs_code(entry: object) -> bool:
    """Return whether an entry runs a shell or code in its words, in whatever form the agent writes a command."""
    return _risk(entry) == "shell"


def warning(entry: object) -> str:
    """Return the warning for a question: the entry runs code, or an unpinned package, or has no encryption."""
    url = _URL.match(url_of(entry))
    if url and url[1].lower() == "http://" and not is_loopback(url[2]):
        return ", which is reached without encryption"
    return SERVER_RUNS[_risk(entry)]


def _risk(entry: object) -> Risk:
    if has_shell(texts(entry)):
        return "shell"
    if not isinstance(entry, dict):
        return "ordinary"
    command = entry.get("command", entry.get("cmd"))
    command_words = _split_words(command) if isinstance(command, str) and "args" not in entry else [*texts(command)]
    words = [*command_words, *texts(entry.get("args"))]
    variables = (name for key in _VARIABLES for name in _names_given(entry.get(key)))
    is_unknown = any(key not in _UNDERSTOOD and any(texts(value)) for key, value in entry.items())
    if is_unknown or (words and any(map(loads_code, variables))):
        return "shell"
    return risk(words) if words else "ordinary"


def url_of(entry: object) -> str:
    """Return the URL of an entry in an agent's file; empty if it has a command or no URL."""
    fields = entry if isinstance(entry, dict) and not {"command", "cmd"} & entry.keys() else {}
    return next((fields[key] for key in _URLS if isinstance(fields.get(key), str)), "")


def facts(entry: object) -> tuple[str, ...]:
    """Return the facts about a server from an entry in an agent's file, a line each; ``entry`` is any JSON value."""
    values = shown(entry)
    lines = [f"it {key}{'' if key == REACHED else ':'} {values[key]}" for key in KEYS if key in values]
    return tuple(lines if values.keys() - {GIVEN} else ["what it runs is unknown", *lines])


KEYS = RUNS, REACHED, GIVEN = "runs", "is reached at", "is given"


def shown(entry: object) -> dict[str, str]:
    """Return the command, the URLs, and the names of variables and headers of an entry in an agent's file."""
    entry = entry if isinstance(entry, dict) else {}
    command = [*texts(entry.get("command", entry.get("cmd"))), *texts(entry.get("args"))]
    urls = [value for key, value in entry.items() if key.lower().endswith(("url", "uri")) and isinstance(value, str)]
    options = entry.get("requestOptions")
    parts = (entry, options if isinstance(options, dict) else {})
    names = [name for part in parts for key in _GIVEN for name in _names_given(part.get(key))]
    # Any part of a text that is no URL may be a password.
    hosts = [_host(match) if (match := _URL.match(url)) else "…" for url in urls]
    values = {RUNS: " ".join(_masked(command)), REACHED: ", ".join(hosts), GIVEN: ", ".join(names)}
    return {key: text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…" for key, text in values.items() if text}


def _names_given(value: object) -> list[str]:
    names = value if isinstance(value, dict | list) else ()
    return [_VALUE.sub("", name) if isinstance(name, str) else "…" for name in names]


def _split_words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return [command]


def texts(value: object) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)


def _masked(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command with ``…`` in place of possible secrets; the words of a script one by one."""
    before = ""
    for word in words:
        assigned, glued, pieces = _ASSIGNED.match(word), _GLUED.match(word), word.split()
        is_option, is_run = before.startswith("-") and "=" not in before, _BARE.fullmatch(before)
        if len(pieces) > 1 and (is_run or not (is_option or assigned)):
            yield from _masked(pieces)
        elif assigned is not None:
            yield f"{assigned[1]}…"
        elif is_option and not is_run and not word.startswith("-"):
            yield "…"
        elif glued is not None and not word.startswith("--"):
            yield f"{glued[0]}…"
        elif len(word) > _SHOWN:  # too long for a line, and the patterns below take time by the square of its length
            yield "…"
        else:
            yield _RANDOM.sub("…", _URL.sub(_host, word))
        before = word


def _host(match: re.Match[str]) -> str:
    scheme, host, port, tail = match.groups(default="")
    return f"{scheme}{host}{port}{'/…' if tail.strip('/') else tail}"
