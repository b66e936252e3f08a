"""The questions before a skill is installed, and their text: Install NAME?, signature, findings, new capabilities."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from skillhub.command.ports import Ports
from skillhub.command.state import State
from skillhub.disk.home import about_home
from skillhub.formats.digest import NO_FILES
from skillhub.formats.text import Quoted, amount, as_command, close, collapsed, grouped, quoted, shown, slips, word
from skillhub.install.candidates import Candidate, spelled
from skillhub.model.finding import NETWORK_UNKNOWN, Finding, at_least, counted, in_words, undeclared_variables
from skillhub.model.provenance import Changes, Record, place_at_any_revision
from skillhub.model.question import Question, QuestionKind
from skillhub.model.reference import Local, authority
from skillhub.model.tree import Tree, lines_at
from skillhub.scan import masked
from skillhub.sources.configured import EMBEDDED_URL

_LINE_MAX = 160  # characters of a shown line
_SAID_MAX = 480  # characters of a skill's description
_NOTES_MAX = 6
_FILES_MAX = 12
_PLACES_MAX = 3  # of the findings of one rule
_NAMES_MAX = 3  # of one place in a note
_BUNDLED = " (according to the bundle)"
_TRYING_OUT = "the registry inside this package is only for tests: its keys are public"


def consent_questions(
    candidate: Candidate,
    record: Record | None,
    changes: Changes | None = None,
    missing: Sequence[str] = (),
    diff: str = "",
    verb: str = "Install",
) -> list[Question]:
    """Return the questions about a candidate to which this person has not agreed.

    Args:
        candidate: The skill to install.
        record: The record of what the person agreed to before.
        changes: The differences from the version before, if there was one.
        missing: All open needs, such as ``program gh``, if they keep the skill disabled whatever the answers.
        diff: The command that shows the lines that change, if one does.
        verb: What the person is asked to do with a skill that is new here.
    """
    # The reasons against the install come before the question whether to install.
    subject = candidate.name, candidate.tree, candidate.findings
    questions = about_findings(*subject, f"{verb.lower()} it anyway?", _show_command(candidate))
    install = _install(candidate, record, changes, missing, diff, verb)
    if candidate.trust == "unsigned":
        questions.append(_unsigned(candidate, install.message))
    elif candidate.trust == "untrusted":
        questions.append(_publisher(candidate))
    if changes is not None:
        questions += _new_facts(candidate, changes)
    return [*questions, install]


def questions_since_consent(candidate: Candidate) -> list[Question]:
    """Return the question about an advisory on a version that this person agreed to, or about its critical finding.

    The advisory, or the end of the policy that agreed to the finding, may be newer than the consent.
    """
    found = candidate.findings
    if not any(each.rule == "advisory" or each.severity == "critical" for each in found):
        return []
    return about_findings(candidate.name, candidate.tree, found, "enable it anyway?", _show_command(candidate))


def _undeclared(candidate: Candidate) -> Iterator[str]:
    declared = (need.name for need in candidate.manifest.requires if need.kind == "env")
    names = [word(each) for each in undeclared_variables(candidate.capabilities, declared)]
    if names:
        more = f" and {len(names) - _FILES_MAX} more" if len(names) > _FILES_MAX else ""
        variables = "any variable" if "*" in names else f"{', '.join(names[:_FILES_MAX])}{more}"
        yield f"its scripts read undeclared variables: {variables}"


def _new_facts(candidate: Candidate, changes: Changes) -> list[Question]:
    """Return a question for each capability and need that this version has and the previous one did not."""
    name, by = candidate.name, _signer_and_source(candidate)
    version, was = candidate.entry.version or "in the new version", changes.before.version or "the previous version"
    if version == was:  # the author changed the files, and not the number
        version, was = f"{version} as changed", f"the {was} before"
    asked: list[tuple[QuestionKind, str, str]] = [
        *(("capability", each, f"gains the capability {word(each)}") for each in changes.capabilities.added),
        *(("need", each, f"has a new need, {word(each)}") for each in changes.requires.added),
    ]
    # An older lock does not say whether the version before used the network.
    unsure = f"may use the network ({NETWORK_UNKNOWN}), which the lock does not say of {was}; agree?"
    return [
        Question(
            kind,
            name,
            f"{name} {version} {unsure if each == NETWORK_UNKNOWN else f'{text}, which {was} did not have; agree?'}",
            ("if you answer no, nothing changes: the skill stays as you agreed to it before",),
            each,
            alike=f"{word(each)} {by}",
        )
        for kind, each, text in asked
    ]


def _install(
    candidate: Candidate, record: Record | None, changes: Changes | None, missing: Sequence[str], diff: str, verb: str
) -> Question:
    entry = candidate.entry
    version = f" {word(entry.version)}" if entry.version else ""
    listed = candidate.capabilities, spelled(candidate.manifest)
    capabilities, needs = (", ".join(map(word, each)) for each in listed)
    if not candidate.manifest.is_whole:
        needs = f"{needs or 'nothing'}, as far as its declarations can be read"
    patched = f", and patched by this project: {word(entry.patch.path)}" if entry.patch else ""
    details = [
        "its description:",
        *quoted(candidate.manifest.description, _SAID_MAX, _show_command(candidate)),
        *_notes(candidate),
        *(changes.paths(_FILES_MAX, _show_command(candidate)) if changes else ()),
        *([f"to see the lines that change: {diff}"] if diff else ()),
        *(changes.facts() if changes else ()),
        *([_TRYING_OUT] if (entry.url or "").startswith(EMBEDDED_URL) else ()),
        *([f"it will stay disabled; missing: {', '.join(missing)}"] if missing else ()),
        f"it needs: {needs or 'nothing'}",
        *_undeclared(candidate),
        f"it can: {in_words(candidate.capabilities)}",
        f"{amount(len(candidate.tree), 'file')}, {candidate.tree.size} bytes, tree {candidate.tree.digest}",
        # The origin of a place without an alias begins with its reference already.
        f"from {'' if entry.origin.startswith(entry.source) else f'{word(entry.source)}: '}{word(entry.origin)}"
        f"{_BUNDLED if candidate.bundle else ''}",
        f"{_signed(candidate)}{patched}",
        *([f"it calls itself {entry.name}, and is called {candidate.name} here"] if entry.name else ()),
    ]
    verb = "Change" if record and record.tree != NO_FILES else verb
    if changes is not None and changes.before.version != entry.version:
        verb = "Downgrade" if changes.is_downgrade else "Update"
        version = f" to {word(str(entry.version))}"
    row = (
        candidate.name,
        word(entry.version or entry.short),
        _source_words(candidate),
        (candidate.signed_by or "unsigned") + (", patched" if entry.patch else ""),
        capabilities or "give instructions only",
        needs or "-",
    )
    message = f"{verb} {f'{entry.name} as ' if entry.name else ''}{candidate.name}{version}?"
    if record is not None and (elsewhere := record.newest.elsewhere(entry)):
        was, now = elsewhere
        details.append(f"you agreed to it {was}; now it is {now}")
        if record.newest.tree == entry.tree:
            message = f"{candidate.name} was agreed to {was}; the lock now has it {now}; agree?"
    by = _signer_and_source(candidate)
    return Question("install", candidate.name, message, tuple(details), row=row, alike=by, tree=candidate.tree)


def _signed(candidate: Candidate) -> str:
    if candidate.signer:
        return f"signed by {candidate.signed_by} ({candidate.signer.fingerprint})"
    return "not signed" if candidate.trust == "unsigned" else "signed by an unknown key"


def _signer_and_source(candidate: Candidate) -> str:
    """Return the signer and the source of a skill; one answer may cover questions about skills that share both."""
    signer = candidate.signer
    unproven = "unsigned" if candidate.trust == "unsigned" else _signed(candidate)
    by = f"by {candidate.signed_by} ({signer.fingerprint})" if signer else unproven
    return f"{by} from {_source_words(candidate)}{', patched' if candidate.entry.patch else ''}"


def _notes(candidate: Candidate) -> Iterator[str]:
    """Yield the candidate's warnings, few enough to leave room for the facts below."""
    notes = candidate.warnings
    for note in notes[:_NOTES_MAX]:
        line, *rest = quoted(f"note: {note}", _LINE_MAX * 2, _show_command(candidate))
        yield from (str(line), *rest)
    if left := len(notes[_NOTES_MAX:]):
        yield f"and {amount(left, 'more note')}: {_show_command(candidate)}"


