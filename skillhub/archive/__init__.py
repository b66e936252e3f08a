"""Archive bytes to trees and back: pure functions that do not use the disk.

Folders and git trees obey the same rules as archives: their readers also call ``gather``.
"""

from skillhub.archive.limits import Entry, Limits, check_path
from skillhub.archive.unpack import gather, pack, unpack
from skillhub.model.tree import Kind, Unpacked, kind_of

__all__ = ["Entry", "Kind", "Limits", "Unpacked", "check_path", "gather", "kind_of", "pack", "unpack"]
