"""What was read off a skill by the scan, kept by its tree and by the rules and parsers that read it.

An entry is believed only if it was written on this machine for this very tree and these very rules: it bears a MAC by
a key in ``<state>``. An install never looks here.
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

import skillhub
from skillhub.disk import files
from skillhub.disk.home import Home
from skillhub.errors import FormatError, SkillhubError, StateError
from skillhub.formats.digest import Digest
from skillhub.install.context import Report
from skillhub.install.scan_processes import ScansAhead
from skillhub.model.finding import Finding
from skillhub.model.manifest import Manifest, problems
from skillhub.model.tree import Tree, Unpacked
from skillhub.scan import MANY, capabilities_and_findings, scan

PART = "scan"  # of the cache
_CAP = 8 << 20
_KEY_BYTES = 32
_AT_ONCE, _BYTES_MAX = 16, 1 << 26  # of what waits for them
_FIELDS = ("rule", "severity", "path", "line", "message", "hint")  # of a finding of the scan
_PARSERS = ("PyYAML", "markdown-it-py", "tree-sitter", "tree-sitter-bash", "tree-sitter-javascript")
_Seen = tuple[tuple[str, ...], tuple[Finding, ...]]  # what a skill can do, and what is found in it
# Whose code decides what is found: rules, detectors, and how a manifest is read.
_ROOMS = ("scan", os.path.join("scan", "code"), "model", "formats")


@dataclass(frozen=True, slots=True)
class ScannedSkill:
    """What was read off the content of a skill.

    Attributes:
        findings: What the scan sees, the worst first.
        capabilities: What it can do; None if its manifest cannot be read.
        fault: Why not.
        breaches: How its form breaks the specification, though install takes it.
    """

    findings: tuple[Finding, ...]
    capabilities: tuple[str, ...] | None
    fault: str = ""
    breaches: tuple[str, ...] = ()

    @classmethod
    def read(cls, tree: Tree, seen: _Seen | None = None) -> ScannedSkill:
        """Read its manifest, and scan it, unless that was ``seen`` by another process."""
        try:
            found, findings = seen or capabilities_and_findings(tree, Manifest.read(tree))
            breaches = (f"{each.message} [{each.code}]" for each in problems(tree)[0])
            return cls(findings, found, breaches=tuple(breaches))
        except SkillhubError as error:
            return cls(scan(tree), None, error.message)


class ScanCache:
    """Results of the scan in ``<cache>/scan``, a file for each.

    Args:
        home: Where cache and key are.
        remember: Whether what is new is written.
    """

    def __init__(self, home: Home, *, remember: bool = True) -> None:
        self._remember = remember
        self._folder = os.path.join(home.cache, PART)
        self._key_path = os.path.join(home.state, "scan-cache.key")
        self._unwritten: dict[Digest, ScannedSkill] = {}  # where nothing can be

    def read(self, tree: Tree) -> ScannedSkill:
        """Return what the scan reads off a tree, which was hashed just now; scanned, unless that is known."""
        if (found := self._unwritten.get(tree.digest)) is not None:
            return found
        path = self._path(tree.digest)
        with suppress(StateError, FormatError, ValueError, TypeError, KeyError):
            data = files.read(path, _CAP)
            if data is not None:
                return self._parsed(data, os.path.basename(path))
        return self._kept(tree, ScannedSkill.read(tree))

    def fill(self, trees: Iterable[Digest], read: Callable[[Digest], Tree | None], report: Report) -> None:
        """Have many that are new scanned by other processes, and keep the results; what fails is left to ``read``.

        Args:
            trees: Which.
            read: Reads one.
            report: Is told how far it is.
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
        can = found["capabilities"]
        findings = tuple(Finding(**row) for row in found["findings"])
        return ScannedSkill(findings, None if can is None else tuple(can), found["fault"], tuple(found["breaches"]))

    def _mac(self, name: str, body: bytes) -> bytes:
        return blake2b(name.encode() + body, key=self._key, digest_size=32).hexdigest().encode()

    @cached_property
    def _key(self) -> bytes:
        """The key of this machine, made when there is none; where it cannot be kept, one for this command."""
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
        """Everything that decides what is found, by name and version."""
        parsers = ", ".join(f"{name} {_version(name)}" for name in _PARSERS)
        return f"skillhub {skillhub.__version__} {_code()}, Python {platform.python_version()}, {parsers}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


@cache
def _code() -> str:
    """Return a digest of the code that reads skills: a working copy has the version of the release before it."""
    top = os.path.dirname(os.path.abspath(skillhub.__file__))
    return sha256(b"".join(_sources(top))).hexdigest()


def _sources(top: str) -> Iterator[bytes]:
    for room in _ROOMS:
        folder = os.path.join(top, room)
        for name in sorted(os.listdir(folder)):
            if name.endswith((".py", ".json")):
                data = files.read(os.path.join(folder, name), _CAP) or b""
                yield sha256(data).digest()
