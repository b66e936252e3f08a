"""Cached results of the scan, by the digest of the tree and the versions of rules and parsers.

An entry is used only if this machine wrote it for the same tree and the same rules: it has a MAC with a key in
``<state>``. An install never uses the cache.
"""

from __future__ import annotations

import hmac
import json
import os
import platform
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b, sha256
from importlib.metadata import PackageNotFoundError, version
from typing import TypeAlias

import skillhub
from skillhub.disk import files
from skillhub.disk.home import Home
from skillhub.errors import FormatError, SkillhubError, StateError
from skillhub.formats.digest import Digest
from skillhub.model.finding import Finding
from skillhub.model.manifest import Manifest, problems
from skillhub.model.tree import Tree, Unpacked
from skillhub.scan import MANY, capabilities_and_findings, scan
from skillhub.scan.processes import ScansAhead

PART = "scan"  # the folder within the cache
_CAP = 8 << 20
_KEY_BYTES = 32
_AT_ONCE, _BYTES_MAX = 16, 1 << 26  # trees that wait for other processes: their number, their bytes together
_FIELDS = ("rule", "severity", "path", "line", "message", "hint")  # the fields that the scan sets in a finding
_PARSERS = ("PyYAML", "markdown-it-py", "tree-sitter", "tree-sitter-bash", "tree-sitter-javascript")
_Report: TypeAlias = Callable[[str, int, int], None]  # the current step, the number of skills done, of all
_Seen: TypeAlias = tuple[tuple[str, ...], tuple[Finding, ...]]  # capabilities and findings of a skill
# The rooms whose code determines the results: rules, detectors, and the parser of manifests.
_ROOMS = ("scan", os.path.join("scan", "code"), "model", "formats")


@dataclass(frozen=True, slots=True)
class ScannedSkill:
    """The result of scanning a skill.

    Attributes:
        findings: The findings, the most severe first.
        capabilities: The capabilities; None if the manifest cannot be read.
        fault: Why the manifest cannot be read; else empty.
        breaches: The violations of the specification that do not prevent an install.
    """

    findings: tuple[Finding, ...]
    capabilities: tuple[str, ...] | None
    fault: str = ""
    breaches: tuple[str, ...] = ()

    @classmethod
    def read(cls, tree: Tree, seen: _Seen | None = None) -> ScannedSkill:
        """Read the manifest of a tree, and scan the tree, unless another process has: ``seen`` is its result."""
        try:
            found, findings = seen or capabilities_and_findings(tree, Manifest.read(tree))
            breaches = (f"{each.message} [{each.code}]" for each in problems(tree)[0])
            return cls(findings, found, breaches=tuple(breaches))
        except SkillhubError as error:
            return cls(scan(tree), None, error.message)


