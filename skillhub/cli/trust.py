"""``source`` and ``publisher``: manage sources of skills, and the publishers that may sign them."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Annotated, Any

from skillhub.audit.sources import SourceView, view_source
from skillhub.cli.common import Arg, Common, Strings, read_file, read_pem
from skillhub.cli.network import open_ports
from skillhub.command.ports import Ports
from skillhub.errors import Forbidden, FormatError, NotFound, Refused, SourceError, StateError, UsageError, hinting
from skillhub.formats.digest import Digest
from skillhub.formats.json import members
from skillhub.formats.text import (
    amount,
    as_command,
    did_you_mean,
    grouped,
    is_alias,
    is_name,
    quote,
    spell_time,
    spelled_like,
)
from skillhub.install.trusted_sources import Pin, add_source, trust_source
from skillhub.install.trusted_sources import suggested as suggested_places
from skillhub.model.lock import ROOT_CAP
from skillhub.model.provenance import Delta
from skillhub.model.reference import Local, masked
from skillhub.project.intent import SourceKind, is_from
from skillhub.project.user_state import Trusted, check_publisher
from skillhub.sources.configured import ProjectSources, Source, Sources, check
from skillhub.sources.git_program import SAYS
from skillhub.trust import x509
from skillhub.trust.keys import Identity, PublicKey
from skillhub.trust.roles import RootFile

SourceName = Annotated[str, Arg("NAME", "The source's alias.")]
SourceNames = Annotated[Strings, Arg("[NAME]...", "Sources (default: all without a root).")]
Root = Annotated[str | None, Arg("--root FILE", "The registry's 1.root.json, from a channel that you trust.")]
Fingerprint = Annotated[str | None, Arg("--fingerprint sha256:…", "The SHA-256 of the registry's 1.root.json.")]
_ROOTLESS: dict[SourceKind, str] = {
    "well-known": "a site, not a registry: its operator can change its skills unnoticed",
    "git": "a repository, not a registry: anyone with push access can change its skills",
    "oci": "an OCI artifact, not a registry: anyone with push access can change its skills",
    "mcp": "an MCP server, not a registry: its operator can change its skills",
    "folder": "a folder of this machine, not a registry",
}


def source_add(
    common: Common,
    name: Annotated[str | None, Arg("[NAME]", "The source's alias.")] = None,
    url: Annotated[
        str | None, Arg("[REF]", "A URL, owner/repo@rev, git+https://…, oci://…, mcp+https://…, ./folder.")
    ] = None,
    root: Root = None,
    fingerprint: Fingerprint = None,
    allow_unsigned: Annotated[bool, Arg("--allow-unsigned", "Accept a source that is not a registry.")] = False,
    suggested: Annotated[bool, Arg("--suggested", "Offer well-known public repositories, one by one.")] = False,
) -> None:
    """Add a source of skills. A registry, or any repository, site, folder, OCI artifact or MCP server.

    A registry is pinned by its root: without --root or --fingerprint, skillhub shows the fingerprint and asks. Any
    other source has no root and proves nothing, so skillhub asks about each of its skills; its reference may name a
    branch, tag or commit.

    Example: skillhub source add anthropics anthropics/skills
    """
    ports = open_ports(common, allow_unsigned=allow_unsigned)
    if suggested and name is None:
        return _add_suggested(common, ports)
    if name is None or url is None or suggested:
        raise UsageError("expected NAME and REF, or --suggested alone", hint="skillhub source add NAME owner/repo")
    if is_alias(url) and not is_name(name):
        hint = f"did you mean: {as_command('skillhub', 'source', 'add', url, name)}"
        raise UsageError("expected NAME before REF, found REF before NAME", hint=hint)
    check(name)  # before anything is read
    known = ports.sources.mine()
    source = add_source(name, url, _pin(root, fingerprint), ports, dry_run=common.dry_run)
    if source in known.values():
        return common.done("source add", _json(source), f"already added: {source.alias} is {_spelled(source)}")
    if source.place is not None and not (listed := ports.listing(source)).skills:
        reasons = "; ".join(listed.warnings[:3])
        common.terminal.warn(f"warning: {source.alias} offers no skill{reasons and f': {reasons}'}")
    text = f"{common.would('add', 'added')} {source.alias}: {_spelled(source)}"
    return common.done("source add", _json(source), text, "green")


def _add_suggested(common: Common, ports: Ports) -> None:
    """Ask about each suggested repository that the user does not have, without those that cannot be reached.

    Raises:
        Refused, Forbidden: no person could be asked, or a policy forbids a repository and ``--yes`` was typed.
        SourceError, FormatError: every repository failed, the last one with an error of this class.
    """
    known, added = ports.sources.mine(), []
    left: dict[str, Refused | SourceError | FormatError] = {}
    offered = suggested_places()
    for alias, url in ((alias, each["url"]) for alias, each in offered.items()):
        if alias in known or url in [each.url for each in known.values()]:
            continue
        try:
            added.append(add_source(alias, url, Pin(), ports, dry_run=common.dry_run))
        except (Refused, SourceError, FormatError) as error:
            if isinstance(error, Refused) and (not common.asks or common.yes):
                raise
            left[alias] = error
    failed = {alias: error for alias, error in left.items() if not isinstance(error, Refused)}
    # Each cause once, without the words of git, which name each URL.
    aliases = grouped((error.message.partition(SAYS)[0], alias) for alias, error in failed.items())
    causes = [f"{', '.join(each)}: {cause}" for cause, each in aliases.items()]
    if failed and not added and failed == left:
        again = common.command("source", "add", "--suggested")
        advice = "without --offline" if common.offline else "when the network and its proxy work"
        last = [*failed.values()][-1]
        message = f"no suggested source was added: {'; '.join(causes)}"
        raise type(last)(message, hint=last.hint or f"{advice}: {again}")
    common.terminal.warn_each(f"not added: {cause}" for cause in causes)
    if common.json:
        reasons = {alias: error.message for alias, error in left.items()}
        return common.answer("source add suggested", {"sources": [_json(each) for each in added], "left": reasons})
    for each in added:
        common.terminal.did(f"{common.would('add', 'added')} {each.alias}: {_spelled(each)}", "green")
        if certificate := offered[each.alias].get("certificate"):
            file = certificate.rpartition("/")[2]
            trust = as_command("skillhub", "publisher", "trust", each.alias, "--certificate", file)
            common.terminal.say(f"its skills are signed; to trust the signer, save {certificate}, then: {trust}")
    if not added and not left:
        common.terminal.say("you have every suggested source")


def source_list(common: Common) -> None:
    """List the sources.

    Example: skillhub source list
    """
    sources = _here(common).all().values()
    if common.json:
        return common.answer("source list", {"sources": [_facts(source, common) for source in sources]})
    for source in sources:
        _draw(source, common)


def source_show(common: Common, name: SourceName) -> None:
    """Show a source and the skills that it lists.

    Example: skillhub source show github
    """
    ports = open_ports(common)
    source = ports.sources.get(name)
    listing = ports.listing(source)
    newest = [releases[0] for _, releases in sorted(listing.skills.items()) if releases[0].withdrawn is None]
    common.terminal.warn_each(listing.warnings)
    if common.json:
        return common.answer("source show", {**_facts(source, common), "skills": newest})
    _draw(source, common)
    if source.root:
        for each, role in sorted(_view(source, common).root.roles.items()):
            common.terminal.out(f"  {each}: {role.threshold} of {len(role.keyids)} keys")
            for key in role.keyids:
                common.terminal.out(f"    {key}", "dim")
    cells = [(each.name, each.version or "-", each.publisher or "-", each.description) for each in newest]
    common.terminal.table(("NAME", "VERSION", "PUBLISHER", "DESCRIPTION"), cells, is_short=True)


def source_refresh(common: Common, names: SourceNames = None) -> None:
    """Read the lists of sources again, and show new and removed skills. Installed skills do not change.

    Example: skillhub source refresh anthropics
    """
    ports = open_ports(common)
    chosen = [ports.sources.get(name) for name in names or ()]
    rows, failed = [], None
    for source in chosen or [each for each in ports.sources.all().values() if each.place]:
        before = ports.sources.kept_listing(source)
        try:
            now = ports.listing(source, refresh=True).skills
        except (SourceError, FormatError, Forbidden) as error:
            if chosen:
                raise
            failed = error
            common.terminal.warn(f"warning: {source.alias} was left out: {error.message}")
            continue
        after = ports.sources.kept_listing(source)
        delta = Delta.of_names(before.index.skills if before else now, now)
        old, new = (each and each.commit for each in (before, after))
        changes = {"from_commit": old, "commit": new, "added": delta.added, "removed": delta.removed}
        rows.append({"name": source.alias, "skills": len(now), **changes})
        if not common.json:
            moved = f", {old[:12]} -> {new[:12]}" if old and new and old != new else ""
            common.terminal.did(f"{source.alias}: {amount(len(now), 'skill')}{moved}")
            for line in [*(f"  + {each}" for each in delta.added), *(f"  - {each}" for each in delta.removed)]:
                common.terminal.out(line)
    if failed is not None and not rows:
        raise failed
    if not (rows or common.json):
        common.terminal.say("nothing to refresh: no source is a repository or a folder")
    if common.json:
        common.answer("source refresh", {"sources": rows})


def source_remove(common: Common, name: SourceName) -> None:
    """Remove a source; the skills that you installed from it stay.

    Example: skillhub source remove acme
    """
    left: list[str] = []
    project = common.open_project()
    here = ProjectSources(common.home, project.key, project.proposals)
    if name not in here.all():
        hint = did_you_mean(spelled_like(name, here.all())) or "skillhub source list shows yours"
        raise NotFound(f"no source is named {quote(name)}", hint=hint)
    gone = here.get(name) if common.dry_run else here.remove(name)
    with suppress(FormatError, StateError):  # commands that need the lock report that it cannot be read
        lock = project.lock()
        if name in lock.sources and gone.is_meant(lock.sources[name]):
            left = [skill for skill, entry in lock.skills.items() if entry.place == name and not entry.local]
        elif gone.place is not None:
            left = [skill for skill, entry in lock.skills.items() if is_from(entry, gone.place, project.base)]
    common.done("source remove", _json(gone), f"{common.would('remove', 'removed')} {gone.alias}: {gone.url}")
    if left:
        common.terminal.say(f"still locked from it in this project: {', '.join(left)}")
    if isinstance(gone.place, Local) and not os.path.isdir(gone.place.path):
        return  # a folder that is not there cannot be added again
    pin = () if gone.embedded or gone.root is None else ("--fingerprint", gone.root)
    again = ("add", gone.alias, gone.url) if gone.named_by == "person" else ("trust", gone.alias)
    common.terminal.say(f"to add it again: {as_command('skillhub', 'source', *again, *pin)}")


def source_trust(common: Common, name: SourceName, root: Root = None, fingerprint: Fingerprint = None) -> None:
    """Trust a source that the project proposes, or a source's new root.

    A proposed source counts in this project only.

    Example: skillhub source trust acme --fingerprint sha256:…
    """
    source = trust_source(name, _pin(root, fingerprint), open_ports(common), dry_run=common.dry_run)
    of = "" if source.named_by == "person" else ", for this project alone"
    text = f"{common.would('trust', 'trusted')} {source.alias}: {_spelled(source)}{of}"
    return common.done("source trust", _json(source), text, "green")


def _pin(root: str | None, fingerprint: str | None) -> Pin:
    data = read_file(root, ROOT_CAP) if root else None
    with hinting("a registry is known by its first root, metadata/1.root.json"):
        if data is not None:
            version = RootFile.parse(data, root or "").signed.version
            if version != 1:
                raise UsageError(f"--root: expected the first root, found version {version}", where=root)
    try:
        return Pin(data, Digest.parse(fingerprint, "--fingerprint") if fingerprint is not None else None)
    except FormatError as error:
        raise UsageError(f"--fingerprint: {error.message}", hint="skillhub source show prints it") from error


def _here(common: Common) -> Sources:
    """Return the sources in this project; the user's own if no project can be opened."""
    with suppress(NotFound, StateError):
        project = common.open_project()
        return ProjectSources(common.home, project.key, project.proposals)
    return common.sources


