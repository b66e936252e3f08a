"""The pipeline: resolve, fetch, verify, review, commit."""
