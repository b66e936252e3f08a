"""Data flow in the programs of a skill, across its files; and encoded text, decoded and searched.

A cheap search of the bytes decides whether any program is parsed. The standard library parses Python; tree-sitter,
which the extra ``audit`` installs, parses shell and JavaScript. No program is run.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Set
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Final
from unicodedata import is_normalized, normalize

from skillhub.formats.text import deferred, numbered, packaged
from skillhub.model.finding import NO_PARSER, Sighting
from skillhub.model.tree import SKILL_MD
from skillhub.scan.code.decoded import Decoded, decoded, may_be_encoded
from skillhub.scan.pattern import (
    ANYBODYS,
    ELSEWHERE,
    MAILBOX,
    OWN_NETWORK,
    PHRASES,
    PUBLIC_HOSTS,
    SCRIPTING,
    URL,
    WRAPPERS,
    AddressKind,
    Language,
    act_of,
    first_language,
    is_installer,
    kind_of,
    language_of,
)
from skillhub.scan.running import starters
from skillhub.scan.skill_files import HOOKS, PARSED_MAX, SkillFiles, SourceFile, programs_in
from skillhub.scan.views import IS_DATA, Letters, Literals

if TYPE_CHECKING:
    from skillhub.scan.code.flow import Flow, Place

# Increase it with every change of the findings; it is part of the key of cached scans.
RULES_VERSION: Final = 77
# Literals of programs, in lower case and without blanks; ``^`` stands for a blank between two words.
# "takes": they read the user's data. "hides": they hide their purpose, or run data as code. "sends": they send data.
# "runs": commands that run what another command prints; of interest only in a file that also sends or fetches.
# "acts": they change what runs later on the machine. "keeps": commands that erase, or switch protections off.
# "loads": loaders of code and of data that can contain code; of interest only in a skill that also sends or fetches.
SIGNS: Final = {
    kind: Literals(*" ".join(lines).encode().split()) for kind, lines in packaged("scan/signs.json").items()
}
_ALONE: Final = frozenset(("hides", "acts", "keeps"))  # a file is read for one of these by itself
_NO_MARKS: Final = b"abcdefghijklmnopqrstuvwxyz0123456789_.,-\n"
# The other characters of each sign; a text without these is not searched for the sign.
_MARKS: Final = {sign: {*sign.translate(None, _NO_MARKS)} for group in SIGNS.values() for sign in group.all}
# Programs that read a file in the language of another one.
_SAME: Final = {
    **dict.fromkeys(("source", ".", "ash", "fish"), "sh"),
    **dict.fromkeys(("pypy", "pypy3", "ipython", "uv"), "python"),
    **dict.fromkeys(("tsx", "ts-node"), "node"),
}
# A timer whose argument is not a function written in place.
_TIMER = deferred(rb"settimeout\([\w.]{1,40}[,)]")
# Files of data that may list the paths of credentials, and what stands between two texts in them.
_LIST = deferred(r"\.(?:txt|json|ya?ml|toml|ini|cfg|conf|lst)\Z")
_LIST_MAX: Final = 1 << 14
_BETWEEN = deferred(r"[\"'\n,\[\]{}]+|^[ \t]*-[ \t]", re.MULTILINE)
# A function that runs text as code or a command, under another name or as an argument: ``run = exec``.
_RUNNERS: Final = (b"exec", b"eval", b"system", b"popen", b"output", b"spawn", b"promisify")
_RENAMED = deferred(
    rb"[=(,{:]\s{0,9}(?:/\*[^*]{0,99}\*/\s{0,9})?(?:[\w.]{1,60}\.)?(?:exec|eval|execsync|popen|spawn|spawnsync|getoutput"
    rb"|getstatusoutput|check_output)(?![\w.]|\s{0,9}\()|\bos\s{0,9}\.\s{0,9}(?:system|popen)(?!\w|\s{0,9}\()"
    rb"|\bimport\b[^\n;]{0,200}?\b(?:system|popen|getoutput|check_output)\b|\bpromisify\b"
)
# JavaScript that imports something else than a package, or a file beside it.
_IMPORT = deferred(rb"(?<![\w.$])(?:await|return)?import\((?![\"'](?:\.|(?!data:|blob:|file:|https?:)[@\w]))")
# A program that writes to the clipboard, and the address of a wallet.
_COPIES = deferred(rb"clip|pbcopy|xsel|wl-copy")
_COIN = deferred(rb"\b(?:bc1[a-z0-9]{25,60}|0x[0-9a-f]{40}|[13lmt4][1-9a-z]{25,94}|[1-9a-z]{43,44})\b")
_FEEDS_NETCAT = deferred(rb"\bnc[ \t][^|;&<\n]{1,100}<")
_OUTPUT = deferred(rb"(?:^|[;&=])[ \t]{0,8}`(?:curl|wget)\b", re.MULTILINE)
# A pipe into a shell, after a wrapper or a path, or with quotes in its name: `| sudo -u root bash`, `| ba""sh`.
# One pattern for each start, since the engine skips to the first letters of a pattern.
_TO_SHELL: Final = tuple(
    re.compile(
        start + rb"[ \t]{0,9}(?:(?:/\w{1,20}){0,4}/)?"
        rb"(?:(?:"
        + "|".join((*WRAPPERS, *ELSEWHERE)).encode()
        + rb")[ \t](?:[^|;&\n]{0,60}?[ \t/])?)?"
        rb"Q(?:[bd]Qa|[zk])?QsQh(?![\w./-])".replace(b"Q", rb"(?:\$?[\"']|\\){0,9}")
    )
    for start in (rb"\|&?", rb">\(")
)
_OF_PROGRAMS = deferred(rb"/(?<!!/)(?:usr/(?:local/)?)?s?bin/")  # not in a first line
_HOMES_OF_WINDOWS: Final = (b"profile\\", b"profile%\\", b"data\\", b"data%\\", b"home\\", b"home%\\")
_FENCES: Final = (b"```", b"~~~")
_QUOTED = deferred(rb"`[^`\n]{9,500}`")
# A command within a sentence.
_INLINE = deferred(r"`((?:curl|wget|cat|tar|nc|bash|sh|eval|echo|python3?|node|dig|find)\s[^`\n]{4,500})`")
# More places in one file give a reader no new information.
_PLACES_MAX = 10
_WORD = deferred(r"[\w-]+")
_PART = deferred(rb"[a-z0-9]+")
_BLANKS: Final = b" \t\r\n\x0b\x0c\0"
# Other separators of words in a program: a joined line end, a blank of Unicode.
_NOTHING = deferred(
    rb"\\\r?\n|\xc2\xa0|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80|\xef\xbb\xbf"
)
# Comments, from the first ``/*`` or from the last one before an end: either may be part of a string or of a comment.
_COMMENT = deferred(rb"/\*.*?\*/", re.DOTALL)
_INNER_COMMENT = deferred(rb"/\*(?>(?:[^/*]++|(?!/\*|\*/).)*)\*/", re.DOTALL)
_LINE_COMMENT = deferred(rb"//(?<![:/]//)[^\n]*+")
# The first bytes of programs for Windows, Linux, Java and macOS, in base64.
_PROGRAMS: Final = (b"TVqQAAMAA", b"TVpQAAIAA", b"f0VMRgEB", b"f0VMRgIB", b"yv66vgAA", b"z/rt/gcA")
_TELLS = deferred(
    r"(?:^|[\s;|&(`\"'/])(?:curl|wget|ncat?|bash|/bin/sh|powershell|iwr|osascript)\s+[-\"'$(h]|\bsubprocess\."
    r"|\bos\.(?:system|popen)|child_process|\bexec\(|\beval\(|socket\.socket|~/\.(?:ssh|aws)|id_rsa\b"
    r"|\.aws/credentials|/dev/tcp/"
)
# Each text that matches has one of these parts, to whose first letters the engine skips.
_TELLING_PART = deferred(
    r"curl|wget|nc|bash|/bin/sh|powershell|iwr|osascript|subprocess|os\.|child_process|exec\(|eval\(|socket|~/\.|id_rsa"
    r"|\.aws|/dev/tcp"
)


def in_programs(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the findings about credentials, encoded text and downloads in the programs of a skill."""
    started = _started(files)
    signs = {
        source: _signs(source) | (source.parsed(_signs_of_whole) if source.path in started else frozenset())
        for source in files
        if not source.is_program
        and (source.language in SCRIPTING or source.is_document or source.recipe or source.path in started)
    }
    listed = [source for source in files if _LIST.search(source.path.lower()) and source.parsed(_listed)]
    kinds = {kind for present in signs.values() for kind in present} | ({"takes"} if listed else set())
    all_are = "sends" in kinds and not kinds.isdisjoint(("takes", "loads"))
    run = [
        path.rpartition("/")[2].lower().encode("utf-8", "replace") for path in started if IS_DATA.search(path.lower())
    ]
    data = {max(_PART.findall(name), key=len, default=b"") for name in run}
    relevant = [
        source
        for source, present in signs.items()
        if (present and (all_are or present & _ALONE)) or not data.isdisjoint(source.letters_read.words)
    ]
    if not relevant:
        return
    from skillhub.scan.code.flow import Flow  # noqa: PLC0415 - most skills need none of it

    sightings = dict[Sighting, None]()

    def search_text(text: str, place: Place) -> None:
        sightings.update((Sighting(rule, *place), None) for rule in searched(text))

    flow = Flow(search_text, _is_anybodys, is_installer, act_of if "keeps" in kinds else None)
    reader = Reader(flow, {_stem(source.path): source.path for source in files})
    for source in listed:
        flow.lists(source.path, source.parsed(_listed))
    names = {_stem(source.path) for source in relevant}
    known = {*relevant}
    others = (source for source in files if source.language in SCRIPTING and source not in known)
    related = [source for source in others if not names.isdisjoint(_WORD.findall(source.text))]
    for file in (*relevant, *related):
        for language in sorted(started.get(file.path, ())):
            reader.read(language, file.text, file.path, 0)
        passages = () if file.recipe else file.passages if file.is_document else file.code
        for passage in (*file.parsed(programs_in), *passages):
            if passage.kind == "code":
                reader.read(passage.language, passage.text, file.path, passage.line - 1)
            else:
                for match, line in numbered(_INLINE.finditer(passage.text), passage.line - 1):
                    reader.read("shell", match[1], file.path, line)
    yield from reader.unread()
    yield from reader.flow.findings()
    yield from sightings


