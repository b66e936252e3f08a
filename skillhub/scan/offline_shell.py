"""Whether a shell script can be shown to stay offline: each command is on a list of harmless ones."""

from __future__ import annotations

import re
from collections.abc import Set

from skillhub.formats.text import words

# Words that reach a network, whatever they stand in: a program, an instruction, a comment.
# They are a second look beside the readers of programs, and the only one at instructions, which are no program.

# What hardly stands in a text that reaches nothing.
_STRONG = rb"""(?xi)
    (?<![\w.-])(?:
        curl|wget2?|aria2c|axel|ncat|netcat|socat|scp|sftp|rsync|lftp|tftp|nslookup|rclone|s3cmd|gsutil|ngrok|cloudflared
        |lynx|w3m|elinks|certutil|bitsadmin|invoke-webrequest|invoke-restmethod|start-bitstransfer|npx|uvx|bunx|pipx
        |s_client|xmlhttprequest|webfetch|websearch|paramiko|aiohttp|httpx|urllib3|smtplib|ftplib|imaplib|poplib|telnetlib
        |xmlrpc|socketserver|pycurl
    )(?![\w-])
    |/dev/(?:tcp|udp)\b|net\.(?:webclient|sockets|http)|downloadstring|downloadfile|urlopen|urlretrieve|sendbeacon
    |\bhttp\.client|\burllib2?\.request|\burllib2\b|\brequests\.(?:get|post|put|patch|delete|head|request|session)
    |\b(?:import|from)[ \t]{1,9}(?:requests|socket|urllib|http)\b(?!\.(?:parse|error|status)|[ ]status)
    |\bsocket\.(?:socket|create_connection|connect|gethost|getaddr)|\bopen_connection\b
    |\bnew[ \t]{1,9}(?:websocket|eventsource)\b|(?<![\w.])fetch\(|\baxios\b
    |(?:require\(|from[ \t]{1,9}|import\(?[ \t]{0,9})["'](?:node:)?(?:https?2?|net|tls|dgram|dns)["'/]
    |\bnet::http\b|\bopen-uri\b|\blwp::|\bio::socket|\bhttp::tiny|\bfsockopen|\bcurl_(?:init|exec)|\bnet/http\b|\bnet\.dial
    |\bgit[ \t]{1,9}(?:-\S{1,40}[ \t]{1,9}(?:[^-\s]\S{0,40}[ \t]{1,9})?){0,3}
        (?:clone|push|pull|fetch|ls-remote|submodule|archive[ \t]{1,9}--remote|send-email)\b
    |\b(?:pip[0-9.]{0,5}|conda|mamba|gem|brew|apt|apt-get|yum|dnf|apk|pacman|choco|winget|snap|cpanm?|port)[ \t]{1,9}
        (?:-\S{1,20}[ \t]{1,9}){0,3}(?:install|download|add|update|upgrade|fetch)\b
    |\buv[ \t]{1,9}(?:pip|add|sync|run|tool|lock|python)\b
    |\b(?:npm|pnpm|yarn|bun)[ \t]{1,9}(?:i|ci|install|add|exec|x|dlx|create|init|update|publish|view)\b
    |\b(?:cargo|go|deno|composer|poetry|pdm|rustup|nix|mix|luarocks|stack|cabal|opam)[ \t]{1,9}
        (?:install|add|fetch|update|get|require|mod|build|shell|run)\b
    |\b(?:docker|podman|nerdctl)[ \t]{1,9}(?:pull|push|run|build|compose|login)\b
    |\bgh[ \t]{1,9}(?:api|pr|issue|repo|run|release|auth|gist|search|workflow|secret)\b
"""
# Where a command stands: at the start of a line, behind a prompt, a quote or another command.
_WEAK = rb"""(?xm)
    (?:^|[`$\#>;&|("'])[ \t]{0,9}(?:sudo[ \t]{1,9})?
    (?:
        nc|ssh|ftp|telnet|dig|host|drill|ping6?|traceroute|whois|https?|xh|aws|gcloud|az|kubectl|helm|glab|iwr|irm|mosh
        |mail|sendmail|ssh-copy-id|terraform|ansible|vercel|netlify|fly|heroku|psql|mysql|redis-cli|mongosh?
    )[ \t]{1,9}[\w"'$@./<{\[-]
"""
_STRONG_PATTERN = re.compile(_STRONG)
_WEAK_PATTERN = re.compile(_WEAK)
_JOINT = re.compile(rb"[\\`^]\r?\n")


def names_network(data: bytes) -> bool:
    """Say whether a text has a word that reaches a network."""
    data = data.translate(None, b"\0")
    looked = (data, _JOINT.sub(b"", data)) if _JOINT.search(data) else (data,)
    return any(_STRONG_PATTERN.search(each) or _WEAK_PATTERN.search(each.replace(b"\r", b"\n")) for each in looked)


