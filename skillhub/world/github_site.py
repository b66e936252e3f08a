"""Where the repositories of ``owner/repo`` are."""

from __future__ import annotations

from collections.abc import Mapping

PUBLIC = "https://github.com"


def site_of(environ: Mapping[str, str]) -> str:
    """Return github.com, or the server that ``GITHUB_SERVER_URL`` names as GitHub's own tools do."""
    return (environ.get("GITHUB_SERVER_URL") or PUBLIC).rstrip("/")
