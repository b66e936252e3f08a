"""Audit: installed skills and their sources against lock, disk and today's trust; skills in no lock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from skillhub.audit.report import Locations, Report, worst_first
from skillhub.audit.rules import RULES, note, seen
from skillhub.audit.skill import CHECKS, TRUST, Case, StoredSkill, closed_folders
from skillhub.audit.sources import Inquiry
from skillhub.audit.verify import StoredSkills, Verified, Verifier
from skillhub.author.author import Signature, signature_of, validate
from skillhub.errors import NotFound, SkillhubError, StateError, UnsafeArchive, UsageError
from skillhub.formats.text import quote
from skillhub.install.candidates import ReleaseStatus
from skillhub.install.context import Ports, command, read_unchecked
from skillhub.model.finding import Finding, Issue, Severity
from skillhub.model.lock import Lock
from skillhub.model.manifest import Manifest
from skillhub.model.reference import Local, Named, parse_ref
from skillhub.model.tree import SIGNATURE, Tree
from skillhub.project import exclude, installed
from skillhub.scan import scan
from skillhub.sources.local import read_local

# Audit of skills that are in no lock: in agents' folders, and at paths that a person names.


def unmanaged(folder: str, locations: Locations, ports: Ports) -> Iterator[Finding]:
    """Look at a skill that lies in an agent's folder and that no lock knows."""
    name, shown = os.path.basename(folder), locations.shown(folder)
    yield note("unmanaged", "an agent reads it, and no lock knows it", name, (shown, 0))
    try:
        tree = read_local(folder)[0].tree
        Manifest.read(tree)
    except SkillhubError as error:
        rule = "unsafe-archive" if isinstance(error, UnsafeArchive) else "malformed"
        yield note(rule, error.message, name, (shown, 0))
        return
    signature = signature_of(tree, ports.publishers, ports.clock())[1]
    yield from _content(tree, signature, name, shown)


def at_path(path: str, locations: Locations, ports: Ports) -> Iterator[Finding]:
    """Look at a folder or an archive as ``validate`` does, and scan it.

    Raises:
        NotFound: nothing is there.
        UsageError: a file that is no archive.
        StateError: it cannot be read.
    """
    found = validate(path, ports.publishers, ports.clock())
    shown = locations.shown(os.path.abspath(os.path.expanduser(path)))
    name = found.name or os.path.basename(shown)
    for issue in found.errors:
        yield _issue(issue, issue.code if issue.code in RULES else "malformed", name, shown)
    for issue in found.warnings:
        yield _issue(issue, "form", name, shown)
    if found.content is not None and found.signature is not None:
        if found.signature.status == "unsigned":
            yield note("unsigned", "nobody signed it", name, (shown, 0))
        yield from _content(found.content, found.signature, name, shown)


def _content(tree: Tree, signature: Signature, name: str, shown: str) -> Iterator[Finding]:
    if signature.status == "invalid":
        rule = "revoked" if signature.code == "revoked" else "signature"
        yield note(rule, signature.message, name, (f"{shown}/{SIGNATURE}", 0))
    for found in scan(tree):
        yield seen(found, name, shown)


def _issue(issue: Issue, rule: str, name: str, shown: str) -> Finding:
    return note(rule, f"{issue.message} [{issue.code}]", name, (shown, 0))


# Audit: what is installed and where it came from, against the lock, the disk and today's trust; changes no
# skill.


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """What is to be looked at.

    Attributes:
        names: Skills that are locked, or lie in an agent's folder; with no path either, everything here.
        paths: Folders and archives that need not be installed.
        sources_alone: Look at sources, releases and signers, and at nothing else.
        refresh: Ask registries and places; else what registries last said counts, and of places nothing is known.
        threshold: What fails.
        before: An earlier lock to hold the present one against.
    """

    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    sources_alone: bool = False
    refresh: bool = True
    threshold: Severity = "high"
    before: Lock | None = None


