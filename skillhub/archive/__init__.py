"""Archive bytes and trees, one to the other: pure functions that touch no disk.

Folders and git trees are no archives but obey the same rules: their readers go through ``gather`` too.
"""

from skillhub.archive.entries import Entry, Kind, Limits, check_path, kind_of
from skillhub.archive.unpack import Unpacked, gather, pack, unpack

__all__ = ["Entry", "Kind", "Limits", "Unpacked", "check_path", "gather", "kind_of", "pack", "unpack"]
