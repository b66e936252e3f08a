"""What is published in a folder, seen by clients: a new one, and one that has been there before."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from skillhub.net.fetch import FolderFetcher
from skillhub.sources.registry_client import TufRegistry


def tree_of(folder: Path | str) -> dict[str, bytes]:
    """Return every file below ``folder`` by its path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def offered(site: Path, metadata: Path, root: bytes) -> tuple[str, ...]:
    """Return the versions of ``hello`` that a client with this metadata folder can install, every byte proved."""
    metadata.mkdir(exist_ok=True)
    registry = TufRegistry.open("folder:", root, FolderFetcher(str(site), "folder:"), str(metadata))
    releases = registry.release_index(["hello"]).releases("hello")
    for release in releases:
        registry.artifact(release)
    return tuple(release.version or "" for release in releases)


def twin(metadata: Path, name: str) -> Path:
    """Return a copy of a client's metadata folder."""
    copied = metadata.with_name(name)
    shutil.rmtree(copied, ignore_errors=True)
    return Path(shutil.copytree(metadata, copied, symlinks=True))


def change(path: Path, data: bytes) -> None:
    """Replace a file as an attacker with write access would."""
    os.makedirs(path.parent, exist_ok=True)
    path.write_bytes(data)
