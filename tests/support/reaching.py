"""A user's machine whose places are real ones: git repositories on disk, servers on loopback."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from skillhub.cli.network import OpenNetwork
from skillhub.command.ports import Ports
from skillhub.install.install import available_updates
from tests.support.world import Answers, World


class Reaching(World):
    """A ``World`` that reaches places as the program does; ``offline`` keeps it from the network."""

    def __init__(self, folder: Path, home: str = "home", **environ: str) -> None:
        super().__init__(folder, home, **environ)
        self.offline = False
        self._networks: list[OpenNetwork] = []

    def close(self) -> None:
        """Hang up."""
        for network in self._networks:
            network.close()

    def ports(self, answers: Answers | None = None, *, scratch: bool = False) -> Ports:
        net = OpenNetwork(self.home, self.sources, str(self.user_home), offline=self.offline, scratch=scratch)
        self._networks.append(net)
        ports = super().ports(answers)
        own = replace(ports.network, open_place=net.open_place)
        return replace(ports, network=own if self.registries else net)

    def behind(self, *names: str):
        """Do what ``update --check`` does."""
        return available_updates(names, self.ports(scratch=True))

    def on_another_machine(self) -> Reaching:
        other = Reaching(self.folder, home=f"{self.top.name}-other", **self.environ)
        other.registries, other.places = self.registries, self.places
        other._networks = self._networks
        return other

    def snapshot(self) -> dict[str, object]:
        """Return project and home without fetched data: the cache and its proofs."""
        seen = super().snapshot()
        fetched = (self.home.cache, os.path.join(self.home.state, "sites.json"))
        return {path: each for path, each in seen.items() if not path.startswith(fetched)}

    def as_cloned(self) -> Reaching:
        """Return another user's machine with a clone of the project, which has lock and intent alone."""
        for folder in (".agents", ".claude"):
            shutil.rmtree(self.base / folder, ignore_errors=True)
        return self.on_another_machine()

    def lock_bytes(self) -> bytes:
        return (self.base / "skillhub.lock").read_bytes()

    def text(self, name: str) -> str:
        """Return the enabled ``SKILL.md`` of a skill."""
        return (self.copy(name) / "SKILL.md").read_text()
