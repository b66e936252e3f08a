"""Which GitHub is meant, github.com or a server of a company, and the token for it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from skillhub.errors import FormatError, StateError, UsageError
from skillhub.model.syntax import yaml
from skillhub.world import files
from skillhub.world.home import user_home
from skillhub.world.hop import RequestTarget
from skillhub.world.ref_url import PUBLIC, site_of

_TOKEN = re.compile(r"[!-~]{1,1024}", re.ASCII)
_CAP = 1 << 16


@dataclass(frozen=True, slots=True)
class GitHubHost:
    """One GitHub.

    Attributes:
        site: Where its repositories are.
        api: Where its REST API is.
        token: Says who asks; it goes to ``site`` and to ``api``, nowhere else, and into no message.
    """

    site: str
    api: str
    token: str | None = field(repr=False)


def host_of(environ: Mapping[str, str]) -> GitHubHost:
    """Return the GitHub that the environment names as GitHub's own tools do; without a word, github.com.

    ``GITHUB_SERVER_URL`` and ``GITHUB_API_URL`` say where it is. The token is that of ``GH_TOKEN`` or
    ``GITHUB_TOKEN``, or the one that ``gh`` keeps in its ``hosts.yml``.

    Raises:
        UsageError: one of the URLs is neither https nor on this machine.
    """
    site = site_of(environ)
    usual = "https://api.github.com" if site == PUBLIC else f"{site}/api/v3"
    api = (environ.get("GITHUB_API_URL") or usual).rstrip("/")
    for name, url in (("GITHUB_SERVER_URL", site), ("GITHUB_API_URL", api)):
        if not url.startswith("https://") and not RequestTarget.parse(url).loopback:
            raise UsageError("expected a URL that begins with https://", where=name)
    return GitHubHost(site, api, _token(environ, site))


def _token(environ: Mapping[str, str], site: str) -> str | None:
    names = ["GH_TOKEN", "GITHUB_TOKEN"]
    if site != PUBLIC:
        names = ["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", *names]
    token = next((environ[name].strip() for name in names if environ.get(name)), None) or _kept(environ, site)
    if token is not None and not _TOKEN.fullmatch(token):
        raise UsageError("expected a token of visible ASCII characters", where="GITHUB_TOKEN")
    return token


def _kept(environ: Mapping[str, str], site: str) -> str | None:
    """Return the token that ``gh`` keeps in its file; newer ones keep it with the system, and are not asked."""
    # Another program's file: where it cannot be read, nobody is logged in.
    with suppress(FormatError, StateError, UnicodeDecodeError):
        path = os.path.realpath(os.path.join(_gh_folder(environ), "hosts.yml"))
        data = files.read(path, _CAP)
        if data is None:
            return None
        hosts = yaml.parse(data.decode(), path)
        entry = hosts.get(RequestTarget.parse(site).host) if isinstance(hosts, dict) else None
        token = entry.get("oauth_token") if isinstance(entry, dict) else None
        return token if isinstance(token, str) and token else None
    return None


def _gh_folder(environ: Mapping[str, str]) -> str:
    if folder := environ.get("GH_CONFIG_DIR"):
        return folder
    if folder := environ.get("XDG_CONFIG_HOME"):
        return os.path.join(folder, "gh")
    if folder := environ.get("APPDATA"):
        return os.path.join(folder, "GitHub CLI")
    return os.path.join(environ.get("HOME") or user_home(), ".config", "gh")
