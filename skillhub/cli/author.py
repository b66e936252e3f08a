"""``new``, ``validate``, ``pack``, ``sign``, ``publish``, ``key``, ``registry watch``; passphrases, targets."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from skillhub.author.author import Validated, begin, pack_skill, sign_skill, validate_all
from skillhub.cli.common import (
    Arg,
    Common,
    Strings,
    optional,
    read_file,
    read_pem,
    signing_time,
    working_folder,
    write_output,
)
from skillhub.cli.network import open_ports
from skillhub.cli.render import show_findings
from skillhub.cli.terminal import Terminal
from skillhub.errors import NotFound, PassphraseNeeded, SourceError, UsageError
from skillhub.formats.json import members
from skillhub.formats.text import amount, as_command, did_you_mean, quote, word
from skillhub.model.finding import Issue, counted
from skillhub.model.reference import holds_secret
from skillhub.model.tree import kind_of
from skillhub.net.fetch import OFFLINE
from skillhub.net.settings import Settings
from skillhub.project.keys import Key, Keys, read_key
from skillhub.sources.local import hint_to_sign_again
from skillhub.trust import x509
from skillhub.trust.keys import PrivateKey

if TYPE_CHECKING:
    from skillhub.registry.operator import Signing
    from skillhub.registry.push_targets import Target

# Passphrases come from a variable or a prompt, never from the command line, which other users can read.

VARIABLE = "SKILLHUB_PASSPHRASE"
KEYS_VARIABLE = "SKILLHUB_REGISTRY_KEYS"
KeysDir = Annotated[
    str | None,
    Arg("--keys DIR", "The folder of the offline keys (default: in the registry's folder).", envvar=KEYS_VARIABLE),
]
_T = TypeVar("_T")


def new_passphrase(what: str, common: Common) -> bytes | None:
    """Return a passphrase for a new key: from the variable, else typed twice; None leaves the key unencrypted.

    If no person can be asked, or the variable is empty, a line says that the key is not encrypted.

    Raises:
        UsageError: the two typed passphrases differ.
    """
    if (found := _given()) is not None:
        return found
    if not common.asks or VARIABLE in os.environ:
        common.terminal.say(f"{what}: will have no passphrase; {VARIABLE} names one")
        return None
    first = common.terminal.secret(f"{what}: a passphrase (empty for none):")
    if first and common.terminal.secret("repeat the passphrase:") != first:
        raise UsageError("the two passphrases differ")
    return first.encode() or None


def with_passphrase(what: str, common: Common, use: Callable[[bytes | None], _T]) -> _T:
    """Call ``use`` with the passphrase of a key and return its result; ask a person only if the key is encrypted.

    Raises:
        PassphraseNeeded: the key is encrypted, the variable is not set, and no person can be asked.
        FormatError: the passphrase is wrong.
    """
    found = _given()
    if found is not None or not common.asks:
        return use(found)
    try:
        return use(None)
    except PassphraseNeeded:
        return use(common.terminal.secret(f"{what}:").encode())


def _given() -> bytes | None:
    value = os.environ.get(VARIABLE)
    return value.encode() if value else None


def signed(common: Common, keys: str | None, use: Callable[[Signing], _T]) -> _T:
    """Call ``use`` with the registry's keys and return its result; ask for a passphrase if one is needed."""
    from skillhub.registry.operator import Signing

    def with_keys(passphrase: bytes | None) -> _T:
        return use(Signing(now=signing_time(), passphrase=passphrase, keys=keys, dry_run=common.dry_run))

    return with_passphrase("passphrase of the registry's keys", common, with_keys)


# ``new``, ``validate``, ``pack`` and ``sign``: for authors of skills.

Format = Annotated[Literal["zip", "tar.gz"] | None, Arg("--format", "The format (default: as FILE says, else zip).")]


def new(common: Common, name: Annotated[str, Arg("NAME", "The name of the skill and of its folder.")]) -> None:
    """Create a skill: a folder NAME here, which validate accepts and you fill in.

    Example: skillhub new my-skill
    """
    begun = begin(name, working_folder(), dry_run=common.dry_run)
    if common.json:
        return common.answer("new", asdict(begun))
    common.terminal.did(f"{common.would('make', 'made')} {begun.path}", "green")
    for file in begun.files:
        common.terminal.did(f"  {file}")
    check, trial = (as_command("skillhub", verb, f"./{name}") for verb in ("validate", "install"))
    common.terminal.say(f"edit {word(f'{name}/SKILL.md')}, then: {check}; to try it: {trial}")


