"""Local edits of skills: the difference as a patch, and merges."""
