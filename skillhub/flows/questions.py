"""What is asked of a person before a skill may reach a disk; the words of each Question stand here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillhub.flows.candidate import Candidate, spelled
from skillhub.model.changes import Changes
from skillhub.model.digest import Digest
from skillhub.model.finding import Finding, at_least, counted
from skillhub.model.lock import Locked, LockedSource
from skillhub.model.provenance import Provenance
from skillhub.model.question import Question
from skillhub.model.record import Record
from skillhub.model.text import shown
from skillhub.model.url import authority
from skillhub.scan.secrets import masked
from skillhub.world.embedded import EMBEDDED_URL

_LINE_MAX = 160  # characters of a line that is shown
_INSTRUCTS = "it can: give instructions, which an agent follows with your rights"
_TRYING_OUT = "the registry inside this package is for trying out: its keys are public"


def consent(
    candidate: Candidate,
    record: Record | None,
    changes: Changes | None = None,
    programs: Sequence[str] = (),
) -> list[Question]:
    """Return the questions that a candidate raises; none if this person agreed to this very tree, from there, before.

    Args:
        candidate: What is to be installed.
        record: What the person agreed to before.
        changes: What differs from that, if there was something before.
        programs: Those that are not there, which keeps it disabled whatever is answered.
    """
    if record is not None and record.is_of(candidate.entry):
        return []
    # What speaks against it comes before what asks for a yes.
    questions = _findings(candidate)
    if candidate.trust == "unsigned":
        questions.append(_unsigned(candidate))
    elif candidate.trust == "untrusted":
        questions.append(_publisher(candidate))
    if changes is not None:
        questions += _new(candidate, changes)
    return [*questions, _install(candidate, record, changes, programs)]


def _new(candidate: Candidate, changes: Changes) -> list[Question]:
    """Ask by name for all that another version can do or needs and the one before did not."""
    name, version = candidate.name, candidate.entry.version or "as it is now"
    was = changes.before.version or "the one before"
    can = [
        Question("capability", name, f"{name} {version} can {each}, which {was} could not; agree?", (), each)
        for each in changes.capabilities.added
    ]
    needs = [
        Question("need", name, f"{name} {version} needs {each}, which {was} did not; agree?", (), each)
        for each in changes.requires.added
    ]
    return can + needs


def _install(
    candidate: Candidate, record: Record | None, changes: Changes | None, programs: Sequence[str]
) -> Question:
    entry = candidate.entry
    version = f" {entry.version}" if entry.version else ""
    signed = "not signed" if candidate.trust == "unsigned" else "signed by a key that nobody here knows"
    if candidate.signer:
        signed = f"signed by {candidate.signer.identity} ({candidate.signer.fingerprint})"
    files = len(candidate.tree)
    details = [
        f"it says of itself: {candidate.manifest.description}",
        f"from {entry.source}: {entry.origin}",
        signed if entry.patch is None else f"{signed}, and patched by this project: {entry.patch.path}",
        *([_TRYING_OUT] if (entry.url or "").startswith(EMBEDDED_URL) else ()),
        f"{files} {'file' if files == 1 else 'files'}, {candidate.tree.size} bytes, tree {candidate.tree.digest}",
        "; ".join(filter(None, (_INSTRUCTS, ", ".join(candidate.can)))),
        f"it needs: {', '.join(spelled(candidate.manifest)) or 'nothing'}",
        *([f"it will stay disabled; missing: program {', program '.join(programs)}"] if programs else ()),
        *(changes.lines() if changes else ()),
        *(f"note: {warning}" for warning in candidate.warnings),
    ]
    verb = "Change" if record else "Install"
    if changes is not None and changes.before.version != entry.version:
        verb, version = "Downgrade" if changes.is_downgrade else "Update", f" to {entry.version}"
    row = (
        candidate.name,
        entry.version or entry.short,
        _from(entry),
        (candidate.signer.identity if candidate.signer else "nobody") + (", patched" if entry.patch else ""),
        ", ".join(candidate.can) or "-",
        ", ".join(spelled(candidate.manifest)) or "-",
    )
    message = f"{verb} {candidate.name}{version}?"
    if record is not None and record.provenance and record.provenance != Provenance.of(entry):
        was, now = record.provenance.against(Provenance.of(entry))
        details.insert(0, f"it was agreed to {was}; it is {now} now")
        if record.tree == entry.tree:
            message = f"{candidate.name} was agreed to {was}; the lock has it {now} now; agree?"
    return Question("install", candidate.name, message, tuple(details), row=row)


def _from(entry: Locked) -> str:
    """Return the source, and the server that the bytes are really from where that is another."""
    if entry.local or entry.named:
        return entry.source
    server = authority(entry.git or entry.url or "")
    said = authority(entry.place) or "github.com"
    return entry.source if server == said else f"{entry.source} (at {server or entry.origin})"


def _unsigned(candidate: Candidate) -> Question:
    patch = candidate.entry.patch
    message = f"Nobody signed {candidate.name}; take it as it is?"
    if patch is not None:
        message = f"This project patches {candidate.name}, and nobody signed the patch; take it as it is?"
    return Question(
        "unsigned",
        candidate.name,
        message,
        (
            *((f"the patch is {patch.path}",) if patch else ()),
            "only its digest, which the lock keeps, will tell whether it is the same next time",
        ),
    )


def _publisher(candidate: Candidate) -> Question:
    signer, own, claim = candidate.signer, candidate.own, candidate.claim
    if signer is None:
        # Nothing is proven without the key, which does not come with the signature: there is nothing to pin.
        return Question(
            "publisher",
            candidate.name,
            f"{candidate.name} is signed by a key that nobody here knows; take it as if unsigned?",
            (
                *((f"the key is said to be the one in a PEM file of {claim}",) if claim else ()),
                "without it nothing is proven: nobody is pinned, and the lock will name no signer",
                "with it the signature is checked: skillhub publisher trust NAME --key FILE",
            ),
        )
    if own is not None:
        return Question(
            "publisher",
            candidate.name,
            f"{candidate.name} is signed by {own.name}, a key of yours that you have not trusted; trust it for this?",
            (f"{signer.kind} {signer.fingerprint}", f"to trust it for every skill: {own.trusting}"),
            own.trusting,
        )
    return Question(
        "publisher",
        candidate.name,
        f"{candidate.name} is signed by {signer.identity}, whom nobody has trusted yet; trust them for it?",
        (f"{signer.kind} {signer.fingerprint}", "compare it with what the publisher tells elsewhere"),
    )


def _findings(candidate: Candidate) -> list[Question]:
    grave = [finding for finding in candidate.findings if at_least(finding.severity, "high")]
    if not grave:
        return []
    critical = dict.fromkeys(finding.rule for finding in grave if finding.severity == "critical")
    lines = tuple(line for each in grave for line in _seen(each, candidate))
    seen = f"The scan found in {candidate.name}: {counted(grave)}; "
    if critical:
        message = f"{seen}only a policy may agree to {', '.join(critical)}"
        return [Question("critical-finding", candidate.name, message, lines, '", "'.join(critical))]
    return [Question("finding", candidate.name, f"{seen}have you read it, and agree?", lines)]


def _seen(finding: Finding, candidate: Candidate) -> Iterator[str]:
    """Yield what was found, and the line that it was found in, whose secrets are not repeated."""
    yield str(finding)
    file = candidate.tree.get(finding.path or "")
    lines = file.data.split(b"\n") if file is not None and finding.line else []
    if finding.line and finding.line <= len(lines):
        line = masked(lines[finding.line - 1]).decode("utf-8", "replace")
        yield f"  | {shown(line.strip()[:_LINE_MAX])[:_LINE_MAX]}"


def propose_source(alias: str, source: LockedSource) -> Question:
    """Return the question about a registry that a project brings and this user does not have."""
    root = f"root {source.root}" if source.root else "the project names no root to know it by"
    return Question(
        "source" if source.root else "root",
        alias,
        f"This project brings the registry {alias}, which is none of yours; trust it in this project?",
        (
            f"url {source.url}",
            root,
            "who signs its skills is its word; compare the root with what whoever runs it tells elsewhere",
        ),
        f"--trust-source {alias}={source.root or 'sha256:…'}",
    )


def first_root(alias: str, url: str, root: Digest, subject: str = "") -> Question:
    """Return the question about a registry's root that nobody named beforehand; ``subject`` is what would name it."""
    message = f"Trust the registry at {url} as {alias}, by the root that it shows now?"
    details = (f"root {root}", "compare it with what whoever runs it tells elsewhere")
    return Question("root", alias, message, details, subject)
