"""Archive bytes and trees, one to the other: pure functions that touch no disk.

Folders and git trees are no archives but obey the same rules: their readers go through ``gather`` too.
"""

from skillhub.archive.entries import Entry, Limits, check_path
from skillhub.archive.unpack import gather, pack, unpack
from skillhub.model.tree import Kind, Unpacked, kind_of

__all__ = ["Entry", "Kind", "Limits", "Unpacked", "check_path", "gather", "kind_of", "pack", "unpack"]
