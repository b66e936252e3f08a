"""Where a request may go: who asks, by which proxy; each redirect is judged before anything is sent."""

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
from typing import Final, Literal
from urllib.parse import unquote, urljoin

from skillhub.errors import SourceError, UnsafeTransfer
from skillhub.formats.text import deferred, quote
from skillhub.model.reference import PORTS, Url, masked, parse
from skillhub.model.tree import SKILL_MD, kind_of

# Who named an address: that decides where it may lead, and whether anybody there is told who asks.
# ``RULES`` is the table of docs/sources.md; ``target`` judges by it.

Who = Literal["person", "site", "redirect", "marketplace", "repository"]


@dataclass(frozen=True, slots=True)
class RequestRule:
    """What follows from who named an address.

    Attributes:
        schemes: The schemes that it may have.
        anywhere: Whether it may be in a private network.
        sends_credentials: Whether a token or login that a person has for it is sent there.
        settings: Whether git goes there with the person's own settings, keys and credential helpers.
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


@dataclass(frozen=True, slots=True)
class Requester:
    """Who named an address.

    Attributes:
        who: A person, in a command or in their configuration; a site, index or registry that a person named; a
            redirect from what a person named; a marketplace of a repository that a person named; or a repository
            (its lock, its intent), and what that leads to, of which this person agreed to nothing.
        site: The URL of the place whose document named it; empty if it is the place itself that was named.
    """

    who: Who
    site: str = ""


PERSON: Final = Requester("person")


def by_agreement(is_agreed: bool) -> Who:
    """Return who named what a lock or an intent names: whoever agreed to it here, or the repository alone."""
    return "person" if is_agreed else "repository"


# Where a request may go, and by which proxy: each URL of a chain of redirects is judged before anything is
# sent.

# RFC 1035, 2.3.4: IDNA, through which each name is looked up, fails on any other label. The underscore is none of a
# host's, and yet in use.
_NAME = deferred(r"(?=.{1,254}$)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?", re.ASCII)
# What `is_global` lets through in some version of Python: metadata services of Oracle's and of Azure's cloud
# (the latter on a public address), relays of 6to4, documentation, and addresses that are hashes.
_LOCAL = "192.0.0.0/24 168.63.129.16/32 192.88.99.0/24 3fff::/20 2001:10::/28 2001:20::/28"
_LOCAL_NETWORKS = tuple(map(ipaddress.ip_network, _LOCAL.split()))
# All that RFC 4291 gives to the public internet: whatever else there is leads to a translator, to this machine, or
# nowhere. The one translator that anybody may use, with IPv4 in its last bits, is on its own (RFC 6052).
_GLOBAL = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_ISATAP = 0x00005EFE  # RFC 5214, 6.1, with either value of the bit for universal
# Neither a query, nor `%`, nor the `;` at which some servers cut a path.
_PLAIN = deferred(r"(?:/[A-Za-z0-9._~@:+-]+)+", re.ASCII)
# What a site, an OCI registry and a registry serve.
_SERVED = (
    deferred(r".*/\.well-known/(?:agent-)?skills/.*", re.ASCII),
    deferred(r"/v2/.+/(?:manifests|blobs)/[^/]+", re.ASCII),
    deferred(r".*/(?:metadata|targets)/(?:.+\.json|ahead\.txt)", re.ASCII),
    deferred(r".*/(?:targets/log/[0-9a-f]{64}\.head|tile/(?:proof|entries)/[0-9xp/.]+)", re.ASCII),
)
_LOOK_UP = 20.0  # seconds, where no request has a time of its own
_PRIVATE = (".localhost", ".local", ".internal")


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """One URL that may be asked.

    Attributes:
        origin: Scheme, host and port, as in RFC 6454.
        raw_path: Path and query, for the request line.
        public_only: Whether it may lead to public addresses only.
        sends_credentials: Whether it may be told who asks, if a person has something to tell it.
    """

    url: str
    origin: str
    scheme: str
    host: str
    port: int
    raw_path: str
    public_only: bool
    sends_credentials: bool

    @staticmethod
    @lru_cache(maxsize=1024)  # one site is spoken of in each request to it
    def parse(url: str, *, public_only: bool = False, sends_credentials: bool = False) -> RequestTarget:
        """Return the target of ``url``, an absolute http or https URL in ASCII, without user or password.

        Raises:
            UnsafeTransfer: it is anything else, such as ``file:`` or ``data:``, or its host can be none.
        """
        found = parse(url) if url.isascii() and url.isprintable() and {*url}.isdisjoint(" \\") else None
        if found is None or found.port is None or found.user is not None or not _is_host(found):
            raise UnsafeTransfer(f"expected an http or https URL, found {quote(masked(url))}")
        bracketed = f"[{found.host}]" if ":" in found.host else found.host
        raw_path = (found.path or "/") + (f"?{found.query}" if found.query else "")
        origin = f"{found.scheme}://{bracketed}:{found.port}"
        place = url.partition("#")[0], origin, found.scheme, found.host, found.port, raw_path
        return RequestTarget(*place, public_only, sends_credentials)

    def follow(self, location: str) -> RequestTarget:
        """Return the target of a redirect from here to ``location``.

        Raises:
            UnsafeTransfer: it leaves this origin for anything but https.
        """
        try:
            url = urljoin(self.url, location)
        except ValueError as error:
            raise UnsafeTransfer(
                f"expected the URL of a redirect, found {quote(location)}", where=self.url
            ) from error
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
        """Host and port for the ``Host`` field, the port left out where the scheme implies it."""
        return self.origin.partition("://")[2].removesuffix(f":{PORTS[self.scheme]}")

    @property
    def loopback(self) -> bool:
        """Whether the host is this machine by its very name."""
        return is_loopback(self.host)


def judge(url: str, by: Requester, private: Container[str] = ()) -> RequestTarget:
    """Return the target of a URL that somebody named.

    What a site names of its own is named as the site is. One on this machine, or whose origin is known to be in a
    private network, may name what is there, too. A repository may name what is on this very machine, where any
    program may listen and do what a path says, if it is spelled like an index, an archive, a ``SKILL.md``, an
    artifact or a document of a registry, and is no other origin's than the place's.

    Raises:
        UnsafeTransfer: it is no http or https URL, or not over https where it has to be.
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
    return replace(target, public_only=not (rule.anywhere or is_inside), sends_credentials=rule.sends_credentials)


