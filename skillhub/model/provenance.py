"""What a person agrees to besides the bytes: where a skill comes from and who signed it, as the lock spells it.

Both decide what an update brings: it goes where the lock says, and is held to the signer that the lock names.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from skillhub.model.url import authority

TYPE_CHECKING = False  # as type checkers know it: without `typing` a command starts 2 ms sooner
if TYPE_CHECKING:  # a record is read without it
    from skillhub.model.lock import Locked


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a skill comes from and who signed it; two versions from one place by one publisher have the same.

    Attributes:
        source: As the lock has it.
        server: The repository, or the host of the artifact.
        path: The folder of the repository, or the place on this machine.
        signers: Kind and fingerprint of each, whatever they are called.
    """

    source: str
    server: str
    path: str
    signers: tuple[str, ...]

    @classmethod
    def of(cls, entry: Locked) -> Provenance:
        """Return what an entry of the lock says."""
        host = authority(entry.url or "")
        return cls.interned(entry.source, entry.git or host, entry.path or "", _signers(entry.signed_by))

    @classmethod
    @lru_cache(maxsize=256)  # the many skills of a lock are from few places, and few sign them
    def interned(cls, source: str, server: str, path: str, signers: tuple[str, ...]) -> Provenance:
        """Return it, the same object each time."""
        return cls(source, server, path, signers)

    def against(self, other: Provenance) -> tuple[str, str]:
        """Return the words that tell the one from the other."""
        if (self.source, self.server, self.path) == (other.source, other.server, other.path):
            return self._by(), other._by()
        if self.signers == other.signers:
            return self._from(), other._from()
        return f"{self._from()}, {self._by()}", f"{other._from()}, {other._by()}"

    def _from(self) -> str:
        server = f" at {self.server}" if self.server else ""
        return f"from {self.source}{server}{f' ({self.path})' if self.path else ''}"

    def _by(self) -> str:
        return f"as signed by {', '.join(self.signers) or 'nobody'}"


@lru_cache(maxsize=256)  # few publishers sign the many skills of a lock
def _signers(signed_by: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(":".join(each.split(":", 3)[:3]) for each in signed_by))
