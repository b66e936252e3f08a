"""Checks and their reports: verify, audit, doctor, diff, show, cache."""
