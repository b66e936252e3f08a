"""Kinds of addresses by who can publish there, and the installers of well-known projects."""

from __future__ import annotations

import json
import os
import re
from typing import Final, Literal

from skillhub.formats.text import deferred

# "paste": a page that anybody can write; "drop": a file that anybody can upload; "tenant": a site on a subdomain that
# a host gives to anybody; "short": a shortened URL; "odd": a cheap top-level domain, a bare IP address, or punycode.
AddressKind = Literal["paste", "drop", "tenant", "short", "odd", "program", "other"]

ANYBODYS: Final = frozenset[AddressKind]({"paste", "drop", "tenant", "short", "odd"})
with open(os.path.join(os.path.dirname(__file__), "addresses.json"), encoding="utf-8") as _file:
    _TABLE: Final[dict[str, list[str]]] = json.load(_file)
# Anybody can store a text or file there, and anybody with the link can fetch it.
PUBLIC_HOSTS: Final = (*_TABLE["paste"], *_TABLE["drop"])
_ODD_ENDINGS: Final = frozenset(_TABLE["odd_endings"])
_HOSTS_OF: Final[tuple[AddressKind, ...]] = ("paste", "drop", "tenant", "short")
_KINDS: Final[dict[str, AddressKind]] = {host: kind for kind in _HOSTS_OF for host in _TABLE[kind]}
MAILBOX: Final = r"[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{2,100}"  # the address of a mailbox
URL: Final = re.compile(
    r"https?://(?:[^\s/@\"'<>`\\?#]{0,64}@)?([^\s/\"'<>`\\?#)\]|]{1,253})([^\s\"'<>`)\]|]{0,400})"
)
# The user's own machine or network; a package registry there belongs to the user.
OWN_NETWORK: Final = re.compile(r"localhost|127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|\[?::1")
_NUMBER = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}|0x[0-9a-f]{6,}|\d{8,}|\[[0-9a-f:.]+\]")
_PROGRAM_SUFFIXES: Final = tuple(_TABLE["program_suffixes"])
# The exact addresses of installers of well-known projects; only the project can publish there.
_INSTALLERS: Final = deferred("|".join(_TABLE["installers"]))


def kind_of(host: str, path: str) -> AddressKind:
    """Return the kind of an address, by its host and path in lower case."""
    labels = host.partition(":")[0].strip(".").split(".")
    for first in range(len(labels) - 1):
        if found := _KINDS.get(".".join(labels[first:])):
            return found
    if _NUMBER.match(host) or labels[-1] in _ODD_ENDINGS or any(each.startswith("xn--") for each in labels):
        return "odd"
    if path.partition("?")[0].endswith(_PROGRAM_SUFFIXES) or "/releases/download/" in path:
        return "program"
    return "other"


def is_installer(url: str) -> bool:
    """Return whether an address in lower case is the installer of a well-known project, over https."""
    return url.startswith("https://") and _INSTALLERS.fullmatch(url.removeprefix("https://")) is not None
