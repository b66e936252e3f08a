"""The proxy that the environment names (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY), or the system."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import unquote

from skillhub.errors import SourceError
from skillhub.model.url import parse
from skillhub.world.hop import Hop


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; ``header`` is what it wants to be told in each request, ready to send."""

    host: str
    port: int
    header: str = field(default="", repr=False)


def proxy_for(hop: Hop) -> Proxy | None:
    """Return the proxy that leads to ``hop``, or None; to this machine none does.

    Raises:
        SourceError: the environment names something that is no HTTP proxy.
    """
    # With it comes all of http.client, which whoever reaches nobody can do without.
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415

    named = getproxies()
    url = named.get(hop.scheme) or named.get("all")
    if not url or hop.loopback or proxy_bypass(hop.host):
        return None
    found = parse(url if "://" in url else f"http://{url}")
    if found is None or found.scheme != "http" or not found.host:
        # The URL itself may hold a password.
        raise SourceError("expected a proxy such as http://proxy.example:3128 in the environment")
    if found.user is None:
        return Proxy(found.host, found.port or 80)
    user, _, password = found.user.partition(":")
    secret = b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return Proxy(found.host, found.port or 80, f"Proxy-Authorization: Basic {secret}\r\n")