def names_and_paths(words: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which of the words name skills, and which are paths.

    Raises:
        UsageError: one is neither.
    """
    refs = [(word, parse_ref(word)) for word in words]
    for word, ref in refs:
        if not isinstance(ref, Local) and ref != Named(word):
            raise UsageError(
                f"expected the name of a skill or a path, found {quote(word)}", hint="put ./ before a path"
            )
    names = tuple(word for word, ref in refs if isinstance(ref, Named))
    return names, tuple(ref.path for _, ref in refs if isinstance(ref, Local))


def audit(request: AuditRequest, ports: Ports) -> Report:
    """Look at what the request names and return all that is to be said about it.

    Raises:
        NotFound: a name that is neither locked nor in an agent's folder, or a path with nothing at it.
        UsageError: a path to a file that is no archive.
        FormatError: lock or intent is malformed.
        StateError: something here cannot be read.
    """
    state = read_unchecked(ports)
    locations = Locations(ports.project, state.lock)
    about = _subjects(request, state.lock, ports)
    sources = Inquiry(state, locations, ports, refresh=request.refresh)
    sources.ask_registries(about.locked)
    findings = [*sources.configured(about.aliases)]
    first = worst_first(sources.changed(request.before)) if request.before is not None else ()
    checks = TRUST if request.sources_alone else CHECKS
    stored = StoredSkills(ports.store)
    verifier = Verifier(ports, stored) if about.locked and not request.sources_alone else None
    unasked = {*installed.unasked(ports.project)}
    for case in _cases(about.locked, request, sources, stored):
        findings += [each for check in checks for each in check(case)]
        if verifier is not None:
            findings += _drift(case, verifier.verify(case.name), is_unasked=case.name in unasked)
    if not request.sources_alone:
        sources.ask_places(about.locked)
        try:
            findings += _tracked(about, locations, ports)
        except StateError as error:
            sources.notes.append(error.message)
        findings += [each for path in about.strays for each in unmanaged(path, locations, ports)]
    findings += [each for path in request.paths for each in at_path(path, locations, ports)]
    looked_at = len(about.locked) + len(about.strays) + len(request.paths)
    findings += sources.findings
    rest = tuple(each for each in worst_first(findings) if each not in first)
    return Report((*first, *rest), request.threshold, looked_at, tuple(sources.notes))


@dataclass(frozen=True, slots=True)
class _Subjects:
    """What a request comes to here: locked skills, folders of others that agents read, and sources."""

    locked: tuple[str, ...]
    strays: tuple[str, ...]
    aliases: tuple[str, ...]


def _subjects(request: AuditRequest, lock: Lock, ports: Ports) -> _Subjects:
    loose = tuple(installed.unmanaged(ports.project, ports.user_home, ports.environ))
    is_all = not request.names and not request.paths
    locked = tuple(name for name in lock.skills if is_all or name in request.names)
    strays = tuple(path for path in loose if is_all or os.path.basename(path) in request.names)
    known = {*locked, *map(os.path.basename, strays)}
    for name in request.names:
        if name not in known:
            hint = f"{command(ports.project.scope, 'list')} shows what is; put ./ before a path"
            raise NotFound(f"no skill named {name} is installed here", hint=hint)
    used = dict.fromkeys(lock.skills[name].source for name in locked)
    aliases = [alias for alias in used if alias in lock.sources]
    aliases += [alias for alias in ports.sources.all() if is_all and alias not in used]
    return _Subjects(locked, () if request.sources_alone else strays, tuple(aliases))


def _cases(names: Sequence[str], request: AuditRequest, sources: Inquiry, stored: StoredSkills) -> Iterator[Case]:
    state, ports = sources.state, sources.ports
    before = request.before.skills if request.before else {}
    closed = {} if request.sources_alone else closed_folders(ports)
    for number, name in enumerate(names):
        ports.report("looking at skills", number, len(names))
        entry = state.lock.skills[name]
        yield Case(
            name=name,
            entry=entry,
            record=state.records.skills.get(name),
            before=before.get(name),
            stored=None if request.sources_alone else StoredSkill.of(entry.tree, stored),
            standing=sources.standings.get(name, ReleaseStatus(name, entry)),
            closed=closed,
            locations=sources.locations,
            ports=ports,
        )


def _drift(case: Case, verified: Verified, *, is_unasked: bool) -> Iterator[Finding]:
    """Yield what ``verify`` finds; a skill that was never asked about is to be installed, not put back."""
    project = case.ports.project
    install = f"{command(project.scope, 'install')} asks about it, and enables it"
    for each in (*verified.problems, *verified.notes):
        at = None if each.path == project.lock_path else (case.locations.shown(each.path), 0)
        noted = case.note(each.code, each.message, at)
        yield replace(noted, hint=install) if is_unasked and each.code == "missing" else noted


def _tracked(about: _Subjects, locations: Locations, ports: Ports) -> Iterator[Finding]:
    """Yield copies in agents' folders that git would carry to others, past lock, consent and signature."""
    folders = installed.agent_folders(ports.project, ports.user_home, ports.environ)
    copies = [os.path.join(folder, name) for folder in folders for name in about.locked]
    for path in exclude.copies(ports.project.base, list(dict.fromkeys((*copies, *about.strays)))):
        message = "git tracks it, and carries it to others past lock, consent and signature"
        yield note("tracked-copy", message, os.path.basename(path), (locations.shown(path), 0))
