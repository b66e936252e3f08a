"""Files that look harmless and are not, such as programs under other names; the rules about whole files."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from typing import Final

from skillhub.formats.text import deferred, words
from skillhub.model.finding import Sighting
from skillhub.model.hosts import hosts
from skillhub.model.tree import SKILL_MD
from skillhub.scan.pattern import COMPILED, FILE_NAMES, READ_AS_TEXT, RUN_BY_NAME, suffix_of
from skillhub.scan.running import started_parts
from skillhub.scan.skill_files import SkillFiles, SourceFile, fold
from skillhub.scan.views import EXECUTABLE_MAGIC, runs

_PICTURES, _DOCUMENTS = FILE_NAMES["pictures"], FILE_NAMES["documents"]
_HARMLESS: Final = frozenset((*FILE_NAMES["texts"], *_PICTURES, *_DOCUMENTS))
_SCRIPTS: Final = FILE_NAMES["scripts"]  # files that no document needs to contain
_ARCHIVES: Final = (
    *(b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07"),
    *(b"\x28\xb5\x2f\xfd", b"MSCF", b"\x5d\0\0", b"LZIP", b"\x04\x22\x4d\x18", b"\x1f\x9d", b"\x1f\xa0"),
    *(b"\xed\xab\xee\xdb", b"!<arch>\ndebian"),
)
_BYTECODE: Final = (".pyc", ".pyo")
# Bytes of a file; honest skills have no larger ones.
READ_MAX: Final = 2 * 1024 * 1024
# Files that an agent or editor reads as its settings once the folder is opened or copied, as in the agents' folders.
_SETTINGS: Final = FILE_NAMES["settings"]
# Agents read these at their start, or with any file beside them, in a folder below the project, too.
_INSTRUCTIONS: Final = frozenset(FILE_NAMES["instructions"])
# In lower case these are often pages on agents and warps; only Windsurf reads ``agents.md``, with files beside it.
_LOUD_INSTRUCTIONS: Final = frozenset(words("AGENTS.md AGENT.md WARP.md IFLOW.md"))
_INSTRUCTION_FOLDERS: Final = FILE_NAMES["instruction_folders"]
_OTHER_SKILLS = deferred(r"/\.[^/]+/skills/")  # in which an agent finds skills once it works on a file beside it
# Folders of a skill in which agents do not look for skills; nor do they in hidden ones.
_NO_SKILLS: Final = frozenset({"scripts", "references", "assets", "agents", "node_modules"})
_INSTALL_HOOKS: Final = (b'"preinstall"', b'"postinstall"', b'"prepare"')
# Greek and Cyrillic letters, and Latin ones in other shapes, with another letter or sign of their word.
_MAY_LOOK_ALIKE = deferred(rb"[\xcd-\xd3\xef\xf0]")
_LOOKS_ALIKE = deferred(
    "[\u0370-\u04ff](?:(?=[A-Za-z0-9])|(?<=[A-Za-z0-9/.@-].))|[\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff]"
)
_WORD = deferred(r"[^\s\"'`|;&()<>{}\[\],$]+")
_COMMANDS: Final = frozenset(
    words(
        "curl wget bash sh zsh sudo python python3 pip pip3 npm npx uvx node git eval exec chmod ssh scp docker"
        " base64 powershell pwsh osascript iex iwr invoke-expression"
    )
)
_BEFORE_MAX: Final = 200  # characters before the name of a package
_INSTALLS = deferred(
    r"\b(?:(?:pip3?|pipx|uv|npm|pnpm|yarn|bun|gem|cargo|brew|go) (?:pip )?(?:install|add|i)|npx|uvx|bunx)"
    r" (?:-\S{1,30} )*$"
)
# The start of a line of a program.
_CODE = deferred(
    rb"^[ \t]*(?:import|from|const|var|let|function|def|exec|eval|require|module\.|\(function|curl|wget|<\?php)\b",
    re.MULTILINE,
)
_BLANK_LINES = 40
_PADDING = deferred(rb"\n[ \t\r\x0b\x0c\n]{40}")  # its line ends may be fewer than ``_BLANK_LINES``
_LINE_MAX = 5000
# Entries that are checked for a password; no skill needs an archive with more.
_ENTRIES_MAX = 10_000
_MEMBERS_MAX, _MEMBER_MAX, _UNPACKED_MAX = 100, 1 << 16, 1 << 22
# Bytes of the record at the end of a zip file, with the longest comment, and without its sign and a comment.
_END_MAX, _END_REST = 22 + (1 << 16), 18
# Number of archives of a skill that are opened; each archive is a finding in any case.
ARCHIVES_MAX: Final = 20


def rules_of_file(file: SourceFile) -> Iterator[str]:
    """Yield the rules that a file as a whole falls under."""
    data, folded, suffix = file.data, file.path.lower(), suffix_of(file.path)
    if (file.is_program and not file.is_text) or suffix in COMPILED:
        yield "SH501"
    elif not file.is_text and (data.startswith(b"#!") or suffix in RUN_BY_NAME) and suffix not in _BYTECODE:
        yield "SH502"
    elif not file.is_text and suffix in READ_AS_TEXT:
        yield "SH506"
    if len(data) > READ_MAX:
        yield "SH503"
    if folded.rpartition("/")[2] == "package.json" and any(hook in data for hook in _INSTALL_HOOKS):
        yield "SH505"
    # In upper or lower case: a case-insensitive disk opens the file under the name that agents look for.
    *folders, name = file.path.split("/")
    spelled, is_hidden = f"/{folded}", any(folder[:1] == "." for folder in folders)
    is_searched = not is_hidden and _NO_SKILLS.isdisjoint(folders)
    if folders and name.lower() == SKILL_MD.lower() and (is_searched or _OTHER_SKILLS.search(spelled)):
        yield "SH507"
    elif _is_read_by_itself(folders, name) or any(map(spelled.__contains__, _INSTRUCTION_FOLDERS)):
        yield "SH509"
    elif folded.endswith(_SETTINGS) or (is_hidden and _is_of_agent(spelled)):
        yield "SH504"


def _is_read_by_itself(folders: Sequence[str], name: str) -> bool:
    is_page = name == "agents.md" and folders[:1] == ["references"]
    return (
        name in _LOUD_INSTRUCTIONS or name.lower() in _INSTRUCTIONS or (name.lower() == "agents.md" and not is_page)
    )


def _is_of_agent(spelled: str) -> bool:
    return not _OTHER_SKILLS.search(spelled) and any(map(spelled.__contains__, _agent_folders()))


@cache
def _agent_folders() -> tuple[str, ...]:
    """Return the folders that each agent has of its own, such as ``/.claude/``."""
    names = {sign.rpartition("/")[2] for host in hosts().values() for sign in host.signs}
    return tuple(f"/{name}/" for name in sorted(names) if name.startswith("."))


def disguises(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the files that hide their format or their content, or that start by themselves."""
    yield from (Sighting("SH508", path, 0) for path in started_parts(files.held))
    opened = 0
    for file in files:
        name = file.path.lower()
        if _is_bytecode(name, file.data):
            yield Sighting("SH610", file.path, 0)
        is_document = name.endswith(_DOCUMENTS) and file.data.startswith(b"PK")
        if (suffix_of(name) in _HARMLESS and _is_program(name, file)) or (
            is_document and any(entry.lower().endswith(_SCRIPTS) for entry, _ in _entries(file.path, file.data))
        ):
            yield Sighting("SH605", file.path, 0)
        if is_archive(file.path, file.data):
            opened += 1
            has_skill = opened <= ARCHIVES_MAX and any(_is_skill(path) for path, _ in _entries(file.path, file.data))
            yield Sighting("SH607" if _is_locked(file.data) else "SH612" if has_skill else "SH606", file.path, 0)
        yield from _padding(file)