def _view(source: Source, common: Common) -> SourceView:
    return view_source(source, common.sources, common.time().now())


def _draw(source: Source, common: Common) -> None:
    out = common.terminal.out
    out(f"{source.alias}: {masked(source.url)}", "bold")
    if source.named_by != "person":
        out("  proposed by this project and used only here; skillhub sends it no credentials")
    if source.root is None:
        out(f"  {_ROOTLESS[source.kind]}", "yellow")
        if kept := common.sources.kept_listing(source):
            out(f"  {amount(len(kept.index.skills), 'skill')}, {kept.shown(common.time().now())}")
        return
    view = _view(source, common)
    out(f"  root {source.root}, now version {view.root.version}, expires {view.root.expires}")
    if source.embedded:
        out("  inside the package; its keys are public test keys, valid for nothing else")
    elif view.refreshed:
        out(f"  refreshed {view.refreshed}")
    for line in view.changes:
        out(f"  since it was added: {line}", "yellow")
    for line in view.warnings:
        out(f"  warning: {line}", "yellow")


def _facts(source: Source, common: Common) -> dict[str, Any]:
    facts: dict[str, Any] = {"scope": "user", **_json(source), "commit": None}
    if source.root is not None:
        view = _view(source, common)
        of_root = sorted(view.root.roles.items())
        roles = [{"role": name, "threshold": role.threshold, "keys": role.keyids} for name, role in of_root]
        facts |= {"root_version": view.root.version, "expires": view.root.expires, "roles": roles}
        return facts | members(view, "metadata", "refreshed", "changes", "warnings")
    kept = common.sources.kept_listing(source)
    refreshed, commit = (spell_time(kept.listed), kept.commit) if kept else (None, None)
    facts |= {"root_version": None, "expires": None, "refreshed": refreshed, "commit": commit}
    return facts | {"roles": [], "metadata": [], "changes": [], "warnings": []}