def _listed(file: SourceFile) -> tuple[str, ...]:
    """Return the paths in a file of data, if some may be those of credentials."""
    is_short = len(file.data) <= _LIST_MAX and SIGNS["takes"].candidates(file.letters_read.literals)
    texts = map(str.strip, _BETWEEN.split(file.text) if is_short else ())
    return tuple(text for text in texts if text[:1] in ("~", "/", ".", "$", "%"))


def _started(files: SkillFiles) -> dict[str, set[Language]]:
    """Return the files that a command of the skill runs in another language than their own, with these languages."""
    programs = starters(files.files.keys() - {SKILL_MD}, [file.letters_read for file in files if not file.is_program])
    found: dict[str, set[Language]] = {}
    for path, file in files.files.items():
        languages = {language_of(_SAME.get(program, program)) for program in programs.get(path, ())}
        if file.data.startswith(b"#!") and (first := first_language(file.data)):
            languages.add(first)
        if others := {language for language in languages - {file.language} if language in SCRIPTING}:
            found[path] = others
    return found


def _is_anybodys(folded: str) -> bool:
    """Return whether a text in lower case contains an address at which anybody can publish."""
    return any(kind_of(match[1], match[2]) in ANYBODYS for match in URL.finditer(folded))


def encodings(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the findings in the encoded text of a skill's files."""
    for file in files:
        if not (data := file.parsed(_may_be_encoded)):
            continue
        for program in _PROGRAMS:
            if (start := data.find(program)) >= 0 and len(data) > start + 200:
                line = data.count(b"\n", 0, start) + 1
                yield Sighting("SH601", file.path, line, "encoded text contains a compiled program")
        for each in file.parsed(encoded_commands)[:_PLACES_MAX]:
            line = data.count(b"\n", 0, each.offset) + 1
            if not each.is_whole:
                yield Sighting("SH616", file.path, line, "compressed text that was not read to its end")
            if _is_command(each):
                yield Sighting("SH601", file.path, line)


def encoded_commands(file: SourceFile) -> list[Decoded]:
    """Return the encoded texts in a file that look like commands, and those that were not read to their end."""
    texts = decoded(file.parsed(_may_be_encoded))
    return [each for each in texts if not each.is_whole or _is_command(each)]


def _is_command(encoded: Decoded) -> bool:
    return bool(searched(encoded.text.decode("utf-8", "replace")))


def _may_be_encoded(file: SourceFile) -> bytes:
    """Return the bytes of a file; nothing if it can have no encoded text."""
    data = file.letters.data
    return b"" if file.is_program or not may_be_encoded(data) else data


def searched(text: str) -> tuple[str, ...]:
    """Return the rules that a decoded text falls under."""
    is_command = _TELLING_PART.search(text) is not None and _TELLS.search(text) is not None
    is_order = any(PHRASES["orders"][name].search(text.lower()) for name in ("override", "secrecy"))
    return ("SH601",) if is_command or is_order else ()


def parsers() -> str:
    """Return the versions of the rules and of the installed parsers, for the key of cached scans."""
    known = ("tree_sitter_bash", "tree_sitter_javascript")
    versions = [f"{module} {version(module.replace('_', '-'))}" for module in known if find_spec(module)]
    return "; ".join((f"rules {RULES_VERSION}", *versions))


def _stem(path: str) -> str:
    """Return the name by which another program imports a file."""
    return path.rpartition("/")[2].partition(".")[0]


def _signs(file: SourceFile) -> frozenset[str]:
    """Return the kinds of ``SIGNS`` that the programs of a file contain."""
    return file.parsed(_find_signs)


def _signs_of_whole(file: SourceFile) -> frozenset[str]:
    """Return the same of a file whose whole text is a program."""
    return _signs_in(file.lowered, file.letters_read.literals)


def _find_signs(file: SourceFile) -> frozenset[str]:
    respelled = _normalized(file)
    text = file.lowered if respelled is None else respelled.lower().encode("utf-8", "replace")
    literals = file.letters_read.literals if respelled is None else Letters(text).literals
    return _signs_in(text, literals, file if file.is_document and not file.recipe else None)


def _signs_in(text: bytes, literals: Set[bytes], document: SourceFile | None = None) -> frozenset[str]:
    """Return the kinds of ``SIGNS`` in a text, or in the programs of a document."""
    candidates = {kind: present for kind, signs in SIGNS.items() if (present := signs.candidates(literals))}
    if not candidates and not _feeds_shell(text):
        return frozenset()
    if document is not None:  # inline code, and everything from the first fence on
        end = min(
            (pos for fence in _FENCES if fence[:1] in text and (pos := text.find(fence)) >= 0), default=len(text)
        )
        hooks = HOOKS.match(document.text)
        front = hooks[1].lower().encode("utf-8", "replace") if hooks else b""
        text = b"\n".join((front, *_QUOTED.findall(text, 0, end), text[end:]))
    bare = b"\n".join(_without_blanks(text))
    bare += b"".join(_respelled_paths(bare))
    marks = {*bare.translate(None, _NO_MARKS)}
    kinds = frozenset[str]()
    for kind, signs in candidates.items():  # loops, since a generator takes longer
        for each in signs:
            if _MARKS[each] <= marks and each in bare:
                kinds |= {kind}
                break
    if "takes" in kinds and b"nc" in literals and _FEEDS_NETCAT.search(text):
        kinds |= {"sends"}
    if "takes" in kinds and _COPIES.search(bare) and _COIN.search(text):
        kinds |= {"acts"}
    if b"import(" in bare and _IMPORT.search(bare):
        kinds |= {"loads"}
    if "hides" in kinds:
        return kinds
    if "sends" in kinds and (
        "runs" in kinds
        or (b"settimeout(" in bare and _TIMER.search(bare))
        or ((b"`curl" in bare or b"`wget" in bare) and _OUTPUT.search(text))
        or (any(name in text for name in _RUNNERS) and _RENAMED.search(text))
    ):
        return kinds | {"hides"}
    return kinds | {"hides"} if _feeds_shell(text) else kinds


def _respelled_paths(bare: bytes) -> Iterator[bytes]:
    """Yield a program without the paths of its commands, and with the paths of Windows as those of others."""
    if b"bin/" in bare and _OF_PROGRAMS.search(bare):
        yield b"\n" + _OF_PROGRAMS.sub(b"", bare)
    if any(home in bare for home in _HOMES_OF_WINDOWS):
        yield b"\n" + bare.replace(b"\\\\", b"/").replace(b"\\", b"/")


def _feeds_shell(text: bytes) -> bool:
    return any(pattern.search(text) for pattern in _TO_SHELL)


def _normalized(file: SourceFile) -> str | None:
    """Return the program as another program reads it; None if that is the text of the file."""
    if file.recipe:  # JSON can escape characters
        return "\n".join(script.text for script in file.parsed(programs_in))
    # Python normalizes names.
    is_odd = file.language == "python" and not file.data.isascii() and not is_normalized("NFKC", file.text)
    return normalize("NFKC", file.text) if is_odd else None


def _without_blanks(text: bytes) -> Iterator[bytes]:
    """Yield a program without blanks, once for each way in which its comments can be read and removed."""
    end = text.rfind(b"*/") + 2
    views = [text, _COMMENT.sub(b"", text[:end]) + text[end:], _INNER_COMMENT.sub(b"", text)] if end > 1 else [text]
    views += [_LINE_COMMENT.sub(b"", view) for view in views] if b"//" in text else []
    is_plain = text.isascii() and b"\\" not in text
    for view in dict.fromkeys(views):
        yield (view if is_plain else _NOTHING.sub(b"", view)).translate(None, _BLANKS)


# What leaves in one step, without a flow of data: files to public hosts, copies of mail.

_BCC = deferred(
    r"\b(?:add|set)?_?bcc\b[\"'\]]{0,3}\s{0,3}(?:=(?!=)|:|<<|\+=|\(|\.(?:push|append|add)\()\s{0,3}[\[{]?\s{0,3}"
    r"[\"']" + MAILBOX
)
_PLACEHOLDER = deferred(r"example|your|user@|test|@domain|placeholder")
_BCC_LITERAL: Final = Literals(b"bcc", b"addbcc", b"setbcc")
_HOSTED: Final = frozenset[AddressKind]({"drop", "paste"})
# The public hosts by their longest label, which is a word of the text.
_HOSTS: Final = defaultdict[bytes, list[bytes]](list)
for _host in PUBLIC_HOSTS:
    _HOSTS[max(_host.split(".")[:-1], key=len).encode()].append(_host.encode())
_SENDERS: Final = frozenset((b"curl", b"xh", b"post", b"put", b"fetch"))
_BY_NUMBER = deferred(rb"://\d")
# In lower case, where -F and -f are one: an option that sends needs a file after it.
_UPLOAD = deferred(r"\b(?:curl|xh)(?=\s)[^\n]{1,1500}")
_SENDS_FILE = deferred(
    r"\s(?:-f|--form)\s{0,2}[\"']?[^\s\"'@]{0,60}@(?!\{\{)|\s(?:-t|--upload-file)\s|\s--data-binary[\s=]{1,2}[\"']?@"
    r"|\s[\w-]{1,40}@[\"']?[~./$\w]"
)
_CALL = deferred(r"\b(?:post|put|fetch)\(")
_CALL_MAX: Final = 400
_SENDS_BODY = deferred(r"\bfiles\s?[=:]|\bopen\(|\bbody\s?:|\bformdata\b|createreadstream|readfile")
# Words by which the description of a skill says so.
_SAID = deferred(r"\b(?:upload|share|sharing|paste|hosting|transfer|publish|cdn)")


def leaks(files: SkillFiles) -> Iterator[Sighting]:
    """Yield what a skill puts on public hosts, or copies to a fixed address by mail."""
    for file in files:
        is_script = file.language in SCRIPTING
        if file.is_program or not (is_script or file.is_document):
            continue
        if is_script and file.has(_BCC_LITERAL):
            yield from _copied_mail(file)
        if _names_public_host(file) and not _says_uploads(files):
            yield from _uploads(file)


def _names_public_host(file: SourceFile) -> bool:
    """Return whether a file may have the address of a public host, or one by number, and a word that sends."""
    words = file.letters_read.words
    if _SENDERS.isdisjoint(words) or b"://" not in file.data:
        return False
    hosts = (host for label in _HOSTS.keys() & words for host in _HOSTS[label])
    return any(host in file.lowered for host in hosts) or _BY_NUMBER.search(file.data) is not None


def _says_uploads(files: SkillFiles) -> bool:
    """Return whether the description of a skill says that it uploads files."""
    skill = files.files.get(SKILL_MD)
    return skill is not None and _SAID.search(skill.text[: max(0, skill.text.find("\n---", 3))].lower()) is not None


def _copied_mail(file: SourceFile) -> Iterator[Sighting]:
    """Yield the places at which a program copies mail to an address that is written in it."""
    for match in _BCC.finditer(file.text.lower()):
        if not _PLACEHOLDER.search(match[0]):
            yield Sighting("SH313", file.path, file.line(match.start()), "a program copies mail to a fixed address")


def _uploads(file: SourceFile) -> Iterator[Sighting]:
    """Yield the commands and calls that put a file on a host from which anybody can fetch it."""
    text = file.text.lower().replace("\\\n", "  ")
    if not any(_is_public(*address) for address in set(URL.findall(text))):
        return
    calls = [(call.start(), call[0], _SENDS_FILE) for call in _UPLOAD.finditer(text)]
    calls += [(call.start(), text[call.end() : call.end() + _CALL_MAX], _SENDS_BODY) for call in _CALL.finditer(text)]
    for start, command, sends in calls:
        if sends.search(command) and any(_is_public(*address) for address in URL.findall(command)):
            yield Sighting("SH412", file.path, file.line(start))


def _is_public(host: str, path: str) -> bool:
    """Return whether anybody can store and fetch a file at an address, or nobody knows who owns it."""
    is_number = host.partition(":")[0].replace(".", "").isdigit()
    return kind_of(host, path) in _HOSTED or (is_number and not OWN_NETWORK.match(host))


# The programs of a skill, read into one flow, and the programs embedded in these.

PARSERS: Final = {"shell": "tree_sitter_bash", "batch": "tree_sitter_bash", "javascript": "tree_sitter_javascript"}
# Characters of all programs of a skill, with those embedded in them. Of a long program only words and signs count.
_LENGTH_MAX = 1 << 21
_REMARK = deferred(r"(?im)^([ \t]*)(?:@?rem\b|::|@echo off\b|goto\b|:)")
_OF_CMD = deferred(r"[%!](\w{1,40})[%!]")
_WORD_OR_SIGN = deferred(r"\w+|[^\w\s]")


class Reader:
    """Reads the programs of a skill into one flow, one after another."""

    def __init__(self, flow: Flow, programs: dict[str, str]) -> None:
        self.flow = flow
        self._programs = programs
        self._length_left = _LENGTH_MAX
        from skillhub.scan.code.trees import Effort  # noqa: PLC0415 - most skills need none of it

        self._effort = Effort()
        self._unread: dict[tuple[str, str, str], int] = {}

    def read(self, language: str, text: str, path: str, line: int) -> None:
        """Read a program, and the programs embedded in it, each text of these once."""
        queue = [(language, text, line)]
        known = set[tuple[str, str]]()
        while queue:
            language, text, line = queue.pop()
            if language in SCRIPTING and (language, text) not in known:
                known.add((language, text))
                queue += reversed(self._read(language, text, path, line))

    def unread(self) -> Iterator[Sighting]:
        """Yield the files with a program that was not read, or not to its end."""
        for (rule, path, why), line in self._unread.items():
            yield Sighting(rule, path, line, why)

    def _read(self, language: str, text: str, path: str, line: int) -> list[tuple[str, str, int]]:
        needed = PARSERS.get(language)
        if needed and find_spec(needed) is None:
            limitation = (
                f"the scan searched its text for patterns, but did not follow what its {language} code does with data"
            )
            why = f"{limitation}: {NO_PARSER}"
            self._unread.setdefault(("SH609", path, why), 0)
            return []
        length = len(text) if len(text) <= PARSED_MAX else _words_and_signs(text)
        self._length_left -= length
        if length > PARSED_MAX or self._length_left < 0:
            why = "too long to be read as a program: it was searched by patterns only"
            self._unread.setdefault(("SH616", path, why), 0)
            return []
        from skillhub.scan.code.statements import LANGUAGES, Statements  # noqa: PLC0415 - most skills need none of it

        if language in LANGUAGES:
            statements = Statements(self.flow, path, line, language)
            statements.read(text)
            return statements.embedded
        if language in ("shell", "batch"):
            from skillhub.scan.code.shell import Script  # noqa: PLC0415 - needs the extra

            script = Script(self.flow, path, line, self._effort)
            script.read(text if language == "shell" else _as_shell(text))
            self._note_unparsed(path)
            return script.embedded
        from skillhub.scan.code.programs import Program  # noqa: PLC0415 - as above

        program = Program(self.flow, path, line, self._programs)
        others: list[tuple[str, str, int]] = []
        try:
            if language == "javascript":
                from skillhub.scan.code.javascript import javascript  # noqa: PLC0415 - needs the extra

                tree = javascript(text, self._effort)
                self._note_unparsed(path)
            else:
                tree, others = self._python(text, path, line)
            program.read(tree)
        except (RecursionError, MemoryError):
            why = "nested too deeply to be read as a program: it was searched by patterns only"
            self._unread.setdefault(("SH616", path, why), line + 1)
        return [*others, *(("shell", command, line + number - 1) for command, number in program.embedded)]

    def _python(self, text: str, path: str, line: int) -> tuple[ast.Module, list[tuple[str, str, int]]]:
        """Return the tree of a program in Python, or of its parts that parse, and the commands and lines between."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with suppress(SyntaxError, ValueError):
                return ast.parse(text), []
            why = "it cannot be read as python as a whole: its statements were read one by one"
            self._unread.setdefault(("SH609", path, why), line + 1)
            from skillhub.scan.code.pieces import Pieces  # noqa: PLC0415 - most programs can be parsed

            pieces = Pieces(text, self._effort)
        self._note_unparsed(path)
        commands = [("shell", command, line + number - 1) for command, number in pieces.commands]
        return pieces.tree, [*commands, ("ruby", pieces.rest, line)]  # whose reader knows no grammar

    def _note_unparsed(self, path: str) -> None:
        if self._effort.errors < 0:
            self.flow.direct_findings.add(("SH615", (path, 0)))
        elif self._effort.is_spent:
            self._unread.setdefault(("SH616", path, "too long to be read to its end as a program"), 0)


def _as_shell(text: str) -> str:
    """Return a script of cmd in the words of a shell: its comments, variables, paths and continued lines."""
    text = _REMARK.sub(r"\1#", text).replace("\\", "/").replace("^\n", "\\\n").replace("^", "")
    return _OF_CMD.sub(r"${\1}", text)


def _words_and_signs(text: str) -> int:
    """Return how many words and signs a program has, or one more than are read."""
    return sum(1 for _ in islice(_WORD_OR_SIGN.finditer(text), PARSED_MAX + 1))
