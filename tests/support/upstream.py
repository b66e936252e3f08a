"""One skill, ``deploy``, at real places of each kind, whose owner may change it at any time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.gitrepos import Repo
from tests.support.site import JSON, LEGACY, WELL_KNOWN, current, entry, legacy, zipped
from tests.support.web import Web, answer

KINDS = ("git", "tag", "commit", "site", "archive", "single", "legacy")
SAMPLE = ("git", "site", "single", "legacy")  # where one of each sort is enough
PINNED = ("git", "tag", "commit")  # places that can still give what they had before
ZIP = "Content-Type: application/zip"


def text(body: str = "Do it.", name: str = "deploy", head: str = "") -> bytes:
    return f"---\nname: {name}\ndescription: Deploys.\n{head}---\n{body}\n".encode()


class Upstream:
    """The owner of the skill: ``ref(kind)`` returns a reference to it, ``have`` changes its files."""

    def __init__(self, folder: Path, web: Web) -> None:
        self._web = web
        self.repo = Repo(folder / "upstream.git")
        self.have({"SKILL.md": text()})
        self.repo.tag("v1", self.commit)
        self._first = self.commit

    def have(self, files: Mapping[str, bytes]) -> None:
        """Change every place; the tag moves too."""
        self.commit = self.repo.commit({f"skills/deploy/{path}": data for path, data in files.items()})
        if (self.repo.path / "refs/tags/v1").exists():
            self.repo.tag("v1", self.commit)
        archive = zipped(dict(files))
        self._web.at("/deploy.zip", answer(archive, ZIP))
        self._web.at("/SKILL.md", answer(files["SKILL.md"], "Content-Type: text/markdown"))
        self._web.at(f"/new{WELL_KNOWN}", answer(current(entry("deploy", archive, "/deploy.zip")), JSON))
        row = {"name": "deploy", "description": "Deploys.", "files": sorted(files)}
        self._web.at(f"/old{LEGACY}", answer(legacy(row), JSON))
        for path, data in files.items():
            self._web.at(f"/old/.well-known/skills/deploy/{path}", answer(data))

    def ref(self, kind: str) -> str:
        """Return the reference of one kind."""
        return {
            "git": f"git+{self.repo.url}",
            "tag": f"git+{self.repo.url}@v1#skills/deploy",
            "commit": f"git+{self.repo.url}@{self._first}",
            "site": self._web.url("/new"),
            "archive": self._web.url("/deploy.zip"),
            "single": self._web.url("/SKILL.md"),
            "legacy": self._web.url("/old"),
        }[kind]

    def vanish(self) -> None:
        """Remove every place."""
        self._web.acts.clear()
        self.repo.path.rename(self.repo.path.with_name("gone"))
