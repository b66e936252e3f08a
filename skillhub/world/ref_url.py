"""Where a reference leads, and where the repositories of ``owner/repo`` are."""

from __future__ import annotations

from collections.abc import Mapping

from skillhub.model.ref import GitHub, Oci, Remote

PUBLIC = "https://github.com"


def site_of(environ: Mapping[str, str]) -> str:
    """Return github.com, or the server that ``GITHUB_SERVER_URL`` names as GitHub's own tools do."""
    return (environ.get("GITHUB_SERVER_URL") or PUBLIC).rstrip("/")


def url_of(ref: Remote, environ: Mapping[str, str]) -> str:
    """Return the URL of a place, whatever the revision and the folder in it."""
    if isinstance(ref, GitHub):
        return f"{site_of(environ)}/{ref.owner}/{ref.repo}"
    return ref.place if isinstance(ref, Oci) else ref.url
