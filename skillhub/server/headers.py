"""The security headers of every HTTP answer: no script, no frame, no content of other sites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOTHING_LOADS: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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