def validate(common: Common, paths: Annotated[list[str], Arg("PATH...", "Folders and archives.")]) -> int:
    """Validate skills: folders against the specification, archives with the code that install uses.

    Exits 1 if a skill or its signature is invalid; 3 if there is no skill at one of the paths.

    Example: skillhub validate ./my-skill ./my-skill.zip
    """
    found = validate_all(paths, common.publishers, common.time().now())
    is_ok = all(each.ok and (each.signature is None or each.signature.status != "invalid") for each in found)
    if common.json:
        common.answer("validate", {"ok": is_ok, "skills": [_json(each) for each in found]})
    else:
        for each in found:
            _draw(each, common.terminal)
    failed = max((each.error.exit_code for each in found if each.error), default=0)
    return failed or (0 if is_ok else 1)


def _json(found: Validated) -> dict[str, Any]:
    signed = ("status", "identity", "fingerprint", "code")
    return {
        **members(found, "path", "ok", "name", "tree"),
        "errors": found.errors,
        "warnings": [
            *found.warnings,
            *(Issue(each.rule, f"{each.severity}: {each.message}", each.where) for each in found.findings),
        ],
        "signature": members(found.signature, *signed) if found.signature else dict.fromkeys(signed),
    }


def _draw(found: Validated, terminal: Terminal) -> None:
    signature = found.signature.status if found.signature else "not checked"
    if found.signature and found.signature.code:
        signature += f" ({found.signature.code})"
    is_ok = found.ok and not signature.startswith("invalid")
    warnings = amount(len(found.warnings), "warning") if found.warnings else ""
    noted = ", ".join(filter(None, (warnings, counted(found.findings))))
    status = f"ok{f', with {noted}' if noted else ''}" if is_ok else "not ok"
    text = f"{found.path}: {status}, signature {signature}"
    if is_ok and not noted:
        terminal.did(text, "green")
    else:
        terminal.out(text, "yellow" if is_ok else "red")
    if hint := hint_to_sign_again(found.path, found.signature.code if found.signature else None):
        terminal.out(f"  {hint}")
    for issue in found.errors:
        terminal.out(f"  error: {issue} [{issue.code}]", "red")
    for issue in found.warnings:
        terminal.out(f"  warning: {issue} [{issue.code}]", "yellow")
    if found.trust:
        terminal.out(f"    to trust it: {found.trust}")
    show_findings(found.findings, terminal, "  ")


def pack(
    common: Common,
    path: Annotated[str, Arg("PATH", "The skill's folder.")],
    output: Annotated[str | None, Arg("--output -o FILE", "The file, or a folder for it.")] = None,
    form: Format = None,
) -> None:
    """Pack a skill into an archive: NAME-VERSION.zip here, the same bytes each time.

    An archive cannot be inside the skill's folder: there, the default is the folder above it. If FILE is a symlink,
    its target is written, unless that is outside of the project.

    Example: skillhub pack ./my-skill -o dist/
    """

    def write(place: str, data: bytes) -> None:
        if not common.dry_run:
            write_output(place, data, common.open_project())

    kind = form or kind_of(os.path.basename(output or "")) or "zip"
    packed = pack_skill(path, output, kind, common.time().now(), write)
    common.terminal.warn_each(packed.warnings)
    done = "would write " if common.dry_run else ""
    return common.done("pack", asdict(packed), f"{done}{packed.path}: {packed.size} bytes, {packed.digest}", "green")


def sign(
    common: Common,
    path: Annotated[str, Arg("PATH", "The skill's folder.")],
    key: Annotated[str, Arg("--key NAME|FILE", "The name of your key, or a PEM file.")] = "default",
    chain: Annotated[str | None, Arg("--chain FILE", "The key's certificate, then its issuers, PEM.")] = None,
) -> None:
    """Sign a skill: write skill.oms.sig into its folder, and nothing else.

    Example: skillhub sign ./my-skill --key default
    """
    certificates = read_pem(chain, x509.load) if chain else ()
    signer, now = partial(own_key, key, common), common.time().now()
    signed = sign_skill(path, signer, certificates, now, dry_run=common.dry_run)
    common.terminal.warn_each(signed.warnings)
    who = f" of {signed.identity}" if signed.identity else ""
    text = f"{signed.path} {common.would('be', 'is')} signed by the key {signed.fingerprint}{who}"
    return common.done("sign", asdict(signed), text, "green")


def own_key(key: str, common: Common) -> PrivateKey:
    """Return the user's key of this name, or the key in this file; ask for its passphrase if it is encrypted."""
    return with_passphrase(f"passphrase of {key}", common, lambda passphrase: Keys(common.home).load(key, passphrase))


# ``key``: makes, lists, shows and imports the keys that skills are signed with.

NewKey = Annotated[str, Arg("[NAME]", "The name of the key.")]
Kind = Annotated[
    Literal["p256", "p384", "ed25519"], Arg("--kind", "Every verifier supports p256; few support ed25519.")
]


