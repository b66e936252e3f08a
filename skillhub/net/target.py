"""The hosts that a request may reach, by who named its URL, and its proxy; each redirect is judged as well."""

from __future__ import annotations

import ipaddress
import re
import socket
from base64 import b64encode
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Thread
from typing import Final
from urllib.parse import unquote, urljoin

from skillhub.errors import SourceError, UnsafeTransfer
from skillhub.formats.text import deferred, quote
from skillhub.model.reference import PORTS, Url, masked, parse
from skillhub.model.tree import SKILL_MD, kind_of
from skillhub.net.fetch import LONG_WAIT, Arrived, Requester, Who, unheard

# Who named an address decides which hosts it may reach, and whether credentials are sent there.
# ``RULES`` is the table in docs/sources.md; ``judge`` applies it.


@dataclass(frozen=True, slots=True)
class RequestRule:
    """The rule for an address, by who named it.

    Attributes:
        schemes: The allowed schemes.
        anywhere: Whether the address may be in a private network.
        sends_credentials: Whether the user's token or login for the address is sent.
        settings: Whether git uses the user's own settings, keys and credential helpers.
    """

    schemes: tuple[str, ...]
    anywhere: bool = False
    sends_credentials: bool = False
    settings: bool = False


RULES: Final[Mapping[Who, RequestRule]] = {
    "person": RequestRule(("https", "http", "ssh", "file"), anywhere=True, sends_credentials=True, settings=True),
    "site": RequestRule(("https",)),
    "redirect": RequestRule(("https",), settings=True),
    "marketplace": RequestRule(("https", "ssh"), sends_credentials=True, settings=True),
    "repository": RequestRule(("https",)),
}


# The judgement of each URL in a chain of redirects, before a request is sent to it.

# RFC 1035, 2.3.4: a name is looked up through IDNA, which fails on any other label. The underscore is not allowed in
# the name of a host, but in use.
_NAME = deferred(r"(?=.{1,254}$)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?", re.ASCII)
# Networks that `is_global` accepts in some version of Python: the metadata services of Oracle's and of Azure's cloud
# (the latter at a public address), relays of 6to4, documentation, and identifiers (ORCHID).
_LOCAL = "192.0.0.0/24 168.63.129.16/32 192.88.99.0/24 3fff::/20 2001:10::/28 2001:20::/28"
_LOCAL_NETWORKS = tuple(map(ipaddress.ip_network, _LOCAL.split()))
# The public internet by RFC 4291; all other addresses lead to a translator, to this machine or nowhere. The one
# public prefix for translators, with an IPv4 address in its last bits, has a rule of its own (RFC 6052).
_GLOBAL = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_ISATAP = 0x00005EFE  # RFC 5214, 6.1, with either value of the bit for universal
# No query, no `%`, and no `;`, at which some servers cut a path.
_PLAIN = deferred(r"(?:/[A-Za-z0-9._~@:+-]+)+", re.ASCII)
# The paths that a site, an OCI registry and a registry serve.
_SERVED = (
    deferred(r".*/\.well-known/(?:agent-)?skills/.*", re.ASCII),
    deferred(r"/v2/.+/(?:manifests|blobs)/[^/]+", re.ASCII),
    deferred(r".*/(?:metadata|targets)/(?:.+\.json|ahead\.txt)", re.ASCII),
    deferred(r".*/(?:targets/log/[0-9a-f]{64}\.head|tile/(?:proof|entries)/[0-9xp/.]+)", re.ASCII),
)
_LONGEST = 16_384  # characters of a URL: the patterns above take quadratic time
_LOOK_UP = 20.0  # seconds, for a look-up without the deadline of a request
_PRIVATE = (".localhost", ".local", ".internal")


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """A parsed URL, with the restrictions on a request to it.

    Attributes:
        origin: Scheme, host and port, as in RFC 6454.
        raw_path: Path and query, for the request line.
        public_only: Whether the host may have public addresses only.
        sends_credentials: Whether the user's credentials for the host may be sent.
        is_place: Whether a person named the URL itself, and no document of a site did.
    """

    url: str
    origin: str
    scheme: str
    host: str
    port: int
    raw_path: str
    public_only: bool
    sends_credentials: bool
    is_place: bool = False

    @staticmethod
    @lru_cache(maxsize=1024)  # each request parses the URL of its site
    def parse(url: str, *, public_only: bool = False, sends_credentials: bool = False) -> RequestTarget:
        """Return the target of ``url``, an absolute http or https URL in ASCII, without user or password.

        Raises:
            UnsafeTransfer: the URL is anything else, such as ``file:`` or ``data:``, or its host is invalid.
        """
        is_plain = len(url) <= _LONGEST and url.isascii() and url.isprintable() and {*url}.isdisjoint(" \\")
        found = parse(url) if is_plain else None
        if found is None or found.port is None or found.user is not None or not _is_host(found):
            raise UnsafeTransfer(f"expected an http or https URL, found {quote(masked(url))}")
        bracketed = f"[{found.host}]" if ":" in found.host else found.host
        raw_path = (found.path or "/") + (f"?{found.query}" if found.query else "")
        origin = f"{found.scheme}://{bracketed}:{found.port}"
        place = url.partition("#")[0], origin, found.scheme, found.host, found.port, raw_path
        return RequestTarget(*place, public_only, sends_credentials)

    def follow(self, location: str) -> RequestTarget:
        """Return the target of a redirect from this one to ``location``.

        Raises:
            UnsafeTransfer: the redirect leaves this origin for another scheme than https.
        """
        try:
            url = urljoin(self.url, location)
        except ValueError as error:
            raise UnsafeTransfer(f"expected a redirect's URL, found {quote(location)}", where=self.url) from error
        step = RequestTarget.parse(url, public_only=self.public_only, sends_credentials=self.sends_credentials)
        if step.origin == self.origin:
            return step
        rule = RULES["redirect"]
        if step.scheme not in rule.schemes:
            raise UnsafeTransfer(f"expected a redirect to https, found {quote(step.url)}", where=self.url)
        return RequestTarget.parse(step.url, public_only=not rule.anywhere, sends_credentials=rule.sends_credentials)

    @property
    def path(self) -> str:
        """The path without the query."""
        return self.raw_path.partition("?")[0]

    @property
    def authority(self) -> str:
        """Host and port for the ``Host`` field, without the default port of the scheme."""
        return self.origin.partition("://")[2].removesuffix(f":{PORTS[self.scheme]}")

    @property
    def loopback(self) -> bool:
        """Whether the name of the host is a name of this machine."""
        return is_loopback(self.host)

    @property
    def is_plain(self) -> bool:
        """Whether requests cross a network unencrypted: others could read a token, or replace the answer."""
        return self.scheme != "https" and not self.loopback


