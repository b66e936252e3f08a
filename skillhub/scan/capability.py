"""The capabilities of a skill, determined from its bytes. A person agrees to them; an update is compared with them.

A capability is one line of text, such as ``scripts`` or ``network:api.github.com``. Two versions are compared by
their sets of capabilities. A declaration never overrides the content, and a capability is a fact, not a judgement.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Final
from unicodedata import normalize

from skillhub.formats.text import clean, deferred, words
from skillhub.model.finding import DECLARATIONS_UNKNOWN, NETWORK_UNKNOWN
from skillhub.model.manifest import Manifest
from skillhub.model.tree import DECLARATIONS, SKILL_MD, Tree
from skillhub.scan.code import encoded_commands
from skillhub.scan.offline import is_offline, is_offline_shell, names_network
from skillhub.scan.running import PROGRAMS, SCRIPTS, running, started_parts
from skillhub.scan.skill_files import SkillFiles, SourceFile
from skillhub.scan.views import Letters, Literals

TEXT_MAX = 100
# The scheme is checked only where `://` occurs, which keeps the search fast.
_HOST = deferred(
    rb"://(?:[^\s/@\"'<>`\\?#]{0,128}@)?([A-Za-z0-9\x80-\xff](?:[A-Za-z0-9.\x80-\xff-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])"
)
_LABELS = deferred(r"[\w.-]*")
# Characters that IDNA treats as a dot; in prose they may be a full stop.
_DOT = deferred(r"[\u3002\uff0e\uff61](?=[a-z0-9])")
# An IPv4 address as one number; public addresses begin at 1.0.0.0.
_NUMBER = deferred(r"[0-9]{8,}|0x[0-9a-f]{7,}")
_ASCII = deferred(r"[ -~]*")
_SCP = deferred(rb"git@([A-Za-z0-9.-]{1,253}):")
_SCHEMES = (b"https", b"http", b"wss", b"ws", b"git", b"ssh", b"ftp", b"ftps", b"sftp")
# This machine, and the names of XML vocabularies, to which no program connects.
_NOWHERE = deferred(
    r"(?:.*\.)?localhost|127(?:\.[0-9]{1,3}){3}|0\.0\.0\.0|::1?"
    r"|www\.w3\.org|schemas\.openxmlformats\.org|schemas\.microsoft\.com|purl\.org"
)
# Claude Code runs `` !`command` `` and blocks of ```! before the model sees the text. The pattern starts with the
# fixed byte and looks behind from there: that is ten times as fast as a pattern that starts with the lookbehind.
_SHELL = deferred(r"!(?:(?<![\w`)\]!]!)`[^`]|(?<=```!)(?=[ \t]*$))", re.MULTILINE)
_COMMANDS = deferred(r"!`([^`]*)`|```!([^`]*)```")
# A program that the interpreter of another language runs; each of the two may read it differently.
_FILE_OF_IT = r"[ \t]+(?:-\S+[ \t]+){0,5}[\"'<]?[^\s\"'`|;&]*"
_OTHER_PROGRAM = deferred(
    rf"(?<![\w./-])(?:(?!python|pypy)(?:{PROGRAMS}|source|\.){_FILE_OF_IT}\.pyw?\b"
    rf"|(?!(?:ba|da)?sh\b)(?:{PROGRAMS}){_FILE_OF_IT}\.(?:ba)?sh\b)"
)
_PROGRAM_FILES = (".py", ".sh", ".bash")
_OF_ANOTHER = tuple(f"/{path}" for path in DECLARATIONS)
_NETWORK_TOOLS = frozenset({"webfetch", "websearch"})


def capabilities(tree: Tree, manifest: Manifest, sources: SkillFiles | None = None) -> tuple[str, ...]:
    """Return the capabilities of the skill in ``tree``, sorted and unique; ``sources`` are the files of the tree.

    Hosts come from the URLs in the instructions and in the files that run, encoded commands included. Names without a
    dot, names of this machine and names of XML vocabularies do not count as hosts. Names reserved for documentation
    do, since a server may answer at ``api.example.com``. Variables are the declared ones, and those that a file that
    runs visibly reads. More than 200 names of one kind become one ``*``, such as ``network:*``. If the scan itself
    fails, the skill has every capability that needs no name.
    """
    sources = SkillFiles(tree) if sources is None else sources
    found: set[str] = {*DECLARATIONS_UNKNOWN, NETWORK_UNKNOWN, "agents", "binary", "hooks", "scripts", "shell"}
    with sources.noting_failure(SKILL_MD):
        found = _capabilities(manifest, sources)
    return tuple(sorted(found))


def _capabilities(manifest: Manifest, sources: SkillFiles) -> set[str]:
    body = _instructions(manifest, sources.files.get(SKILL_MD))
    programs = {*running(sources.held, body, lambda path: sources.files[path].without_nul)}
    run = {
        path: file.without_nul for path, file in sources.files.items() if path in programs or path.startswith(SCRIPTS)
    }
    named = defaultdict[str, set[str]](set)
    for kind, text in _declared(manifest):
        named[kind].add(_capability_text(text))
    result = set[str]()
    # Declarations in a lower folder are those of a second skill, which agents list under its own name.
    if not manifest.is_whole or any(path.lower().endswith(_OF_ANOTHER) for path in sources.held):
        result.update(DECLARATIONS_UNKNOWN)
    if started_parts(sources.held):
        result.update((*DECLARATIONS_UNKNOWN, "agents", "hooks"))
    if run:
        result.add("scripts")
    if _SHELL.search(manifest.body):
        result.add("shell")
    if manifest.hooks:
        result.add("hooks")
    if manifest.fork is not None:
        result.add("agents")
    if not all(file.is_text for file in sources):
        result.add("binary")
    read = (sources.files[path] for path in (SKILL_MD, *run) if path in sources.files)
    encoded = [each.text for file in read for each in file.parsed(encoded_commands)]
    for data in (body.data, *(letters.data for letters in run.values()), *encoded):
        named["network"].update(_hosts(data))
    servers = (need.server.host for need in manifest.requires if need.server and need.server.host)
    named["network"].update(host for server in servers for host in _remote_hosts(server.encode()))
    for kind, names in named.items():
        result.update(f"{kind}:{name}" for name in (names if len(names) <= NAMES_MAX else "*"))
    # A declaration that cannot be read may be that of a server.
    if "mcp:?" in result or encoded or sources.cut or not _is_offline(manifest, body, programs, sources):
        result.add(NETWORK_UNKNOWN)
    return result | {f"env:{_capability_text(name)}" for name in variables(run.items())}


def _instructions(manifest: Manifest, source: SourceFile | None) -> Letters:
    """Return the letters of the instructions, which share the words of ``SKILL.md`` if that file ends with them."""
    data = manifest.body.encode("utf-8")
    is_end = source is not None and source.data.endswith(b"\n" + data)
    return Letters(data, source.letters if source is not None and is_end else None)


def _is_offline(manifest: Manifest, letters: Letters, programs: Iterable[str], sources: SkillFiles) -> bool:
    """Return whether every program provably stays offline, and the instructions name nothing of the network.

    Instructions are not a program: what an agent does with them cannot be proved.
    """
    body = manifest.body
    if manifest.hooks or any(need.server and need.server.command for need in manifest.requires):
        return False
    tools = (tool.partition("(") for tool in manifest.allowed_tools)
    named = ((name.strip().lower(), Letters(f"`{inner}".encode())) for name, _, inner in tools)
    if any(name in _NETWORK_TOOLS or names_network(inner) for name, inner in named):
        return False
    commands = (match[1] or match[2] or "" for match in _COMMANDS.finditer(body))
    if _SHELL.search(body) and not all(map(is_offline_shell, commands)):
        return False
    lines = body.split("\n") if any(suffix in body for suffix in _PROGRAM_FILES) else ()
    if any(_OTHER_PROGRAM.search(line) for line in lines if any(suffix in line for suffix in _PROGRAM_FILES)):
        return False
    return not names_network(letters) and all(
        is_offline(path, sources.held[path], sources.files[path].without_nul) for path in programs
    )


def _declared(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield from (("tools", tool) for tool in manifest.granted_tools)
    yield from (("permissions", permission) for permission in manifest.permissions)
    yield from ((need.kind, need.name) for need in manifest.requires if need.kind in ("env", "mcp"))


def _hosts(data: bytes) -> Iterator[str]:
    if b"://" in data:
        for match in _HOST.finditer(data):
            if data[max(0, match.start() - 5) : match.start()].lower().endswith(_SCHEMES):
                yield from _remote_hosts(match[1])
    if b"@" in data:
        for match in _SCP.finditer(data):
            yield from _remote_hosts(match[1])


def _remote_hosts(raw: bytes) -> Iterator[str]:
    # Clients take letters in a circle or of full width for the usual ones.
    name = normalize("NFKC", raw.decode("utf-8", "replace")).lower()
    spellings = (name,) if name.isascii() else map(_in_punycode, {name, _DOT.sub(".", name)})
    for spelling in spellings:
        host = spelling.strip("[].-")
        if ("." in host or ":" in host or _NUMBER.fullmatch(host)) and not _NOWHERE.fullmatch(host):
            yield host


def _in_punycode(host: str) -> str:
    # In punycode, as a browser resolves it, so that a look-alike of a known name is not shown as that name.
    # If prose follows without a blank, its first word is attached to the last label, and is cut off here.
    *labels, last = _LABELS.findall(host)[0].split(".")
    labels.append(_ASCII.findall(last)[0] or last)
    return ".".join(label if label.isascii() else "xn--" + label.encode("punycode").decode() for label in labels)


def _capability_text(text: str) -> str:
    cleaned = clean(text)
    if len(cleaned) <= TEXT_MAX:
        return cleaned
    # The digest distinguishes two long texts, so that a change after the cut still is a change.
    return f"{cleaned[: TEXT_MAX - 9]}…{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


# The environment variables that scripts and programs read by name.

NAMES_MAX = 200  # more names become one `*`, since no person reads a longer list
_MATCHES_MAX = 50_000
_RENAMED_MAX = 16
_BYTES_MAX = 4 * 1024 * 1024
_NAME = rb"([A-Za-z_][A-Za-z0-9_]{0,254}+)(?![A-Za-z0-9_])"
_CAPITALS = rb"([A-Z_][A-Z0-9_]{0,254}+)(?![A-Za-z0-9_])"
_NOT_SET = rb"(?!\\?[\"'`]?\s{0,8}+\]?\s{0,8}+=[^=~])"
# What follows the environment: an index, an argument or a member.
_QUOTED = (
    rb"(?:\(\s{0,9}+\))?(?:\s{0,99}+(?:\??\.|->|::)\s{0,99}+\w{1,30}+[!?]?)?(?:\?\.)?"
    rb"(?:\s{0,99}+[\[({]\s{0,99}+|[ \t]{1,9}+)"
    rb"(?:key\s{0,9}+=\s{0,9}+)?[bru]?\\?[\"'`]" + _NAME + rb"(?=\\?[\"'`])" + _NOT_SET
)
_MEMBER = rb"\??\." + _CAPITALS + rb"(?!\()" + _NOT_SET
# environ, getenv, process.env, ENV, LookupEnv, env::var, GetEnvironmentVariable, get_env!; but not putenv.
_ENVIRONMENT = (
    rb"[eE][nN][vV](?<!put...)(?<![sS]et...)(?>(?:IRON|iron(?:ment)?)?)b?(?:::)?(?:[vV]ar(?>(?:iable)?)(?>(?:_os)?))?[!?]?"
    rb"(?:[\"'`]\])?"
)
# This line contains `env` without a variable.
_FIRST_LINE = deferred(rb"#!/usr/bin/env (?:python|bash|sh|node)[0-9.]*\n")


@dataclass(frozen=True, slots=True)
class _PrefilteredPattern:
    """A pattern, and words of which every match contains one: in any case, but words in capitals in capitals."""

    words: tuple[bytes, ...]
    literals: Literals
    pattern: re.Pattern[bytes]

    def may_match(self, letters: Letters, text_literals: Set[bytes]) -> bool:
        """Return whether the pattern may match in a text; ``text_literals`` are those of its literals to consider."""
        return not self.literals.parts.isdisjoint(text_literals) and any(
            word in (letters.data if word.isupper() else letters.lowered) for word in self.words
        )


def _prefiltered(any_of: str, pattern: bytes) -> _PrefilteredPattern:
    literals = Literals(*map(str.encode, words(any_of.lower())))
    return _PrefilteredPattern(tuple(map(str.encode, words(any_of))), literals, deferred(pattern))


_ALWAYS: Final = Literals(b"")


# The engine skips to the first characters of a pattern if each alternative begins with a letter.
_READS = (
    _prefiltered("env", _ENVIRONMENT + rb"(?:" + _QUOTED + rb"|" + _MEMBER + rb"|[{(]" + _CAPITALS + rb"(?=[)}]))"),
    _prefiltered("process", rb"process\??\.env\??\." + _NAME + rb"(?!\()" + _NOT_SET),
    _prefiltered("env:", rb"[eE][nN][vV]:[\\/]?+" + _NAME + _NOT_SET),
    _prefiltered("$env{", rb"\$ENV\{" + _NAME),
    _prefiltered("printenv", rb"printenv[\"', \t]{1,9}+" + _CAPITALS),
    _prefiltered("environ", rb"[\"']" + _NAME + rb"[\"']\s{1,9}+(?:not\s{1,9}+)?in\s{1,9}+(?:\w{1,30}+\.)?environ"),
    _prefiltered("-v", rb"-v(?<!command -v) {1,9}+" + _CAPITALS + rb"(?=[ \t]{0,9}+(?:\]|&&|\|\|))"),
    _prefiltered(
        "export declare typeset local",
        rb"(?:export|declare|typeset|local)[ \t]++-\w*(?:p\w*[ \t]++|n\w*[ \t]++\w++=)[\"']?" + _CAPITALS,
    ),
)
_EXPANDED = _prefiltered("xpand", rb"xpand(?:Env|vars)\(\s{0,9}+[bru]?[\"'`]([^\"'`\n]{0,2000}+)")
_DOLLAR = _prefiltered("$", rb"\$\{?" + _NAME)
_SHELL_READ = _prefiltered("$", rb"\$(?:[({][#!]?)?" + _CAPITALS)
_BATCH_READ = _prefiltered("% !", rb"[%!]" + _NAME + rb"(?::[^%!\n]{0,99}+)?[%!]")
_ENDS = rb"[ \t]{0,9}+(?:([),])|[;:}|\]\r\n]|\Z)"
# The environment as a value; the text before it decides whether it only gets another name.
_WHOLE = _prefiltered(
    "environ ENV .env process[",
    rb"(?:environb?|ENV(?<=[(=,* ]ENV)|process\??\.env|meta\.env|Bun\.env|Deno\.env|process\[[\"'`]env[\"'`]\])"
    rb"(?!\w)" + _ENDS,
)
_PRINTS = (
    rb"\\?(?>(?:(?:sudo|command|exec|busybox)[ \t]++)*)(?:/usr)?(?:/bin/)?"
    rb"(?:(?:print)?env(?:[ \t]++-0)?|set|export)[ \t]*+"
)
_ALL = (
    _prefiltered(
        "nviron ENV",
        rb"(?:environb?|ENV)(?<!\wenviron)(?<!\wenvironb)(?<!\wENV)\."
        rb"(?:copy|items|values|to_\w|each|map|collect|select|filter|reject|sort|inspect|dup|clone)\b(?!_at)",
    ),
    _prefiltered(
        "nviron ENV env::vars etenv(",
        rb"%ENV\b|ENVIRON\)|\$_ENV(?!\w|\s{0,9}+\[)|env::vars|etenv\(\s{0,9}+\)(?!\.)|Environ\(\)"
        rb"|nvironmentVariables\(|/environ(?![\w/.-])",
    ),
    _prefiltered(
        "env:",
        rb"(?i:(?<!\w)(?:gci|dir|ls|gi|gc|get-(?:childitem|item|content))[ \t]{1,9}+(?:-path[ \t]{1,9}+)?[\"']?env:)"
        rb"(?![$\\/\w])",
    ),
    _prefiltered(
        "export declare typeset local", rb"(?:export|declare|typeset|local)[ \t]++-\w*[px]\w*[ \t]*+(?:[|>;)\n]|\Z)"
    ),
    _prefiltered("compgen", rb"compgen[ \t]++-[ev]\b"),
    _prefiltered(
        "env set export",
        rb"[$<\"'=;&|](?:(?<=[$<])\(|(?<=[\"'])`?|(?<==)`|(?<=[;&|]) )[ \t]*+" + _PRINTS + rb"[|>)`](?!\w++[|)])",
    ),
)
# A command on a line or in a list, also within `( ... )` or `{ ... }`; an end of a line stands before the text.
_ALL_IN_SHELL = _prefiltered(
    "env set export",
    rb"[\n;&|][ \t]*+(?:[({][ \t]*+" + _PRINTS + rb"[|>;`)}]|" + _PRINTS + rb"(?:[0-9]?[|>;](?!\w++[|)])|\n|\Z))",
)
_RENAMED = _prefiltered("environ getenv", rb"\b(?:environb?|getenvb?)\s{1,9}as\s{1,9}([A-Za-z_]\w{0,30})\b")
_OF_PROCESS = _prefiltered(
    "process",
    rb"\benv\b(?:\s{0,9}(?::|as\b)\s{0,9}(?:\{([^{}]{0,2000})\}|(\w{1,30})))?[^{}=;]{0,300}\}"
    rb"\s{0,9}(?:=|from)\s{0,9}[^;\n]{0,30}?process\b(?!\.)",
)
_OWNER = rb"(?:\w{1,30}\.)?\Z"
_ASSIGNED = deferred(rb"([A-Za-z_]\w{0,30})\s{0,9}(?::[^=\n]{0,40})?=\s{0,9}" + _OWNER)
_NOT_WHOLE = deferred(rb"(?:\bimport\b(?:[^\n;]*|\s*\([^)]*)|[\"']\s{1,9}(?:not\s{1,9})?in\s{1,9})" + _OWNER)
_KEYS = deferred(rb"\{([^{}]*+)\}\s*+=\s*+" + _OWNER)
_KEY = _PrefilteredPattern((b"",), _ALWAYS, deferred(rb"(?:^|,)\s*+" + _NAME))
# A shell can be made to run any file. In these languages `$` has another meaning, so only names of secrets count.
_NO_SHELL = deferred(r"(?i)\.(?:[cm]?[jt]s|[jt]sx|pyw?|rb|pl|php|lua|r|jl|go|rs|psm?1|bat|cmd|applescript)\Z")
_SHEBANG = deferred(rb"(?:\xef\xbb\xbf)?#!(?![^\n]{0,200}\b(?:ba|da|k|z|a|fi|c|tc)?sh\b)")
_SECRET = deferred(
    rb"TOKEN|KEY|SECRET|PASSW|PASSPHRASE|CREDENTIAL|DATABASE_UR"
    rb"|(?:_PASS|(?:^|_)(?:AUTH|CREDS|PAT|JWT|DSN|COOKIES?|BEARER|WEBHOOK))(?:_|$)"
)
# Variables that every process has, that shells and awk set, and that scripts use for their own folders and colours.
_HARMLESS = frozenset(
    b"_ PATH HOME PWD USER LANG LANGUAGE TERM SHELL TMPDIR IFS OLDPWD HOSTNAME LOGNAME ENV LINENO RANDOM SRANDOM"
    b" SECONDS EPOCHSECONDS EPOCHREALTIME UID EUID PPID GROUPS REPLY SHLVL OPTARG OPTIND OPTERR FUNCNAME PIPESTATUS"
    b" DIRSTACK COLUMNS LINES OSTYPE HOSTTYPE MACHTYPE SHELLOPTS MAPFILE COPROC PS1 PS2 PS3 PS4"
    b" NF NR FNR FS OFS RS ORS FILENAME ID ID_LIKE VERSION_ID VERSION_CODENAME UBUNTU_CODENAME PRETTY_NAME"
    b" ARGS DIR FILE OUTPUT ROOT SCRIPT SCRIPT_DIR REPO_ROOT RED GREEN YELLOW BLUE BOLD NC RESET".split()
)


class _TooManyError(Exception):
    """The texts have more matches or names than honest programs."""


def variables(files: Iterable[tuple[str, Letters]]) -> frozenset[str]:
    """Return the variables that these programs (path and content) seem to read; ``*`` alone if there are too many.

    Variables of every process (``PATH``, ``HOME``) and those that shells set are left out; in shells so are names
    with lower-case letters. If a program takes the whole environment as a value (``os.environ.copy()``, ``env |``),
    ``*`` is one of the names: whether the program only passes the environment on is unknown.
    """
    reader = _Reader()
    budget = _BYTES_MAX
    try:
        for path, letters in files:
            budget -= len(letters.data)
            if budget < 0:
                return frozenset("*")
            reader.read(letters)
            reader.read_as_shell(path, letters.data)
    except _TooManyError:
        return frozenset("*")
    return frozenset(name.decode("ascii") for name in reader.names)


class _Reader:
    """The variables found so far, and the number of matches that may still be examined."""

    def __init__(self) -> None:
        self.names: set[bytes] = set()
        self._letters = Letters(b"")
        self._literals = frozenset[bytes]()
        self._matches_left = _MATCHES_MAX

    def read(self, letters: Letters) -> None:
        """Add the variables that a program of any language reads."""
        data, self._letters, self._literals = letters.data, letters, letters.literals
        first = _FIRST_LINE.match(data)
        if first and letters.lowered.find(b"env", first.end()) < 0 and b"*process*" not in self._literals:
            self._literals = self._literals - {b"*env*"}
        for pattern in (*_READS, *_ALL):
            self._add_names(self._matched_groups(pattern, data))
        for text in self._matched_groups(_EXPANDED, data):
            self._add_names(self._matched_groups(_DOLLAR, text))
        names = {*self._matched_groups(_RENAMED, data)}
        for match in self._matches(_OF_PROCESS, data):
            names.add(match[2] or b"env")
            self._add_keys(match[1] or b"")
        for match in self._matches(_WHOLE, data):
            before = data[max(0, match.start() - 3000) : match.start()]
            if keys := _KEYS.search(before):
                self._add_keys(keys[1])
            elif (name := _ASSIGNED.search(before[-99:])) and match[1] is None:
                names.add(name[1])
            elif not _NOT_WHOLE.search(before[-300:]):
                self.names.add(b"*")
                break
        if names:
            self._read_renamed(b"|".join(sorted(names)), data)

    def read_as_shell(self, path: str, data: bytes) -> None:
        """Add the variables that a shell, or cmd.exe for a batch file, would read if it ran the file."""
        if path.lower().endswith((".bat", ".cmd")):
            self._add_names(self._matched_groups(_BATCH_READ, data))
        if b"\0" in data:
            return
        names = self._matched_groups(_SHELL_READ, data.replace(b"\\\n", b""))
        if _SHEBANG.match(data) or _NO_SHELL.search(path):
            names = (name for name in names if _SECRET.search(name))
        else:
            self._add_names(self._matched_groups(_ALL_IN_SHELL, b"\n" + data))
        self._add_names(names)

    def _read_renamed(self, names: bytes, data: bytes) -> None:
        if names.count(b"|") >= _RENAMED_MAX:
            raise _TooManyError
        begins = rb"(?<![\w.$])(?:" + names + rb")"
        for pattern in (
            begins + rb"(?:" + _QUOTED + rb"|\??\." + _NAME + rb"(?!\()" + _NOT_SET + rb")",
            rb"(?:[(*]|\.\.)(?:" + names + rb")\s{0,9}+[,)}]",
            begins + rb"\.(?:copy|items|values)\(",
        ):
            self._add_names(self._matched_groups(_PrefilteredPattern((b"",), _ALWAYS, deferred(pattern)), data))

    def _add_keys(self, braces: bytes) -> None:
        self._add_names([*self._matched_groups(_KEY, braces), *((b"*",) if b"..." in braces else ())])

    def _add_names(self, names: Iterable[bytes]) -> None:
        self.names |= {name for name in names if name not in _HARMLESS and not name.startswith((b"LC_", b"BASH"))}
        if len(self.names) > NAMES_MAX:
            raise _TooManyError

    def _matched_groups(self, pattern: _PrefilteredPattern, data: bytes) -> Iterator[bytes]:
        """Yield the matched group of each match, or ``*`` if no group matched."""
        return (match[match.lastindex] if match.lastindex else b"*" for match in self._matches(pattern, data))

    def _matches(self, pattern: _PrefilteredPattern, data: bytes) -> list[re.Match[bytes]]:
        if not pattern.may_match(self._letters, self._literals):
            return []
        matches = list(islice(pattern.pattern.finditer(data), self._matches_left + 1))
        self._matches_left -= len(matches)
        if self._matches_left < 0:
            raise _TooManyError
        return matches
