"""The publishers a user trusts, and what was pinned with what is installed; all in ``<state>``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from skillhub.errors import NotFound, StateError, UsageError
from skillhub.model.dataclass import dataclass, replace
from skillhub.model.digest import Digest
from skillhub.model.json import strict_json
from skillhub.model.text import is_name, quote
from skillhub.world import files
from skillhub.world.home import Home

_CAP = 16 << 20
_KEY_CAP = 1 << 16
OWN_SUFFIX = ".pub.pem"


@dataclass(frozen=True, slots=True)
class Trusted:
    """Somebody who may sign skills: PEM texts of public keys and of certificate roots, and identities.

    Attributes:
        sources: The aliases that the trust is narrowed to; empty means every source.
    """

    name: str
    keys: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()


class Publishers:
    """Who may sign, kept in ``<state>``; read once for a command, however many skills it judges."""

    def __init__(self, home: Home) -> None:
        self._path = os.path.join(home.state, "publishers.json")
        self._pins = os.path.join(home.state, "signers")
        self._own = os.path.join(home.state, "keys")
        self._known: Mapping[str, Trusted] | None = None

    def all(self) -> Mapping[str, Trusted]:
        """Return every trusted publisher by name."""
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> Mapping[str, Trusted]:
        data = files.read(self._path, _CAP)
        if data is None:
            return {}
        try:
            rows = strict_json(data, self._path, _CAP)["publishers"]  # type: ignore[index]
            return {
                name: Trusted(
                    name,
                    tuple(row["keys"]),
                    tuple(row["certificates"]),
                    tuple(row["sources"]),
                    tuple(row.get("identities", ())),
                )
                for name, row in rows.items()
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise StateError("expected the publishers of a user", where=self._path) from error

    def own(self, claim: Digest) -> str | None:
        """Return the public half, a file, of the user's own key that a signature names by this digest."""
        names = sorted(os.listdir(self._own)) if os.path.isdir(self._own) else []
        halves = (os.path.join(self._own, name) for name in names if name.endswith(OWN_SUFFIX))
        return next((path for path in halves if Digest.of(self.read_own(path).encode()) == claim), None)

    def read_own(self, path: str) -> str:
        """Return the PEM text of a public half that ``own`` returned."""
        return (files.read(path, _KEY_CAP) or b"").decode("utf-8", "replace")

    def trust(self, added: Trusted) -> Trusted:
        """Trust a publisher, or add a key, root, identity or source to one; return what is trusted now.

        Raises:
            UsageError: the name is no name.
        """
        if not is_name(added.name):
            raise UsageError(
                f"{quote(added.name)} cannot name a publisher", hint="lowercase letters, digits, -"
            )
        with self._changing() as known:
            old = known.get(added.name, replace(added, keys=(), certificates=(), identities=()))
            # Trust given for every source is not narrowed by a later line, and is widened only by saying so.
            everywhere = not added.sources or not old.sources
            known[added.name] = Trusted(
                added.name,
                tuple(dict.fromkeys(old.keys + added.keys)),
                tuple(dict.fromkeys(old.certificates + added.certificates)),
                () if everywhere else tuple(dict.fromkeys(old.sources + added.sources)),
                tuple(dict.fromkeys(old.identities + added.identities)),
            )
            return known[added.name]

    def remove(self, name: str) -> Trusted:
        """Trust a publisher no longer.

        Raises:
            NotFound: none of that name is trusted.
        """
        with self._changing() as known:
            if name not in known:
                raise NotFound(
                    f"no publisher {quote(name)} is trusted", hint="skillhub publisher list shows who is"
                )
            return known.pop(name)

    def pin(self, proven: Digest, pem: str) -> None:
        """Keep the key, root or identity that signed something installed, so that it can be verified again offline.

        Args:
            proven: Names what it was proven to have signed, and from where; it vouches for nothing else.
            pem: The key or root in PEM, or the identity's own spelling.
        """
        path = os.path.join(self._pins, f"{proven.hex}.pem")
        if self.pinned(proven) is None:
            files.write_atomic(path, pem.encode(), mode=0o600, sync=False)

    def pinned(self, proven: Digest) -> str | None:
        """Return the text that was pinned for ``proven``; None if a power cut left the file empty or torn."""
        data = files.read(os.path.join(self._pins, f"{proven.hex}.pem"), 1 << 16)
        return data.decode("ascii", "replace") if data and b"\0" not in data else None

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Trusted]]:
        """Give what is trusted now, by another process too, and keep what is made of it."""
        with files.lock(f"{self._path}.lock"):
            known = dict(self._read())
            yield known
            self._write(known)

    def _write(self, publishers: Mapping[str, Trusted]) -> None:
        rows = {
            name: {
                "certificates": one.certificates,
                "identities": one.identities,
                "keys": one.keys,
                "sources": one.sources,
            }
            for name, one in publishers.items()
        }
        text = json.dumps({"publishers": rows, "version": 1}, indent=2, sort_keys=True) + "\n"
        files.write_atomic(self._path, text.encode(), mode=0o600)
        self._known = publishers
