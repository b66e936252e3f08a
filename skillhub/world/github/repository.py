"""A repository by its URL: through git where there is one, else, if it is on GitHub, through GitHub's API."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import replace

from skillhub.errors import SourceError
from skillhub.world.fetch import UntrustedClient
from skillhub.world.git.program import Bounds
from skillhub.world.git.snapshot import GitSnapshot, open_git
from skillhub.world.github.api import GitHubSnapshot, open_github_api
from skillhub.world.github.host import host_of
from skillhub.world.ref_url import site_of
from skillhub.world.requester import RULES

_PATH = re.compile(r"/([A-Za-z0-9][A-Za-z0-9-]*)/([A-Za-z0-9._-]+?)(?:\.git)?/?", re.ASCII)
_DEFAULT = Bounds()


def open_repository(
    url: str,
    rev: str | None,
    *,
    cache: str,
    environ: Mapping[str, str],
    bounds: Bounds = _DEFAULT,
) -> GitSnapshot | GitHubSnapshot:
    """Return the repository at ``url`` as it is at a branch, a tag or a commit; None is its first branch.

    Args:
        url: https, ssh, file, or http on this machine.
        rev: All 40 digits of a commit, or a name.
        cache: The folder of all caches.
        environ: The environment of this process; it says whether there is a git, and which GitHub is meant.
        bounds: How much the repository may ask of this machine, whether it may be fetched, and who named it; its
            ``web`` fetches where there is no git.

    Raises:
        As ``open_git`` and ``open_github_api``; SourceError: there is no git, and it is not on GitHub.
    """
    site = site_of(environ)
    inner = _PATH.fullmatch(url.removeprefix(site)) if url.startswith(site + "/") else None
    if inner is None:
        return open_git(url, rev, cache=cache, environ=environ, bounds=bounds)
    host = host_of(environ)
    if shutil.which("git", path=environ.get("PATH")) is None:
        web = bounds.web
        if web is None or bounds.offline:
            raise SourceError("--offline forbids to ask GitHub, and there is no git", where=url)
        if not RULES[bounds.named_by].sends_credentials:
            web, host = UntrustedClient(web, f"git+{url}"), replace(host, token=None)
        return open_github_api(inner[1], inner[2], rev=rev, web=web, host=host)
    return open_git(url, rev, cache=cache, environ=environ, bounds=bounds, token=host.token)