def is_beside(url: str, other: str) -> bool:
    """Say whether two repositories are on one server, so that whoever named the one may as well name the other."""
    one, two = parse(url), parse(other)
    if one is None or two is None:
        return False
    return (one.scheme, one.user, one.host, one.port) == (two.scheme, two.user, two.host, two.port)


def check_marketplace_url(url: str, marketplace: str) -> None:
    """Let pass the URL of a repository that only a marketplace, at a URL, has named.

    This is what the URL tells; which addresses its host has is judged by who fetches it.

    Raises:
        UnsafeTransfer: it leads neither to https or ssh on the public internet nor to where the marketplace is.
    """
    if is_beside(url, marketplace):
        return
    found = parse(url)
    if found is None or found.scheme not in RULES["marketplace"].schemes or found.user not in (None, "git"):
        raise UnsafeTransfer(f"expected a repository at an https URL, found {quote(url)}", where=marketplace)
    if not _is_outside(found.host.rstrip(".")):
        raise UnsafeTransfer(f"{quote(url)} leads into a private network", where=marketplace)


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
        mapped = parsed.ipv4_mapped
        if parsed in _NAT64:
            mapped = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        if mapped:
            return is_public(str(mapped))
        if parsed not in _GLOBAL or not all(is_public(str(inner)) for inner in _tunnelled(parsed)):
            return False
        if parsed.sixtofour or parsed.teredo:  # which Python says are private, whatever they hold
            return True
    if parsed.is_multicast or any(parsed in network for network in _LOCAL_NETWORKS):
        return False
    return parsed.is_global