def key_new(common: Common, name: NewKey = "default", kind: Kind = "p256") -> None:
    """Create a key to sign skills with. Give its public half to the users of your skills.

    The passphrase is that of SKILLHUB_PASSPHRASE; without it, the command asks for one on a terminal.

    Example: skillhub key new
    """
    keys = Keys(common.home)
    keys.refuse_taken(name)
    if common.dry_run:
        planned = {"name": name, "kind": kind, "fingerprint": None}
        return common.done("key new", planned, f"would make the key {name}: {kind}")
    return _made(keys.new(name, kind, new_passphrase(f"key {name}", common)), common)


def key_list(common: Common) -> None:
    """List your keys.

    Example: skillhub key list
    """
    keys = Keys(common.home).all()
    if common.json:
        return common.answer("key list", {"keys": keys})
    for key in keys:
        common.terminal.out(f"{key.name}: {key.kind}", "bold")
        common.terminal.out(f"  {key.fingerprint}")
        common.terminal.out(f"  public key: {key.public_path}")
    if not keys:
        common.terminal.say("no keys yet; to make one: skillhub key new")


def key_show(common: Common, name: Annotated[str, Arg("[NAME]", "The name of your key.")] = "default") -> None:
    """Show a key. Its fingerprint, its files, and its public half to hand out.

    Example: skillhub key show default
    """
    key = Keys(common.home).get(name)
    pem = read_file(key.public_path).decode("ascii", "replace")
    if common.json:
        return common.answer("key show", {**asdict(key), "public_key": pem})
    _draw_key(key, common.terminal.out)
    common.terminal.lines(pem)


def key_import(
    common: Common,
    file: Annotated[str, Arg("FILE", "A private key, PEM, encrypted or not.")],
    name: Annotated[str, Arg("--name NAME", "The name of the key.")] = "default",
) -> None:
    """Import a private key from a file. The file does not change.

    The key is encrypted with the passphrase that you give, as with key new.

    Example: skillhub key import ./release.pem --name release
    """
    keys = Keys(common.home)
    read_file(file, hint="name the PEM file of a private key; skillhub key new creates a key")
    keys.refuse_taken(name)
    private = with_passphrase(f"passphrase of {file}", common, lambda passphrase: read_key(file, passphrase))
    if common.dry_run:
        answer = {"name": name, "kind": None, "fingerprint": None}
        return common.done("key import", answer, f"would make the key {name}")
    return _made(keys.add(name, private, new_passphrase(f"key {name}", common)), common)


def _made(key: Key, common: Common) -> None:
    if common.json:
        return common.answer("key new", asdict(key))
    _draw_key(key, common.terminal.did)


def _draw_key(key: Key, write: Callable[..., None]) -> None:
    write(f"{key.name}: {key.kind} {key.fingerprint}", "green")
    write(f"  private key: {key.path}")
    write(f"  public key:  {key.public_path}")


# Targets that a registry is published to.

_LOGINS = "docker login, SKILLHUB_OCI_USERNAME and SKILLHUB_OCI_PASSWORD, the usual AWS variables, or git's helpers"
_TARGETS = "expected a folder, s3://…, oci://…, github:OWNER/REPO or git+https://…"


def target_address(text: str) -> str:
    """Return the address of a target that the user typed; the address of a repository names its branch.

    Raises:
        UsageError: the text is no target, or contains a credential.
    """
    if "://" in text and holds_secret(text):
        raise UsageError("expected a target without password or another credential", hint=_LOGINS)
    if text.startswith(("git+", "github:", "git@")):
        from skillhub.registry.push_targets import branch_address

        return branch_address(text, os.environ)
    if re.fullmatch(r"[\w-]+/[\w.-]+", text) and not os.path.isdir(text.partition("/")[0]):
        hint = f"on GitHub: github:{text}; a folder: {as_command(f'./{text}')}"
        raise UsageError(f"{_TARGETS}, found {quote(text)}", hint=hint)
    if all(os.path.exists(os.path.join(text, name)) for name in ("HEAD", "objects", "refs")):
        hint = f"a branch of it: {as_command(f'git+file://{os.path.abspath(text)}@gh-pages')}"
        raise UsageError(f"expected a folder for a site, found the git repository {quote(text)}", hint=hint)
    kind, colon, rest = text.partition(":")
    # A single letter is a Windows drive.
    if colon and len(kind) > 1 and kind.isalnum() and not rest.startswith("//"):
        folder = as_command(f"./{text}") if text.isprintable() else "./NAME"
        meant = f"{did_you_mean([f'{kind}://{rest}'])} " if kind in ("s3", "oci") else ""
        raise UsageError(f"{_TARGETS}, found {quote(text)}", hint=f"{meant}a folder of that name: {folder}")
    return text


