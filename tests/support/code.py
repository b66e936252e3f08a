"""A program that is given as code, for a fork in place of ``python -c``: see ``run_code``."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(words: Sequence[str]) -> int:
    """Run the first word as code, which has the others as its arguments."""
    code, *args = words
    sys.argv = ["-c", *args]
    exec(compile(code, "<code>", "exec"), {"__name__": "__main__"})
    return 0