class ScanCache:
    """The results of scans in ``<cache>/scan``, one file for each.

    Args:
        home: The folders of the cache and of the key.
        remember: Whether new results are written.
    """

    def __init__(self, home: Home, *, remember: bool = True) -> None:
        self._remember = remember
        self._folder = os.path.join(home.cache, PART)
        self._key_path = os.path.join(home.state, "scan-cache.key")
        self._unwritten: dict[Digest, ScannedSkill] = {}  # results that could not be written

    def read(self, tree: Tree) -> ScannedSkill:
        """Return the result for a tree whose digest was just computed: the cached one, or that of a new scan."""
        if (found := self._unwritten.get(tree.digest)) is not None:
            return found
        path = self._path(tree.digest)
        with suppress(StateError, FormatError, ValueError, TypeError, KeyError):
            data = files.read(path, _CAP)
            if data is not None:
                return self._parsed(data, os.path.basename(path))
        return self._kept(tree, ScannedSkill.read(tree))

    def fill(self, trees: Iterable[Digest], read: Callable[[Digest], Tree | None], report: _Report) -> None:
        """Scan the trees without a cached result in other processes, if they are many, and write the results.

        A tree that cannot be read is skipped; ``read`` handles it later.

        Args:
            trees: The digests of the trees.
            read: Reads a tree.
            report: Receives the progress.
        """
        new = [each for each in dict.fromkeys(trees) if self._remember and not os.path.exists(self._path(each))]
        if len(new) < MANY:
            return
        ahead, begun = ScansAhead(count=len(new)), deque[tuple[Tree, Callable[[Tree], _Seen | None]]]()
        try:
            for number, digest in enumerate(new):
                report("scanning skills", number, len(new))
                with suppress(SkillhubError):
                    if (tree := read(digest)) is not None:
                        begun.append((tree, ahead.begin(Unpacked(tree))))
                waiting = sum(each.size for each, _ in begun)
                while begun and (number == len(new) - 1 or len(begun) > _AT_ONCE or waiting > _BYTES_MAX):
                    tree, seen = begun.popleft()
                    waiting -= tree.size
                    self._kept(tree, ScannedSkill.read(tree, seen(tree)))
        finally:
            ahead.close()

    def _path(self, tree: Digest) -> str:
        name = sha256(f"{tree}\n{self.rules}".encode()).hexdigest()
        return os.path.join(self._folder, name[:2], name)

    def _kept(self, tree: Tree, found: ScannedSkill) -> ScannedSkill:
        if not self._remember:
            return found
        path = self._path(tree.digest)
        rows = [{key: getattr(each, key) for key in _FIELDS} for each in found.findings]
        facts = {key: getattr(found, key) for key in ("capabilities", "fault", "breaches")} | {"findings": rows}
        body = json.dumps({"rules": self.rules, "tree": tree.digest, **facts}).encode()
        try:
            mac = self._mac(os.path.basename(path), body)
            files.write_atomic(path, mac + b"\n" + body, mode=0o600, sync=False)
        except StateError:
            self._unwritten[tree.digest] = found
        return found

    def _parsed(self, data: bytes, name: str) -> ScannedSkill:
        mac, _, body = data.partition(b"\n")
        if not hmac.compare_digest(mac, self._mac(name, body)):
            raise ValueError("not written here")
        found = json.loads(body)
        names = found["capabilities"]
        findings = tuple(Finding(**row) for row in found["findings"])
        capabilities = None if names is None else tuple(names)
        return ScannedSkill(findings, capabilities, found["fault"], tuple(found["breaches"]))

    def _mac(self, name: str, body: bytes) -> bytes:
        return blake2b(name.encode() + body, key=self._key, digest_size=32).hexdigest().encode()

    @cached_property
    def _key(self) -> bytes:
        """The key of this machine, created if missing; if it cannot be written, it is valid for this command only."""
        with suppress(FormatError, StateError):
            key = files.read(self._key_path, _KEY_BYTES)
            if key is not None and len(key) == _KEY_BYTES:
                return key
        key = os.urandom(_KEY_BYTES)
        if self._remember:
            with suppress(StateError):
                files.write_atomic(self._key_path, key, mode=0o600)
        return key

    @cached_property
    def rules(self) -> str:
        """The names and versions of everything that determines the results."""
        parsers = ", ".join(f"{name} {_version(name)}" for name in _PARSERS)
        return f"skillhub {skillhub.__version__} {_code()}, Python {platform.python_version()}, {parsers}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


@cache
def _code() -> str:
    """Return a digest of the code that scans: a working copy still has the version of the release before it."""
    top = os.path.dirname(os.path.abspath(skillhub.__file__))
    return sha256(b"".join(_sources(top))).hexdigest()


def _sources(top: str) -> Iterator[bytes]:
    for room in _ROOMS:
        folder = os.path.join(top, room)
        for name in sorted(os.listdir(folder)):
            if name.endswith((".py", ".json")):
                data = files.read(os.path.join(folder, name), _CAP) or b""
                yield sha256(data).digest()
