"""The security headers of every HTTP answer: no script, no frame, no content of other sites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOTHING_RUNS: Final = "default-src 'none'; base-uri 'none'; form-action 'none'"
NOTHING_LOADS: Final = f"{NOTHING_RUNS}; frame-ancestors 'none'"
# For every answer: it may run, load or frame nothing.
HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"{NOTHING_LOADS}; sandbox",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
# For a page of a registry, written in the page itself, since its server may send no headers.
WITH_STYLE: Final = f"{NOTHING_RUNS}; style-src 'self'"
# For a page with a search: its one script reads the listing and makes no markup of text.
WITH_SEARCH: Final = (
    f"{WITH_STYLE}; script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
)
# The header for those pages from a server that sends headers.
PAGE_POLICY: Final = f"{WITH_SEARCH}; frame-ancestors 'none'"
