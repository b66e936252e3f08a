"""Commands that download code, send data away or persist: their patterns, and downloads that a later command starts.

The patterns are the rows of ``patterns.json``, by rule; a row may name one of the judges here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import dropwhile, pairwise, takewhile
from typing import Final

from skillhub.formats.text import deferred, numbered, words
from skillhub.model.finding import Sighting, rules
from skillhub.scan.pattern import (
    ANYBODYS,
    FORGES,
    GAP_MAX,
    OWN_NETWORK,
    PARTS,
    PATTERNS,
    PLACEHOLDER,
    THE_RULE,
    URL,
    Judge,
    Language,
    MatchContext,
    is_anybodys,
    is_index,
    is_installer,
    kind_of,
    line_patterns,
)
from skillhub.scan.skill_files import Passage, SkillFiles, programs_in

# A program on the command line, which reads the pipe: `python3 -c '…'`, `node parse.js`, `python3 -m json.tool`.
_PROGRAM = deferred(
    rb"(?:\s{1,4}-[a-z]{1,4}){0,3}?\s{1,4}"
    rb"(?:-m\s{1,4}json(?:\.tool)?\b|-[a-z]{0,4}[ce]\s{1,4}([\"'])|[\w./-]{1,80}\.(?:py|m?js|rb|pl|php)\b)"
)
_RUNS_TEXT = deferred(
    rb"\b(?:exec|eval|system|popen|subprocess|spawn\w{0,8}|pickle|marshal|runpy|importlib|getattr|globals|builtins"
    rb"|child_process|new\sfunction|vm|qx|sh|bash)\b|__|`|/\w{0,4}ee|\bimport\(|\$\("
)
# Options of curl and wget that change neither what is fetched nor from where; and the one address.
_OPTION = (
    rb"(?:-[fslvqo]{1,6}-?|-(?=\s)|--(?:proto|proto-default|retry)[ =][\"']?=?[a-z0-9]{1,8}[\"']?|--tlsv1\.[23]"
    rb"|--(?:location|fail|silent|show-error|quiet))"
)
_QUOTED = rb"[\"']?(https://[^\s\"'`|)]{3,200})[\"']?"
_PLAIN = deferred(rb"(?:\s{1,4}%b){0,8}\s{1,4}%b(?:\s{1,4}%b){0,4}\s{0,20}" % (_OPTION, _QUOTED, _OPTION))
_POWER_PLAIN = deferred(rb"[\s(]{0,4}(?:-\w{2,20}\s{1,4}){0,3}%b[\s)]{0,20}" % _QUOTED)
# A variable set for the command; or a key of a file whose command a host runs by itself, unlike one in documentation.
_SET_BEFORE = deferred(
    rb"(?:^|[\s;&|(])\w{1,40}=\S{0,100}\s{1,4}$|\b(?:command|postinstall|preinstall|prepare)[\"']?\s{0,3}:[^:]{0,40}$"
)
# Options that name a key to log in with. `cp -i` and `cat -e` read the file, and know none of the long ones.
_LOGS_IN_WITH = deferred(
    rb"^scp\s(?:[^;|&]{0,200}\s)?(?:-[if]|-o\s?identityfile)[ =]{0,2}[\"']?$"
    rb"|\s--(?:key|cert|identity|identity-file|netrc-file|kubeconfig|ssh-key)[ =]{0,2}[\"']?$"
)
# The hosts that the tokens of logins are for.
_TOKEN_HOSTS = deferred(
    rb"(?:^|\.)(?:github\.com|githubusercontent\.com|githubcopilot\.com|ghcr\.io|googleapis\.com|google\.com|run\.app"
    rb"|cloudfunctions\.net|pkg\.dev|gcr\.io|azure\.com|microsoft\.com|windows\.net|azure\.net|visualstudio\.com"
    rb"|azurewebsites\.net|localhost|127\.0\.0\.1)$"
)
# Who answers requests in the form of a well-known model, and placeholders for a host.
_MODEL_HOSTS = deferred(
    r"(?:^|\.)(?:anthropic\.com|openai\.com|azure\.com|googleapis\.com|google\.com|amazonaws\.com|mistral\.ai|openrouter\.ai"
    r"|deepseek\.com|moonshot\.(?:ai|cn)|z\.ai|bigmodel\.cn|groq\.com|x\.ai|together\.(?:ai|xyz)|fireworks\.ai|nvidia\.com"
    r"|aliyuncs\.com|minimax(?:i)?\.(?:io|com|chat)|cloudflare\.com|vercel\.(?:sh|ai)|cerebras\.ai|perplexity\.ai"
    r"|siliconflow\.(?:cn|com)|docker\.internal)$|" + PLACEHOLDER
)
_ADDRESS = deferred(rb"(?<![<\w-])[\w$]")
_DECODES = deferred(
    rb"b64decode|\batob\b|decode64|frombase64string|buffer\.from|base64_decode|base64\s{1,4}-{1,2}d"
    rb"|\b(?:url|host|endpoint|server|addr|address|target|c2)\w{0,20}\s{0,3}[:=]\s{0,3}$"
)
_REGISTRIES = deferred(r"(?:^|\.)(?:deno\.land|jsr\.io)$")  # which keep the versions that they published
_OPTIONS = deferred(rb"(?:\s{1,4}--?[\w=,.:-]{1,60}){0,8}")
# Before the address of a package: the command and its options.
_INSTALLS = deferred(
    rb"\b(?:npx|bunx|uvx|(?:npm|pnpm|yarn|bun)\s(?:i|install|add|dlx|exec|x)"
    rb"|(?:pip[\d.]{0,5}|pipx|uv\spip|uv)\s(?:install|add)|pipx\srun|cargo\sinstall)"
    rb"(?:\s(?:-[ypgqudse]|--(?:yes|package|from|spec|global|quiet|upgrade|user|save-dev|save|editable|force|git"
    rb"|no-cache(?:-dir)?)|--[\w-]{1,30}=[^\s\"']{0,80})){0,5}[\s=][\"']?(?:\w{1,40}@)?$"
)
_DEPENDENCY = deferred(rb"(?:^|[\s\"'])@?[\w./-]{1,80}(?:\[[\w,.-]{1,60}\])?$")
_TO_HOME = deferred(rb"\b(?:to|in|into|of)\s(?:\w{1,12}\s){0,3}`?" + PARTS["HOME"][0].encode() + rb"$")
_ADDS = deferred(rb"\b(?:add|append|put|write|insert|paste)\b[^\n]{0,80}$")
_NEAR_MAX: Final = 80
# Before a command: the start of a line, an operator of a shell, a call, a key of a file that runs it, or an order.
_BEGINS: Final = deferred(
    rb"(?:^[\s>#$@]*|[;&({]\s*|\b(?:(?:then|do|else|run)\s+|run:\s*)|!|[/-][ck](?:ommand)?\s+\\?[\"']?"
    rb"|(?:\w\(\s*|[\"']-l?c[\"'],\s*|\b(?:command|cmd|run|script|exec|shell|build|start|test|prepare|(?:pre|post)?install)"
    rb"[\"']?(?:\s*[:=]\s*|\s+))\[?[fbru]{0,2}[\"'`]"
    rb"|(?:^|[.,:;]\s|\b(?:then|first|and|please)\s)\s*(?:run|execute|type|enter)\b[^`.]{0,30}`)"
    rb"(?:(?:/\w+)*/)?(?:(?:sudo|doas|command|exec|env|nohup)\s+(?:-\w+\s+)*(?:(?:/\w+)*/)?)*$"
)
_TEXT_ENDS = deferred(rb"[\\\"']\s{0,4}[,)\]}]$")
_JOINED = deferred(rb"(?:\+\s*|\w=)[fbru]{0,2}[\"'`]$")
_ERASES = deferred(
    rb"(?:(?:^|[\s;&|(`\"'])(?:rm|shred|truncate|unlink)\s[^;|&]{0,120}|/dev/null\s{1,4}(?:>\s?)?|(?:^|[\s;&:|])>\s{0,2})[\"']?$"
)
# Words that forbid what follows at once.
_AVOIDS = deferred(
    rb"\b(?:avoid|without|instead of|(?:never|do not|don't|must not|should not)\s(?:use|pass|add|set|run))\s"
    rb"(?:the\s(?:option|flag|switch)\s)?(?:[`\"']{1,2}(?:\w{1,12}\s)?)?$"
)
_EVERY_COMMAND = rb"\bbash\(:?\*"
# At the start of the sentence that the text ends with.
_FORBIDS = deferred(rb"\b(?:never|(?:do|must|should) not|don't|avoid)\b(?:(?!\.\s)[^\n]){0,200}$")


def _piped(context: MatchContext) -> str | None:
    """Judge a download that is piped into a program: by the program, and by the address, if it names one."""
    is_shell = context.then.endswith(b"sh") and not context.then.endswith(b"pwsh")
    program = None if is_shell else _PROGRAM.match(context.after)
    if program and not program[1]:
        return None
    if program:
        code = context.after[program.end() :].partition(program[1])[0]
        return "SH101" if _RUNS_TEXT.search(code) else None
    return _fetched(context, context.between, "SH101")


def _substituted(context: MatchContext) -> str | None:
    """Judge a download whose output is run as a command."""
    return _fetched(context, re.split(rb"[)`|;]", context.after, maxsplit=1)[0].split(b"\n")[0], "SH102")


def _evaluated(context: MatchContext) -> str | None:
    """Judge a download that PowerShell runs; fetch and run may stand in either order."""
    fetch = context.between if b"|" in context.then else re.split(rb"[;|\n]", context.after, maxsplit=1)[0]
    return _fetched(context, fetch, "SH103", _POWER_PLAIN)


def _in_sentence(context: MatchContext) -> str | None:
    """Judge a sentence that reads a file; a list item that begins with it is often a review, and no instruction."""
    return "SH401" if context.before.strip(b" \t-*+") else None


def _is_taken(context: MatchContext) -> str | None:
    """Judge a file of keys in a command: an option may name it as the key to log in with."""
    return None if _LOGS_IN_WITH.search(context.first + context.between) else "SH401"


def _sent_elsewhere(context: MatchContext) -> str | None:
    """Judge a request with the token of a login: it may go to the hosts of the login, or to a host in a variable."""
    line = context.between + context.then + context.after.partition(b"\n")[0]
    hosts = re.findall(rb"https?://([\w.-]{1,253})", line)
    return "SH401" if any(not _TOKEN_HOSTS.search(host) for host in hosts) else None


def _is_decoded(context: MatchContext) -> str | None:
    """Judge an address in base64: by a name before it, as of a variable or a function, or by the pipe after it."""
    return "SH614" if _DECODES.search(context.before + b" " + context.after[:_NEAR_MAX].partition(b"\n")[0]) else None


def _is_run(context: MatchContext) -> str | None:
    """Judge words that are a command only where one begins, and not in a list of words to look for."""
    is_asked_about = b"tool_input" in context.before  # an example of what a hook is asked about
    return THE_RULE if not is_asked_about and _BEGINS.search(context.before) else None


def _is_deleted(context: MatchContext) -> str | None:
    """Judge the deletion of everything: a text of its own may be a word to look for."""
    is_word = _TEXT_ENDS.search(context.first) and not _JOINED.search(context.before)
    return _is_run(context) if is_word else THE_RULE


def _is_erased(context: MatchContext) -> str | None:
    """Judge the path of a history or a log: by the command before it."""
    return "SH411" if _ERASES.search(context.before) else None


def _fetched(context: MatchContext, fetch: bytes, rule: str, plain: re.Pattern[bytes] = _PLAIN) -> str | None:
    """Return the rule for a download that runs; none for a mention without an address, such as ``curl … | sh``."""
    words = [word for word in fetch.strip(b"`\"' ").split() if not word.startswith((b"-", b"<", b'"<', b"'<"))]
    if not any(_ADDRESS.search(word) for word in words) and b"xargs" not in context.before:
        return None
    address = plain.fullmatch(fetch)
    following = re.split(rb"[;&|\n`]", context.after, maxsplit=1)[0]
    is_plain = (
        address and not _SET_BEFORE.search(context.before) and (fetch in context.after or b"://" not in following)
    )
    return "SH108" if is_plain and address and is_installer(address[1].decode("utf-8", "replace")) else rule


def _by_owner(
    text: bytes, anybodys: str, others: str | None = None, known: re.Pattern[str] | None = None
) -> str | None:
    """Return the rule for the first address in a text, by who can publish there.

    Args:
        text: The text; without an address it falls under no rule.
        anybodys: The rule for an address at which anybody can publish.
        others: The rule for any other address.
        known: Hosts that fall under no rule, like those of the user's own network.
    """
    address = URL.search(text.decode("utf-8", "replace"))
    if not address or OWN_NETWORK.match(address[1]) or (known and known.search(address[1])):
        return None
    return anybodys if is_anybodys(address) else others


def _package_address(context: MatchContext) -> str:
    """Judge the address of a package: by who can publish there."""
    address = URL.search((context.then + context.after[:GAP_MAX]).decode("utf-8", "replace"))
    is_installed = re.search(rb"[;|&]", context.between) is None
    return "SH117" if is_installed and address and is_anybodys(address) else "SH106"


def _package_alone(context: MatchContext) -> str | None:
    """Judge the address of a package of any name: the first word after the options of the command."""
    return _by_owner(context.first, "SH117", "SH106") if _INSTALLS.search(context.before) else None


def _added_line(context: MatchContext) -> str | None:
    """Judge a line and a file of a shell: whether the text tells somebody to add the line to the file."""
    return "SH406" if _ADDS.search(context.before) and _TO_HOME.search(context.between) else None


def _program_address(context: MatchContext) -> str | None:
    """Judge the address of a program that an interpreter fetches and runs."""
    is_run = _OPTIONS.fullmatch(context.between) is not None
    return _by_owner(context.then, "SH105", "SH114", _REGISTRIES) if is_run else None


def _dependency(context: MatchContext) -> str | None:
    """Judge the address of a package in a list of dependencies; a list of what was installed has others, too."""
    is_installed = context.before.endswith((b"url", b"resolved", b"tarball", b"repository"))
    others = None if is_installed else "SH106"
    return _by_owner(context.first, "SH117", others) if _DEPENDENCY.search(context.before) else None


def _go_module(context: MatchContext) -> str | None:
    """Judge what a tool fetches by a name that begins with its host: a module of Go, hooks, an image."""
    name = context.first.split()[-1].strip(b"\"'")
    return _by_owner(name if b"://" in name else b"https://" + name, "SH117")


def _loaded_address(context: MatchContext) -> str | None:
    """Judge the address of code that a build tool or a language loads and runs."""
    return _by_owner(context.first, "SH105", "SH114")


def _declared(context: MatchContext) -> str | None:
    """Judge the address of a program that a skill declares for its host to install."""
    return _by_owner(context.first, "SH111", "SH111" if b"http://" in context.first else "SH112", FORGES)


def _unknown_index(context: MatchContext) -> str | None:
    """Judge the index that packages are installed from."""
    address = URL.search(context.first.decode("utf-8", "replace"))
    rule = "SH117" if address and is_anybodys(address) else "SH106"
    return rule if address and (rule == "SH117" or not is_index(address[1])) else None


def _unknown_forge(context: MatchContext) -> str | None:
    """Judge the address that git uses in place of another one."""
    return _by_owner(context.first, "SH418", "SH418", FORGES)


def _of_anybody(context: MatchContext) -> str | None:
    """Judge an address, as of a proxy or of a program to install: by who can publish there."""
    return _by_owner(context.first, THE_RULE)


def _unknown_model_host(context: MatchContext) -> str | None:
    """Judge the address to which the requests to a model are sent."""
    address = URL.search(context.first.decode("utf-8", "replace"))
    is_known = address and (_MODEL_HOSTS.search(address[1].partition(":")[0]) or OWN_NETWORK.match(address[1]))
    return "SH418" if address and not is_known else None


def _is_put(context: MatchContext) -> str | None:
    """Judge the name of somebody who works on a repository: a request may add or only ask for it."""
    line = context.between + context.then + context.after.partition(b"\n")[0]
    return "SH419" if re.search(rb"(?:-x|--request|--method)[ =]{0,4}put\b", line) else None


def _is_meant(context: MatchContext) -> str | None:
    """Judge an option that switches checks off: a sentence may tell not to use it."""
    return None if _AVOIDS.search(context.before) else THE_RULE


def _is_allowed(context: MatchContext) -> str | None:
    """Judge the permission for every command of a shell beside an agent's settings: by the words of the line."""
    line = context.before + context.first + context.between + context.then
    has_allow = b"allow" in line + context.after.partition(b"\n")[0]
    commands = [match.start() for match in re.finditer(_EVERY_COMMAND, line)]
    return "SH303" if has_allow and not _FORBIDS.search(line[: commands[-1]]) else None