def has_pages(address: str, common: Common) -> bool:
    """Return whether a target gets pages and files for other clients; if not, tell the user."""
    if address.startswith("oci://"):
        common.terminal.say("an OCI registry gets no pages and no files for other clients: skillhub alone reads it")
        return False
    return True


def open_target(common: Common, address: str) -> Target:
    """Return the target of an address.

    Raises:
        UsageError: the scheme is unknown, or its extra is not installed.
        SourceError: the target needs the network, and ``--offline`` forbids that.
    """
    from skillhub.registry.push_targets import FolderTarget, open_branch

    scheme, separator, _ = address.partition("://")
    if not separator:
        return FolderTarget(address)
    if common.offline and scheme != "git+file":
        raise SourceError(OFFLINE, where=address)
    settings = Settings.read(common.home)
    if scheme.startswith("git+"):
        return open_branch(address, common.home.cache, os.environ, settings.tokens)
    if scheme not in ("s3", "oci"):
        raise UsageError(f"{_TARGETS}, found {quote(address)}")
    module = optional(f"skillhub.registry.push_{scheme}", scheme, f"{scheme}:// needs")
    target: Target = module.open_target(address, settings.trusts) if scheme == "oci" else module.open_target(address)
    return target


# The logs of registries: new entries for publishers, and cosignatures of witnesses.

_WHERE = ("source", "position", "time")


def registry_cosign(
    common: Common,
    folder: Annotated[str, Arg("DIR", "The registry's folder.")],
    files: Annotated[Strings, Arg("[FILE]...", "Files with cosignatures of witnesses.")] = None,
    request: Annotated[
        int | None, Arg("--request N", "Print what to send to a witness that has seen the first N entries.", min=0)
    ] = None,
) -> None:
    """Add cosignatures of witnesses to the log's newest checkpoint. Prints the key of the log, for witnesses.

    Example: skillhub registry cosign ./registry cosignature.txt
    """
    from skillhub.registry.upkeep import cosign

    hint = "a FILE has the answer of a witness; --request N prints what to send to one"
    lines = b"".join(read_file(each, hint=hint) for each in files or ())
    key, signers, body = signed(common, None, lambda signing: cosign(folder, lines, signing, request or 0))
    asked = None if request is None else body
    if common.json:
        return common.answer("registry cosign", {"key": str(key), "signers": signers, "request": asked})
    common.terminal.lines(asked or str(key))
    tell = common.terminal.say if asked else common.terminal.out
    tell(f"signed by: {', '.join(signers)}", "green")


def registry_watch(
    common: Common,
    name: Annotated[str, Arg("NAME", "A publisher or a skill, also as SOURCE:NAME; or SOURCE for all entries.")],
) -> int:
    """Report new entries for a name in the logs of registries. Exits 1 if there are any; else scripts get no output.

    Example: skillhub registry watch acme
    """
    from skillhub.answers.setup import LogEntryRow
    from skillhub.trust.log_client import LogWatch

    ports = open_ports(common)
    alias, _, about = name.rpartition(":")
    if not alias and about in ports.sources.all():
        alias, about = about, ""
    sources = {alias: ports.sources.get(alias)} if alias else ports.sources.all()
    hubs = {each: ports.open_registry(source) for each, source in sources.items() if source.root is not None}
    logs = {each: hub.log for each, hub in hubs.items() if hub.log is not None}
    watches = {each: LogWatch(log, ports.sources.metadata(sources[each]), about) for each, log in logs.items()}
    if not any(watch.is_known for watch in watches.values()):
        raise NotFound(f"no log of a registry has {quote(name)}", hint="skillhub source list names the sources")
    found = [(each, entry) for each, watch in watches.items() for entry in watch.entries]
    rows = [{"time": entry.get("published"), **entry, "source": each} for each, entry in found]
    if common.json:
        entries = [{field: row.get(field) for field in LogEntryRow.model_fields} for row in rows]
        common.answer("registry watch", {"ok": not rows, "entries": entries})
    else:
        for row in rows:
            is_offered = row["kind"] == "yanked" and row.get("reason") is None
            shown = {**row, "kind": "offered-again"} if is_offered else row
            words = [shown[field] for field in LogEntryRow.model_fields if field in row and field not in _WHERE]
            common.terminal.out(f"{word(row['time'] or '-')} {row['source']}: {' '.join(words)}", "yellow")
        if not rows and sys.stderr.isatty():
            common.terminal.say("no new entries")
    if not common.dry_run:
        for watch in watches.values():
            watch.remember()
    return 1 if rows else 0