def _json(source: Source) -> dict[str, Any]:
    facts = {"name": source.alias, "kind": source.kind, "url": source.url, "root": source.root}
    return facts if source.named_by == "person" else {**facts, "scope": "project"}


def _spelled(source: Source) -> str:
    return f"{masked(source.url)}, root {source.root}" if source.root else str(source.locked())


# ``publisher``: lists, trusts and removes those who may sign skills.

PublisherName = Annotated[str, Arg("NAME", "Your name for the publisher.")]


def publisher_list(common: Common) -> None:
    """List the publishers that you trust to sign skills.

    Example: skillhub publisher list
    """
    rows = [_publisher_json(one) for one in common.publishers.all().values()]
    if common.json:
        return common.answer("publisher list", {"publishers": rows})
    for row in rows:
        common.terminal.out(f"{row['name']}: for {', '.join(row['sources']) or 'every source'}", "bold")
        for each in row["signers"]:
            common.terminal.out(f"  {each['kind']} {each['fingerprint']}")
            if "issuer" in each:
                common.terminal.out(f"  {each['identity']} ({each['issuer']})")
    if not rows:
        common.terminal.say("no publisher is trusted; to trust one: skillhub publisher trust NAME --key FILE")


def publisher_trust(
    common: Common,
    name: PublisherName,
    key: Annotated[str | None, Arg("--key FILE", "A public key, PEM.")] = None,
    certificate: Annotated[str | None, Arg("--certificate FILE", "A root certificate, PEM.")] = None,
    identity: Annotated[str | None, Arg("--identity NAME", "A Sigstore identity: mail address or URI.")] = None,
    issuer: Annotated[str | None, Arg("--issuer URL", "The OpenID provider that issues the identity.")] = None,
    trusted_root: Annotated[str | None, Arg("--trusted-root FILE", "The trusted root of a private Sigstore.")] = None,
    source: Annotated[Strings, Arg("--source NAME", "Only for skills of this source (repeatable).")] = None,
) -> None:
    """Trust a publisher's key or certificate root. A second key of the same name is trusted beside the first.

    A Sigstore identity needs the extra sigstore.

    Example: skillhub publisher trust acme --key acme.pub.pem
    """
    if [key, certificate, identity].count(None) != 2 or (identity is None) != (issuer is None):
        expected = "one of --key FILE, --certificate FILE, and --identity NAME with --issuer URL"
        hint = as_command("skillhub", "publisher", "trust", name, "--key", "FILE")
        raise UsageError(f"expected {expected}", hint=f"with the publisher's PEM file: {hint}")
    if trusted_root is not None and identity is None:
        raise UsageError("--trusted-root FILE goes with --identity")
    check_publisher(name)
    for alias in source or ():
        if isinstance(common.sources.get(alias).place, Local):
            hint = "without --source the publisher is trusted for local skills, too"
            raise UsageError(f"{alias} is a folder, and trust cannot be limited to one", hint=hint)
    keys = (read_pem(key, PublicKey.load).pem.decode(),) if key else ()
    roots = tuple(each.pem.decode() for each in read_pem(certificate, x509.load)) if certificate else ()
    identities = (_identity(identity, issuer or "", trusted_root),) if identity is not None else ()
    added = Trusted(keys, roots, tuple(source or ()), identities, name=name)
    trusted = _publisher_json(added if common.dry_run else common.publishers.trust(added))
    if common.json:
        return common.answer("publisher trust", trusted)
    verb = "might" if common.dry_run else "may"
    for each in trusted["signers"]:
        common.terminal.did(f"{name} {verb} sign with the {each['kind']} {each['fingerprint']}", "green")


