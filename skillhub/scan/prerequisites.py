"""Programs from the network: instructions to a person to run one, and downloads that a later command starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, dropwhile, pairwise
from typing import Final

from skillhub.formats.text import deferred, words
from skillhub.model.finding import Sighting
from skillhub.scan.pattern import (
    ANYBODYS,
    OTHERS_ACT,
    OWN_NETWORK,
    URL,
    AddressKind,
    MatchContext,
    is_installer,
    kind_of,
    pattern,
    rule,
)
from skillhub.scan.skill_files import Language, Passage, Signs, SkillFiles, SourceFile, programs_in, sign

# Languages in which a command is a line of words.
_READ: Final = frozenset[Language]({"shell", "ruby", "php", "perl", "powershell", "batch", "applescript", "other"})
# A command that a program runs as one text, and a value that is put into a text.
_CALLED: Final = deferred(
    r"(?i)\b(?:system|popen|exec|execsync|execute|spawn|spawnsync|run|call|check_call|check_output|getoutput|shell_exec"
    r"|passthru|command|shell script)(?:\(|\s{1,4}(?=[\"'`]))\s{0,8}[fbru]{0,2}"
    r"(\"((?:[^\"\\\n]|\\.){3,2000})\"|'((?:[^'\\\n]|\\.){3,2000})'|`([^`\\\n]{3,2000})`)"
)
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
    words("sudo nohup exec time start /b /wait env then do else ! & ( { command setsid run: $ >")
)
_STARTERS: Final = frozenset(
    words(
        "sh bash zsh dash ksh python python3 node perl ruby php . source open start-process saps ii invoke-item cmd"
    )
    + words("powershell pwsh rundll32 msiexec wine")
)
# Hosts of repositories at which well-known projects are; the page of a project tells to clone and build it.
_FORGES = deferred(
    r"(?:^|\.)(?:github\.com|gitlab\.com|bitbucket\.org|codeberg\.org|sr\.ht|huggingface\.co|hf\.co|dev\.azure\.com"
    r"|visualstudio\.com|gitee\.com|googlesource\.com|savannah\.gnu\.org|kernel\.org|freedesktop\.org|githubusercontent\.com"
    r"|gitlab\.(?:gnome\.org|freedesktop\.org|inria\.fr|kitware\.com)|sourceware\.org|apache\.org|debian\.org)$"
)
_CLONED = deferred(r"(?:https?|git|ssh)://(?:[^\s/@]{0,64}@)?([\w.-]{1,253})[/:]|(?:\w{1,32}@)([\w.-]{1,253}):")
# Commands that run what stands in the folder in which they are started.
_BUILDERS: Final = frozenset(
    words("make npm pnpm yarn bun pip pip3 uv cargo go just docker docker-compose ./gradlew")
)
_COPIERS: Final = frozenset(words("install cp mv ln copy move copy-item move-item"))
# Commands that hide from the user or the system that a program is started.
_HIDES = deferred(r"\bxattr\s+-\w*[cd]|com\.apple\.quarantine|/tmp/\.\w|-w(?:indowstyle)?\s+hidden", re.IGNORECASE)
_COMMAND = deferred(r"\n|&&|\|\||[;|]|&(?=\s|$)|(?<=\s)&\s|\\\n")
_SCRIPTLET = deferred(r"\b(?:mshta|regsvr32)(?:\.exe)?[^\S\n][^\n]{0,80}https?://")
_WORD = deferred(r"[^\s\"'`]{1,400}")
_SHELL = deferred(r"(?:/[\w/]{1,30}/)?(?:ba|z|da|k)?sh")
_OF_COMMAND = deferred(r"-\w{0,6}c")
_SET = deferred(r"\w{1,40}=\S*")


def staged(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the downloads of programs that a later command starts, without a pipe between the two."""
    for file in files:
        if not _COMMAND_WORDS.isdisjoint(file.letters_read.words):
            passages = [*file.parsed(programs_in), *(() if file.recipe else file.passages)]
            is_read = [passage.kind == "code" and passage.language in _READ for passage in passages]
            scripts = [*compress(passages, is_read)]
            scripts += [run for each in passages if each.kind == "code" for run in _commands_in(each)]
            rows = [*_started(scripts), *(row for passage in passages for row in _run(passage))]
            yield from (Sighting(rule, file.path, line) for rule, line in rows)