def plain_warnings(url: str) -> tuple[str, ...]:
    """Return the warning about a place that is read unencrypted, if it is."""
    if not RequestTarget.parse(url).is_plain:
        return ()
    return (f"{url} uses plain http: anyone on the network path can replace its skills",)


def judge(url: str, by: Requester, private: Container[str] = ()) -> RequestTarget:
    """Return the target of a URL, with the restrictions for the party that named it.

    A URL of a site's own origin counts as named like the site. A site on this machine, or of an origin in ``private``
    (found in a private network), may name URLs there, too. A repository may name a URL on this machine only if it has
    the origin of its place, since any local program may listen at another one. The path must be that of an index, an
    archive, a ``SKILL.md``, an artifact or a document of a registry, since a program may act on other paths.

    Raises:
        UnsafeTransfer: the URL is not http or https, or has to be https and is not.
    """
    target = RequestTarget.parse(url)
    site = RequestTarget.parse(by.site) if by.site else target
    is_own = site.origin == target.origin
    who = "person" if by.who == "site" and by.site and is_own else by.who
    rule = RULES[who]
    if who == "site":
        is_inside = site.loopback or site.origin in private
    else:
        is_inside = who == "repository" and is_own and _is_harmless_here(target)
    if target.scheme not in rule.schemes and not (is_inside and target.loopback):
        where = by.site if who == "site" else url
        raise UnsafeTransfer(f"expected https, found {quote(url)}", where=where)
    public_only, is_place = not (rule.anywhere or is_inside), who == "person" and not by.site
    return replace(target, public_only=public_only, sends_credentials=rule.sends_credentials, is_place=is_place)


def is_beside(url: str, other: str) -> bool:
    """Return whether two repositories are on one server, so that a party that named one may name the other."""
    one, two = parse(url), parse(other)
    if one is None or two is None:
        return False
    return (one.scheme, one.user, one.host, one.port) == (two.scheme, two.user, two.host, two.port)


def check_marketplace_url(url: str, marketplace: str) -> None:
    """Raise unless a marketplace may name the URL of this repository.

    Only the URL is judged here; the fetch judges the addresses of its host.

    Raises:
        UnsafeTransfer: the URL is neither https or ssh on the public internet nor on the marketplace's server.
    """
    if is_beside(url, marketplace):
        return
    found = parse(url)
    if found is None or found.scheme not in RULES["marketplace"].schemes or found.user not in (None, "git"):
        raise UnsafeTransfer(f"expected a repository at an https URL, found {quote(url)}", where=marketplace)
    if not _is_outside(found.host.rstrip(".")):
        raise UnsafeTransfer(f"{quote(url)} leads into a private network", where=marketplace)