def _is_remote(context: MatchContext) -> str | None:
    """Judge the loading of a model by torch: from a folder, or without code of its own, it runs nothing."""
    call = context.after.partition(b")")[0]
    return None if re.search(rb"source\s{0,2}=\s{0,2}[\"']local|weights_only\s{0,2}=\s{0,2}true", call) else "SH120"


_JUDGES: Final[Mapping[str, Judge]] = {
    judge.__name__.removeprefix("_"): judge
    for judge in (
        *(_piped, _substituted, _evaluated, _in_sentence, _is_taken, _sent_elsewhere, _is_decoded, _is_run),
        *(_is_deleted, _is_erased, _package_address, _package_alone, _added_line, _program_address, _dependency),
        *(_unknown_index, _go_module, _loaded_address, _declared, _unknown_forge, _of_anybody),
        *(_unknown_model_host, _is_put, _is_meant, _is_allowed, _is_remote),
    )
}


# The patterns of lines, each with its rule.
LINE_PATTERNS: Final = tuple(
    (rules()[id_], pattern) for id_, rows in PATTERNS["rules"].items() for pattern in line_patterns(rows, _JUDGES)
)


# Downloads of programs that a later command starts.

# Languages in which a command is a line of words.
_READ: Final = frozenset[Language]({"shell", "ruby", "php", "perl", "powershell", "batch", "applescript", "other"})
# A command that a program runs as one text, after the option of a shell or in a notebook, too.
_CALLED: Final = deferred(
    r"(?i)(?:(?:\b(?:system|popen|exec|execsync|execute|spawn|spawnsync|run|call|check_call|check_output|getoutput"
    r"|shell_exec|passthru|command|shell script)(?:\(|\s{1,4}(?=[\"'`]))|\bstart\(\s{0,4}\"[\w/.]{1,20}\","
    r"|[\"'](?:-l?c|/c|-command)[\"'](?:,|\)\.args?\())\s{0,8}[fbru]{0,2}"
    r"(?:\"((?:[^\"\\\n]|\\.){3,2000})\"|'((?:[^'\\\n]|\\.){3,2000})'|`([^`\\\n]{3,2000})`)"
    r"|^[ \t]*!([a-z][^\n]{3,2000}))",
    re.MULTILINE,
)
# A value that is put into such a text.
_PUT_IN: Final = deferred(
    r"[\"'][ \t]{0,4}[+.&][ \t]{0,4}(?:quoted form of )?[\w.()]{1,60}[ \t]{0,4}[+.&][ \t]{0,4}[\"']"
)
_FETCHERS: Final = frozenset(
    words("curl curl.exe wget wget.exe aria2c axel certutil certutil.exe bitsadmin bitsadmin.exe iwr irm")
    + words("invoke-webrequest invoke-restmethod start-bitstransfer")
)
# The longest word of each command, compared as a whole word: `irm` is a part of "confirm".
_COMMAND_WORDS: Final = frozenset(
    max(re.split(r"\W", name), key=len).encode()
    for name in ("mshta", "regsvr32", "downloadfile", "clone", *_FETCHERS)
)
_FETCHES = deferred("|".join(map(re.escape, ("downloadfile", "clone", *sorted(_FETCHERS)))))  # in lower case
_TO_FILE: Final = frozenset(words("-o -O --output --output-document -outfile -destination --out > >>"))
_BEFORE: Final = frozenset(
    words("sudo nohup exec time start /b /wait env then do else and or ! & ( { command setsid run: $ >")
)
_STARTERS: Final = frozenset(
    words(
        "sh bash zsh dash ksh python python3 node perl ruby php . source open start-process saps ii invoke-item cmd"
    )
    + words("powershell pwsh rundll32 msiexec wine")
)
_CLONED = deferred(r"(?:https?|git|ssh)://(?:[^\s/@]{0,64}@)?([\w.-]{1,253})[/:]|(?:\w{1,32}@)([\w.-]{1,253}):")
_WITHIN = deferred(r"`((?:\.?/|[^\s`]{2,100} )[^`\n]{2,500})`")  # a command, not a mere name
# Commands that run what stands in the folder in which they are started.
_BUILDERS: Final = frozenset(
    words("make npm pnpm yarn bun pip pip3 uv cargo go just docker docker-compose ./gradlew")
)
_COPIERS: Final = frozenset(words("install cp mv ln copy move copy-item move-item"))
# Commands that unpack, each with its option before a folder, which may be a part of the same word.
_UNPACKERS: Final = {
    **dict.fromkeys(("tar", "bsdtar"), re.compile(r"(?:-\w{0,8}C|--directory)=?(.*)")),
    **dict.fromkeys(("7z", "7za"), re.compile(r"-o(.*)")),
    "unzip": re.compile(r"-d(.*)"),
}
_UNPACKS: Final = deferred(r"python[\d.]* -m (?:zipfile|tarfile) (?:-e|--extract)")
_HERE: Final = "."
# Commands that hide from the user or the system that a program is started.
_HIDES = deferred(r"\bxattr\s+-\w*[cd]|com\.apple\.quarantine|/tmp/\.\w|-w(?:indowstyle)?\s+hidden", re.IGNORECASE)
_KEEPS_NAME = deferred(r"-[a-zA-Z]{0,8}[OJ][a-zA-Z]{0,8}|--remote-(?:header-)?name(?:-all)?")  # of curl
_COMMAND = deferred(r"\n|&&|\|\||[;|]|&(?=\s|$)|(?<=\s)&\s|\\\n")
_SCRIPTLET = deferred(r"\b(?:mshta|regsvr32)(?:\.exe)?[^\S\n][^\n]{0,80}https?://")
_WORD = deferred(r"[^\s\"'`]{1,400}")
_SHELL = deferred(r"(?:/[\w/]{1,30}/)?(?:(?:ba|z|da|k)?sh|(?:cmd|powershell|pwsh)(?:\.exe)?)")
_OPTION_OF_SHELL = deferred(r"[-/]\w{1,20}|hidden|bypass")
_OF_COMMAND = deferred(r"-\w{0,6}c|/c|-command")
_ADDRESS_SET: Final = deferred(r"\b(\w{1,40})=[\"']?(https?://[^\s\"';&|]{1,200})")
_SET = deferred(r"\w{1,40}=\S*")