def _tunnelled(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """Return the IPv4 addresses to which a router, or this machine, may send what is meant for an IPv6 address."""
    found = [each for each in (address.sixtofour, *(address.teredo or ())) if each]
    if (int(address) >> 32) & 0xFDFFFFFF == _ISATAP:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def judged(target: RequestTarget, *, is_proxied: bool, seconds: float = _LOOK_UP) -> list[tuple[str, int]]:
    """Return the addresses of ``target``, all of which it may lead to; none where a proxy finds them.

    Raises:
        UnsafeTransfer: a target for public addresses only leads to an address that is not public.
        OSError: the host has no address, or none was found within so many ``seconds``.
    """
    if is_proxied and not target.public_only:
        return []
    try:
        addresses = look_up(target.host, target.port, seconds)
    except socket.gaierror:
        if is_proxied:  # It may know names that nobody here does.
            return []
        raise
    for address, _ in addresses:
        if target.public_only and not is_public(address):
            raise UnsafeTransfer(f"leads into a private network, to {address}", where=target.url)
    return addresses


def look_up(host: str, port: int, seconds: float) -> list[tuple[str, int]]:
    """Return the addresses of a host; the system's resolver has no limit of its own that a program could set.

    Raises:
        OSError: the host has no address, or none was found within so many ``seconds``.
    """
    found: list[tuple[str, int]] = []
    failed: list[Exception] = []

    def ask() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.extend((str(row[4][0]), port) for row in rows)
        except (OSError, UnicodeError) as error:
            failed.append(error)

    thread = Thread(target=ask, daemon=True)  # one that still waits keeps no program from its end
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"no address of the host was found in {seconds:.0f} s")
    for error in failed:
        raise error
    return found


def _is_harmless_here(target: RequestTarget) -> bool:
    """Say whether a URL on this machine is spelled like what a place of skills serves, and like nothing else."""
    path = target.raw_path
    if target.scheme != "http" or not target.loopback or not _PLAIN.fullmatch(path):
        return False
    if any(part in (".", "..") for part in path.split("/")):
        return False
    is_file = kind_of(path) is not None or path.endswith(f"/{SKILL_MD}")
    return is_file or any(each.fullmatch(path) for each in _SERVED)


def _is_outside(host: str) -> bool:
    """Say whether a host may be of the public internet, as far as its name tells."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        # What ends in a digit some resolvers take for a number: 127.1, 0x7f.1.
        return "." in host and not host.endswith(_PRIVATE) and not host[-1].isdigit()
    return is_public(host)


def _is_host(url: Url) -> bool:
    """Say whether it is of http or https, and its host a name that can be looked up, or an address."""
    if url.scheme not in ("http", "https"):
        return False
    if ":" not in url.host:
        return _NAME.fullmatch(url.host) is not None
    with suppress(ValueError):
        return ipaddress.ip_address(url.host).version == 6
    return False


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; ``authorization`` is the value of ``Proxy-Authorization``, empty if it wants none."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)


def proxy_for(target: RequestTarget) -> Proxy | None:
    """Return the proxy that leads to ``target``, or None; to this machine none does.

    Raises:
        SourceError: the environment names something that is no HTTP proxy.
    """
    # With it comes all of http.client, which whoever reaches nobody can do without.
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415

    named = getproxies()
    url = named.get(target.scheme) or named.get("all")
    if not url or target.loopback or proxy_bypass(target.host):
        return None
    found = parse(url if "://" in url else f"http://{url}")
    if found is None or found.scheme != "http" or not found.host:
        # The URL itself may hold a password.
        raise SourceError("expected a proxy such as http://proxy.example:3128 in the environment")
    user, _, password = (found.user or "").partition(":")
    secret = b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return Proxy(found.host, found.port or 80, "" if found.user is None else f"Basic {secret}")
