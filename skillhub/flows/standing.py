"""How a locked release stands with its registry: there, yanked, withdrawn, its key revoked, its name moved.

No signature is looked at here, so that whoever only compares hashes need not load what verifies them.
"""

from __future__ import annotations

from dataclasses import dataclass

from skillhub.errors import BadSignature, NameNotOwned, SecurityError, SourceError, Withdrawn
from skillhub.flows.choose import choose_release
from skillhub.flows.hints import command
from skillhub.flows.ports import Ports
from skillhub.model.digest import Digest
from skillhub.model.lock import Locked
from skillhub.model.ref import Named
from skillhub.model.release import Admission, Index, Release
from skillhub.model.signer import Signer
from skillhub.model.skill import Scope
from skillhub.world.project import Project
from skillhub.world.sources import Sources

_NOTHING = Index({})


@dataclass(frozen=True, slots=True)
class Standing:
    """What its registry says of a locked skill; of one that is from no registry nothing is said.

    Attributes:
        said: All that the registry says, or last said, under the name.
    """

    name: str
    entry: Locked
    said: Index = _NOTHING

    @classmethod
    def last_seen(cls, name: str, entry: Locked, root: Digest | None, sources: Sources) -> Standing:
        """Return how it stood with the registry of this root, as far as this machine has heard."""
        return cls(name, entry, sources.last_seen(root).index([name]) if root else _NOTHING)

    @classmethod
    def now(cls, name: str, entry: Locked, ports: Ports) -> Standing:
        """Ask its registry how it stands.

        Raises:
            NotFound: it no longer has the name.
            SourceError, SecurityError, FormatError: it cannot be asked.
        """
        if ports.root_of(entry) is None:
            return cls(name, entry)
        return cls(name, entry, ports.open(ports.sources.get(entry.source)).release_index([name]))

    @property
    def offered(self) -> tuple[Release, ...]:
        """Every release of the name, newest first."""
        return self.said.skills.get(self.name, ())

    @property
    def release(self) -> Release | None:
        """The very release that is locked; None if the registry is not known to have it."""
        return next((each for each in self.offered if each.digest == self.entry.digest), None)

    @property
    def admitted(self) -> Admission | None:
        """What the registry admits the publisher of the release to; None if that is not at hand."""
        release = self.release
        return self.said.admissions.get(release.publisher or "") if release else None

    @property
    def yanked(self) -> tuple[str, ...]:
        """The warning that it was yanked, if no more than that: a lock still gives it."""
        release = self.release
        if release is None or release.yanked is None or release.withdrawn is not None:
            return ()
        return (f"version {release.version} was {release.taken_back}",)

    @property
    def objection(self) -> SecurityError | None:
        """Why it may not be used any more, or None."""
        release, admitted = self.release, self.admitted
        if release is None:
            return None
        found, where = f"{self.name} {release.version}", self.entry.url
        if release.withdrawn is not None:
            reason = release.withdrawn or "no reason given"
            return Withdrawn(f"{found} was withdrawn by its registry: {reason}", where=where)
        if admitted is None:
            return None
        if self.name not in admitted.names:
            message = f"the registry has taken the name {self.name} from {admitted.publisher}, who published {found}"
            return NameNotOwned(message, where=where)
        published = release.published or ""
        void = {each.fingerprint for each in admitted.revoked if not published or published >= each.since}
        for signer in map(Signer.parse, self.entry.signed_by):
            if signer.fingerprint in void:
                message = f"{found} is signed by the key {signer.fingerprint}, which {admitted.publisher} has revoked"
                return BadSignature("revoked", message, where=where)
        return None

    def other(self, range_: str | None = None, settled: str | None = None) -> Release | None:
        """Return what ``choose_release`` chooses of all releases but the locked one, or None."""
        others = tuple(each for each in self.offered if each.digest != self.entry.digest)
        try:
            return choose_release(Named(self.name, None, range_), others, settled)
        except SourceError:
            return None

    def to_take(self, release: Release, scope: Scope) -> str:
        """Return what to type to have this release of it, whatever skillhub.toml says."""
        return command(scope, "install", f"{self.entry.source}:{self.name}@{release.version}")

    def refuse(self, project: Project) -> None:
        """Refuse what its registry has recalled.

        Raises:
            Withdrawn: the registry has withdrawn it.
            BadSignature: the registry has revoked the key or root that the lock says signed it.
            NameNotOwned: the registry has taken the name from its publisher.
        """
        if error := self.objection:
            error.hint = self._way_out(error, project)
            raise error

    def _way_out(self, error: SecurityError, project: Project) -> str:
        scope = project.scope
        remove = f"{command(scope, 'remove', self.name)} takes it out"
        if isinstance(error, NameNotOwned):
            return f"{remove}; whoever has the name now may be installed in its place then"
        newest = self.other()
        if newest is None:
            return f"{remove}; its registry has no other version of it so far"
        wanted = project.intent().skills.get(self.name)
        if wanted is not None and self.other(wanted.version) is None:
            what = f"takes {newest.version}, which skillhub.toml does not allow yet"
            return f"{self.to_take(newest, scope)} {what}, {remove}"
        return f"{command(scope, 'update', self.name)} takes another version, {remove}"
