"""Who named an address: that decides where it may lead, and whether anybody there is told who asks.

``RULES`` is the table of docs/sources.md; ``target`` judges by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Who = Literal["person", "site", "redirect", "marketplace", "repository"]


@dataclass(frozen=True, slots=True)
class Rule:
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


RULES: Final[Mapping[Who, Rule]] = {
    "person": Rule(("https", "http", "ssh", "file"), anywhere=True, sends_credentials=True, settings=True),
    "site": Rule(("https",)),
    "redirect": Rule(("https",), settings=True),
    "marketplace": Rule(("https", "ssh"), sends_credentials=True, settings=True),
    "repository": Rule(("https",)),
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
