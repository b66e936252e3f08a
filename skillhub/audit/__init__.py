"""Checks and reports: verify, audit, doctor, diff, show."""
