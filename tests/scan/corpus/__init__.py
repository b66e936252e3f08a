"""Inert hostile skills, and harmless skills that resemble them: text that is built into trees.

``hostile/FAMILY.txt`` and ``harmless/FAMILY.txt`` hold cases. ``=== name`` begins a case, ``--- path`` a file of it,
and a case without files is its SKILL.md; one without that gets a plain one. Behind a path may stand what the text
is packed as: ``zip NAME``, ``zipzip NAME``, ``tgz NAME``, ``gz``, ``pyc``, or a file of bytes alone: ``elf``, ``pe``,
``macho``, ``png``. ``{{…}}`` stands for what cannot be written plainly: an encoding of text, characters by number, or
very many blanks. A host is below ``.invalid`` or reserved for documentation, or in the harmless ones that of a
well-known tool.
"""

from __future__ import annotations

import base64
import gzip
import importlib.util
import io
import marshal
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from skillhub.model.tree import SKILL_MD, File, Tree

HERE = Path(__file__).parent
_MARK = re.compile(r"\{\{([\w-]+)(?: ([^{}]*))?\}\}")
_CASE = re.compile(r"^=== ([\w-]+)\n", re.MULTILINE)
_FILE = re.compile(r"^--- (\S+)(?: (\w+))?(?: (\S+))?\n", re.MULTILINE)


def families(kind: str) -> dict[str, dict[str, Tree]]:
    """Return the families of ``hostile`` or ``harmless``: by name of the case, the skill."""
    return {path.stem: _cases(path.read_text("utf-8")) for path in sorted((HERE / kind).glob("*.txt"))}


def _cases(text: str) -> dict[str, Tree]:
    _, *parts = _CASE.split(text)
    return {name: _tree(name, body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _tree(name: str, body: str) -> Tree:
    first, *parts = _FILE.split(body)
    rows = [parts[at : at + 4] for at in range(0, len(parts), 4)] or [[SKILL_MD, None, None, first]]
    files = {path: _packed(packing or "", inner or "", _plain(text)) for path, packing, inner, text in rows}
    if not files.setdefault(SKILL_MD, b"It does nothing.\n").startswith(b"---\n"):
        files[SKILL_MD] = f"---\nname: {name}\ndescription: What it does.\n---\n".encode() + files[SKILL_MD]
    return Tree({path: File(data) for path, data in files.items()})


def _plain(text: str) -> bytes:
    return _MARK.sub(lambda mark: _MARKS[mark[1]](mark[2] or ""), text.strip("\n") + "\n").encode()


_MARKS: dict[str, Callable[[str], str]] = {
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "zlib": lambda text: base64.b64encode(zlib.compress(text.encode())).decode(),
    "hex": lambda text: text.encode().hex(),
    "codes": lambda text: ", ".join(str(ord(each)) for each in text),
    "u": lambda text: "".join(chr(int(each, 16)) for each in text.split()),
    "tags": lambda text: "".join(chr(0xE0000 + ord(each)) for each in text),
    "vs": lambda text: "x" + "".join(chr(0xE0100 + ord(each)) for each in text),
    "newlines": lambda text: "\n" * int(text),
    "spaces": lambda text: " " * int(text),
}


def _packed(packing: str, inner: str, data: bytes) -> bytes:
    return data if not packing else _PACKINGS[packing](inner, data)


def _zipped(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def _tarred(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def _compiled(_: str, data: bytes) -> bytes:
    return importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(compile(data, "x.py", "exec"))


_PACKINGS: dict[str, Callable[[str, bytes], bytes]] = {
    "zip": _zipped,
    "zipzip": lambda name, data: _zipped("inner.zip", _zipped(name, data)),
    "tgz": _tarred,
    "gz": lambda _, data: gzip.compress(data, mtime=0),
    "pyc": _compiled,
    "elf": lambda _, __: b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0>\0" + bytes(200),
    "pe": lambda _, __: b"MZ" + bytes(58) + b"\x80\0\0\0" + bytes(64) + b"PE\0\0d\x86" + bytes(200),
    "macho": lambda _, __: b"\xcf\xfa\xed\xfe\x07\0\0\x01" + bytes(200),
    "png": lambda _, __: b"\x89PNG\r\n\x1a\n" + bytes(200),
}
