"""The proxy that the environment names (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY), or the system."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import unquote, urlsplit

from skillhub.errors import SourceError
from skillhub.model.dataclass import dataclass, field
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
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        host = None
    if host is None or parts.scheme != "http":
        # The URL itself may hold a password.
        raise SourceError("expected a proxy such as http://proxy.example:3128 in the environment")
    if parts.username is None:
        return Proxy(host, port)
    secret = b64encode(f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()).decode()
    return Proxy(host, port, f"Proxy-Authorization: Basic {secret}\r\n")