def _commands_in(passage: Passage) -> Iterator[Passage]:
    """Yield the commands that a program runs, each as a script."""
    is_read = passage.language != "shell" and ("curl" in passage.text or "wget" in passage.text)
    text = _PUT_IN.sub("$x", passage.text) if is_read and _CALLED.search(passage.text) else ""
    line, counted_to = passage.line, 0
    for match in _CALLED.finditer(text):
        line, counted_to = line + text.count("\n", counted_to, match.start()), match.start()
        command = (match[2] or match[3] or match[4] or "").replace('\\"', '"')
        yield replace(passage, language="shell", text=command, line=line)


def _run(passage: Passage) -> Iterator[tuple[str, int]]:
    """Yield the commands by which a program of Windows runs the code at an address."""
    text, line, counted_to = passage.text.lower(), passage.line, 0
    for match in _SCRIPTLET.finditer(text) if "mshta" in text or "regsvr32" in text else ():
        line, counted_to = line + text.count("\n", counted_to, match.start()), match.start()
        yield "SH113", line


def _rows(scripts: Sequence[Passage]) -> Iterator[tuple[str, int, bool]]:
    """Yield each line of the scripts, with its number, and whether its script hides that a program is started."""
    for script in scripts:
        text = script.text.replace("\\\n", "  ").replace("^\n", "  ")
        hides = _FETCHES.search(text.lower()) is not None and _HIDES.search(text) is not None
        yield from ((row, line, hides) for line, row in enumerate(text.split("\n"), script.line))


def _started(scripts: Sequence[Passage]) -> Iterator[tuple[str, int]]:
    """Yield the rule and the line of each download that a later command starts, in the same script or a later one."""
    fetched: dict[str, tuple[str, int]] = {}
    cloned: dict[str, tuple[str, int]] = {}
    in_path = set[str]()
    entered = ""
    for row, line, hides in _rows(scripts):
        for command in _COMMAND.split(row) if fetched or cloned or _FETCHES.search(row.lower()) else ():
            tokens = _inner(_WORD.findall(command))
            name = tokens[0].lower() if tokens else ""
            if name in _FETCHERS or ".downloadfile(" in command.lower():
                rule = "SH113" if hides or any(map(_is_anybodys, tokens)) else "SH114"
                saved = dict.fromkeys(_saved_names(tokens), (rule, line))
                fetched.update(saved)
                in_path.update(saved if any("bin/" in word for word in tokens) else ())
            elif name == "git" and "clone" in tokens[:4]:
                cloned.update({folder: (rule, line) for folder, rule in _cloned(tokens, hides)})
            elif name == "cd" and len(tokens) > 1:
                entered = next((part for part in _parts(tokens[1]) if part in cloned), "")
            elif name and cloned and (folder := _started_folder(tokens, entered, cloned)):
                yield cloned.pop(folder)
            elif name in _COPIERS and len(tokens) > 2 and _base_name(tokens[-2]) in fetched:
                copy = _base_name(tokens[-1].rstrip("/")) or _base_name(tokens[-2])
                fetched[copy] = fetched[_base_name(tokens[-2])]
                in_path.update((copy, _base_name(tokens[-2])))
            elif name and (target := _started_file(tokens, in_path)) and target in fetched:
                yield fetched.pop(target)


def _inner(words: list[str]) -> list[str]:
    """Return the words of a command without those before its name, also of one that a shell gets: ``sh -c '…'``."""
    tokens = [*dropwhile(_is_before, words)]
    while len(tokens) > 2 and _SHELL.fullmatch(tokens[0].lower()) and _OF_COMMAND.fullmatch(tokens[1]):
        tokens = [*dropwhile(_is_before, tokens[2:])]
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
        if host and not OWN_NETWORK.match(host) and (hides or not _FORGES.search(host)):
            rest = [each for each in command[number + 1 :] if not each.startswith("-")]
            folder = _parts(rest[0] if rest else word.removesuffix(".git"))[-1:]
            yield from ((each, "SH113" if hides or kind_of(host, "") in ANYBODYS else "SH114") for each in folder)


