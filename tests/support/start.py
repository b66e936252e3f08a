"""A machine that is prepared once for many tests, each of which finds it as it was, in the same folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from skillhub.disk.folders import remove_tree


class Start:
    """What a folder has now; a copy elsewhere would not do, since records name their project by its path."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._copy = folder, folder.with_name(f"{folder.name}-start")
        shutil.copytree(folder, self._copy, symlinks=True)

    def restore(self) -> Path:
        """Give the folder its first content again, and return it."""
        remove_tree(str(self._folder))  # what is stored is read-only
        return Path(shutil.copytree(self._copy, self._folder, symlinks=True))
