"""A registry that an operator maintains with the program, and its web server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skillhub.server.site import site_server
from tests.support.here import Here
from tests.support.serving import serving


@contextmanager
def online(site: Path | str) -> Iterator[str]:
    """Serve the site of a registry; yield its URL."""
    server = site_server(str(site))
    with serving(server):
        yield f"http://127.0.0.1:{server.server_port}"


class Served:
    """A registry in ``folder``, whose publisher is ``acme``; ``site`` is its public folder."""

    def __init__(self, folder: Path) -> None:
        self._operator = Here(folder / "operator")
        self._path = folder / "registry"
        self.site = self._path / "site"
        self.root = self.site / "metadata" / "1.root.json"
        self.operate("init", "--publisher", "acme")

    def operate(self, verb: str, *words: object) -> None:
        """Run a command of ``registry`` on it."""
        done = self._operator.run("registry", verb, self._path, *words)
        assert done.status == 0, done.err

    def publish(self, version: str, name: str = "greeting", **files: str) -> None:
        """Publish a version of a skill."""
        head = f'metadata:\n  version: "{version}"\n'
        self.operate("add", self._operator.skill(f"src/{version}/{name}", head=head, **files))
