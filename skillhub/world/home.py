"""Where skillhub keeps its own things on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple


class Home(NamedTuple):
    """Four folders: ``config`` a person writes, ``data`` has the store, ``cache`` may be deleted, ``state``."""

    config: str
    data: str
    cache: str
    state: str

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Home:
        """Return the home that ``SKILLHUB_HOME`` names, else the platform's own folders."""
        if root := environ.get("SKILLHUB_HOME"):
            top = os.path.abspath(os.path.expanduser(root))
            return cls(*(os.path.join(top, part) for part in ("config", "data", "cache", "state")))
        # 20 ms of import that SKILLHUB_HOME spares.
        from platformdirs import PlatformDirs  # noqa: PLC0415

        place = PlatformDirs("skillhub", appauthor=False)
        return cls(place.user_config_dir, place.user_data_dir, place.user_cache_dir, place.user_state_dir)
