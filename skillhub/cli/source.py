"""``source``: adds, lists, shows, removes and trusts the registries and sites that skills come from."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from skillhub.cli.common import Common, Run, read_file
from skillhub.cli.options import argument, option
from skillhub.cli.terminal import members
from skillhub.errors import FormatError, NotFound, StateError, UsageError
from skillhub.formats.text import as_command
from skillhub.model.reference import masked

if TYPE_CHECKING:
    from skillhub.install.sources import Pin, SourceView
    from skillhub.sources.configured import Source, Sources

Name = Annotated[str, argument("NAME", "The source's alias.")]
Root = Annotated[str | None, option("--root FILE", "Its 1.root.json, had elsewhere.")]
Fingerprint = Annotated[str | None, option("--fingerprint sha256:…", "The SHA-256 of its 1.root.json.")]
_ROOT_CAP = 512_000


def add(
    common: Common,
    name: Name,
    url: Annotated[str, argument("URL", "Where the registry or the site is.")],
    root: Root = None,
    fingerprint: Fingerprint = None,
    allow_unsigned: Annotated[bool, option("--allow-unsigned", "Take a site that is no registry.")] = False,
) -> int:
    """Add a registry, pinned by its root. Without --root or --fingerprint you are shown it and asked.

    A well-known site that is no registry can be added as well: nobody but whoever serves it vouches for it.

    Example: skillhub source add acme https://skills.acme.example --fingerprint sha256:…
    """
    from skillhub.install.sources import add_source

    ports = common.ports(allow_unsigned=allow_unsigned)
    known = ports.sources.mine()
    source = add_source(name, url, _pin(root, fingerprint), ports, dry_run=common.dry_run)
    if source in known.values():
        return common.done("source add", _json(source), f"nothing to do: {source.alias} is {_spelled(source)}")
    done = "would add" if common.dry_run else "added"
    return common.done("source add", _json(source), f"{done} {source.alias}: {_spelled(source)}", "green")


def list_(common: Common) -> int:
    """List the sources.

    Example: skillhub source list
    """
    sources = _here(common).all().values()
    if common.json:
        common.terminal.answer("source list", {"sources": [_facts(source, common) for source in sources]})
    else:
        for source in sources:
            _draw(source, common)
    return 0


def show(common: Common, name: Name) -> int:
    """Show a source and the skills that it lists.

    Example: skillhub source show github
    """

    ports = common.ports()
    source = ports.sources.get(name)
    skills = ports.listing(source).skills
    newest = [releases[0] for _, releases in sorted(skills.items())]
    if common.json:
        rows = [members(each, "name", "version", "publisher", "description") for each in newest]
        return common.result("source show", {**_facts(source, common), "skills": rows})
    _draw(source, common)
    for role in _view(source, common).root.roles if source.root else ():
        common.terminal.out(f"  {role.name}: {role.threshold} of {len(role.key_ids)} keys")
        for key in role.key_ids:
            common.terminal.out(f"    {key}", "dim")
    cells = [(each.name, each.version or "-", each.publisher or "-", each.description) for each in newest]
    common.terminal.table(("NAME", "VERSION", "PUBLISHER", "DESCRIPTION"), cells)
    return 0


def remove(common: Common, name: Name) -> int:
    """Forget a source; what was installed from it stays.

    Example: skillhub source remove acme
    """
    left: list[str] = []
    project = common.open_project()
    here = common.sources.within(project)
    gone = here.get(name) if common.dry_run else here.remove(name)
    with suppress(FormatError, StateError):  # what cannot be read is told by the commands that are about it
        lock = project.lock()
        if name in lock.sources and gone.is_meant(lock.sources[name]):
            left = [skill for skill, entry in lock.skills.items() if entry.place == name and not entry.local]
    done = "would remove" if common.dry_run else "removed"
    common.done("source remove", _json(gone), f"{done} {gone.alias}: {gone.url}")
    if left:
        common.terminal.say(f"locked from it here, and left as they are: {', '.join(left)}")
    pin = () if gone.embedded or gone.root is None else ("--fingerprint", gone.root)
    again = ("add", gone.alias, gone.url) if gone.named_by == "person" else ("trust", gone.alias)
    back = as_command("skillhub", "source", *again, *pin)
    common.terminal.say(f"to have it back: {back}")
    return 0


def trust(common: Common, name: Name, root: Root = None, fingerprint: Fingerprint = None) -> int:
    """Trust a source that this project brings, or one anew. What a project brings counts in it alone.

    Anew: its registry has another root, or has one now.

    Example: skillhub source trust acme --fingerprint sha256:…
    """
    from skillhub.install.sources import trust_source

    source = trust_source(name, _pin(root, fingerprint), common.ports(), dry_run=common.dry_run)
    done = "would trust" if common.dry_run else "trusted"
    of = "" if source.named_by == "person" else ", for this project alone"
    return common.done("source trust", _json(source), f"{done} {source.alias}: {_spelled(source)}{of}", "green")


def _pin(root: str | None, fingerprint: str | None) -> Pin:
    from skillhub.formats.digest import Digest
    from skillhub.install.sources import Pin

    data = read_file(root, _ROOT_CAP) if root else None
    try:
        return Pin(data, Digest.parse(fingerprint, "--fingerprint") if fingerprint is not None else None)
    except FormatError as error:
        hint = "the SHA-256 of its 1.root.json, as skillhub source show prints it"
        raise UsageError(f"--fingerprint: {error.message}", hint=hint) from error


def _here(common: Common) -> Sources:
    """Return the sources that count here; where no project can be opened, the user's own."""
    with suppress(NotFound, StateError):
        return common.sources.within(common.open_project())
    return common.sources


def _view(source: Source, common: Common) -> SourceView:
    from skillhub.install.sources import view_source

    return view_source(source, common.sources, common.time().now())


def _draw(source: Source, common: Common) -> None:
    out = common.terminal.out
    out(f"{source.alias}: {masked(source.url)}", "bold")
    if source.named_by != "person":
        out("  this project brings it, and it counts in no other; nobody there is told who asks")
    if source.root is None:
        out("  a site that is no registry: nobody but whoever serves it vouches for its skills", "yellow")
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
    if source.root is not None:
        return _view_json(_view(source, common))
    lists: dict[str, list[str]] = {"roles": [], "metadata": [], "changes": [], "warnings": []}
    return {"scope": "user", **_json(source), "root_version": None, "expires": None, "refreshed": None, **lists}


def _view_json(view: SourceView) -> dict[str, Any]:
    roles = [{"role": r.name, "threshold": r.threshold, "keys": list(r.key_ids)} for r in view.root.roles]
    return {
        "scope": "user",
        **_json(view.source),
        "root_version": view.root.version,
        "expires": view.root.expires,
        "roles": roles,
        "metadata": [asdict(each) for each in view.metadata],
        "refreshed": view.refreshed,
        "changes": list(view.changes),
        "warnings": list(view.warnings),
    }


def _json(source: Source) -> dict[str, Any]:
    facts = {"name": source.alias, "kind": source.locked().kind, "url": source.url, "root": source.root}
    return facts if source.named_by == "person" else {**facts, "scope": "project"}


def _spelled(source: Source) -> str:
    return f"{source.url}, root {source.root}" if source.root else str(source.locked())


VERBS: dict[str, Run] = {"add": add, "list": list_, "show": show, "remove": remove, "trust": trust}
