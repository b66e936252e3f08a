"""What advisories say of a skill that is to be installed, or is: what is known to be bad is refused."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from skillhub.errors import KnownBad, SkillhubError
from skillhub.formats.digest import Digest
from skillhub.install.candidates import Candidate, install_command
from skillhub.install.context import Ports, command
from skillhub.install.review import urls_of
from skillhub.model.advisory import AdvisorySubject, Match, digests_of
from skillhub.model.finding import SEVERITIES
from skillhub.model.lock import Locked
from skillhub.model.manifest import Manifest
from skillhub.model.record import Skill, SkillScope
from skillhub.model.tree import SIGNATURE, SKILL_MD, Listing, Tree


def advised(name: str, entry: Locked, listing: Listing | None, ports: Ports) -> tuple[Match, ...]:
    """Return what is known of a locked skill, or of one that may be, the worst first.

    Without a listing the one in the store counts, which is read only if digests are known.

    Raises:
        SourceError, SecurityError, FormatError, StateError: nobody can tell what is known.
    """

    if not (known := ports.advisories.known()):
        return ()

    def listed() -> Listing | None:
        return listing or ports.store.listing(entry.tree)

    subject = AdvisorySubject.of(name, entry, ports.root_of(entry), lambda: urls_of(entry, ports), listed)
    return known.matches(subject)


def advised_tree(tree: Tree, artifact: Digest | None, ports: Ports) -> tuple[Match, ...]:
    """Return what is known of a skill that no lock has; raises as ``advised``."""
    known, name = ports.advisories.known(), ""
    versions: tuple[str, ...] = ()
    if known:
        with suppress(SkillhubError):
            manifest = Manifest.read(tree)
            name, versions = manifest.name, (manifest.version or "",)
    digests = digests_of(tree.listing) | {each.digest: "its tree" for each in (tree, tree.without([SIGNATURE]))}
    digests |= {artifact: "its artifact"} if artifact else {}
    return known.matches(AdvisorySubject(name, versions, None, tuple, lambda: digests))


def advised_skills(ports: Ports) -> list[tuple[str, Match]]:
    """Return what is known of the locked skills, by name; raises as ``advised``."""
    locked = ports.project.lock().skills.items() if ports.advisories.known() else ()
    return [(name, match) for name, entry in locked for match in advised(name, entry, None, ports)]


def refuse_known_bad(name: str, entry: Locked, listing: Listing | None, ports: Ports) -> tuple[Match, ...]:
    """Return what is known of a skill that may be taken all the same.

    Raises:
        KnownBad: it may not; neither flag nor answer lifts this.
        SourceError, SecurityError, FormatError, StateError: as for ``advised``.
    """
    found = advised(name, entry, listing, ports)
    for match in found:
        if match.is_refused:
            is_locked = name in ports.project.lock().skills
            hint = f"{command(ports.project.scope, 'remove', name)} removes it" if is_locked else "do not use it"
            if match.fixed and entry.named:
                fixed = install_command(name, entry, match.fixed, ports.project.scope)
                hint = f"{hint}; version {match.fixed} is said to be free of it: {fixed}"
            shown = entry.version or entry.short
            raise KnownBad(f"{name} {shown} is known to be bad: {match}", where=name, hint=hint)
    return found


def with_advisories(candidate: Candidate, ports: Ports) -> Candidate:
    """Return the candidate with what advisories say of its version among its findings.

    Raises:
        KnownBad, SourceError, SecurityError, FormatError, StateError: as for ``refuse_known_bad``.
    """
    found = refuse_known_bad(candidate.name, candidate.entry, candidate.tree.listing, ports)
    findings = [*(each.finding(SKILL_MD) for each in found), *candidate.findings]
    findings.sort(key=lambda each: -SEVERITIES.index(each.severity))
    return replace(candidate, findings=tuple(findings))


Known: TypeAlias = tuple[SkillScope, str, Match]  # what an advisory says of a locked skill of a scope, by name


def with_known_bad(skills: Iterable[Skill], known: Iterable[Known]) -> list[Skill]:
    """Return the skills, each with the worst for which it is refused, of what is known of locked skills."""
    worst = {(scope, name): str(match) for scope, name, match in reversed([*known]) if match.is_refused}
    return [replace(each, known_bad=worst.get((each.scope, each.name)) if each.managed else None) for each in skills]