def _started_folder(command: list[str], entered: str, cloned: Mapping[str, tuple[str, int]]) -> str:
    """Return the cloned folder in which a command starts a program, or an empty string."""
    name = command[0].lower()
    is_starter = name.rpartition("/")[2] in _STARTERS
    paths = [word for word in command[1:] if not word.startswith("-")][:1] if is_starter else command[:1]
    if folder := next((part for path in paths for part in _parts(path)[:-1] if part in cloned), ""):
        return folder
    is_in_folder = name in _BUILDERS or name.startswith("./") or (is_starter and any(map(_is_relative, paths)))
    return entered if entered in cloned and is_in_folder else ""


def _is_relative(path: str) -> bool:
    return not path.startswith(("/", "~", "$", "%"))


def _parts(path: str) -> list[str]:
    return [
        part for part in re.split(r"[/\\:]", path.strip("\"'(),;{}[]").lower()) if part not in ("", ".", "..", "~")
    ]


def _base_name(path: str) -> str:
    name = re.split(r"[/\\]", path.strip("\"'(),;{}[]").lower())[-1]
    return "" if name == "null" else name


# A step is described in a few sentences; passages further apart belong to different steps.
_NEAR: Final = 3
_SIGNS: Final = {
    name: sign(words, *patterns)
    for name, (words, *patterns) in {
        "fetch": (
            "load install grab obtain visit go navigate setup set_it get fetch retrieve pull_ lade"
            " herunter charg descarg 下载 скачай",
            r"\b(?:herunter|laden?\b|télécharg|descarg)",
            r"下载|скачай",
            r"\b(?:down-?loads?|install(?:er|ed|ation|ing)?|grab|obtain|visit|go to|navigate to)\b",
            r"\b(?:get|fetch|retrieve|pull)\s(?:[^\n.]|\.(?=\w)){1,60}\sfrom\b",
            r"\b(?:setup|set it up|get (?:it|the \w{1,20})|get started) (?:here|from|at|guide|page|via)\b",
        ),
        "run": (
            "run execute launch open start click paste enter install setup führ exécut lance ejecut 运行 запуст",
            r"\b(?:ausführ|exécute|lance[rz]\b|ejecut)",
            r"运行|запуст",
            r"\b(?:run|execute|launch|open|start|double[- ]click|paste|enter|install(?:er)?|setup\.exe)\b",
        ),
        "execute": (
            "run execute bash shell terminal paste copy",
            r"\b(?:run|execute|bash|powershell|terminal)\b",
            r"\bpaste (?:it|the|this|that|in)\b",
            r"\bcopy (?:it|the|and|every)",
        ),
        "needed": (
            "be require prerequisite mandatory before work function operate voraussetz erforder requis necesari 必须"
            " необходим",
            r"\b(?:voraussetzung|erforderlich|prérequis|requisito|necesari)",
            r"必须|необходим",
            r"\b(?:must|needs?|has|have) (?:to )?be (?:\w{1,20} )?(?:installed|running|downloaded|set up|active)\b",
            r"\brequires? [^.\n]{1,80}(?:\binstalled|\bto (?:function|work|run|operate)|\butility|\bhelper|cli)\b",
            r"\brequires? [^.\n]{1,80}\b(?:tool|agent|client|driver|component)\b",
            r"\b(?:prerequisites?|mandatory|required)\b",
            r"\bbefore (?:using|proceeding|you (?:use|start|begin))\b",
            r"\b(?:will|won't|does|can)\s?(?:not|n't) (?:work|function|operate)\b",
        ),
        "password": (
            "pass pw extract unzip unpack unrar open contraseña пароль 密码",
            r"\b(?:passwort|mot de passe|contraseña|пароль)\b[\s:=*_`\"'(-]{1,8}[\w!@#$%-]{2,40}",
            r"密码.{0,4}\w",
            r"\b(?:pass(?:word|phrase|code|wd)?|pwd|pw)\b[\s:=*_`\"'(-]{1,8}(?:(?:is|for \w{1,20}) ){0,2}"
            r"[\s:=*_`\"'(-]{0,4}[\w!@#$%-]{2,40}",
            r"\b(?:extract|unzip|unpack|unrar|open)(?:ed)? (?:it )?(?:using|with)[: ]{1,2}[`\"']?\w",
        ),
        "archive": (
            "extract unzip unpack unrar compress archiv zip rar 7z entpack 解压 распак",
            r"\b(?:archiv|entpack|décompress|extract|unzip|unpack|unrar|decompress)",
            r"解压|распак",
            r"\b(?:zip|rar|7z)\b",
        ),
        "command": (
            "copy kopier copie copia paste",
            r"\b(?:kopier\w{1,3}|copiez|copie|copia)\b[^\n]{0,20}\b(?:skript|befehl|code|commande|script|comando)\b",
            r"\bcopy (?:and (?:paste|run|execute) )?"
            r"(?:(?:the|this|that|its|following|entire|whole|install\w{0,6}|setup)\s){0,4}"
            r"(?:terminal |shell |powershell )?(?:command|script|code|snippet|one-?liner|line)",
            r"\bpaste (?:\w{1,12} ){0,3}(?:command|script|snippet|one-?liner|line)s? (?:from|at|on)\b[^\n.]{0,60}https?://",
        ),
        "terminal": (
            "terminal shell command cmd console dialog win",
            r"\b(?:terminal|power-?shell|command (?:prompt|line)|cmd(?:\.exe)?|console|run dialog)\b",
            r"\bwin(?:dows)?\s?(?:key)?\s?\+ ?[rx]\b",
        ),
    }.items()
}