def look_alikes(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the commands, addresses and packages that are spelled with letters of another alphabet."""
    for file in files:
        if not file.is_text or file.data.isascii() or not _MAY_LOOK_ALIKE.search(file.data):
            continue
        for number, line in enumerate(file.text.split("\n"), 1):
            if not line.isascii() and _LOOKS_ALIKE.search(line) and _is_spelled_alike(line, fold(line)):
                yield Sighting("SH006", file.path, number)


def _is_spelled_alike(line: str, folded: str) -> bool:
    """Return whether a folded line has a command, address or package that the line spells with other letters."""
    words = {*_WORD.findall(line.lower().replace("*", ""))}
    for match in _WORD.finditer(folded):
        word, start = match[0], match.start()
        if word.isascii() and word not in words:
            is_named = word.rpartition("/")[2] in _COMMANDS or "://" in word
            if is_named or _INSTALLS.search(folded, max(0, start - _BEFORE_MAX), start):
                return True
    return False


def _is_skill(name: str) -> bool:
    return name.lower().replace("\\", "/").rpartition("/")[2] == "skill.md"


# Without LZMA, which allocates as much memory as the archive says.
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
_BROKEN: Final = (zipfile.BadZipFile, tarfile.TarError, zlib.error, ValueError, OSError, EOFError, RuntimeError)


def members(path: str, data: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Yield the name and content of the first files in an archive (zip, tar, gzip), each cut to a maximum length.

    A file that was cut, skipped or unreadable is yielded with None.
    """
    for number, (name, read) in enumerate(islice(_entries(path, data), _MEMBERS_MAX + 1)):
        text = read() if number < _MEMBERS_MAX else None
        yield name, text and text[:_MEMBER_MAX]
        if text is not None and len(text) > _MEMBER_MAX:
            yield name, None


_Read = Callable[[], bytes | None]


def _entries(path: str, data: bytes) -> Iterator[tuple[str, _Read]]:
    """Yield the name of each archive entry, and a function that returns its first bytes, or None if that fails."""
    try:
        if _is_zip(data):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for info in archive.infolist()[:_ENTRIES_MAX]:
                    yield info.filename, partial(_read_zip, archive, info)
            return
        unpacking = zlib.decompressobj(47)
        is_gzip = data.startswith(b"\x1f\x8b")
        plain = unpacking.decompress(data, _UNPACKED_MAX) if is_gzip else data
        if plain[257:262] == b"ustar":
            with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as packed:
                for entry in islice(packed, _ENTRIES_MAX):
                    yield entry.name, partial(_read_tar, packed, entry)
            is_whole = not is_gzip or unpacking.eof
        else:
            yield path, lambda: plain[: _MEMBER_MAX + 1]
            is_whole = unpacking.eof
        if not is_whole or unpacking.unused_data:
            yield path, _nothing
    except _BROKEN:
        yield path, _nothing


def _nothing() -> None:
    """Return None, for an entry that cannot be read."""


# A broken or encrypted file does not end the reading of the others.
def _read_zip(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes | None:
    if member.flag_bits & 1:
        return b""  # an archive with a password is another finding
    if member.compress_type not in _METHODS:
        return None
    with suppress(*_BROKEN), archive.open(member) as file:
        return file.read(_MEMBER_MAX + 1)
    return None


def _read_tar(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | None:
    with suppress(*_BROKEN, KeyError):
        file = archive.extractfile(member) if member.isfile() else None
        return b"" if file is None else file.read(_MEMBER_MAX + 1)
    return None


def _is_bytecode(name: str, data: bytes) -> bool:
    # Two bytes of a version, CR LF, flags, a time or a digest, then a marshalled code object.
    return name.endswith(_BYTECODE) or (
        data[2:4] == b"\r\n" and data[16:17] in (b"\xe3", b"c") and b"\0" in data[:16]
    )


def _is_program(name: str, file: SourceFile) -> bool:
    if file.data.startswith(EXECUTABLE_MAGIC) and b"\0" in file.data:
        return True
    if name.endswith(_PICTURES) and not name.endswith(".svg") and file.is_text and _CODE.search(file.data):
        return True
    return (name.endswith(_PICTURES) and file.data.startswith(b"#!")) or (
        not name.endswith(_BYTECODE) and _is_bytecode("", file.data)
    )


def is_archive(path: str, data: bytes) -> bool:
    """Return whether a file is an archive, and not a document whose format is zip."""
    is_document = data.startswith(b"PK") and path.lower().endswith(_DOCUMENTS)
    return not is_document and (_is_marked(data) or _is_zip(data))


def _is_marked(data: bytes) -> bool:
    return data.startswith(_ARCHIVES) or data[257:262] == b"ustar"


def _is_zip(data: bytes) -> bool:
    """Return whether unzip opens a file: a zip file may begin with other data, such as a picture."""
    if data.startswith(b"PK") or _is_marked(data):
        return data.startswith(b"PK")
    # Most files lack the first of these signs, and a single byte is found much faster than four. `zipfile.is_zipfile`
    # would ask for more, and in each version of Python for other things.
    return b"\x05" in data and data.rfind(b"PK\x05\x06", max(len(data) - _END_MAX, 0), len(data) - _END_REST) >= 0


def _is_locked(data: bytes) -> bool:
    if data.startswith(b"Rar!"):
        return b"\x04\x30" in data[:64]
    if not _is_zip(data):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return any(info.flag_bits & 1 for info in archive.infolist()[:_ENTRIES_MAX])
    except _BROKEN:  # the central directory is unreadable; the header of the first file has the same flag
        return data.startswith(b"PK") and len(data) > 6 and data[6] & 1 == 1


def _padding(file: SourceFile) -> Iterator[Sighting]:
    if b"\0" in file.data or file.is_program:
        return
    bare = file.data.translate(None, b" \t\r\x0b\x0c") if _PADDING.search(file.data) else b""
    start = bare.find(b"\n" * (_BLANK_LINES + 1))
    if start >= 0 and (tail := bare[start:].lstrip(b"\n")):
        yield Sighting("SH608", file.path, bare.count(b"\n", 0, len(bare) - len(tail)) + 1)
    if suffix_of(file.path) in RUN_BY_NAME and any(runs(file.data, _LINE_MAX + 1, b"\n")):
        lines = [len(line) for line in file.data.split(b"\n")]
        yield Sighting("SH611", file.path, 1 + lines.index(max(lines)))
