"""The scene of attacks: a machine with a skill of a registry, the registry, and the network between them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from skillhub.disk.folders import remove_tree
from skillhub.errors import SkillhubError
from skillhub.net.fetch import Fetcher
from skillhub.sources.configured import Source
from skillhub.sources.registry_client import TufRegistry
from tests.support.registry import URL, Simulator
from tests.support.world import World, snapshot


class Machine(World):
    """A ``World`` with the program's own trust folder and one registry, ``acme``."""

    road: Fetcher

    def _open(self, source: Source, root: bytes | None = None, name: str = "") -> TufRegistry:
        if source.alias not in self._opened:
            self.opened.append(source.alias)
            root = self.sources.root(source)
            folder = self.trust_folder(source)
            self._opened[source.alias] = TufRegistry.open(source.url, root, self.road, folder, name=name)
        return self._opened[source.alias]

    def trust_folder(self, source: Source) -> str:
        return f"{self.home.state}/tuf/{source.root.hex}"


class Scene:
    """A machine on which ``acme:hello`` is installed and enabled, and the means of an attack.

    Attributes:
        hub: The registry; most attacks change its ``files``, which the network serves.
        signed: Every document signed with keys of the registry, by its operator or by a thief.
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
        """Record the documents served now as signed by the operator."""
        self.signed |= set(self.hub.files.values())

    def publish(self, name: str, version: str = "1.0.0") -> None:
        self.hub.publish(name, version)
        self.remember()

    def second_machine(self) -> Machine:
        """Return the machine of another user who has cloned the project and trusts the registry."""
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
        """Return every byte of project and home: store, lock, intent, links, state, trusted metadata."""
        both = snapshot(self.machine.base) | snapshot(self.machine.top)
        return {
            path: (mode, content)
            for path, (mode, content, _) in both.items()
            if content is not None and (content or not path.endswith("lock"))
        }

    def refuses(
        self, error: type[SkillhubError], act: Callable[[], object], learned: Iterable[str] = ()
    ) -> SkillhubError:
        """Assert that ``act`` fails with exactly ``error`` and changes no byte.

        Args:
            error: The class.
            act: The user's command.
            learned: The trusted metadata that may change in spite of the error: TUF (section 5.4.5 and after) keeps
                each document once it is verified, before it fetches the next.
        """
        before = self.seen()
        with pytest.raises(SkillhubError) as caught:
            act()
        after = self.seen()
        assert type(caught.value) is error, repr(caught.value)
        moved = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        trust = self.machine.trust_folder(self.machine.sources.get("acme"))
        assert moved == {f"{trust}/{name}" for name in learned}
        documents = {after[path][1] for path in moved if not path.endswith("/root.json")}  # root.json is a link
        assert documents <= self.signed
        return caught.value


def installs_other(scene: Scene, name: str = "other") -> Callable[[], object]:
    """Return an install of a second skill of the registry."""
    return lambda: scene.machine.install(f"acme:{name}")