def _show_command(candidate: Candidate) -> str:
    """Return the command that shows the whole skill before it is installed."""
    entry = candidate.entry
    ref = f"{entry.place}:{candidate.manifest.name}" if entry.named else entry.path or entry.url or entry.source
    if entry.git is not None:
        ref = f"git+{entry.git.removeprefix('git+')}@{entry.rev}{f'#{entry.path}' if entry.path else ''}"
    elif entry.url and entry.path:
        ref = f"{entry.place}#{entry.path}"
    elif entry.local and not os.path.isabs(ref):
        ref = f"./{ref}"
    return as_command("skillhub", "show", ref)


def _source_words(candidate: Candidate) -> str:
    """Return the source, the server of the bytes if that is another, and whether only a bundle names the source."""
    entry = candidate.entry
    bundled = _BUNDLED if candidate.bundle else ""
    if entry.local or entry.named:
        return word(entry.source) + bundled
    server = authority(entry.git or entry.url or "")
    said = authority(entry.place) or "github.com"
    return word(entry.source) + ("" if server == said else f" (at {word(server or entry.origin)})") + bundled


def _unsigned(candidate: Candidate, install: str) -> Question:
    """Return the question about a missing signature; ``install`` is the message of the question to install."""
    patch = candidate.entry.patch
    lacks = "with this project's unsigned patch" if patch else "without a signature"
    message = f"{install.removesuffix('?')}, {lacks}?" if install.endswith("agree?") else f"{install[:-1]} {lacks}?"
    details = (
        *((f"the patch is {word(patch.path)}",) if patch else ()),
        "no signature proves its author; the digest in the lock reveals any later change",
    )
    return Question("unsigned", candidate.name, message, details, alike=_signer_and_source(candidate))


