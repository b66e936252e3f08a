"""Where the attacks take place: a machine that has a skill of a registry, the registry, and the road between."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from skillhub.disk.folders import remove_tree
from skillhub.errors import SkillhubError
from skillhub.net.fetch import Fetcher
from skillhub.sources.configured import Source
from skillhub.sources.registry import TufRegistry
from tests.support.registry import URL, Simulator
from tests.support.world import World, snapshot


class Machine(World):
    """A ``World`` that keeps what it trusts where the program does, and meets one registry, ``acme``."""

    road: Fetcher

    def _open(self, source: Source, root: bytes | None = None) -> TufRegistry:
        if source.alias not in self._opened:
            self.opened.append(source.alias)
            root = self.sources.root(source)
            self._opened[source.alias] = TufRegistry.open(source.url, root, self.road, self.trust_folder(source))
        return self._opened[source.alias]

    def trust_folder(self, source: Source) -> str:
        return f"{self.home.state}/tuf/{source.root.hex}"


class Scene:
    """A machine on which ``acme:hello`` is installed and enabled, and what an attack does to it.

    Attributes:
        hub: The registry; its ``files`` are what the road brings, which is where most attacks are.
        signed: Every document that was signed with keys of the registry, by its operator or by a thief.
    """

    def __init__(self, folder: Path, hub: Simulator, road: Fetcher | None = None, url: str = URL) -> None:
        self.hub = hub
        self.signed: set[bytes] = set()
        self.remember()
        self.machine = Machine(folder)
        self.machine.sources.remove("github")
        self.machine.sources.add("acme", url, hub.root)
        self.machine.road = road or hub
        self.machine.install("acme:hello")

    def remember(self) -> None:
        """Take what is served now for what the operator signed."""
        self.signed |= set(self.hub.files.values())

    def publish(self, name: str, version: str = "1.0.0") -> None:
        self.hub.publish(name, version)
        self.remember()

    def second_machine(self) -> Machine:
        """Return another user's machine, who has cloned the project and trusts the registry."""
        base = self.machine.base
        for path in (base / ".agents", base / ".git"):
            shutil.rmtree(path, ignore_errors=True)
        source = self.machine.sources.get("acme")
        other = Machine(self.machine.folder, home="other")
        other.sources.remove("github")
        other.sources.add("acme", source.url, self.machine.sources.root(source))
        other.road = self.machine.road
        self.machine = other
        return other

    def empty_store(self) -> None:
        remove_tree(self.machine.store.root)

    def seen(self) -> dict[str, object]:
        """Return all of project and home to the byte: store, lock, intent, links, state, trusted metadata."""
        both = snapshot(self.machine.base) | snapshot(self.machine.top)
        return {
            path: (mode, content)
            for path, (mode, content, _) in both.items()
            if content is not None and (content or not path.endswith("lock"))
        }

    def refuses(
        self, error: type[SkillhubError], act: Callable[[], object], learned: Iterable[str] = ()
    ) -> SkillhubError:
        """Assert that ``act`` fails with exactly ``error`` and leaves everything as it was, to the byte.

        Args:
            error: The class.
            act: What the person does.
            learned: The trusted metadata that moves on for all that: TUF (section 5.4.5 and after) keeps each
                document once it is verified, before the next one is fetched.
        """
        before = self.seen()
        with pytest.raises(SkillhubError) as caught:
            act()
        after = self.seen()
        assert type(caught.value) is error, repr(caught.value)
        moved = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        trust = self.machine.trust_folder(self.machine.sources.get("acme"))
        assert moved == {f"{trust}/{name}" for name in learned}
        documents = {after[path][1] for path in moved if not path.endswith("/root.json")}  # that one is a link
        assert documents <= self.signed
        return caught.value


def installs_other(scene: Scene, name: str = "other") -> Callable[[], object]:
    """Return what a person does who wants a second skill of the registry."""
    return lambda: scene.machine.install(f"acme:{name}")