def staged(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the downloads of programs that a later command starts, without a pipe between the two."""
    for file in files:
        if file.recipe == "dockerfile" or not _COMMAND_WORDS.isdisjoint(file.letters_read.words):
            passages = [*file.parsed(programs_in), *(() if file.recipe else file.passages)]
            scripts = [script for each in passages for script in _scripts_in(each)]
            scripts += [run for each in passages if each.kind == "code" for run in _commands_in(each)]
            rows = [*_started(scripts), *(row for passage in passages for row in _run(passage))]
            yield from (Sighting(rule, file.path, line) for rule, line in rows)


def _scripts_in(passage: Passage) -> Iterator[Passage]:
    """Yield a passage that is a script, or each command within a sentence."""
    if passage.kind == "code":
        yield from (passage,) if passage.language in _READ else ()
    else:
        for match, line in numbered(_WITHIN.finditer(passage.text), passage.line):
            yield replace(passage, text=match[1], line=line)


def _commands_in(passage: Passage) -> Iterator[Passage]:
    """Yield the commands that a program runs, each as a script."""
    text = passage.text.lower() if passage.language != "shell" else ""
    is_read = any(name in text for name in ("curl", "wget", "certutil", "bitsadmin", "webrequest", "bitstransfer"))
    text = _PUT_IN.sub("$x", passage.text) if is_read and _CALLED.search(passage.text) else ""
    for match, line in numbered(_CALLED.finditer(text), passage.line):
        command = next(filter(None, match.groups()), "").replace('\\"', '"').replace("\\\\", "\\")
        yield replace(passage, language="shell", text=command, line=line)


def _run(passage: Passage) -> Iterator[tuple[str, int]]:
    """Yield the commands by which a program of Windows runs the code at an address."""
    text = passage.text.lower()
    if "mshta" in text or "regsvr32" in text:
        yield from (("SH113", line) for _, line in numbered(_SCRIPTLET.finditer(text), passage.line))


def _rows(scripts: Sequence[Passage]) -> Iterator[tuple[str, int, bool, Mapping[str, str]]]:
    """Yield each line of the scripts, its number, whether its script hides a start, and the script's addresses."""
    for script in scripts:
        text = script.text.replace("\\\n", "  ").replace("^\n", "  ")
        hides = _FETCHES.search(text.lower()) is not None and _HIDES.search(text) is not None
        addresses = {f"${name}": address for name, address in _ADDRESS_SET.findall(text)}
        yield from ((row, line, hides, addresses) for line, row in enumerate(text.split("\n"), script.line))


_Row = tuple[str, int]  # a rule and a line


def _started(scripts: Sequence[Passage]) -> Iterator[_Row]:
    """Yield the rule and the line of each download that a later command starts, in the same script or a later one."""
    downloads = _Downloads()
    for row, line, hides, addresses in _rows(scripts):
        downloads.piped = None
        for command in _COMMAND.split(row) if downloads.any() or _FETCHES.search(row.lower()) else ():
            words = _WORD.findall(command)
            tokens = _inner([addresses.get(word.replace("{", "").rstrip("}"), word) for word in words])
            name = tokens[0].lower() if tokens else ""
            if name.rpartition("/")[2] in _FETCHERS or ".downloadfile(" in command.lower():
                is_hostile = hides or any(map(_is_anybodys, tokens))
                downloads.fetch(tokens, ("SH113" if is_hostile else "SH114", line))
            elif name == "git" and "clone" in tokens[:4]:
                downloads.folders.update({folder: (rule, line) for folder, rule in _cloned(tokens, hides)})
            elif name and (started := downloads.start(tokens)):
                yield started


class _Downloads:
    """What the commands so far downloaded, by the names under which a later command can start it.

    Attributes:
        folders: The folders of clones, and those with unpacked files.
        piped: The download that the command before pipes into this one.
    """

    def __init__(self) -> None:
        self.folders: dict[str, _Row] = {}
        self.piped: _Row | None = None
        self._files: dict[str, _Row] = {}
        self._in_path: set[str] = set()
        self._entered = ""

    def any(self) -> bool:
        """Return whether a command can start anything."""
        return bool(self._files or self.folders)

    def fetch(self, tokens: list[str], row: _Row) -> None:
        """Add the files that a command downloads."""
        saved = dict.fromkeys(_saved_names(tokens), row)
        self._files.update(saved)
        self._in_path.update(saved if any("bin/" in word for word in tokens) else ())
        self.piped = None if saved else row

    def start(self, tokens: list[str]) -> _Row | None:
        """Return the download that a command starts, and forget it; follow a command that moves or unpacks one."""
        name = tokens[0].lower()
        if option := _UNPACKERS.get(name.rpartition("/")[2]):
            archives = (self._files.get(_base_name(token)) for token in tokens[1:])
            if archive := next(filter(None, archives), self.piped):
                folders = ((option.fullmatch(word), following) for word, following in pairwise((*tokens, "")))
                into = [match[1] or following for match, following in folders if match]
                folder = next(iter(_parts(into[-1])[-1:]), _HERE) if into else _HERE
                self._entered = _HERE if folder == _HERE else self._entered
                self.folders[folder] = archive
        elif name == "tee" and self.piped:
            self._files.update(dict.fromkeys(map(_base_name, tokens[1:]), self.piped))
        elif name == "cd" and len(tokens) > 1:
            is_within = self._entered == _HERE and _is_relative(tokens[1])
            known = (part for part in _parts(tokens[1]) if part in self.folders)
            self._entered = next(known, _HERE if is_within else "")
        elif self.folders and (folder := _started_folder(tokens, self._entered, self.folders)):
            return self.folders.pop(folder)
        elif name in _COPIERS and len(tokens) > 2 and _base_name(tokens[-2]) in self._files:
            copy = _base_name(tokens[-1].rstrip("/")) or _base_name(tokens[-2])
            self._files[copy] = self._files[_base_name(tokens[-2])]
            self._in_path.update((copy, _base_name(tokens[-2])))
        elif target := _started_file(tokens, self._in_path):
            return self._files.pop(target, None)
        return None


def _inner(words: list[str]) -> list[str]:
    """Return the words of a command without those before its name, also of one that a shell gets: ``sh -c '…'``."""
    tokens = [*dropwhile(_is_before, words)]
    if tokens[1:2] == ["-m"] and _UNPACKS.fullmatch(" ".join(tokens[:4])):
        return ["unzip", *tokens[4:5], *(("-d", *tokens[5:]) if tokens[5:] else ())]
    while tokens:
        is_shell = _SHELL.fullmatch(tokens[0].lower()) is not None
        options = [*takewhile(_OPTION_OF_SHELL.fullmatch, tokens[is_shell : None if is_shell else 1])]
        if not options or not _OF_COMMAND.fullmatch(options[-1].lower()):
            break
        tokens = [*dropwhile(_is_before, tokens[is_shell + len(options) :])]
    return tokens


def _is_before(word: str) -> bool:
    """Return whether a word stands before the name of a command."""
    return word.lower() in _BEFORE or _SET.fullmatch(word) is not None


def _is_anybodys(word: str) -> bool:
    match = URL.search(word.lower())
    return match is not None and kind_of(match[1], match[2]) in ANYBODYS


def _saved_names(command: list[str]) -> Iterator[str]:
    """Yield the names under which a download may be saved; none for the installer of a well-known project."""
    urls = [word for word in command if "://" in word]
    if any(word.startswith(("-d", "--data", "-F", "--form", "-XPOST")) or word == "POST" for word in command):
        return  # the file is the answer to a request that sends data
    if urls and all(is_installer(url.lower()) for url in urls):
        return
    for option, value in pairwise(command):
        is_option = not _TO_FILE.isdisjoint((option, option.lower())) or re.fullmatch(r"-[a-zA-Z]{1,8}[oO]", option)
        if is_option and "://" not in value and not value.startswith("-"):
            yield _base_name(value)
    last = command[-1]
    if urls and ("://" not in last or ".downloadfile(" in " ".join(command).lower()):
        yield _base_name(last.rstrip(")"))
    if "curl" not in command[0].lower() or any(map(_KEEPS_NAME.fullmatch, command)):
        yield from (_base_name(url.partition("?")[0]) for url in urls)


def _started_file(command: list[str], in_path: Set[str]) -> str:
    """Return the name of the file that a command starts, or an empty string.

    A downloaded file in a folder of programs (``in_path``) is started by its name alone.
    """
    name = command[0].lower()
    if name.rpartition("/")[2] in _STARTERS or name.rpartition("/")[2].removesuffix(".exe") in _STARTERS:
        arguments = [word for word in command[1:] if not word.startswith(("-", "/c", "/q"))]
        return _base_name(arguments[0]) if arguments else ""
    is_path = re.search(r"[/\\$%]|\.(?:exe|sh|bat|ps1)$", name) is not None
    return _base_name(command[0]) if is_path or name in in_path else ""


def _cloned(command: list[str], hides: bool) -> Iterator[tuple[str, str]]:
    """Yield the folder of a clone from an unknown host, with the rule for what is started in it."""
    for number, word in enumerate(command):
        match = _CLONED.match(word)
        host = (match[1] or match[2]).lower() if match else ""
        if host and not OWN_NETWORK.match(host) and (hides or not FORGES.search(host)):
            rest = [each for each in command[number + 1 :] if not each.startswith("-")]
            folder = _parts(rest[0] if rest else word.removesuffix(".git"))[-1:]
            yield from ((each, "SH113" if hides or kind_of(host, "") in ANYBODYS else "SH114") for each in folder)


def _started_folder(command: list[str], entered: str, folders: Mapping[str, _Row]) -> str:
    """Return the downloaded folder in which a command starts a program, or an empty string."""
    name = command[0].lower()
    is_starter = name.rpartition("/")[2] in _STARTERS
    paths = [word for word in command[1:] if not word.startswith("-")][:1] if is_starter else command[:1]
    if folder := next((part for path in paths for part in _parts(path)[:-1] if part in folders), ""):
        return folder
    # What other commands start here may be a file that was here before.
    can_run_others = entered == _HERE and not _SHELL.fullmatch(name)
    is_file_here = is_starter and not can_run_others and any(map(_is_relative, paths))
    is_in_folder = name.startswith("./") or is_file_here or (name in _BUILDERS and not can_run_others)
    return entered if entered in folders and is_in_folder else ""


def _is_relative(path: str) -> bool:
    return not path.startswith(("/", "~", "$", "%"))


def _parts(path: str) -> list[str]:
    return [
        part for part in re.split(r"[/\\:]", path.strip("\"'(),;{}[]").lower()) if part not in ("", ".", "..", "~")
    ]


def _base_name(path: str) -> str:
    name = re.split(r"[/\\]", path.strip("\"'(),;{}[]").lower())[-1]
    return "" if name == "null" else name