_OF_FILE = "that is what sha256sum shows of the file; the key's fingerprint, which key list shows, is another one"


def _publisher(candidate: Candidate) -> Question:
    signer, own, claim = candidate.signer, candidate.own, candidate.claim
    if signer is None:
        # A signature does not contain its key; without the key nothing is proven, and there is nothing to pin.
        message = f"{candidate.name} is signed by an unknown key; install it as if unsigned?"
        details = (
            *((f"the signature claims the key in a PEM file of {claim}", _OF_FILE) if claim else ()),
            "without it nothing is proven: no key is pinned, and the lock will name no signer",
            "with it the signature is checked: skillhub publisher trust NAME --key FILE",
        )
        return Question("publisher", candidate.name, message, details)
    key = f"{signer.kind} {signer.fingerprint}"
    if own is not None:
        message = f"{candidate.name} is signed by {word(own.name)}, a key of yours; trust it for this skill?"
        details = (key, f"to trust it for every skill: {own.trusting}")
        return Question("publisher", candidate.name, message, details, own.trusting)
    who = f"{candidate.signed_by}, who is not trusted yet"
    message = f"{candidate.name} is signed by {who}; trust them for this skill?"
    details = ("compare it with the key that the publisher publishes elsewhere", key)
    return Question("publisher", candidate.name, message, details, alike=_signer_and_source(candidate))


