"""The gate: what may become a tree, whichever reader found it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from skillhub.archive.entries import Entry, Limits, check_path, fold, is_lookalike, unsafe
from skillhub.errors import UnsafeArchive
from skillhub.formats.text import quote
from skillhub.model.tree import SKILL_MD, File, Tree

_DEFAULT = Limits()


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A tree that passed the gate, and what a person should be told about how it came."""

    tree: Tree
    warnings: tuple[str, ...] = ()


def gather(entries: Iterable[Entry], limits: Limits = _DEFAULT, wrapper: bool = True) -> Unpacked:
    """Return the tree of these entries, taking no more of them than the limits allow.

    Litter of macOS (``__MACOSX/``, ``.DS_Store``) is judged, then dropped, as are empty folders.

    Args:
        entries: Files and folders in any order; folders may be left out. Read lazily.
        limits: How much may come.
        wrapper: Accept one folder around the skill, and warn; without it the skill must lie at the root.

    Raises:
        UnsafeArchive: a reason of the families paths, names, collisions, limits and shape; also what the
            reader behind ``entries`` raises.
    """
    place = _Place(limits)
    files: dict[str, File] = {}
    size = 0
    for entry in entries:
        check_path(entry.path, limits)
        place.put(entry)
        if entry.file is None:
            continue
        size += len(entry.file.data)
        if size > limits.total:
            raise unsafe("too-large", f"a skill has at most {limits.total} bytes unpacked", entry.path)
        if not _is_litter(entry.path):
            files[entry.path] = entry.file
            if len(files) > limits.files:
                raise unsafe("too-many-files", f"a skill has at most {limits.files} files", entry.path)
    return _shaped(files, place.top, wrapper)


@dataclass(slots=True)
class _Folder:
    """Names by their folded form, so that two which any file system takes for one meet here."""

    names: dict[str, tuple[str, _Folder | None]] = field(default_factory=dict)
    announced: bool = False

    def visible(self) -> Iterator[tuple[str, _Folder | None]]:
        """Yield what is neither litter nor inside of it."""
        for name, folder in self.names.values():
            if name != (".DS_Store" if folder is None else "__MACOSX"):
                yield name, folder

    def holds_skill(self) -> bool:
        """Say whether ``SKILL.md`` is a file of this folder."""
        return self.names.get(fold(SKILL_MD)) == (SKILL_MD, None)


class _Place:
    """The folders seen so far: every entry must find a place of its own."""

    def __init__(self, limits: Limits) -> None:
        self.top = _Folder()
        self._limits = limits
        self._entries = 0
        self._folders = 0

    def put(self, entry: Entry) -> None:
        """Take the place of an entry.

        Raises:
            UnsafeArchive: ``collision``, ``file-as-folder``, ``too-many-files``.
        """
        self._entries += 1
        *parents, name = entry.path.split("/")
        folder = self.top
        for parent in parents:
            folder = self._enter(folder, parent, entry.path)
        if entry.file is None:
            folder = self._enter(folder, name, entry.path)
            if folder.announced:
                raise unsafe("collision", "two entries for one folder", entry.path)
            folder.announced = True
        else:
            self._add_file(folder, name, entry.path)
        if max(self._entries, self._folders) > self._limits.entries:
            expected = f"at most {self._limits.entries} files and folders, litter included"
            raise unsafe("too-many-files", f"expected {expected}", entry.path)

    def _enter(self, folder: _Folder, name: str, path: str) -> _Folder:
        key = fold(name)
        known = folder.names.get(key)
        if known is None:
            self._folders += 1
            inner = _Folder()
            folder.names[key] = (name, inner)
            return inner
        spelled, found = known
        if found is None:
            raise unsafe("file-as-folder", f"{quote(spelled)} is a file and a folder", path)
        if spelled != name:
            raise _collision(spelled, name, path)
        return found

    def _add_file(self, folder: _Folder, name: str, path: str) -> None:
        key = fold(name)
        if key in folder.names:
            spelled, found = folder.names[key]
            if found is not None and spelled == name:
                raise unsafe("file-as-folder", f"{quote(name)} is a file and a folder", path)
            raise _collision(spelled, name, path)
        folder.names[key] = (name, None)


def _collision(first: str, second: str, path: str) -> UnsafeArchive:
    return unsafe("collision", f"some systems treat {quote(first)} and {quote(second)} as the same name", path)


def _is_litter(path: str) -> bool:
    *parents, name = path.split("/")
    return name == ".DS_Store" or "__MACOSX" in parents


def _shaped(files: dict[str, File], top: _Folder, wrapper: bool) -> Unpacked:
    """Return the files as the skill has them: below the wrapping folder if there is one."""
    roots = dict(top.visible())
    warnings: tuple[str, ...] = ()
    if wrapper and len(roots) == 1 and SKILL_MD not in roots:
        ((name, inner),) = roots.items()
        if inner is not None:
            files = {path[len(name) + 1 :]: file for path, file in files.items()}
            roots = dict(inner.visible())
            warnings = (f"all files are in one folder, {quote(name)}: its content is used as the skill",)
    _check_root(roots)
    _check_skill_md(files[SKILL_MD].data)
    return Unpacked(Tree(files), warnings)


def _check_root(roots: dict[str, _Folder | None]) -> None:
    for name in roots:
        if is_lookalike(name):
            raise unsafe("name-lookalike", f"{quote(name)} passes for {SKILL_MD}", name)
    if SKILL_MD not in roots:
        if len(roots) > 1 and any(folder and folder.holds_skill() for folder in roots.values()):
            raise unsafe("two-roots", f"expected {SKILL_MD} at the root, found it in one of several folders")
        raise unsafe("no-skill-md", f"expected {SKILL_MD} at the root, found none")
    if roots[SKILL_MD] is not None:
        raise unsafe("skill-md-folder", f"{SKILL_MD} is a folder", SKILL_MD)


def _check_skill_md(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise unsafe("skill-md-encoding", f"{SKILL_MD} is not UTF-8 at byte {error.start}", SKILL_MD) from error
    if b"\0" in data:
        raise unsafe("skill-md-nul", f"{SKILL_MD} holds a NUL at byte {data.index(0)}", SKILL_MD)