# Whether a shell script can be shown to stay offline: by the commands that it runs, each of which has to be
# known.
# What is not understood here is not shown. An expansion is one unknown sign in a word.

ANY = "\0"
_ORDINARY = frozenset(
    words(
        ": [ [[ true false test echo printf cd pwd pushd popd export local readonly declare typeset unset set"
        " shift return exit break continue read wait umask ulimit getopts type let shopt basename cat chmod"
        " chown cmp column comm cp cut date diff dirname du df expr file fmt fold grep egrep fgrep head id"
        " install join jq ln ls md5sum mkdir mktemp mv nl nproc od paste ps readlink realpath rev rg rm rmdir"
        " seq sha1sum sort sha256sum shasum shuf sleep split stat tac tail tee touch tput tr uname uniq wc which"
        " whoami xxd yes base64 kill clear md5 cksum sync arch tty"
    )
)
_KEYWORDS = frozenset(words("if then else elif do while until ! { } fi done"))
_WRAPPERS = frozenset(words("command builtin nohup time exec nice"))
_SHELLS = frozenset(words("sh bash dash zsh ksh source . python python3 node ruby perl"))
_GIT = frozenset(
    words(
        "add blame branch cat-file check-ignore checkout commit describe diff for-each-ref log ls-files ls-"
        "tree merge-base mv reset restore rev-list rev-parse rm show show-ref stash status switch symbolic-"
        "ref tag worktree"
    )
)
_SAFE_DEVICE = re.compile(r"/dev/(?:null|std(?:in|out|err)|tty|zero|u?random|fd/[0-9])(?![\w/])")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=", re.ASCII)
_STEERS = re.compile(
    r"PATH|ENV|BASH_ENV|LD_\w+|DYLD_\w+|PROMPT_COMMAND|PS[0-4]|PYTHON\w+|GIT_\w+|NODE_\w+|PERL\w+|RUBY\w+"
)
# Programs with a language of their own, and what in it, or unknown, may run something.
_SED = (
    r"[^\w\s\\-][gpiImM0-9]*e[gpiImM0-9]*(?:$|[;}\s])|(?:^|[\s;{}0-9$/])e(?:$|[\s;}])"
    r"|\0|^--file|^-[a-zA-Z]*f"
)
_AWK = re.compile(r"system|getline|inet|@|\||^-[^Fv]|^\0")
_SCRIPTED = {
    "sed": re.compile(_SED),
    "find": re.compile(r"^-(?:exec|ok)|^\0(?!/|$)"),
    **dict.fromkeys(("awk", "gawk", "mawk"), _AWK),
}
_PRINTING = frozenset(words("echo printf [ test"))
_HERE = re.compile(r"<<(-?)[ \t]*(['\"]?)(\w+)\2", re.ASCII)
_NESTED_MAX = 40


class _NotUnderstood(Exception):
    """What only a shell understands."""


def is_offline_shell(text: str, own: Set[str]) -> bool:
    """Say whether it is shown that a script reaches no network; ``own`` are names of files of the skill that run."""
    try:
        reader = _Reader(text)
        return all(_is_harmless(words, own, reader.functions) for words in reader.read())
    except (_NotUnderstood, RecursionError):
        return False


