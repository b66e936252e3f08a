"""Locks of other installers, bills of materials, and what is to be mended in a lock."""