def about_findings(name: str, tree: Tree, found: Sequence[Finding], asking: str, where: str) -> list[Question]:
    """Return the question about high and critical findings; none without such a finding.

    ``asking`` is the text of the question about high findings, ``where`` the command that shows the skill.
    """
    grave = [finding for finding in found if at_least(finding.severity, "high")]
    if not grave:
        return []
    critical = dict.fromkeys(finding.rule for finding in grave if finding.severity == "critical")
    lines = tuple(_lines(grave, name, tree, where))
    seen = f"The scan of {name} has findings: {counted(grave)}; "
    if critical:
        message = f"{seen}only a policy can accept {', '.join(critical)}"
        return [Question("critical-finding", name, message, lines, '", "'.join(critical))]
    return [Question("finding", name, f"{seen}{asking}", lines)]


def _lines(grave: Sequence[Finding], name: str, tree: Tree, where: str) -> Iterator[str]:
    """Yield the lines of the findings in their order, with the first few places of each rule."""
    rows = lines_at([(each.path, each.line) for each in grave], tree)
    for rule, found in grouped((each.rule, each) for each in grave).items():
        for each in found[:_PLACES_MAX]:
            yield from _seen(each, rows.get((each.path, each.line)), name, where)
        if left := len(found[_PLACES_MAX:]):
            yield f"and {amount(left, 'more place')} of {rule}: {where} --files"


def _seen(finding: Finding, row: bytes | None, name: str, where: str) -> Iterator[str]:
    """Yield the finding, and its line of the file, with secrets masked."""
    place = word(finding.path or name) + (f":{finding.line}" if finding.line else "")
    yield f"{finding.severity}: {place}: {finding.message} [{finding.rule}]"
    if row is not None:
        line = masked(row).decode("utf-8", "replace").strip()
        text = shown(line[:_LINE_MAX])
        yield Quoted(collapsed(text[:_LINE_MAX]))
        if len(line) > _LINE_MAX or len(text) > _LINE_MAX:
            yield f"its line goes on: {where} {as_command('--file', finding.path or name)}"


OTHER_PROJECT = "to have that, use --global; else run git init, or create skillhub.toml, in the folder that you mean"


def about_project(ports: Ports) -> Iterator[str]:
    """Yield a line if the project is the user's home folder, which shares agents' folders with the user scope."""
    if about := about_home(ports.project.scope, ports.project.base, ports.user_home):
        yield f"{about}; {OTHER_PROJECT}"


# The names of skills elsewhere, which a new skill may imitate.


def known_names(state: State, ports: Ports) -> Mapping[str, Mapping[int, Sequence[str]]]:
    """Return by place and length the names of the locked skills, and of those of each source when last asked."""
    names: defaultdict[str, defaultdict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, entry in state.lock.skills.items():
        own = entry.own_name(name)
        names[place_at_any_revision(entry.source)][len(own)].add(own)
    for alias, source in ports.sources.all().items():
        place: str = alias
        known: Collection[str] = ()
        if source.root is not None:
            known = ports.seen.of(source.root).names
        elif not isinstance(source.ref, Local) and (listing := ports.sources.kept_listing(source)) is not None:
            place, known = place_at_any_revision(source.ref.source), listing.index.skills
        for name in known:
            names[place][len(name)].add(name)
    return {place: {length: sorted(each) for length, each in lengths.items()} for place, lengths in names.items()}


def about_name(candidate: Candidate, known: Mapping[str, Mapping[int, Sequence[str]]], ports: Ports) -> Iterator[str]:
    """Yield a line for each other place with a known skill whose name the candidate has, or nearly has."""
    name, root = candidate.manifest.name, ports.root_of(candidate.entry)
    own = {place_at_any_revision(candidate.entry.source)}
    if root is not None:  # a project may have another alias for a registry of the user
        own |= {alias for alias, source in ports.sources.all().items() if source.root == root}
    # A large install asks about each of its skills, so only names of about its length are compared.
    lengths = range(len(name) - slips(name), len(name) + slips(name) + 1)
    for place in sorted(known.keys() - own):
        similar = [each for length in lengths for each in known[place].get(length, ())]
        if name in similar:
            yield f"{word(place)} has a skill {word(name)}, too; the two were not compared"
        elif alike := close(name, similar)[:_NAMES_MAX]:
            yield f"its name is nearly that of another skill: {', '.join(map(word, alike))} of {word(place)}"
