"""An MCP server: the risk of its command, and what an agent's configuration says of it, without its secrets.

Only two kinds of command are ordinary: a launcher with a package of one exact version, and a program whose arguments
cannot be code. Interpreters, wrappers and other programs that run their arguments count as a shell.

The configuration does not mark secrets. So what is shown of an entry has only the names of variables and headers, the
host of a URL, and those words of a command that are no value of an option and look no more random than names.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from skillhub.formats.text import deferred, packaged

Risk = Literal["ordinary", "unpinned", "shell"]
# The words for the risk of a command, in a question.
SERVER_RUNS: Mapping[Risk, str] = {
    "ordinary": "",
    "unpinned": ", which downloads a package without a fixed version",
    "shell": ", which runs a shell or other unchecked code",
}
_WORDS_MAX = 1000
_WORD_MAX = 2048
_LOOPBACK = deferred(r"localhost|127(?:\.[0-9]{1,3}){3}|\[::1\]", re.IGNORECASE)
_RANKS: Sequence[Risk] = ("ordinary", "unpinned", "shell")

# A shell in any word of the command, so that no wrapper (env, nice, sudo, busybox, docker run) can hide it.
_SHELL = deferred(
    r"(?i)(?:^|[\s/\\=]|^-[a-z]*S)(?:(?:ba|da|z|k|mk|c|tc|fi|a|ya|rba|po|xon|elvi)?sh|su|nu|cmd|powershell|pwsh)"
    r"(?:-?[0-9][0-9.]*|-static)?(?:\.exe)?(?=$|\s)"
)

WORDS = {name: frozenset(" ".join(lines).split()) for name, lines in packaged("model/server_words.json").items()}

# Programs that run code in their arguments; they are ordinary only with a script by its absolute path.
_INTERPRETERS = WORDS["interpreters"]
_LAUNCHERS = WORDS["launchers"]
_KNOWN = _INTERPRETERS | WORDS["wrappers"] | _LAUNCHERS
# The names among these that are no common arguments of other programs.
_NAMED_IN_ARGUMENTS = (_INTERPRETERS | _LAUNCHERS | WORDS["named_wrappers"]) - WORDS["other_words"]
# Packages with a scope that run a command in their arguments.
_RUNNERS = WORDS["runner_packages"]
# Python with its options before a script or a module, the interpreters that take a script, and names of modules.
_PYTHON = deferred(r"(?:python|pypy|py)w?[0-9.]*t?")
_PYTHON_FLAGS = deferred(r"-[uBIPsEb]+")
# With these options Python does not search the working folder, which `-m` alone searches first, for the module.
_PYTHON_ISOLATED = deferred(r"-[uBsEb]*[IP][uBIPsEb]*")
_TAKES_SCRIPT = deferred(r"(?:node|nodejs|bun|ruby|perl|php|pythonw?|pypy|deno)[0-9.]*")
_MODULE = deferred(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_MODULES_THAT_RUN = WORDS["python_modules"]

_EXE = deferred(r"\.(?:exe|cmd|bat|com|ps1)$")
_LOADER = deferred(r"ld(?:-linux|-musl|-elf|64|32)?[\w.-]*\.so")
_VERSIONED = deferred(r"[-_.]?v?[0-9][0-9.]*[a-z]?$")
_PLAIN_COMMAND = deferred(r"\w[\w.-]*")
_PLAIN_PROGRAM = deferred(r"[\w@+][\w.@+-]*")
_PLAIN = deferred(r"[\w@+=:,./~-]+")
_WEB = deferred(r"(?:[\w-]+=)?https?://[\w@+=:,./~?&#%-]+", re.IGNORECASE)
_ABSOLUTE = deferred(r"(?:/|[A-Za-z]:[\\/])[\w@+=:,./\\~ -]*")
_CODE_URL = deferred(
    r"(?i)(?:^|=)(?:data|javascript|file|vbscript|blob|node|git|ssh|s?ftp|ext|github|gitlab|bitbucket|gist|npm|jsr|pypi|(?:git|hg|svn|bzr)\+\w+):"
    # A Windows share of another machine; `@FILE`, a file of arguments.
    r"|(?:^|=)//|(?:^|=)@(?![\w.-]+/[\w.-]+$)"
    # Every other scheme, except those of servers that answer with data.
    r"|(?:^|=)(?!(?:https?|wss?|tcp|udp|unix|postgres(?:ql)?|mysql|mariadb|mongodb|redis|rediss|amqps?|nats|mqtts?|grpcs?|bolt|neo4j"
    r"|ldaps?|s3|gs|sqlite|memory|kafka|http\+unix|mongodb\+srv|neo4j\+s|bolt\+s)://)[a-z][a-z0-9+.-]*://"
)
# A package to fetch, with any version.
_SPEC = deferred(r"(?i)[\w.-]@(?:latest|next|canary|beta|alpha|rc|nightly|dev|[~^v]?[0-9]+\.)|[\w\]]==[0-9v]")
_SCRIPT = deferred(
    r"(?i)\.(?:[cm]?[jt]sx?|py[cwz]?|rb|p[lm]|php|lua|sh|bash|zsh|fish|ps[md]?1|bat|cmd|exe|jar|war|class|wasm|so|dll|dylib"
    r"|r|jl|go|tcl|exs?|clj|scm|awk|sed|vbs|hta|applescript|scpt|nix|mk|ipynb|phar|node|tgz|whl"
    r"|rbw|plx|phtml|pyd|ksh|csh|command|desktop|service|coffee|vim|el|lisp|rkt|mli?|hs|nims?|zig|rs|c|cc|cpp|groovy"
    r"|gradle|kts?|scala|sc|erl|csx?|fsx?|vbe|jse|ws[fhc]|msi|reg|lnk|appimage|deb|rpm|crx|xpi|vsix|just|elc|fnl|rake"
    r"|gemspec|rhai|star|bzl|cmake|tf|hcl|jsonnet|cue|dhall|zip|tar|gz|xz|bz2|7z|asar|wat|ll|bc|dart|swift|v|cr|d)"
    r"(?:[:#@/%].*)?$|(?:^|[/\\=])(?:make|docker|just|rake|task|jenkins|vagrant|proc|brew|gem)file$"
)
# Folders in a home that hold installed programs.
_OF_TOOLS = (
    r"\.(?:local|nvm|volta|bun|cargo|deno|asdf|pyenv|rbenv|npm-global|npm|yarn|pnpm|fnm|venv|nix-profile|sdkman|dotnet"
    r"|mise|proto)"
)
# Folders with files of a repository or a skill, or into which every user can write.
_ANYBODYS = deferred(
    rf"(?i)(?:^|[/\\=])(?:\.{{1,2}}(?:[/\\]|$)|(?!(?:{_OF_TOOLS})[/\\])\.[^/\\]+[/\\]|skills[/\\])"
    r"|^(?:/(?:private/)?(?:proc|dev|tmp|var/tmp|run|var/run)/)"
)
_LOCAL_PACKAGE = deferred(r"(?:file|link|portal|workspace|exec|patch):|@(?:[./\\]|~/)|^[/~]", re.IGNORECASE)
_PARTS = deferred(r"[-_.:/]+|(?<=[a-z0-9])(?=[A-Z])")
_SHORT_EVALUATES = deferred(r"-[A-Za-z]{0,2}[ce]")

# The suffix of a script, the package of a script, and the scripts of a language itself, many of which run other code.
_SUFFIX = deferred(r"\.(?:[cm]?[jt]sx?|py[cwz]?|p[lm]|rb|phar|php)$")
_PACKAGED = deferred(r"[/\\](?:node_modules|site-packages|dist-packages|gems|share)[/\\]((?:@[^/\\]+[/\\])?[^/\\]+)")
_OF_A_LANGUAGE = deferred(r"[/\\](?:python|pypy)[0-9.]*[/\\](?!(?:site|dist)-packages[/\\])")
_FETCHED_SCRIPT = deferred(r"\.(?:[cm]?[jt]sx?|py[cw]?|rb|p[lm]|php|sh)(?:[?#].*)?$", re.IGNORECASE)
# A repository or an archive, which each start fetches again.
_FETCHED = deferred(
    r"(?i)(?:[\w.-]+(?:\[[\w,.-]+\])?\s*@\s*)?(?:(?:git|hg|svn|bzr)\+\S+|(?:git|https?|ssh|git@)\S*:\S+|(?:github|gitlab|bitbucket|gist):\S+)|[\w.-]+/[\w.-]+(?:#\S*)?"
)
_NO_PACKAGE = deferred(r"[\s;|&$`(){}'\"\\]")


@dataclass(frozen=True, slots=True)
class Launcher:
    """A program that downloads a package and runs it: a row of ``launchers.json``.

    Attributes:
        begins: The first words of its commands.
        pinned: A package of one exact version; ``name`` is the program that it runs.
        loose: A package of any version.
        flags: Options without a value that do not change the program that runs.
        values: Options with a value that do not change it, with the pattern of harmless values; the ``name`` in a
            value is that of a variable.
        packages: Options whose value is a package; the next word is a program of that package.
        more_packages: Options whose value is an additional package.
        is_image: Whether the package is an image, which runs the first argument.
    """

    begins: Sequence[str]
    pinned: re.Pattern[str]
    loose: re.Pattern[str]
    flags: re.Pattern[str]
    values: Mapping[str, re.Pattern[str]]
    packages: tuple[str, ...]
    more_packages: tuple[str, ...]
    is_image: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Launcher:
        """Return the launcher of a row."""
        pinned, loose, flags = (_pattern(row[key]) for key in ("pinned", "loose", "flags"))
        values = {each: _pattern(text) for words, text in row.get("values", {}).items() for each in words.split()}
        packages, more_packages = (tuple(row.get(key, "").split()) for key in ("packages", "more_packages"))
        is_image = row.get("is_image", False)
        return cls(row["begins"], pinned, loose, flags, values, packages, more_packages, is_image)


# In a pattern of the table, a name in capitals stands for a part.
_TABLE = packaged("model/launchers.json")


def _pattern(text: str) -> re.Pattern[str]:
    return deferred(re.sub("|".join(_TABLE["parts"]), lambda name: _TABLE["parts"][name[0]], text))


_LAUNCHED = {tuple(begin.split()): row for row in map(Launcher.of, _TABLE["launchers"]) for begin in row.begins}
_NPM_ANY = _pattern(_TABLE["npm"])
# The files of a project that decide where a launcher gets its packages, or which code it runs before them.
_STEERED = {each: tuple(files) for words, files in _TABLE["steered_by"].items() for each in words.split()}


def risk(words: Sequence[str]) -> Risk:
    """Return the risk of a command; an ``unpinned`` one downloads a package that may be another one tomorrow."""
    if not words or len(words) > _WORDS_MAX or any(len(word) > _WORD_MAX for word in words) or has_shell(words):
        return "shell"
    if not _is_place(words[0]):
        return "shell"
    program = _program(words[0])
    for count in range(1, 4):
        if launcher := _LAUNCHED.get((program, *words[1:count])):
            return _launched(launcher, words[count:], reads_on=program == "npm")
    if _is_one_of(program, _INTERPRETERS):
        return _interpreted(program, words)
    if _is_one_of(program, _KNOWN) or ("/" in words[0] and _is_runner(words[0])):
        return "shell"
    return _with_arguments(words[1:])


def steered_by(words: Sequence[str]) -> tuple[str, ...]:
    """Return the files of a project that may make the launcher in this command run another package or other code."""
    if not words:
        return ()
    launcher = _program(words[0])
    # The launcher runs a package in the project in place of the one with this name and version.
    names = (match["name"] for word in words[1:] if (match := _NPM_ANY.fullmatch(word)) and "@" in word[1:])
    packages = tuple(f"node_modules/{name}" for name in names) if launcher in _STEERED else ()
    return (*_STEERED.get(launcher, ()), *packages)


def has_shell(words: Iterable[str]) -> bool:
    """Return whether a shell is among the words of a command, behind any wrapper."""
    return any(_SHELL.search(word) for word in words)


def runs_any_command(program: str) -> bool:
    """Return whether a program is a shell, an interpreter or a wrapper, which runs any command in its arguments."""
    return has_shell((program,)) or _is_one_of(_program(program), _NAMED_IN_ARGUMENTS | WORDS["prefixes"])


def is_loopback(host: str) -> bool:
    """Return whether the host of a URL is this machine."""
    return _LOOPBACK.fullmatch(host) is not None


def loads_code(name: str) -> bool:
    """Return whether a variable of this name makes programs load code or run another program."""
    return any(fnmatchcase(name.upper(), pattern) for pattern in WORDS["loading_variables"])


def worst(risks: Iterable[Risk]) -> Risk:
    """Return the worst of the risks; ``ordinary`` if there is none."""
    return max(risks, key=_RANKS.index, default="ordinary")


def _launched(launcher: Launcher, words: Sequence[str], *, reads_on: bool) -> Risk:
    """Return the risk of a launcher's command.

    Args:
        launcher: The launcher.
        words: The words after ``begins``.
        reads_on: Whether the launcher also reads options after the package.
    """
    risks: list[Risk] = []
    is_named, position = False, 0
    while position < len(words) and words[position].startswith("-"):
        word = words[position]
        position += 1
        if word == "--":
            reads_on = False
            break
        if launcher.flags.fullmatch(word):
            continue
        option, equals, value = word.partition("=")
        if not equals and position < len(words):
            value, position = words[position], position + 1
        if option in (*launcher.packages, *launcher.more_packages):
            is_named = is_named or option in launcher.packages
            risks.append(_package_risk(launcher, value)[0])
        elif not _is_harmless(launcher.values.get(option), value):
            return "shell"
    if position == len(words):
        return "shell"
    kind: Risk
    kind, name = ("ordinary", words[position]) if is_named else _package_risk(launcher, words[position])
    arguments = words[position + 1 :]
    bare = re.split(r"[:\[]", name)[0]
    is_runner = "/" not in bare.removeprefix("library/") and _is_one_of(_program(bare), _KNOWN)
    if is_runner or name.lower() in _RUNNERS or (is_named and not _PLAIN_COMMAND.fullmatch(name)):
        return "shell"
    if launcher.is_image and arguments and _is_one_of(_program(arguments[0]), _KNOWN):
        return "shell"
    if reads_on:
        own_words = arguments[: arguments.index("--")] if "--" in arguments else arguments
        if any(word.startswith("-") for word in own_words):
            return "shell"
        arguments = [*own_words, *arguments[len(own_words) + 1 :]]
    return worst([*risks, kind, _with_arguments(arguments)])


def _package_risk(launcher: Launcher, spec: str) -> tuple[Risk, str]:
    """Return the risk of a package, by whether it has one exact version, and its name."""
    is_script = "://" in spec and _FETCHED_SCRIPT.search(spec)
    if _NO_PACKAGE.search(spec) or _ANYBODYS.search(spec) or _LOCAL_PACKAGE.search(spec) or is_script:
        return "shell", ""
    if match := launcher.pinned.fullmatch(spec):
        return "ordinary", match["name"]
    if match := launcher.loose.fullmatch(spec):
        return "unpinned", match["name"]
    is_fetched = launcher.packages and _FETCHED.fullmatch(spec)
    return ("unpinned" if is_fetched else "shell"), ""


def _is_harmless(allowed: re.Pattern[str] | None, value: str) -> bool:
    match = allowed.fullmatch(value) if allowed is not None else None
    return match is not None and not loads_code(match.groupdict().get("name", ""))


def _interpreted(program: str, words: Sequence[str]) -> Risk:
    """Return the risk of an interpreter: ordinary with a module or a script by absolute path, and plain words."""
    arguments = list(words[1:])
    if not _TAKES_SCRIPT.fullmatch(program):
        return "shell"
    is_isolated = False
    while arguments and _PYTHON.fullmatch(program) and _PYTHON_FLAGS.fullmatch(arguments[0]):
        is_isolated = is_isolated or _PYTHON_ISOLATED.fullmatch(arguments[0]) is not None
        arguments.pop(0)
    if len(arguments) > 1 and arguments[0] == "-m" and _PYTHON.fullmatch(program):
        top = arguments[1].partition(".")[0]
        is_known = top in sys.stdlib_module_names or top in _MODULES_THAT_RUN or top.lower() in _MODULES_THAT_RUN
        is_other = is_known or not is_isolated or not _MODULE.fullmatch(arguments[1])
        return "shell" if is_other else _with_arguments(arguments[2:])
    if not arguments or not _ABSOLUTE.fullmatch(arguments[0]) or _ANYBODYS.search(arguments[0]):
        return "shell"
    return "shell" if _is_runner(arguments[0]) else _with_arguments(arguments[1:])


def _is_runner(script: str) -> bool:
    """Return whether a script is a launcher or another program that runs its arguments: ``npx-cli.js``, ``pip``."""
    path = script.lower()
    *folders, file_name = re.split(r"[/\\]", path)
    stem = _SUFFIX.sub("", file_name)
    names = {stem, *folders[-1:]} if stem == "__main__" else {stem}
    if stem != file_name:
        names -= WORDS["own_scripts"]
    names |= {package.replace("\\", "/") for package in _PACKAGED.findall(path)}
    is_known = any(_is_one_of(name, _KNOWN) or name in _RUNNERS or name in _MODULES_THAT_RUN for name in names)
    return is_known or _OF_A_LANGUAGE.search(f"{'/'.join(folders)}/") is not None


def _with_arguments(words: Sequence[str]) -> Risk:
    """Return ``ordinary`` if none of these arguments of an unknown program can be code, else ``shell``."""
    for number, word in enumerate(words):
        if word == "--" and number + 1 < len(words) and not words[number + 1].startswith("-"):
            return "shell"
        if not _is_plain(word) or (number == 0 and word.lower() in WORDS["running_subcommands"]):
            return "shell"
    return "ordinary"


def _is_plain(word: str) -> bool:
    if _WEB.fullmatch(word) and not _evaluates(word.partition("=")[0]):
        return not _SCRIPT.search(re.split("[?#]", word)[0])
    if word == "-" or not (_PLAIN.fullmatch(word) or _ABSOLUTE.fullmatch(word)) or _CODE_URL.search(word):
        return False
    option, _, value = word.partition("=")
    if word.startswith("-") and _evaluates(option):
        return False
    operand = value or (option if not word.startswith("-") else "")
    if _ANYBODYS.search(operand) or _SCRIPT.search(operand) or _SPEC.search(word):
        return False
    return not (operand and _is_one_of(_program(operand), _NAMED_IN_ARGUMENTS))


def _evaluates(option: str) -> bool:
    bare = option.lstrip("-")
    name, parts = bare.lower(), {part.lower() for part in _PARTS.split(bare)}
    is_named = name in WORDS["evaluating_options"] or not WORDS["running_parts"].isdisjoint(parts)
    is_other = bool(re.match("on[-_A-Z]", bare) or _SHORT_EVALUATES.fullmatch(option))
    return is_named or name.startswith(("eval", "exec")) or is_other


def _is_place(word: str) -> bool:
    """Return whether a program is a plain name, or an absolute path outside folders of repositories and skills."""
    if _PLAIN_PROGRAM.fullmatch(word):
        return True
    return _ABSOLUTE.fullmatch(word) is not None and not _ANYBODYS.search(word)


def _program(word: str) -> str:
    return _EXE.sub("", re.split(r"[/\\]", word)[-1].lower())


def _is_one_of(program: str, programs: frozenset[str]) -> bool:
    if programs is _KNOWN and _LOADER.match(program):
        return True
    first, *others = re.split(r"[-_.]", program)
    # A name such as `node-20` is a build of the program; with one of these words after the dash it is an MCP server.
    is_build = bool(others) and first in _NAMED_IN_ARGUMENTS and WORDS["server_words"].isdisjoint(others)
    return program in programs or _VERSIONED.sub("", program) in programs or (is_build and first in programs)


# An entry in the configuration of an agent: its command or its URL.

_SHOWN = 300  # characters of a line
_URLS = ("url", "httpUrl", "serverUrl", "uri")
_VARIABLES = ("env", "environment", "env_vars", "envs", "env_keys")
_GIVEN = (*_VARIABLES, "headers", "http_headers", "env_http_headers")
_VALUE = deferred(r"[\s=:].*", re.DOTALL)  # the value in `NAME=value` or `Name: value`, an item of a list
# The host as clients read it: the text between the scheme and the last `@` before any slash is user and password.
_URL = deferred(r"(?i)([a-z][a-z0-9+.-]*://)(?:[^\s/?#\\]*@)?(\[[0-9a-f:.]+\]|[\w.-]*)(:\d+)?([^\s'\"|;)]*)")
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
    is_unknown = any(key not in WORDS["entry_keys"] and any(texts(value)) for key, value in entry.items())
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
        is_option = before.startswith("-") and "=" not in before
        is_run = _BARE.fullmatch(before)
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
