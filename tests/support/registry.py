"""A registry made by the code that operators run, served from memory, whose every answer a test may change."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch
from hashlib import sha256

from skillhub.errors import NotFound, WrongBytes
from skillhub.model.index import namespace_path
from skillhub.net.fetch import PERSON, Requester, Response
from skillhub.registry.build import Setup, add, init
from skillhub.registry.operator import RegistryDir, RegistrySettings, Signing
from skillhub.registry.upkeep import refresh
from skillhub.sources.registry_client import TufRegistry
from skillhub.trust.keys import PrivateKey
from skillhub.trust.registry_metadata import Dates, MetadataSet, path_of
from skillhub.trust.roles import TIMESTAMP, key_names

URL = "https://registry.example/hub"


def now() -> datetime:
    return datetime.now(UTC)


def key_of(label: str):
    """Return the factory of the test keys of one registry, which depend on the label alone."""
    return lambda name, kind: PrivateKey.from_seed(sha256(f"{label} {name}".encode()).digest(), kind)


def write_skill(parent: object, name: str = "hello", version: str = "1.0.0", **files: str) -> str:
    """Write a minimal skill below ``parent`` and return its folder."""
    folder = os.path.join(str(parent), f"src-{version}", name)
    os.makedirs(folder, exist_ok=True)
    head = f'name: {name}\ndescription: Says hello.\nmetadata:\n  version: "{version}"\n'
    text = f"---\n{head}---\n\n# {name} {version}\n"
    for path, content in {"SKILL.md": text, **files}.items():
        with open(os.path.join(folder, path), "w") as file:
            file.write(content)
    return folder


class Simulator:
    """A registry and, being a ``Fetcher``, the network to it.

    ``files`` is what it serves, by path; ``pull`` takes what the operator's folder has now. ``before`` is called
    with each path and may raise or change ``files``.
    """

    def __init__(
        self, folder: object, label: str = "test", when: datetime | None = None, bits: int = 1, *, log: bool = False
    ) -> None:
        self.when = when or now()
        self._settle(folder, os.path.join(str(folder), f"registry-{label}"))
        setup = Setup(settings=RegistrySettings.of("acme", 1 << bits), new_key=key_of(label), log=log)
        init(self.dir.path, setup, self.when)
        self.pull()

    def copy(self, folder: object) -> Simulator:
        """Return a twin in ``folder``: many tests can start from what was made once."""
        twin = object.__new__(Simulator)
        twin.when = self.when
        twin._settle(folder, os.path.join(str(folder), "registry"))
        if self._kept is None:
            self._kept = _Kept(self.dir.path)
        self._kept.write(twin.dir.path)
        twin.files = {**self.files}
        return twin

    def _settle(self, folder: object, path: str) -> None:
        self.dir = RegistryDir(path)
        self._sources = str(folder)
        self.files: dict[str, bytes] = {}
        self._kept: _Kept | None = None
        self.asked: Counter[str] = Counter()
        self.before: Callable[[str], None] = lambda path: None

    def publish(self, name: str = "hello", version: str = "1.0.0", **files: str) -> None:
        add(self.dir.path, [write_skill(self._sources, name, version, **files)], Signing(now=self.when))
        self.pull()

    def set_back(self, when: datetime) -> None:
        """Go on at an earlier time, after the operator has said that this clock is right."""
        self.when = when
        refresh(self.dir.path, Signing(now=when), roles=[TIMESTAMP])

    def pull(self) -> None:
        self._kept = None
        start = len(os.path.join(self.dir.site, ""))
        self.files = {
            os.path.join(top, name)[start:].replace(os.sep, "/"): _read(top, name)
            for top, _, names in os.walk(self.dir.site)
            for name in names
        }

    def revise(self, targets: dict[str, bytes], when: datetime | None = None) -> MetadataSet:
        """Sign these targets with the registry's own keys, as a thief of the keys could, and serve them."""
        metadata = self.dir.metadata().revise(targets, self.dir.keys().of, Dates(when or self.when))
        found = {path_of(metadata.find(path)): data for path, data in targets.items()}
        self.dir.publish({**found, **metadata.files()})
        self.pull()
        return metadata

    def publisher(self, publisher: str) -> str:
        """Return the path of the document of a publisher that is admitted."""
        row = self._bucket(publisher)[publisher]
        return f"targets/publishers/{row['sha256']}.{publisher}.json"

    def admit(self, admitted: str, **change: object) -> None:
        """Serve the admission of a publisher with these fields changed, signed with stolen keys."""
        bucket = self._bucket(admitted)
        known = json.loads(self.files[self.publisher(admitted)]) if admitted in bucket else {}
        data = json.dumps({"publisher": admitted, **known, **change}).encode()
        bucket[admitted] = {"sha256": sha256(data).hexdigest(), "size": len(data)}
        self.dir.publish({f"targets/publishers/{bucket[admitted]['sha256']}.{admitted}.json": data})
        self.revise({namespace_path(admitted): json.dumps({"publishers": bucket}).encode()})

    def _bucket(self, publisher: str) -> dict[str, dict[str, object]]:
        data = self.dir.target(self.dir.metadata(), namespace_path(publisher))
        return json.loads(data or b'{"publishers":{}}')["publishers"]

    @property
    def root(self) -> bytes:
        return self.files["metadata/1.root.json"]

    def open(self, folder: object) -> TufRegistry:
        return TufRegistry.open(URL, self.root, self, str(folder))

    def get(self, url: str, *, cap: int, named_by: Requester = PERSON) -> Response:
        path = url.removeprefix(URL + "/")
        self.asked[path] += 1
        self.before(path)
        if path not in self.files:
            raise NotFound("there is nothing", where=url)
        if len(self.files[path]) > cap:
            raise WrongBytes(f"expected at most {cap} bytes", where=url)
        return Response(url, self.files[path])