class _Level:
    """Where commands stand: of the script, of `$(…)` or `(…)`; or a text in double quotes, or `${…}`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.words: list[str] = []
        self.word: str | None = None
        self.cases = 0
        self.is_pattern = False
        self.redirects = False


class _Reader:
    """One script: its commands in words, without their quotes."""

    def __init__(self, text: str) -> None:
        self.functions: set[str] = set()
        self._text = text.replace("\\\r\n", "").replace("\\\n", "").replace("\r\n", "\n")
        self._at = 0
        self._levels = [_Level("script")]
        self._commands: list[list[str]] = []
        self._heres: list[tuple[str, bool]] = []

    def read(self) -> list[list[str]]:
        """Return the commands. Raises _NotUnderstood."""
        if "`" in self._text or "$'" in self._text or "@P}" in self._text or "\r" in self._text:
            raise _NotUnderstood
        while self._at < len(self._text):
            if len(self._levels) > _NESTED_MAX:
                raise _NotUnderstood
            {"quote": self._quoted, "brace": self._braced}.get(self._levels[-1].kind, self._plain)()
        if len(self._levels) != 1 or self._levels[0].cases:
            raise _NotUnderstood
        self._end_command()
        return self._commands

    def _put(self, text: str) -> None:
        level = self._levels[-1]
        while level.kind in ("quote", "brace"):
            level = self._levels[self._levels.index(level) - 1]
        level.word = (level.word or "") + text

    def _dollar(self) -> None:
        rest = self._text[self._at : self._at + 3]
        if rest.startswith("$(("):
            end = self._text.find("))", self._at)
            inner = self._text[self._at + 3 : end]
            if end < 0 or re.search(r"\$\(|\[|\n", inner):
                raise _NotUnderstood
            self._put(ANY)
            self._at = end + 2
        elif rest.startswith("$("):
            self._put(ANY)
            self._at += 2
            self._levels.append(_Level("$("))
        elif rest.startswith("${"):
            self._put(ANY)
            self._at += 2
            self._levels.append(_Level("brace"))
        else:
            name = re.compile(r"\$(?:\w+|[@*#?$!-])", re.ASCII).match(self._text, self._at)
            self._put(ANY if name else "$")
            self._at += len(name[0]) if name else 1

    def _quoted(self) -> None:
        char = self._text[self._at]
        if char == "$":
            self._dollar()
        elif char == '"':
            self._levels.pop()
            self._at += 1
        elif char == "\\":
            self._put(self._text[self._at + 1 : self._at + 2])
            self._at += 2
        else:
            end = re.compile(r'[^$"\\]+').match(self._text, self._at)
            self._put(end[0] if end else "")
            self._at += len(end[0]) if end else 1

    def _braced(self) -> None:
        char = self._text[self._at]
        if char == "}":
            self._levels.pop()
            self._at += 1
        elif char == "$":
            self._dollar()
        elif char == "'":
            raise _NotUnderstood
        elif char == '"':
            self._at += 1
            self._levels.append(_Level("quote"))
        else:
            self._at += 2 if char == "\\" else 1

    def _plain(self) -> None:
        char, level = self._text[self._at], self._levels[-1]
        if char == "$":
            self._dollar()
        elif char == "'":
            end = self._text.find("'", self._at + 1)
            if end < 0:
                raise _NotUnderstood
            self._put(self._text[self._at + 1 : end])
            self._at = end + 1
        elif char == '"':
            self._put("")
            self._at += 1
            self._levels.append(_Level("quote"))
        elif char == "\\":
            self._put(self._text[self._at + 1 : self._at + 2])
            self._at += 2
        elif char == "#" and level.word is None:
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end
        elif char in " \t":
            self._end_word()
            self._at += 1
        elif char in "\n;&|()<>":
            self._sign(char, level)
        else:
            found = re.compile(r"[^\s$'\"\\;&|()<>]+|\s").match(self._text, self._at)
            if not found or found[0].isspace():
                raise _NotUnderstood
            self._put(found[0])
            self._at += len(found[0])

    def _sign(self, char: str, level: _Level) -> None:
        self._end_word()
        if level.words[:1] == ["[["] and level.words[-1] != "]]":
            if char == "\n":
                raise _NotUnderstood
            self._at += 1
        elif char in "<>":
            self._redirect(level)
        elif char == "(":
            self._open(level)
        elif char == ")":
            self._close(level)
        elif (char == "|" and level.is_pattern) or self._text.startswith("&>", self._at):
            self._at += 1
        else:
            if self._text.startswith(";;", self._at):
                if not level.cases:
                    raise _NotUnderstood
                self._end_command()
                level.is_pattern = True
                self._at += 2
                return
            self._end_command()
            self._at += 1
            if char == "\n":
                self._skip_heres()

    def _open(self, level: _Level) -> None:
        if level.is_pattern and not level.words:
            self._at += 1
        elif self._text.startswith("((", self._at) and not level.words:
            end = self._text.find("))", self._at)
            if end < 0 or re.search(r"\$\(|\[|\n", self._text[self._at : end]):
                raise _NotUnderstood
            level.words = [":"]
            self._at = end + 2
        elif len(level.words) == 1 and (empty := re.compile(r"\([ \t]*\)").match(self._text, self._at)):
            self.functions.add(level.words.pop())
            self._at = empty.end()
        elif not level.words or level.words[-1] in _KEYWORDS:
            self._at += 1
            self._levels.append(_Level("("))
        elif self._text[self._at - 1] == "=":  # a list: a=(b c)
            self._at += 1
            self._levels.append(_Level("list"))
        else:
            raise _NotUnderstood

    def _close(self, level: _Level) -> None:
        self._at += 1
        if level.is_pattern:
            level.words, level.is_pattern = [], False
            return
        if level.kind not in ("(", "$(", "list") or level.cases:
            raise _NotUnderstood
        if level.kind != "list":
            self._end_command()
        self._levels.pop()

    def _redirect(self, level: _Level) -> None:
        if level.words and level.words[-1].isdigit() and self._text[self._at - 1].isdigit():
            level.words.pop()
        if self._text.startswith(("<(", ">("), self._at):
            self._put(ANY)
            self._at += 2
            self._levels.append(_Level("$("))
        elif self._text.startswith("<<<", self._at):
            self._at += 3
        elif here := _HERE.match(self._text, self._at):
            self._heres.append((here[3], bool(here[2])))
            self._at = here.end()
        else:
            found = re.compile(r"[<>]{1,2}[&|]?").match(self._text, self._at)
            self._at += len(found[0]) if found else 1
            level.redirects = True

    def _skip_heres(self) -> None:
        for mark, is_quoted in self._heres:
            end = re.compile(rf"^\t*{mark}$", re.MULTILINE).search(self._text, self._at)
            if not end or (not is_quoted and "$(" in self._text[self._at : end.start()]):
                raise _NotUnderstood
            self._at = end.end()
        self._heres = []

    def _end_word(self) -> None:
        level = self._levels[-1]
        if level.word is None:
            return
        word, level.word = level.word, None
        if level.redirects:
            level.redirects = False
            if word.count(ANY) > 1 or re.match(rf"{ANY}\w", word):
                raise _NotUnderstood
        elif not level.words and word == "case":
            level.cases += 1
            level.words.append(word)
        elif len(level.words) == 2 and level.words[0] == "case" and word == "in":
            level.words, level.is_pattern = [], True
        elif not level.words and word == "esac" and level.cases:
            level.cases -= 1
            level.is_pattern = False
        elif len(level.words) == 2 and level.words[0] == "function" and word in _KEYWORDS:
            self.functions.add(level.words[1])
            level.words = []
        elif level.kind != "list" and (level.words or word not in _KEYWORDS):
            level.words.append(word)
        # A subscript or an arithmetic name that is a text is read again; a path may be put together to a device.
        if "$(" in word or "/dev" in _SAFE_DEVICE.sub("", word) or re.search(r"\+=.*/|/(?:tcp|udp)/", word):
            raise _NotUnderstood

    def _end_command(self) -> None:
        self._end_word()
        level = self._levels[-1]
        if level.is_pattern and level.words:
            raise _NotUnderstood
        if level.words[:1] == ["function"]:
            self.functions.update(level.words[1:2])
        elif level.words:
            self._commands.append(level.words)
        level.words = []


def _is_harmless(command: list[str], own: Set[str], functions: Set[str]) -> bool:
    assigned = 0
    while assigned < len(command) and (found := _ASSIGNED.match(command[assigned])):
        if _STEERS.fullmatch(found[1]):
            return False
        assigned += 1
    if assigned == len(command) or command[assigned] in ("for", "select"):
        return True
    name, given = command[assigned], command[assigned + 1 :]
    if name in functions or name in _ORDINARY:
        return name in _PRINTING or not any(map(_is_steering, given))
    if name in _WRAPPERS:
        looks_up = name == "command" and given[:1] in (["-v"], ["-V"])
        return looks_up or not given or (given[0][:1] != "-" and _is_harmless(given, own, functions))
    if name == "sed":
        given = _scripts_of_sed(given)
    if name in _SCRIPTED:
        return not any(_SCRIPTED[name].search(each) for each in given)
    return _runs_harmless(name, given, own, functions)


def _runs_harmless(name: str, given: list[str], own: Set[str], functions: Set[str]) -> bool:
    """Say so of a command that runs what it is given."""
    if name == "trap":
        return not given or given[0] in ("-", "", *functions) or is_offline_shell(given[0], own)
    if name in _SHELLS:
        while given and re.fullmatch(r"-[euxBEI]{1,4}", given[0]):
            given = given[1:]
        return bool(given) and _is_own(given[0], own)
    return ("/" in name and _is_own(name, own)) or (name == "git" and given[:1] != [] and given[0] in _GIT)


def _scripts_of_sed(given: list[str]) -> list[str]:
    """Return what is given to sed, less the files that it reads."""
    named = any(re.match(r"-[a-zA-Z]*e|--expression", each) for each in given)
    plain = [at for at, each in enumerate(given) if not each.startswith("-")]
    files = [at for at in plain if given[at - 1] not in ("-e", "--expression") or not at] if named else plain[1:]
    return [each for at, each in enumerate(given) if at not in files]


def _is_steering(word: str) -> bool:
    assigned = _ASSIGNED.match(word)
    return word.startswith("--compress-program") or bool(assigned and _STEERS.fullmatch(assigned[1]))


def _is_own(word: str, own: Set[str]) -> bool:
    """Say whether a word names a file of the skill, in whatever folder."""
    last = word.rpartition("/")[2]
    return last in own and ANY not in last and not word.startswith("-")