def publisher_remove(common: Common, name: PublisherName) -> None:
    """Stop trusting a publisher. Its installed skills stay, but cannot be installed again.

    Example: skillhub publisher remove acme
    """
    gone = common.publishers.get(name) if common.dry_run else common.publishers.remove(name)
    text = f"{gone.name} {common.would('be', 'is')} no longer trusted"
    return common.done("publisher remove", _publisher_json(gone), text)


def _publisher_json(one: Trusted) -> dict[str, Any]:
    signers = [{"kind": "key", "fingerprint": PublicKey.load(pem.encode()).fingerprint} for pem in one.keys]
    roots = (each for pem in one.certificates for each in x509.load(pem.encode()))
    signers += [{"kind": "certificate", "fingerprint": each.fingerprint} for each in roots]
    for identity in map(Identity.parse, one.identities):
        named = {"identity": identity.name, "issuer": identity.issuer}
        signers.append({"kind": "sigstore", "fingerprint": identity.fingerprint, **named})
    return {"name": one.name, "signers": signers, "sources": list(one.sources)}


def _identity(name: str, issuer: str, trusted_root: str | None) -> str:
    try:
        root = read_file(trusted_root).decode() if trusted_root else None
    except UnicodeDecodeError as error:
        raise FormatError("expected the trusted_root.json of a Sigstore", where=trusted_root) from error
    return Identity(name, issuer, root).dump()
