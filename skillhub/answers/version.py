"""What commands print with ``--json``; here is only what needs no library."""

from __future__ import annotations

from typing import Final

VERSION: Final = 1  # of the form of all answers, which each has as ``schema``
