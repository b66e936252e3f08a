"""Git repositories on disk, written object by object, so that one can hold what git would refuse to make."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path


@dataclass(frozen=True)
class Special:
    """Something other than a plain file: its mode in octal, and its bytes, or the id that the tree names."""

    mode: str
    data: bytes = b""
    id: str = ""


def program(data: bytes) -> Special:
    return Special("100755", data)


def link(target: str) -> Special:
    return Special("120000", target.encode())


def submodule(commit: str = "1" * 40) -> Special:
    return Special("160000", id=commit)


Content = bytes | Special


class Repo:
    """A bare repository; nothing here runs git."""

    def __init__(self, path: Path, config: str = "") -> None:
        self.path = path
        for folder in ("objects", "refs/heads", "refs/tags"):
            (path / folder).mkdir(parents=True)
        (path / "HEAD").write_text("ref: refs/heads/main\n")
        (path / "config").write_text(f"[core]\n\trepositoryformatversion = 0\n\tbare = true\n{config}")

    @property
    def url(self) -> str:
        return self.path.as_uri()

    def commit(self, files: Mapping[str, Content], ref: str = "refs/heads/main", date: int = 1_700_000_000) -> str:
        """Put a commit with these files, and no parent, at a ref."""
        return self.commit_tree(self.folder(files), ref, date)

    def commit_tree(self, tree: str, ref: str = "refs/heads/main", date: int = 1_700_000_000) -> str:
        author = f"A U Thor <author@example.org> {date} +0000"
        commit = self.put("commit", f"tree {tree}\nauthor {author}\ncommitter {author}\n\nA commit\n".encode())
        self.point(ref, commit)
        return commit

    def tag(self, name: str, target: str) -> str:
        """Put an annotated tag."""
        tagger = "A U Thor <author@example.org> 1700000000 +0000"
        tag = self.put("tag", f"object {target}\ntype commit\ntag {name}\ntagger {tagger}\n\nA tag\n".encode())
        self.point(f"refs/tags/{name}", tag)
        return tag

    def point(self, ref: str, target: str) -> None:
        file = self.path / ref
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(target + "\n")

    def folder(self, files: Mapping[str, Content]) -> str:
        """Put trees for these paths; return the id of the topmost."""
        below: dict[str, dict[str, Content]] = {}
        rows: list[tuple[bytes, str, str]] = []
        for path, content in files.items():
            name, slash, rest = path.partition("/")
            if slash:
                below.setdefault(name, {})[rest] = content
            else:
                special = content if isinstance(content, Special) else Special("100644", content)
                rows.append((os.fsencode(name), special.mode, special.id or self.put("blob", special.data)))
        rows += [(os.fsencode(name), "40000", self.folder(inner)) for name, inner in below.items()]
        return self.tree(rows)

    def tree(self, rows: list[tuple[bytes, str, str]]) -> str:
        """Put one tree with these names, modes and ids, whatever they are."""
        rows.sort(key=lambda row: row[0] + (b"/" if row[1] == "40000" else b""))
        data = b"".join(b"%s %s\0%s" % (mode.encode(), name, bytes.fromhex(id_)) for name, mode, id_ in rows)
        return self.put("tree", data)

    def get(self, id_: str) -> tuple[str, bytes]:
        """Return the kind and the bytes of an object; KeyError if there is none."""
        file = self.path / "objects" / id_[:2] / id_[2:]
        if not file.is_file():
            raise KeyError(id_)
        head, _, data = zlib.decompress(file.read_bytes()).partition(b"\0")
        return head.split()[0].decode(), data

    def put(self, kind: str, data: bytes) -> str:
        whole = b"%s %d\0%s" % (kind.encode(), len(data), data)
        id_ = sha1(whole, usedforsecurity=False).hexdigest()
        file = self.path / "objects" / id_[:2] / id_[2:]
        file.parent.mkdir(exist_ok=True)
        if not file.exists():
            file.write_bytes(zlib.compress(whole, 1))
        return id_


SKILL = b"---\nname: deploy\ndescription: Deploys.\n---\nDo it.\n"


def files(body: str, name: str = "deploy", **more: Content) -> dict[str, Content]:
    """Return what a repository has of one skill, in its folder ``skills``."""
    head = f"---\nname: {name}\ndescription: Deploys.\n---\n"
    whole = {"SKILL.md": (head + body).encode(), **more}
    return {f"skills/{name}/{path}": data for path, data in whole.items()}