@dataclass(frozen=True, slots=True)
class _Link:
    passage: int
    line: int
    kind: AddressKind
    is_program: bool


def _links(signs: Signs) -> Iterator[_Link]:
    """Yield the addresses in a document, except the installers of well-known projects."""
    for number, (passage, text) in enumerate(zip(signs.passages, signs.texts, strict=True)):
        line, counted_to = passage.line, 0
        for match in URL.finditer(text):
            host, path = match[1], match[2].rstrip(".,;:!")
            line, counted_to = line + text.count("\n", counted_to, match.start()), match.start()
            if not is_installer(f"https://{host}{path}"):
                yield _Link(number, line, kind_of(host, path), kind_of("a.com", path) == "program")


def prerequisites(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the instructions to a person to download and run a program that anybody may have published."""
    for file in files:
        if (file.is_document or file.language == "data") and b"://" in file.data and _is_suspicious(file):
            signs = Signs(file, _SIGNS)
            yield from (sighting for link in _links(signs) for sighting in _sightings_of(link, signs))


def _is_suspicious(file: SourceFile) -> bool:
    """Return whether a file has an address of a suspicious kind, or a command to copy into a terminal."""
    addresses = set(URL.findall(file.text.lower()))
    if any(kind_of(host, path.rstrip(".,;:!")) != "other" for host, path in addresses):
        return True
    return Signs(file, _SIGNS).has_any("command")


def _sightings_of(link: _Link, signs: Signs) -> Iterator[Sighting]:
    """Yield the rules that an address falls under, by the passages around it."""
    near = partial(signs.near, number=link.passage, before=_NEAR, after=_NEAR)
    passage = signs.passages[link.passage]
    is_prose = passage.kind != "code" or passage.language == "markdown"
    is_copied = is_prose and near("command", before=1, after=2) and near("terminal") and near("run")
    if is_copied or (link.kind == "paste" and near("execute", before=1, after=1)):
        yield Sighting("SH109", signs.path, link.line)
    is_file = link.is_program or link.kind == "drop"
    is_archive = is_file or (link.kind != "other" and near("archive"))
    if is_archive and near("password") and near("run") and near("fetch"):
        yield Sighting("SH110", signs.path, link.line)
    if is_prose and near("fetch", before=1, after=1) and near("needed"):
        if link.kind in ANYBODYS:
            yield Sighting("SH111", signs.path, link.line)
        elif link.is_program and near("run", before=0, after=1):
            yield Sighting("SH112", signs.path, link.line)


# An instruction to fetch a script and to run it in the same sentences, with the address in them.

_ADDRESS = r"https?://[^\s\"'`<>()\[\]]{1,300}"
_RUNS_IT = (
    r"\b(?:run|execute|launch|source|start|invoke)\s(?:(?:it|this|that|them)\b"
    r"|(?:the\s(?:\w{1,20}\s)?)?(?:script|file|program|installer|binary)\b|`?[\w./~-]{1,80}\.(?:py|sh|bash|mjs|js|ps1|rb|pl)\b)"
)
_TOLD: Final = {
    "script": sign(
        "download fetch save retrieve grab get curl wget / http / run execute launch source start invoke"
        " / .py .sh .bash .js .mjs .ps1 .rb .pl",
        r"\b(?:download|fetch|save|retrieve|grab|get|curl|wget)\b[^\n.]{0,80}?https?://[^\s\"'`<>()\[\]]{1,300}?"
        r"\.(?:py|sh|bash|mjs|js|ps1|rb|pl)\b(?:(?!\.\s)[^\n]){0,120}?" + _RUNS_IT,
    ),
    "program": sign(
        "download fetch save retrieve grab get curl wget / http / executable chmod",
        r"\b(?:download|fetch|save|retrieve|grab|get|curl|wget)\b[^\n.]{0,80}?"
        + _ADDRESS
        + r"(?:(?!\.\s)[^\n]){0,80}?\b(?:executable|chmod)\b(?:(?!\.\s)[^\n]){0,80}?"
        + _RUNS_IT,
    ),
    "clone": sign(
        "clone / http",
        r"\bclone\b[^\n]{0,40}?"
        + _ADDRESS
        + r"[^\n]{0,120}?(?:"
        + _RUNS_IT
        + r"|\b(?:run|execute|launch|start)\s`?[~./\w-]{0,80}/[\w.-]"
        r"|(?:&&|;)\s{0,3}(?:cd\s[^\n;&]{1,60}(?:&&|;)\s{0,3})?(?:sudo\s)?(?:(?:(?:ba|z|da)?sh|python3?|node|source)\s)?[~./\w-]{0,80}/[\w.-])",
    ),
}


def told_to_start(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the instructions to fetch a program from an unknown address, and to run it."""
    for file in files:
        signs = Signs(file, _TOLD)
        if file.is_document and not file.is_program and b"://" in file.data:
            for name in (name for name in _TOLD if signs.has_any(name)):
                for number in signs.where(name):
                    told = () if signs.passages[number].kind == "code" else _TOLD[name].finditer(signs.texts[number])
                    for match in filter(_is_of_unknown, told):
                        yield Sighting("SH115", file.path, signs.line_at(number, match.start()))


def _is_of_unknown(told: re.Match[str]) -> bool:
    """Return whether an instruction has an address that is neither an installer's nor a host of repositories."""
    return any(
        not is_installer(address[0].rstrip(".,;:!"))
        and not OWN_NETWORK.match(address[1])
        and not _FORGES.search(address[1].partition(":")[0])
        for address in URL.finditer(told[0])
    )


# A person who pastes what is in the clipboard into a shell runs a text that nobody sees before.

_BETWEEN_KEYS = r"(?:[\s`\"'+-]|</?kbd>){1,12}"
_CLIPBOARD: Final = {
    "paste keys": sign(
        "ctrl strg control cmd ⌘",
        r"\b(?:ctrl|strg|control|cmd|command)" + _BETWEEN_KEYS + r"v\b",
        r"⌘(?:[\s`\"'+-]|</?kbd>){0,12}v\b",
    ),
    "run dialog": sign(
        "win ⊞",
        r"(?:\bwin(?:dows)?\b|⊞)(?:(?:[\s`\"']|</?kbd>){1,12}(?:logo|key|button|taste)){0,2}"
        + _BETWEEN_KEYS
        + r"[rx]\b",
    ),
    "press": sign("press hit hold push tap drück", r"\b(?:press|hit|hold|push|tap|drück)"),
    "enter": sign("enter return ok eingabe", r"\b(?:enter|return|ok|eingabe)"),
    "open": sign(
        "terminal powershell power-shell command_prompt cmd",
        r"\b(?:open|launch|start|type|search for|bring up)\b[^.\n]{0,24}"
        r"\b(?:terminal|power-?shell|command prompt|cmd)\b",
    ),
    "paste": sign("paste ctrl cmd right-click", r"\bpaste\b", r"\b(?:ctrl|cmd)" + _BETWEEN_KEYS + r"v\b"),
    "pasted": sign("clipboard / paste", r"\bpaste\b[^.\n]{0,80}?\bclipboard\b"),
    "copied": sign(
        "clipboard / copied copies placed places put in_your in_the in_their on_your on_the",
        r"\b(?:copied|copies|placed|places|put|puts)\b[^.\n]{0,80}?\b(?:to|in|into|on|onto)\s"
        r"(?:your|the|their|the user's)\s(?:\w{1,12}\s)?clipboard\b",
        r"\b(?:is|are)\s(?:now\s|already\s)?(?:in|on)\s(?:your|the|their|the user's)\s(?:\w{1,12}\s)?clipboard\b",
    ),
}
# What else than a command a person may copy into a terminal.
_VALUE = deferred(
    r"\b(?:key|token|code|password|passphrase|secret|url|link|address|id|path|prompt|result|output"
    r"|report|summary|answer|image|screenshot|markdown|html|json|sql)s?\b"
)
_WARNS = deferred(OTHERS_ACT + r"|\b(?:never|do not|don't) (?:paste|press|run|open)")


def pasted(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the instructions to a person to run the text that is in the clipboard."""
    for file in files:
        signs = Signs(file, _CLIPBOARD)
        if file.is_document and not file.is_program and signs.has_any("paste keys", "pasted", "copied"):
            for name in ("paste keys", "pasted", "copied"):
                for number in signs.where(name):
                    if _runs_clipboard(signs, name, number) and not _warns(signs, number):
                        yield Sighting("SH119", file.path, signs.line(name, number))


def _runs_clipboard(signs: Signs, name: str, number: int) -> bool:
    """Return whether the passages around a sign tell a person to paste the clipboard into a shell."""
    near = partial(signs.near, number=number)
    is_opened = near("open", before=2, after=1)
    if name == "pasted":
        return (is_opened or near("run dialog", before=2, after=1)) and not _is_value(signs, name, number)
    if name == "copied":
        return (
            not _is_value(signs, name, number)
            and (is_opened or near("open", before=0, after=2))
            and near("paste", before=0, after=2)
        )
    if not near("press", before=2, after=0) or not near("enter", before=0, after=1):
        return False
    is_shown = any(each.kind == "code" for each in signs.passages[max(0, number - 3) : number + 2])
    return near("run dialog", before=2, after=0) or (is_opened and not is_shown)


def _is_value(signs: Signs, name: str, number: int) -> bool:
    """Return whether each sentence of a sign says that a key, an address or the like is copied."""
    text = signs.texts[number]
    ends = (match.end() for match in _CLIPBOARD[name].finditer(text))
    return all(_VALUE.search(re.split(r"[.:\n]\s", text[:end])[-1]) for end in ends)


def _warns(signs: Signs, number: int) -> bool:
    """Return whether a passage is part of a text about such instructions."""
    return any(_WARNS.search(text) for text in signs.texts[max(number - 1, 0) : number + 1])


def _is_remote(context: MatchContext) -> str | None:
    """Judge the loading of a model by torch: from a folder, or without code of its own, it runs nothing."""
    call = context.after.partition(b")")[0]
    return None if re.search(rb"source\s{0,2}=\s{0,2}[\"']local|weights_only\s{0,2}=\s{0,2}true", call) else "SH120"


# Models whose repository brings code that the loader runs.
MODELS: Final = (
    rule(
        "SH120",
        pattern("trust / remote repo / true", rb"\btrust_(?:remote_code|repo)\s{0,2}=\s{0,2}true\b"),
        pattern("trust / remote / code", rb"--trust[-_]remote[-_]code\b"),
        pattern("torch / hub", rb"\btorch\.hub\.load(?:_state_dict_from_url)?\(", judge=_is_remote),
    ),
)
