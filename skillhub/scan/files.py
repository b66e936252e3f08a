"""What a file is, by its name and first bytes, whatever it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skillhub.model.finding import Rule, rules
from skillhub.model.tree import SKILL_MD
from skillhub.scan.running import EXECUTABLE_MAGIC, RUN_BY_NAME

COMPILED: Final = rules()["SH501"]
GARBLED: Final = rules()["SH502"]
LARGE: Final = rules()["SH503"]
SETTINGS: Final = rules()["SH504"]
UNREADABLE: Final = rules()["SH506"]
INSTALL_HOOK: Final = rules()["SH505"]
SKILL_WITHIN: Final = rules()["SH507"]

READ_MAX = 2 * 1024 * 1024
# Pictures, fonts, archives, sound and video, which no agent reads as text.
_MEDIA = (
    *(
        b"\x89PNG",
        b"\xff\xd8\xff",
        b"GIF8",
        b"RIFF",
        b"%PDF-",
        b"PK\x03\x04",
        b"\x1f\x8b",
        b"BZh",
        b"\xfd7zXZ",
        b"ID3",
    ),
    *(b"\0\1\0\0", b"OTTO", b"wOFF", b"wOF2", b"ttcf", b"true", b"OggS", b"SQLite", b"\0\0\1\0", b"\x28\xb5\x2f\xfd"),
)
_COMPILED = (".class", ".jar", ".node")
_BYTECODE = (".pyc", ".pyo")
_PROGRAMS = (*_COMPILED, *_BYTECODE, ".exe", ".com", ".dll", ".so", ".dylib", ".wasm")
# What an agent or editor takes as its own settings once the folder is opened or copied.
_SETTINGS = (
    *(".mcp.json", ".claude/settings.json", ".claude/settings.local.json", ".vscode/tasks.json"),
    *(".vscode/settings.json", ".cursor/mcp.json", ".codex/config.toml", ".cursorrules", ".envrc"),
)
_PAGES = (".md", ".mdx", ".markdown", ".rst", ".txt", ".json", ".yaml", ".yml", ".toml")
# Folders of a skill that agents do not look for skills in, besides hidden ones.
_NO_SKILLS = frozenset({"scripts", "references", "assets", "agents", "node_modules"})
_CONTROLS = bytes((*range(9), 11, 12, *range(14, 32), 127))
_ODD_SHARE = 0.3
_INSTALL_HOOKS = (b'"preinstall"', b'"postinstall"', b'"prepare"')


def is_read(path: str, data: bytes) -> bool:
    """Say whether a file that is no text may be read or run as if it were: by its name, or by most of its bytes."""
    if path.lower().endswith((*RUN_BY_NAME, *_PAGES)) or data.startswith(b"#!"):
        return not path.lower().endswith(_PROGRAMS)
    if data.startswith((*EXECUTABLE_MAGIC, *_MEDIA)):
        return False
    valid = data.decode("utf-8", "ignore").encode()
    odd = len(data) - len(valid) + len(valid) - len(valid.translate(None, _CONTROLS))
    return odd < len(data) * _ODD_SHARE


def files(path: str, data: bytes, text: bool) -> Iterator[Rule]:
    """Yield the rules that a file as a whole falls under; ``text`` says whether it is any."""
    folded = path.lower()
    if (data.startswith(EXECUTABLE_MAGIC) and not text) or folded.endswith(_COMPILED):
        yield COMPILED
    elif not text and (data.startswith(b"#!") or folded.endswith(RUN_BY_NAME)) and not folded.endswith(_BYTECODE):
        yield GARBLED
    elif not text and folded.endswith(_PAGES):
        yield UNREADABLE
    if len(data) > READ_MAX:
        yield LARGE
    if folded.endswith(_SETTINGS):
        yield SETTINGS
    if folded.rpartition("/")[2] == "package.json" and any(hook in data for hook in _INSTALL_HOOKS):
        yield INSTALL_HOOK
    *folders, name = path.split("/")
    # In any case of its letters, as many disks open it by the name that agents look for.
    is_skill = folders and name.lower() == SKILL_MD.lower()
    if is_skill and not any(each[:1] == "." or each in _NO_SKILLS for each in folders):
        yield SKILL_WITHIN
