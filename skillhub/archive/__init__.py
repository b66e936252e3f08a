"""Archive bytes to trees and back: pure functions that do not use the disk.

Folders and git trees obey the same rules as archives: their readers also call ``gather``.
"""
