"""What a browser is told of everything that it is sent: nothing runs, nothing is framed, nothing comes from afar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOTHING_RUNS: Final = "default-src 'none'; base-uri 'none'; form-action 'none'"
NOTHING_LOADS: Final = f"{NOTHING_RUNS}; frame-ancestors 'none'"
# No answer is a document that may run, load or frame anything; a page alone loads its own style.
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
# Of a page of a registry, in the page itself: whoever serves it may know no headers.
WITH_STYLE: Final = f"{NOTHING_RUNS}; style-src 'self'"
# Where there is a search, with the one script, which reads the listing and makes no markup of text.
WITH_SEARCH: Final = (
    f"{WITH_STYLE}; script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
)
# Of those pages, as a server says it.
PAGE_POLICY: Final = f"{WITH_SEARCH}; frame-ancestors 'none'"
