"""Local edits of skills: patches and merges of trees, and merges of locks."""
