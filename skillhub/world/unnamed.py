"""Requests for URLs that only a repository names, and no person: to public addresses, and without credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping

from skillhub.archive import kind_of
from skillhub.errors import UnsafeTransfer
from skillhub.model.text import as_word
from skillhub.model.tree import SKILL_MD
from skillhub.world.fetch import Answer, Web
from skillhub.world.hop import Hop

# Stand in `named_by` for whoever named a URL where no person did; neither is ever asked anything.
_STRANGER = "https://nobody.invalid"  # what it names has to be on the public internet
_NEIGHBOUR = "https://localhost:1"  # what it names may be on this machine, too
# Neither a query, nor `%`, nor the `;` at which some servers cut a path.
_PLAIN = re.compile(r"(?:/[A-Za-z0-9._~@:+-]+)+", re.ASCII)
_WELL_KNOWN = ("/.well-known/agent-skills/", "/.well-known/skills/")
_ARTIFACT = re.compile(r"/v2/.+/(?:manifests|blobs)/[^/]+", re.ASCII)


class Unnamed(Web):
    """A ``Web`` for a place that no person named: never in a private network, and nobody is told who asks.

    On this very machine any program may listen, and do what a path says. There, over http, nothing is asked but what
    places have, and nothing of another origin than the place's.

    Args:
        web: Who asks.
        place: What a person would give to ``install``, for the hint.
    """

    def __init__(self, web: Web, place: str) -> None:
        self._web = web
        self._place = place

    def ask(
        self, url: str, *, cap: int, named_by: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return what the server answers, as ``Web.ask`` promises.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: see there.
        """
        hop = Hop.parse(url)
        own = named_by is None or Hop.parse(named_by).origin == hop.origin
        # No person named what names it either, so that its word lets nothing through.
        named_by = _NEIGHBOUR if own and _is_harmless_here(hop) else _STRANGER
        try:
            return self._web.ask(url, cap=cap, named_by=named_by, headers=headers)
        except UnsafeTransfer as error:
            if error.where == named_by:
                error.where = url
            hint = f"only this repository names it; if it is meant: skillhub install {as_word(self._place)}"
            error.hint = error.hint or hint
            raise


def is_nobody(named_by: str) -> bool:
    """Say whether this stands for somebody whom no person named."""
    return named_by in (_STRANGER, _NEIGHBOUR)


def _is_harmless_here(hop: Hop) -> bool:
    """Say whether a URL on this machine is spelled like an index, an archive, a ``SKILL.md`` or an artifact."""
    path = hop.target
    if hop.scheme != "http" or not hop.loopback or not _PLAIN.fullmatch(path):
        return False
    if any(part in (".", "..") for part in path.split("/")):
        return False
    is_file = kind_of(path) is not None or path.endswith(f"/{SKILL_MD}")
    return is_file or any(each in path for each in _WELL_KNOWN) or _ARTIFACT.fullmatch(path) is not None
