"""``registry`` and ``publish``: create, fill, operate, check, push and serve a registry."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from functools import partial
from importlib.resources import files as resources
from typing import Annotated

from skillhub.cli import author
from skillhub.cli.author import KeysDir, has_pages, new_passphrase, open_target, own_key, signed, target_address
from skillhub.cli.common import Arg, Common, Strings, now, optional, read_file, read_pem, signing_time, write_output
from skillhub.cli.network import approver, fetcher_of
from skillhub.cli.prompts import show
from skillhub.disk.files import write_atomic
from skillhub.errors import FormatError, UsageError, hinting
from skillhub.formats.digest import Digest
from skillhub.formats.json import members
from skillhub.formats.text import amount, as_command, as_word, clean, is_name, parse_time, quote, spell_time, word
from skillhub.model.advisory import CAP, AdvisoriesDocument, AdvisoryFeed
from skillhub.model.index import ALWAYS, Release
from skillhub.model.question import YES, Asked, Question, how_to_answer, refusal
from skillhub.project.project import read_policies
from skillhub.registry import build, outputs, upkeep
from skillhub.registry import check as checks
from skillhub.registry import push as pushing
from skillhub.registry.operator import RegistryDir, RegistrySettings, Signing, opened
from skillhub.registry.outputs import SHAPES, Part
from skillhub.registry.publish import PublishTargets, ReleasePlan, plan, signed_with
from skillhub.scan.results import ScanCache
from skillhub.server.registry_api import RegistryApi, RegistryHandler
from skillhub.server.site import SiteHandler, site_server
from skillhub.sources.local import files_of_project, read_local
from skillhub.trust import x509
from skillhub.trust.keys import PublicKey
from skillhub.trust.publishers import publisher_of
from skillhub.trust.roles import OWN

registry_cosign, registry_watch = author.registry_cosign, author.registry_watch
Dir = Annotated[str, Arg("DIR", "The registry's folder.")]
RegistryPlace = Annotated[str, Arg("DIR|URL", "The registry's folder, or its URL.")]
Wanted = Annotated[str, Arg("NAME@VERSION", "The release.")]
Roots = Annotated[Strings, Arg("--certificate FILE", "A root certificate of the publisher (PEM; repeatable).")]
Names = Annotated[Strings, Arg("--name SKILL", "A skill that the publisher may publish (repeatable).")]
Since = Annotated[str | None, Arg("--since TIME", "Keep revoked signatures from before this time (default: none).")]

# The files of a registry for a workflow: no keys of root and targets, which can replace all other keys.
_FOR_CI = "registry.json keys/online keys/publishers keys/offline/1.root.json keys/offline/namespaces-*.pem"


def _pages() -> Part:
    """Return the part that writes pages.

    Raises:
        UsageError: the extra ``pages`` is not installed.
    """
    found: Part = optional("skillhub.registry.pages", "pages", "the pages of a registry need").PAGES
    return found


def _rebuild(common: Common, folder: str) -> None:
    """Write again the files that are derived from signed files, after these have changed."""
    if common.dry_run:
        return
    # Without pages, `registry init` gave this hint. A site that was fetched may have pages and no record of them.
    if os.path.isdir(os.path.join(folder, "site", OWN, "skills")):
        try:
            _pages()
        except UsageError as error:
            common.terminal.warn(f"warning: the pages are out of date: {error.message} ({error.hint})")
    _build(common, folder, Signing(now=signing_time()))


def _build(common: Common, folder: str, signing: Signing) -> outputs.Built:
    every: list[Part] = [SHAPES]
    with suppress(UsageError):
        every.append(_pages())
    with opened(folder, signing) as hub:
        return outputs.build(hub, every, ScanCache(common.home, remember=not signing.dry_run), quick=True)


def registry_build(
    common: Common,
    folder: Dir,
    url: Annotated[str | None, Arg("--url URL", "The site's public URL, for absolute links; it is stored.")] = None,
) -> None:
    """Write the pages of a registry, and its files for other clients. Writes only files that changed.

    add, yank, withdraw, advise and delegate do this too. These files are not signed.

    Example: skillhub registry build ./registry --url https://skills.example
    """
    every = [SHAPES, _pages()]
    if url is not None and not common.dry_run:
        kept = RegistryDir(folder)
        with kept.locked():
            kept.create(kept.settings().at(url))
    with opened(folder, Signing(now=signing_time(), dry_run=common.dry_run)) as registry:
        hub = replace(registry, settings=registry.settings.at(url))
        done = outputs.build(hub, every, ScanCache(common.home, remember=not common.dry_run))
        site, known = hub.registry.site, hub.settings.url
    why = "the registry uses its path or its name is too long"
    common.terminal.warn_each(f"left out, since {why}: {quote(path)}" for path in done.left_out)
    if known is None:
        common.terminal.warn("warning: links are relative and the sitemap is empty: it needs --url URL")
    if common.json:
        return common.answer("registry build", {"site": site, "url": known, **asdict(done)})
    if common.verbose:
        for path in done.written:
            common.terminal.say(path)
    wrote = f"{common.would('write', 'wrote')} {len(done.written)} of {done.files} files"
    common.terminal.did(f"{site}: {wrote}, {len(done.removed)} removed, {amount(done.skills, 'skill')}", "green")


def registry_yank(
    common: Common,
    folder: Dir,
    wanted: Wanted,
    reason: Annotated[str | None, Arg("--reason TEXT", "The reason, for users to read.")] = None,
    undo: Annotated[bool, Arg("--undo", "Undo the yank.")] = False,
) -> None:
    """Stop clients from choosing a release. Users who have it locked can still install it, with a warning.

    Example: skillhub registry yank ./registry my-skill@1.2.0 --reason "breaks on Windows"
    """
    if undo == (reason is not None):
        raise UsageError("expected either --reason TEXT or --undo")
    release = signed(common, None, lambda signing: upkeep.yank(folder, wanted, reason, signing))
    _rebuild(common, folder)
    return _recalled(common, "registry yank", folder, release, "offered again" if undo else "yanked")


def registry_withdraw(
    common: Common,
    folder: Dir,
    wanted: Wanted,
    reason: Annotated[str, Arg("--reason TEXT", "The reason, for users to read.")],
) -> None:
    """Withdraw a release for good. Clients refuse it, even if it is locked; this cannot be undone.

    At a terminal it asks first.

    Example: skillhub registry withdraw ./registry my-skill@1.2.0 --reason "sends tokens away"
    """
    agree = partial(_agree, common)
    release = signed(common, None, lambda signing: upkeep.withdraw(folder, wanted, reason, signing, agree))
    _rebuild(common, folder)
    return _recalled(common, "registry withdraw", folder, release, "withdrawn")


def _agree(common: Common, withdrawn: Sequence[Release]) -> None:
    """Ask a person about releases to be withdrawn, and raise Refused after a no; a script is not asked."""
    if common.dry_run or not common.asks:
        return
    ends = "clients refuse it, even where it is locked; nothing undoes that"
    questions = []
    for each in withdrawn:
        message = f"Withdraw {each.name} {each.version} for good?"
        questions.append(Question("withdraw", each.name, message, (word(each.withdrawn or ""), ends)))
    if error := refusal([*zip(questions, approver(common).answer(questions), strict=True)]):
        raise error


def _recalled(common: Common, command: str, folder: str, release: Release, verb: str) -> None:
    row = members(release, "name", "version", "yanked", "withdrawn")
    did = f"would be {verb}" if common.dry_run else f"{verb}; {_to_publish(folder)}"
    return common.done(command, row, f"{release.name} {release.version} {did}", "green")


def _to_publish(folder: str) -> str:
    return f"to publish that: {as_command('skillhub', 'registry', 'push', folder, 'TARGET')}"


def registry_delegate(
    common: Common,
    folder: Dir,
    publisher: Annotated[str, Arg("PUBLISHER", "The publisher; a new one is admitted.")],
    key: Annotated[Strings, Arg("--key FILE", "A public key of the publisher (PEM; repeatable).")] = None,
    certificate: Roots = None,
    name: Names = None,
    move: Annotated[bool, Arg("--move", "Take the names from their present owners.")] = False,
    revoke: Annotated[Strings, Arg("--revoke FINGERPRINT|FILE", "A key or certificate to revoke.")] = None,
    since: Since = None,
    keys: KeysDir = None,
) -> None:
    """Say who may publish what. Admit a publisher, give it keys and names, revoke keys. Needs the offline keys.

    Releases that lose their last valid signature are withdrawn for good and listed; at a terminal it asks first.

    Example: skillhub registry delegate ./registry acme --key acme.pub.pem --name my-skill
    """
    mandate = upkeep.AdmissionChange(
        publisher=publisher,
        keys=tuple(read_pem(each, PublicKey.load).pem for each in key or ()),
        certificates=tuple(b"".join(root.pem for root in read_pem(each, x509.load)) for each in certificate or ()),
        names=tuple(name or ()),
        move=move,
        revoke=tuple(
            each if each.startswith("sha256:") else read_pem(each, upkeep.key_or_certificate).pem.decode()
            for each in revoke or ()
        ),
        since=_time(since) if since else ALWAYS,
    )
    done = signed(common, keys, lambda signing: upkeep.delegate(folder, mandate, signing, partial(_agree, common)))
    _rebuild(common, folder)
    return _show_delegated(folder, done, common)


def _show_delegated(folder: str, done: upkeep.ChangedAdmission, common: Common) -> None:
    admission, did = done.admission, common.terminal.did
    keys, names = publisher_of(admission).fingerprints, sorted(admission.names)
    if common.json:
        value = {**members(admission, "publisher", "revoked"), "keys": keys, "names": names}
        return common.answer("registry delegate", {**value, "withdrawn": done.withdrawn})
    did(f"{admission.publisher}{' (dry run)' if common.dry_run else ''}", "bold")
    for fingerprint in keys:
        did(f"  signs with {fingerprint}")
    for gone in admission.revoked:
        did(f"  revoked    {gone.fingerprint} since {'the beginning' if gone.since == ALWAYS else gone.since}")
    for name in names:
        did(f"  publishes  {name}")
    for release in done.withdrawn:
        verb = common.would("be withdrawn", "withdrawn for good")
        common.terminal.out(f"{verb}: {release.name} {release.version}: {release.withdrawn}", "yellow")
    if not common.dry_run:
        common.terminal.say(_to_publish(folder))


def registry_rotate(
    common: Common,
    folder: Dir,
    role: Annotated[str, Arg("ROLE", "root, targets, namespaces, releases, listing, log, snapshot or timestamp.")],
    lost: Annotated[
        Strings, Arg("--lost KEYID", "Replace only this lost or stolen key (repeatable; 8 digits suffice).")
    ] = None,
    keys: KeysDir = None,
) -> None:
    """Give a role new keys; clients follow by themselves. --dry-run lists the keys, and which are available.

    Needs the keys of root; for namespaces, releases and listing, the keys of targets.

    Example: skillhub registry rotate ./registry timestamp
    """
    done = signed(common, keys, lambda signing: upkeep.rotate(folder, role, signing, lost or ()))
    if common.json:
        return common.answer("registry rotate", {**asdict(done), "at_hand": sorted(done.at_hand)})
    for verb, ids in ((common.would("retire", "retired"), done.gone), ("kept", done.kept)):
        for each in ids:
            common.terminal.did(f"{verb}: {each}{'' if each in done.at_hand else ' (not available)'}")
    for each in done.new:
        common.terminal.did(f"new: {each}", "green")
    if done.gone and not common.dry_run:
        destroy = ", then destroy the old keys in keys/retired" if done.at_hand.intersection(done.gone) else ""
        common.terminal.say(f"{_to_publish(folder)}{destroy}")


def registry_refresh(
    common: Common,
    folder: Dir,
    within: Annotated[float, Arg("--within DAYS", "Renew documents that expire within this time.", min=0)] = 2,
    role: Annotated[Strings, Arg("--role ROLE", "Always renew the document of this role (repeatable).")] = None,
    keys: KeysDir = None,
) -> None:
    """Renew documents that expire soon, with the online keys only. For cron, once a day.

    It warns 30 days before a document needs offline keys; provide the keys, and name the role with --role.

    Example: skillhub registry refresh ./registry --quiet
    """
    done = signed(common, keys, lambda signing: upkeep.refresh(folder, signing, within, role or ()))
    for each in done.waiting:
        again = as_command("skillhub", "registry", "refresh", folder, "--role", each.role)
        text = f"the document of {each.role} expires {each.expires}; with the offline keys in place: {again}"
        common.terminal.warn(f"warning: {text}")
    if common.json:
        common.answer("registry refresh", {"renewed": done.renewed, "waiting": done.waiting})
    elif done.renewed:
        verb = "to renew" if common.dry_run else "renewed"
        first = min(each.expires for each in done.renewed)
        common.terminal.did(f"documents {verb}: {len(done.renewed)}; the first expires {first}", "green")
        if not common.dry_run:
            common.terminal.say(_to_publish(folder))
    elif sys.stderr.isatty():
        common.terminal.say("nothing to renew")


def _time(text: str) -> str:
    """Return a time in the form of documents; a time without a zone is UTC, a date means its first second."""
    found = parse_time(text)
    if found is None:
        raise UsageError(f"expected a time such as 2026-01-02T03:04:05Z, found {quote(text)}")
    return spell_time(found)


def registry_advise(
    common: Common,
    folder: Dir,
    files: Annotated[Strings, Arg("[FILE]...", "OSV advisories, or a list of digests, one on each line.")] = None,
    digest: Annotated[
        Strings, Arg("--digest sha256:…", "An artifact, tree or file that is known to be bad (repeatable).")
    ] = None,
    reason: Annotated[str, Arg("--reason TEXT", "Why the digests are bad, for users to read.")] = "",
    withdraw: Annotated[Strings, Arg("--withdraw ID", "Take back an advisory or a digest (repeatable).")] = None,
    keys: KeysDir = None,
) -> None:
    """Publish advisories. Clients refuse these digests, and show the advisories in every audit.

    An advisory with the id of an earlier one replaces it.

    Example: skillhub registry advise ./registry --digest sha256:… --reason "sends tokens away"
    """
    with hinting("a FILE has advisories in OSV's JSON, or lines of a digest and its reason"):
        documents = [AdvisoryFeed.parse(read_file(path, CAP), path).document for path in files or ()]
    try:
        bad = {Digest.parse(each, "--digest"): clean(reason) for each in digest or ()}
    except FormatError as error:
        raise UsageError(f"--digest: {error.message}", hint="skillhub show NAME prints its tree's digest") from error
    documents.append(AdvisoriesDocument(digests=bad))
    if not (files or digest or withdraw):
        raise UsageError("expected a FILE, --digest or --withdraw")
    done = signed(common, keys, lambda signing: upkeep.advise(folder, documents, signing, withdraw or ()))
    _rebuild(common, folder)
    value = {"advisories": [each.id for each in done.advisories], "digests": list(done.digests)}
    counts = f"advisories: {len(done.advisories)}, digests: {len(done.digests)}"
    did = f"would have {counts}" if common.dry_run else f"has {counts}; {_to_publish(folder)}"
    return common.done("registry advise", value, f"the registry {did}", "green")


def registry_push(
    common: Common,
    folder: Dir,
    target: Annotated[str, Arg("TARGET", "A folder, s3://BUCKET/PREFIX, oci://HOST/NAME:TAG or git+URL@BRANCH.")],
) -> None:
    """Publish a registry's site. Writes immutable files first, the timestamp last; never overwrites newer metadata.

    For S3, set the usual AWS variables (AWS_ENDPOINT_URL_S3 for other stores). For an OCI registry, run docker login,
    or set SKILLHUB_OCI_USERNAME and SKILLHUB_OCI_PASSWORD. A git repository (github:OWNER/REPO too) gets one commit
    on its branch gh-pages, with git's own credentials.

    Example: skillhub registry push ./registry s3://skills-bucket
    """
    target = target_address(target)
    done = pushing.push(folder, target, partial(open_target, common), now=now(), dry_run=common.dry_run)
    pages = has_pages(target, common)
    if common.json:
        return common.answer("registry push", {"target": target, **asdict(done), "pages": pages})
    if common.verbose:
        for path in done.written:
            common.terminal.say(path)
    if done.written or done.removed:
        counts = f"{len(done.written)} files, {len(done.removed)} removed, {done.unchanged} unchanged"
        new = " (new)" if done.is_new else ""
        common.terminal.did(f"{target}{new}: {common.would('write', 'published')} {counts}", "green")
    else:
        common.terminal.did(f"{target}: already up to date, {done.unchanged} files")


def registry_init(
    common: Common,
    folder: Dir,
    publisher: Annotated[str, Arg("--publisher NAME", "The publisher that signs the registry's own skills.")] = "own",
    url: Annotated[str | None, Arg("--url URL", "The site's public URL, for absolute links.")] = None,
    github_pages: Annotated[bool, Arg("--github-pages", "Write a workflow that publishes on GitHub Pages.")] = False,
    bins: Annotated[int, Arg("--bins N", "Signed documents for all publishers' releases, a power of 2.")] = 16,
    keys: KeysDir = None,
) -> None:
    """Create an empty registry. Publish DIR/site; keep DIR/keys secret.

    The passphrase for the keys is read from the terminal, or from SKILLHUB_PASSPHRASE.

    Example: skillhub registry init ./registry --publisher acme
    """
    path, fingerprint = os.path.abspath(folder), None
    settings = RegistrySettings.of(publisher, bins=bins).at(url)
    project = common.open_project()
    workflow = os.path.join(project.base, ".github", "workflows", "skillhub-registry.yml") if github_pages else None
    if workflow is not None and os.path.lexists(workflow):
        raise UsageError("expected no file of this name, found one", where=workflow, hint="move it away")
    build.refuse_existing(folder, keys)
    if not common.dry_run:
        setup = build.Setup(settings=settings, passphrase=new_passphrase("the registry's keys", common), keys=keys)
        if workflow is not None:
            write_atomic(os.path.join(path, ".gitignore"), b"*\n")  # the keys, in a repository that others read
            data = resources("skillhub.registry").joinpath("templates/github-pages.yml").read_bytes()
            write_output(workflow, data, project)
        fingerprint = build.init(folder, setup, signing_time())
    if common.json:
        made = {"path": path, "site": RegistryDir(folder).site, "fingerprint": fingerprint, "workflow": workflow}
        return common.answer("registry init", made)
    if common.dry_run:
        common.terminal.did(f"{path}: would create a registry")
        return
    common.terminal.did(f"{path}: created a registry, root {fingerprint}", "green")
    another = "; --publisher names another" if publisher == "own" else ""
    common.terminal.did(f"  the publisher {publisher} signs unsigned skills{another}")
    common.terminal.did(f"  serve {RegistryDir(folder).site} with any web server; it contains no secrets")
    offline = keys or os.path.join(path, "keys", "offline")
    common.terminal.did(f"  keep {os.path.join(path, 'keys')} secret")
    common.terminal.did(f"  keep {offline} on an offline medium; --keys DIR names its folder")
    if workflow is not None:
        common.terminal.did(f"  commit {workflow}; its secret, as docs/registry.md says, comes from:")
        packed = f"(cd {as_word(path)} && tar -cz {_FOR_CI}) | base64"
        common.terminal.did(f"    {packed} | gh secret set SKILLHUB_REGISTRY --env skillhub-registry")
    try:
        _pages()
    except UsageError as error:
        common.terminal.did(f"  {error.message} ({error.hint})")


def registry_add(
    common: Common,
    folder: Dir,
    skills: Annotated[list[str], Arg("SKILL...", "Folders or archives.")],
    keys: KeysDir = None,
) -> None:
    """Publish skills, all or none. The registry signs unsigned skills; signers of the others must be admitted.

    A new name needs the offline keys.

    Example: skillhub registry add ./registry ./my-skill
    """
    added = signed(common, keys, lambda signing: build.add(folder, skills, signing, common.publishers))
    _rebuild(common, folder)
    if common.json:
        return common.answer("registry add", {"added": added.releases, "unchanged": added.unchanged})
    done = common.would("add", "added")
    common.terminal.warn_each(f"{each.release.name}: {note}" for each in added.submissions for note in each.warnings)
    for release in added.releases:
        common.terminal.did(f"{done} {release.name} {release.version}, signed by {release.publisher}", "green")
    for release in added.unchanged:
        common.terminal.did(f"{release.name} {release.version} was added before, with the same content")
    if added.releases and not common.dry_run:
        common.terminal.say(_to_publish(folder))


# ``publish``: all steps from a skill's folder to a colleague's install.


def publish(
    common: Common,
    path: Annotated[str, Arg("[PATH]", "The skill's folder, or an archive.")] = ".",
    to: Annotated[
        str | None, Arg("--to TARGET", "A folder, s3://…, oci://…, a git repository, or a registry.")
    ] = None,
    registry: Annotated[str | None, Arg("--registry DIR", "The registry's folder; stored for this target.")] = None,
    key: Annotated[str | None, Arg("--key NAME|FILE", "Your key to sign with (default: the registry's).")] = None,
    keys: KeysDir = None,
) -> None:
    """Publish a skill in one step. Validates, signs and packs it, adds it to your registry, and pushes the registry.

    Shows the differences from the last release and asks once. TARGET is a target of registry push, or the registry's
    own folder. The registry is a folder on this machine that registry init created; name it with --registry the first
    time. If the command was interrupted, run it again.

    Example: skillhub publish ./my-skill --to github:acme/skills --registry ./registry
    """
    read_local(path, leave_out=files_of_project(path))  # raises before an error about the target
    targets = PublishTargets(common.home.state)
    target = targets.choose(to and target_address(to), registry)
    build.refuse_within(path, target.address, key if key and not is_name(key) else None)
    connect, where = partial(open_target, common), target.address or target.registry
    prepare = partial(signed_with, own_key(key, common)) if key else None
    passed: list[Signing] = []

    def planning(signing: Signing) -> ReleasePlan:
        passed[:] = [signing]  # so that the passphrase is asked for once
        return plan(path, target.registry, signing, common.publishers, prepare)

    planned, to_ = signed(common, keys, planning), f"to {where}"
    if target.address:
        built = _build(common, target.registry, Signing(now=signing_time(), dry_run=True)).written
        files = (f"{planned.submission.release.name}/{name}" for name in planned.submission.tree)
        paths = {*outputs.built_files(target.registry), *built, *files}
        is_there = pushing.check_target(target.registry, target.address, connect, now=now(), planned=paths)
        to_ += "" if is_there else ", which does not exist yet"
    # A misspelled --to gets nothing unasked.
    is_first = bool(target.address) and target not in targets.all()
    asked = _ask(planned, to_, common) if planned.is_new or is_first else []
    written: tuple[str, ...] = ()
    if not common.dry_run:
        build.add(target.registry, [path], passed[0], common.publishers, prepare, [planned.submission.tree.digest])
        upkeep.refresh(target.registry, passed[0])
        _rebuild(common, target.registry)
    if target.address and not common.dry_run:
        written = pushing.push(target.registry, target.address, connect, now=now()).written
        targets.remember(target)
    release = planned.submission.release
    value = {
        **members(release, "name", "version", "tree", "publisher"),
        "key": planned.submission.key,
        "previous": planned.previous.version if planned.previous else None,
        **members(planned, "changes", "findings"),
        "target": target.address or None,
        "registry": target.registry,
        "changed": not common.dry_run and bool(planned.is_new or written),
        "written": written,
        "pages": has_pages(target.address, common),
        "questions": [question.to_json(answer) for question, answer in asked],
    }
    done = common.would("publish", "published")
    pushed = f"; {amount(len(written), 'file')} pushed" if written else ""
    again = "" if planned.is_new else f" (the registry had this release already{pushed})"
    common.done("publish", value, f"{done} {release.name} {release.version} to {where}{again}", "green")
    hub = RegistryDir(target.registry)
    words = ["source", "add", hub.settings().publisher, hub.settings().url or "URL"]
    words += ["--fingerprint", hub.fingerprint()]
    if not value["pages"]:
        words = ["install", target.address, "--skill", release.name]  # clients find no root there
    if not common.dry_run:
        common.terminal.say(f"to install from it: {as_command('skillhub', *words)}")


def _ask(planned: ReleasePlan, where: str, common: Common) -> list[Asked]:
    """Ask about a release, and return the questions with their answers; if no person is asked, show the questions."""
    policies = read_policies(common.home, common.open_project().policy)
    questions = planned.questions(where, policies)
    open_ = [each for each in questions if not policies.agrees(each.kind)]
    answers = [*zip(open_, approver(common).answer(open_), strict=True)]
    policies.refuse_changed()
    error = refusal(answers) if common.yes or not common.dry_run else None
    if not common.json and not any(answer.seen for _, answer in answers):
        for each, answer in answers:
            if error is None or answer.said == "yes" or each.kind == "publish":  # findings were shown to who answered
                show(each, {}, common.terminal)
                if error is None and answer.said == "unanswered":
                    common.terminal.prose(f"to agree beforehand: {how_to_answer(each)}", 2)
    if error is not None:
        raise error
    return [(each, dict(answers).get(each, YES)) for each in questions]


def registry_check(common: Common, place: RegistryPlace) -> int:
    """Verify a registry as a client does. Checks all metadata and every release of every skill; exits 1 on a problem.

    Metadata that expires soon is a warning.

    Example: skillhub registry check ./registry
    """
    time = common.time()
    found = checks.check(place, time.now(), time, partial(fetcher_of, common))
    if common.json:
        common.answer("registry check", {"ok": not found.problems, **asdict(found)})
    else:
        common.terminal.warn_each(f"{issue} [{issue.code}]" for issue in found.warnings)
        for issue in found.problems:
            common.terminal.out(f"{issue} [{issue.code}]", "red")
        if not found.problems:
            common.terminal.did(f"{place}: no problems found", "green")
    return 1 if found.problems else 0


def registry_serve(
    common: Common,
    folder: Dir,
    host: Annotated[str, Arg("--host ADDRESS", "The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Arg("--port N", "The port; 0 takes a free one.")] = 8000,
) -> None:
    """Serve a registry's site, read-only. For tests and small teams; any other web server can serve the site too.

    It also answers shallow git clones, searches, the APIs of ClawHub and ToolHive, and MCP at /mcp.

    Example: skillhub registry serve ./registry --port 8000
    """
    site = RegistryDir(folder).site
    if not os.path.isdir(site):
        RegistryDir(folder).settings()  # its error says what the folder is
    with ExitStack() as ending:
        server = site_server(site, host, port, _handler(common, folder, ending))
        url = f"http://{host}:{server.server_port}"
        if not os.path.exists(os.path.join(site, "index.html")):
            common.terminal.say(f"no pages; to write them: {as_command('skillhub', 'registry', 'build', folder)}")
        if common.json:
            common.answer("registry serve", {"url": url})
        else:
            common.terminal.out(f"serving {site} at {url} (stop with Ctrl-C)")
        sys.stdout.flush()  # a program may wait for the address on a pipe
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            common.terminal.say("stopped")
        finally:
            server.server_close()


def _handler(common: Common, folder: str, ending: ExitStack) -> type[SiteHandler]:
    """Return the request handler; for a folder without a registry, one that serves only its files."""
    if not RegistryDir(folder).exists:
        return SiteHandler
    api = RegistryApi(folder, ScanCache(common.home, remember=False))
    mcp = None
    try:
        found = optional("skillhub.server.registry_mcp", "server", "MCP needs")
        mcp = ending.enter_context(found.mcp_requests(found.RegistryContent(api)))
    except UsageError as error:
        common.terminal.say(f"without MCP: {error.message} ({error.hint})")
    return type("_Handler", (RegistryHandler,), {"api": api, "mcp": staticmethod(mcp) if mcp else None})
