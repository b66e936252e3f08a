"""What the programs of a skill do, joined over its files; encoded text, read as what it encodes.

A cheap look at the words of each program decides whether it is parsed at all. Python is read by the standard library,
shell and JavaScript by tree-sitter, which the extra ``audit`` brings. Nothing is run.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from typing import Final

from skillhub.formats.text import words
from skillhub.scan.code.decoded import decoded
from skillhub.scan.code.flow import Flow, Place
from skillhub.scan.code.javascript import javascript
from skillhub.scan.code.programs import Program
from skillhub.scan.code.shell import Script
from skillhub.scan.source import PARSED_MAX, Sighting, SkillFiles, SourceFile

# Raised with each change of what the readers see: results of a scan are kept under it.
RULES_VERSION: Final = 1
_PARSERS: Final = {"shell": "tree_sitter_bash", "javascript": "tree_sitter_javascript"}
# A skill's programs together; a program within a program within a program.
_BYTES_MAX = 1 << 21
_EMBEDDED_MAX = 200
_DEPTH = 3
_LETTERS: Final = bytes(ord(chr(n).lower()) if (n < 128 and chr(n).isalnum()) or n == 95 else 32 for n in range(256))
# A program without one of these words takes nothing, hides nothing and runs nothing that it was not given.
_WORTH: Final = frozenset(
    word.encode()
    for word in words(
        "ssh aws netrc npmrc pypirc git_credentials gnupg gcloud kube docker azure credentials wallet "
        "wallets keychain keychains cookies cookies2 logins key4 login browser_cookie3 electrum exodus "
        "solana metamask mnemonic keystore history bash_history zsh_history shadow passwd openclaw "
        "clawdbot env environ printenv auth profiles 169 b64decode b32decode a85decode urlsafe_b64decode "
        "atob base64 fromhex unhexlify frombase64string fromcharcode fromcodepoint marshal pickle dill "
        "cloudpickle codecs zlib decompress inflatesync gunzipsync getattr __import__ __builtins__ "
        "globalthis dup2 pty openssl xxd eval exec function vm chr id_rsa id_ed25519 id_dsa id_ecdsa "
        "seed"
    )
)
Read = Callable[[str, str, str, int], None]


def programs(files: SkillFiles) -> Iterator[Sighting]:
    """Yield what the programs of a skill do with credentials, with encoded text and with what they download."""
    sightings = dict[Sighting, None]()

    def again(text: str, place: Place) -> None:
        sightings.update((Sighting(rule, *place), None) for rule in searched(text))

    reader = _Reader(Flow(again), {each.path.rpartition("/")[2].partition(".")[0]: each.path for each in files})
    for file in files:
        if file.language in ("python", "shell", "javascript", "markdown") and not file.is_program and _is_worth(file):
            for piece in file.code:
                reader.read(piece.language, piece.text, file.path, piece.line - 1)
    yield from reader.unread()
    yield from reader.flow.findings()
    yield from sightings


def encodings(files: SkillFiles) -> Iterator[Sighting]:
    """Yield what stands in the files of a skill as encoded text."""
    for file in files:
        if file.is_program:
            continue
        for sign in _PROGRAMS:
            if (start := file.data.find(sign)) >= 0 and len(file.data) > start + 200:
                line = file.data.count(b"\n", 0, start) + 1
                yield Sighting("SH601", file.path, line, "encoded text holds a compiled program")
        for offset, text in decoded(file.data[: 1 << 22]):
            line = file.data.count(b"\n", 0, offset) + 1
            shown = text.decode("utf-8", "replace")
            for rule in searched(shown):
                yield Sighting(rule, file.path, line)


# How programs for Windows, Linux, Java and macOS begin in base64.
_PROGRAMS: Final = (b"TVqQAAMAA", b"TVpQAAIAA", b"f0VMRgEB", b"f0VMRgIB", b"yv66vgAA", b"z/rt/gcA")
_TELLS = re.compile(
    r"(?:^|[\s;|&(`\"'/])(?:curl|wget|ncat?|bash|/bin/sh|powershell|iwr|osascript)\s+[-\"'$(h]|\bsubprocess\.|\bos\.(?:system|popen)"
    r"|child_process|\bexec\(|\beval\(|socket\.socket|~/\.(?:ssh|aws)|id_rsa\b|\.aws/credentials|/dev/tcp/"
)


def searched(text: str) -> tuple[str, ...]:
    """Return the rules that a decoded text falls under."""
    return ("SH601",) if _TELLS.search(text) else ()


def parsers() -> str:
    """Return what reads the code here: its version and those of the parsers, under which results may be kept."""
    found = [f"{each} {version(each.replace('_', '-'))}" for each in _PARSERS.values() if find_spec(each)]
    return "; ".join((f"rules {RULES_VERSION}", *found))


def _is_worth(file: SourceFile) -> bool:
    return not _WORTH.isdisjoint(file.lowered.translate(_LETTERS).split())


class _Reader:
    """The programs of a skill, read one after another into one flow."""

    def __init__(self, flow: Flow, homes: dict[str, str]) -> None:
        self.flow = flow
        self._homes = homes
        self._left = _BYTES_MAX
        self._unread: dict[tuple[str, str], int] = {}

    def read(self, language: str, text: str, path: str, line: int) -> None:
        """Read a program, and those that it holds."""
        waiting = [(language, text, line, _DEPTH)]
        for _ in range(_EMBEDDED_MAX):
            if not waiting:
                return
            language, text, line, depth = waiting.pop()
            if language not in ("python", "shell", "javascript"):
                continue
            found = self._read(language, text, path, line)
            if depth > 1:
                waiting += [(*each, depth - 1) for each in found]

    def unread(self) -> Iterator[Sighting]:
        """Yield the files of which not all was read."""
        for (path, why), line in self._unread.items():
            yield Sighting("SH609", path, line, why)

    def _read(self, language: str, text: str, path: str, line: int) -> list[tuple[str, str, int]]:
        self._left -= len(text)
        needed = _PARSERS.get(language)
        if needed and find_spec(needed) is None:
            why = f"{language} was searched by patterns only: install the extra audit of skillhub"
            self._unread.setdefault((path, why), 0)
            return []
        if len(text) > PARSED_MAX or self._left < 0:
            self._unread.setdefault((path, "too long to be read as a program: it was searched by patterns only"), 0)
            return []
        if language == "shell":
            script = Script(self.flow, path, line)
            script.read(text)
            return script.embedded
        program = Program(self.flow, path, line, self._homes)
        try:
            if language == "javascript":
                tree, _ = javascript(text)
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    tree = ast.parse(text)
            program.read(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._unread.setdefault(
                (path, f"no {language} that could be read: it was searched by patterns only"), line + 1
            )
        return [("shell", command, line + at - 1) for command, at in program.embedded]
