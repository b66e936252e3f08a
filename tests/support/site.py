"""A well-known site on a misbehaving server, and a machine that reads it, command by command."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

from skillhub.formats.digest import Digest
from skillhub.model.discovery import SCHEMA
from skillhub.net.client import Http, Patience
from skillhub.net.download import DownloadCache, Downloads, SiteMemory
from skillhub.sources.site import Site
from tests.support.web import Web, answer

WELL_KNOWN = "/.well-known/agent-skills/index.json"
LEGACY = "/.well-known/skills/index.json"
JSON = "Content-Type: application/json"
AT_ONCE = Patience(pauses=(0.0,))  # asks again without a pause


def skill_md(name: str, body: str = "Do it.") -> bytes:
    return f"---\nname: {name}\ndescription: Does {name}.\n---\n{body}\n".encode()


def zipped(files: dict[str, bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path), data)
    return held.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return held.getvalue()


def entry(name: str, data: bytes, url: str, **more: object) -> dict[str, object]:
    kind = "skill-md" if url.endswith(".md") else "archive"
    return {"name": name, "type": kind, "description": f"Does {name}.", "url": url, "digest": Digest.of(data), **more}


def current(*entries: dict[str, object], **more: object) -> bytes:
    return json.dumps({"$schema": SCHEMA, "skills": entries, **more}).encode()


def legacy(*entries: dict[str, object]) -> bytes:
    return json.dumps({"skills": entries}).encode()


def offer(web: Web, name: str, base: str = "", *headers: str) -> dict[str, object]:
    """Serve a skill of one file, and return its entry."""
    data = skill_md(name)
    web.at(f"{base}/{name}/SKILL.md", answer(data, "Content-Type: text/markdown"))
    return entry(name, data, f"{base}/{name}/SKILL.md")


class Machine:
    """State of a user's machine between commands; ``downloads`` begins a command."""

    def __init__(self, folder: Path) -> None:
        self.cache = str(folder / "cache" / "http")
        self.state = str(folder / "state")
        self.now = 1_790_000_000.0

    def downloads(self, http: Http | None) -> Downloads:
        self.seen = SiteMemory(self.state)
        return Downloads(http, DownloadCache(self.cache), self.seen, lambda: self.now)

    def open(self, url: str, http: Http | None) -> Site:
        return Site(url, self.downloads(http))

    def cached(self) -> list[str]:
        return [os.path.join(top, name) for top, _, names in os.walk(self.cache) for name in names]
