"""The install pipeline: resolve, obtain, verify, review, commit."""
