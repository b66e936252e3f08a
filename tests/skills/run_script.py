"""Runs a script of a skill as a program of its own, in a process that is forked: see ``tests.support.forked``."""

from __future__ import annotations

import runpy
import sys


def main(words: list[str]) -> None:
    """Run the script of the first word with the others; it ends the process itself."""
    sys.argv[:] = words
    sys.dont_write_bytecode = True
    runpy.run_path(words[0], run_name="__main__")