def is_loopback(host: str) -> bool:
    """Return whether the name of a host is a name of this machine: ``localhost`` or a loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_public(address: str) -> bool:
    """Return whether an IP address is on the public internet: not private, link-local, loopback, metadata."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        if parsed in _NAT64:
            mapped = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        if mapped:
            return is_public(str(mapped))
        if parsed not in _GLOBAL or not all(is_public(str(inner)) for inner in _tunnelled(parsed)):
            return False
        if parsed.sixtofour or parsed.teredo:  # Python calls all of these private
            return True
    if parsed.is_multicast or any(parsed in network for network in _LOCAL_NETWORKS):
        return False
    return parsed.is_global


def _tunnelled(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """Return the IPv4 addresses to which a router, or this machine, may send packets for an IPv6 address."""
    found = [each for each in (address.sixtofour, *(address.teredo or ())) if each]
    if (int(address) >> 32) & 0xFDFFFFFF == _ISATAP:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def judged(
    target: RequestTarget, seconds: float = _LOOK_UP, arrived: Arrived = unheard, *, is_proxied: bool
) -> list[tuple[str, int]]:
    """Return the addresses of ``target``, all of which are allowed; empty if a proxy looks them up.

    Raises:
        UnsafeTransfer: the target is for public addresses only, and an address is not public.
        OSError: the host has no address, or none was found within ``seconds``.
    """
    if is_proxied and not target.public_only:
        return []
    try:
        addresses = look_up(target.host, target.port, seconds, arrived)
    except socket.gaierror:
        if is_proxied:  # the proxy may know names that this machine does not
            return []
        raise
    for address, _ in addresses:
        if target.public_only and not is_public(address):
            raise UnsafeTransfer(f"leads into a private network, to {address}", where=target.url)
    return addresses


def look_up(host: str, port: int, seconds: float, arrived: Arrived = unheard) -> list[tuple[str, int]]:
    """Return the addresses of a host, looked up on a thread, since the system's resolver takes no time limit.

    Args:
        host: The name or address of the host.
        port: The port, which is returned with each address.
        seconds: The limit.
        arrived: Called with zero if the wait is long.

    Raises:
        OSError: the host has no address, or none was found within ``seconds``.
    """
    found: list[tuple[str, int]] = []
    failed: list[Exception] = []

    def ask() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.extend((str(row[4][0]), port) for row in rows)
        except (OSError, UnicodeError) as error:
            failed.append(error)

    thread = Thread(target=ask, daemon=True)  # a daemon, so that a pending look-up does not delay the exit
    thread.start()
    thread.join(min(seconds, LONG_WAIT))
    if thread.is_alive():
        arrived(0)
        thread.join(seconds - LONG_WAIT)
    if thread.is_alive():
        raise TimeoutError(f"no address of the host was found in {seconds:.0f} s")
    for error in failed:
        raise error
    return found


def _is_harmless_here(target: RequestTarget) -> bool:
    """Return whether a URL is on this machine, and its path can only be that of a file for skills."""
    path = target.raw_path
    if target.scheme != "http" or not target.loopback or not _PLAIN.fullmatch(path):
        return False
    if any(part in (".", "..") for part in path.split("/")):
        return False
    is_file = kind_of(path) is not None or path.endswith(f"/{SKILL_MD}")
    return is_file or any(each.fullmatch(path) for each in _SERVED)


def _is_outside(host: str) -> bool:
    """Return whether a host may be on the public internet, by its name alone."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        # Some resolvers read a name that ends in a digit as an address: 127.1, 0x7f.1.
        return "." in host and not host.endswith(_PRIVATE) and not host[-1].isdigit()
    return is_public(host)


def _is_host(url: Url) -> bool:
    """Return whether a URL is http or https, and its host is an address or a name that can be looked up."""
    if url.scheme not in ("http", "https"):
        return False
    if ":" not in url.host:
        return _NAME.fullmatch(url.host) is not None
    with suppress(ValueError):
        return ipaddress.ip_address(url.host).version == 6
    return False


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; ``authorization`` is the value of ``Proxy-Authorization``, empty if none is configured."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)


def proxy_for(target: RequestTarget) -> Proxy | None:
    """Return the proxy for ``target``; None for a direct connection, as to this machine.

    Raises:
        SourceError: the environment names a proxy that is not HTTP.
    """
    # This module imports http.client, which a command without requests need not load.
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415

    named = getproxies()
    url = named.get(target.scheme) or named.get("all")
    if not url or target.loopback or proxy_bypass(target.host):
        return None
    found = parse(url if "://" in url else f"http://{url}")
    if found is None or found.scheme != "http" or not found.host:
        # The URL itself may hold a password.
        message = "expected a proxy such as http://proxy.example:3128 in the environment"
        raise SourceError(message, hint="correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY; SOCKS is not supported")
    user, _, password = (found.user or "").partition(":")
    secret = b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return Proxy(found.host, found.port or 80, "" if found.user is None else f"Basic {secret}")