class Waits:
    """The network to a simulated registry, which counts how often one after another a client waits; it has no clock.

    Requests of the same line of ``together`` are answered only once all of that line were asked for, so a client that
    asks for one after another gets no answer. ``waits`` has for each path how many waits come before its answer.
    """

    def __init__(self, hub: Simulator, together: list[tuple[str, ...]]) -> None:
        self.waits: dict[str, int] = {}
        self._hub = hub
        self._lines = [(line, threading.Barrier(len(line), timeout=300)) for line in together]
        self._answered = 0
        self._turn = threading.Lock()

    def open(self, folder: object) -> TufRegistry:
        return TufRegistry.open(URL, self._hub.root, self, str(folder), name="hello")

    def get(self, url: str, *, cap: int, named_by: Requester = PERSON) -> Response:
        path = url.removeprefix(URL + "/")
        with self._turn:
            self.waits[path] = waits = self._answered + 1
        for line, barrier in self._lines:
            if any(fnmatch(path, each) for each in line):
                barrier.wait()
        try:
            return self._hub.get(url, cap=cap, named_by=named_by)
        finally:
            with self._turn:
                self._answered = max(self._answered, waits)


def long_ago(days: float) -> datetime:
    return now() - timedelta(days=days)


def role_keys(label: str):
    """Return the keys of every role of a registry made with ``label``."""
    return lambda role: [key_of(label)(name, "ed25519") for name in key_names(role)]


class _Kept:
    """A folder that was read once, to be written again and again: a third of what a copy of the folder takes."""

    def __init__(self, folder: str) -> None:
        self._folders: list[tuple[str, int]] = []
        self._files: list[tuple[str, bytes, int, tuple[int, int]]] = []
        for top, _, names in os.walk(folder):
            below = os.path.relpath(top, folder)
            self._folders.append((below, os.stat(top).st_mode))
            for name in names:
                status = os.stat(os.path.join(top, name))
                times = status.st_atime_ns, status.st_mtime_ns
                self._files.append((os.path.join(below, name), _read(top, name), status.st_mode, times))

    def write(self, folder: str) -> None:
        for path, mode in self._folders:
            os.makedirs(os.path.join(folder, path), stat.S_IMODE(mode), exist_ok=path == ".")
        for path, data, mode, times in self._files:
            full = os.path.join(folder, path)
            with open(full, "xb", buffering=0) as file:
                file.write(data)
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            os.utime(full, ns=times)


def _read(top: str, name: str) -> bytes:
    with open(os.path.join(top, name), "rb") as file:
        return file.read()
