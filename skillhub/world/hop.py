"""Where a request may go: each URL of a chain of redirects is judged before anything is sent."""

from __future__ import annotations

import ipaddress
import re
import socket
from functools import lru_cache
from urllib.parse import SplitResult, urljoin, urlsplit

from skillhub.errors import UnsafeTransfer
from skillhub.model.dataclass import dataclass
from skillhub.model.text import quote

_PORTS = {"http": 80, "https": 443}
# RFC 1035, 2.3.4: IDNA, through which each name is looked up, fails on any other label. The underscore is none of a
# host's, and yet in use.
_NAME = re.compile(r"(?=.{1,254}$)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?", re.ASCII)
# What `is_global` lets through in some version of Python: metadata services of Oracle's and of Azure's cloud
# (the latter on a public address), local NAT64, and site-local addresses.
_LOCAL = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "168.63.129.16/32", "64:ff9b:1::/48", "fec0::/10")))
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Hop:
    """One URL that may be asked.

    Attributes:
        origin: Scheme, host and port, as in RFC 6454.
        target: Path and query, for the request line.
        guarded: Whether it may lead to public addresses only, because no person named it.
    """

    url: str
    origin: str
    scheme: str
    host: str
    port: int
    target: str
    guarded: bool

    @staticmethod
    @lru_cache(maxsize=1024)  # one site is spoken of in each request to it
    def parse(url: str, *, guarded: bool = False) -> Hop:
        """Return the hop to ``url``, an absolute http or https URL in ASCII, without user or password.

        Raises:
            UnsafeTransfer: it is anything else, such as ``file:`` or ``data:``, or its host can be none.
        """
        parts = _split(url)
        port = parts.port or _PORTS[parts.scheme]
        host = parts.hostname or ""
        bracketed = f"[{host}]" if ":" in host else host
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        origin = f"{parts.scheme}://{bracketed}:{port}"
        return Hop(url.partition("#")[0], origin, parts.scheme, host, port, target, guarded)

    def follow(self, location: str) -> Hop:
        """Return the hop that a redirect from here to ``location`` makes.

        Raises:
            UnsafeTransfer: it leaves this origin for anything but https.
        """
        try:
            url = urljoin(self.url, location)
        except ValueError as error:
            raise UnsafeTransfer(
                f"expected a URL to go to, found {quote(location)}", where=self.url
            ) from error
        step = Hop.parse(url, guarded=self.guarded)
        if step.origin == self.origin:
            return step
        if step.scheme != "https":
            raise UnsafeTransfer(f"expected a redirect to https, found {quote(step.url)}", where=self.url)
        return Hop.parse(step.url, guarded=True)

    @property
    def authority(self) -> str:
        """Host and port for the ``Host`` field, the port left out where the scheme implies it."""
        return self.origin.partition("://")[2].removesuffix(f":{_PORTS[self.scheme]}")

    @property
    def loopback(self) -> bool:
        """Whether the host is this machine by its very name."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine by its very name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_public(address: str) -> bool:
    """Say whether an IP address is of the public internet: not private, link-local, loopback, metadata."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        inner = parsed.ipv4_mapped or parsed.sixtofour or (parsed.teredo and parsed.teredo[1])
        if parsed in _NAT64:
            inner = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        if inner:
            return is_public(str(inner))
    if parsed.is_multicast or any(parsed in network for network in _LOCAL):
        return False
    return parsed.is_global


def judged(hop: Hop, *, is_proxied: bool) -> list[tuple[str, int]]:
    """Return the addresses of ``hop``, none of which a guarded hop may not lead to; none where a proxy finds them.

    Raises:
        UnsafeTransfer: a guarded hop leads to an address that is not public.
        OSError: the host has no address.
    """
    if is_proxied and not hop.guarded:
        return []
    try:
        rows = socket.getaddrinfo(hop.host, hop.port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        if is_proxied:  # It may know names that nobody here does.
            return []
        raise
    addresses = [(str(row[4][0]), hop.port) for row in rows]
    for address, _ in addresses:
        if hop.guarded and not is_public(address):
            raise UnsafeTransfer(f"leads into a private network, to {address}", where=hop.url)
    return addresses


def _split(url: str) -> SplitResult:
    refused = UnsafeTransfer(f"expected an http or https URL, found {quote(url)}")
    # `urlsplit` drops tabs and line feeds in silence, and a space would end the request line.
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise refused
    try:
        parts = urlsplit(url)
        sound = parts.scheme in _PORTS and parts.port != 0 and "@" not in parts.netloc and _is_host(parts)
    except ValueError as error:
        raise refused from error
    if not sound:
        raise refused
    return parts


def _is_host(parts: SplitResult) -> bool:
    """Say whether the host is a name that can be looked up, or an address.

    Raises:
        ValueError: it is said to be an IPv6 address, and is none.
    """
    host = parts.hostname or ""
    if "[" in parts.netloc:
        return ipaddress.ip_address(host).version == 6
    return _NAME.fullmatch(host) is not None
