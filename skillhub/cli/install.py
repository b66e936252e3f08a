"""``install``, ``pick`` and ``update``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from skillhub.cli.common import (
    AllowUnsigned,
    Arg,
    Common,
    Enabling,
    NoEnable,
    Strings,
    TrustSource,
    Verify,
    output_place,
    read_file,
    trusted_sources,
    write_output,
)
from skillhub.cli.network import open_apart, open_ports, pick_releases
from skillhub.cli.render import (
    finish,
    remember_outcome,
    show_changes,
    show_left_out,
    show_plan,
    show_sources,
    to_enable,
)
from skillhub.command.ports import LeftOut, Options, Outcome, Ports, chosen_agents, show_no_plan
from skillhub.disk import files
from skillhub.errors import FormatError, NotFound, SkillhubError, UsageError, hinting
from skillhub.formats.digest import Digest
from skillhub.formats.text import amount, as_command, word
from skillhub.install.install import available_updates
from skillhub.install.install import install as flow
from skillhub.install.install import update as update_flow
from skillhub.install.trusted_sources import listings, reference
from skillhub.model.provenance import Changes, SourceChange
from skillhub.model.reference import Git, GitHub, Local, Ref, parse_ref
from skillhub.model.version import is_version
from skillhub.project.copies import agent_folders
from skillhub.project.intent import Wanted
from skillhub.sources.local import EXPECTED

_BEHIND = 1
_FEW = 6  # skills that fit into any agent's list, even with the longest descriptions of the specification
_MOST = 24  # lines of the plan for one skill, if no person can scroll back


def install(
    common: Common,
    enabling: Enabling,
    refs: Annotated[
        Strings,
        Arg(
            "[REF]...",
            "source:name, name@^1.2, owner/repo, https://host, mcp+https://host/mcp, ./folder, ./skill.zip",
        ),
    ] = None,
    skill: Annotated[Strings, Arg("--skill NAME", "Install this skill of several (repeatable).")] = None,
    every: Annotated[bool, Arg("--all", "Install all of several skills.")] = False,
    excepted: Annotated[Strings, Arg("--except NAME", "With --all, leave this skill out (repeatable).")] = None,
    alias: Annotated[
        str | None, Arg("--as NAME", "Install the skill under this name, if another skill has its own.")
    ] = None,
    frozen: Annotated[bool, Arg("--frozen", "Install exactly what the lock says, or fail.")] = False,
    from_: Annotated[
        str | None, Arg("--from FILE", "Install the skills of this bundle without a network; takes no REF.")
    ] = None,
    no_enable: NoEnable = False,
    allow_unsigned: AllowUnsigned = False,
    trust_source: TrustSource = None,
    verify: Verify = False,
) -> int:
    """Find skills, verify and scan them, ask, then store, lock and enable them; all or none.

    If it is stopped while it writes, such as by a full disk, `skillhub sync` finishes the rest.
    Without REF, install the skills of skillhub.lock and skillhub.toml, and remove those that
    skillhub.toml no longer wants. A skill with an open need is stored and locked but stays
    disabled: exit status 6. For a source with several skills, pass --skill or --all; --all
    leaves out and reports skills that are malformed or critical.

    Example: skillhub install github:code-review
    """
    wanted = _parsed(refs or [])
    options = enabling.options(
        common,
        enable=not no_enable,
        frozen=frozen,
        skills=tuple(skill or ()),
        every=every,
        excepted=tuple(excepted or ()),
        alias=alias,
        trusted=trusted_sources(trust_source),
    )
    before = common.open_project().intent().skills if refs else {}
    if from_ is None:
        ports = open_ports(common, allow_unsigned=allow_unsigned, believed=not verify)
    else:
        if refs:
            raise UsageError("--from installs what its lock has; it takes no reference")
        from skillhub.exchange.bundle import CAP, hold_to_lock
        from skillhub.sources.bundle import SkillBundle

        make = common.command("bundle", "export", from_)
        hint = f"--from takes a bundle; in a project with the skills, this command writes one: {make}"
        data = read_file(from_, CAP, hint=hint)
        with hinting("a bundle is what skillhub bundle export wrote", kinds=FormatError):
            bundle = SkillBundle.parse(data, from_)
        ports = open_ports(common, allow_unsigned=allow_unsigned, bundle=bundle)
        hold_to_lock(bundle, ports.project, frozen=frozen)
    show = show_no_plan if common.dry_run else _planning(common)
    # The user named the source, so the plan has the skills alone.
    planned = replace(ports, show_plan=lambda changes, _, left_out: show(changes, (), left_out))
    outcome = _with_lists(flow(wanted, options, planned), ports)
    status = finish(common, outcome, options, "install", "installed")
    _show_no_agent(outcome, options, common, ports)
    listed = _show_listed(before, outcome, common)
    if not (refs or from_ or verify or status):
        remember_outcome(common, outcome, ports)
    if refs and not (outcome.changed or outcome.pending or listed):
        _show_pins([each.name for each in outcome.skills], common)
    return status


def _parsed(refs: Sequence[str]) -> list[Ref]:
    """Return the typed references.

    Raises:
        NotFound: one of several is a path at which nothing is. If it has blanks and no quotes, the words after the
            first blank would name a stranger's repository.
    """
    parsed = [parse_ref(ref) for ref in refs]
    absent = [ref for ref in parsed if isinstance(ref, Local) and not os.path.lexists(os.path.expanduser(ref.path))]
    if absent and len(parsed) > 1:
        hint = f"if blanks belong to a path, quote it: {as_command('skillhub', 'install', ' '.join(refs))}"
        hint = EXPECTED if all(isinstance(each, Local) for each in parsed) else hint
        raise NotFound("there is no such file or folder", where=os.path.abspath(absent[0].path), hint=hint)
    return parsed


def _show_all_pins(common: Common) -> None:
    """Show which skills an update of all leaves unchanged because skillhub.toml pins them, a few by name."""
    if common.json:
        return
    pins = [(name, version) for name, version, *_ in _pins(common.wanted().skills, common)]
    if pins:
        named = [f"{name} to {version}" for name, version in pins[:_FEW]]
        more = f" and {len(pins) - _FEW} more" if len(pins) > _FEW else ""
        change = common.command("update", pins[0][0])
        common.terminal.say(f"skillhub.toml pins {', '.join(named)}{more}; how to change a pin: {change}")


def _show_pins(names: Iterable[str], common: Common) -> None:
    """Show which skills do not change because skillhub.toml pins them, with the command that changes the pin."""
    if common.json:
        return
    for name, version, allow, then in _pins(names, common):
        # A command at the end of a line stays in one row, for copying.
        common.terminal.say(f"skillhub.toml pins {name} to {version}; to allow newer versions: {allow}")
        common.terminal.say(then)


def _pins(names: Iterable[str], common: Common) -> Iterator[tuple[str, str, str, str]]:
    """Yield each pinned skill: its name, the version, the command that removes the pin, and what follows it."""
    lines = common.open_project().intent().skills
    for name, line in ((name, lines[name]) for name in names if name in lines):
        place, version = line.remote(), (line.version or "").lstrip("= ")
        again = ["--as", name] if line.name else []
        if is_version(version):
            allow = common.command("install", f"{line.source}:{line.name or name}@>={version}", *again)
            then = f"then: {common.command('update', name)}"
        elif isinstance(place, Git | GitHub) and place.rev:
            version, allow = place.rev, common.command("install", str(replace(place, rev=None)), *again)
            then = f"to pin another: {common.command('install', str(replace(place, rev='REV')), *again)}"
        else:
            continue
        yield name, version, allow, then


def _show_listed(before: Mapping[str, Wanted], outcome: Outcome, common: Common) -> bool:
    """Show the skills of which only the line in skillhub.toml changed; return whether there are some."""
    after = common.open_project().intent().skills if before else {}
    found = [name for name, line in before.items() if name in outcome.unchanged and after.get(name, line) != line]
    if common.json:
        return bool(found)
    for name in found:
        place, version = after[name].remote(), after[name].version
        allowed = version or (place.rev if isinstance(place, Git | GitHub) else None)
        newest = f"; to install the newest of them: {common.command('update', name)}"
        is_one = allowed is not None and is_version(allowed.lstrip("= "))
        says = f"only the line of {name} in skillhub.toml changed; it now allows {allowed or 'every version'}"
        common.terminal.say(says if is_one else f"{says}{newest}")
    return bool(found)


def _show_no_agent(outcome: Outcome, options: Options, common: Common, ports: Ports) -> None:
    """Show where copies were written if no agent was named, chosen before or found here, and how to name one."""
    new = [each.name for each in outcome.skills if each.links and each.name not in outcome.unchanged]
    if not (new and outcome.changed) or common.json or common.dry_run:
        return
    if not chosen_agents(options, ports.project.records(), ports.project.intent(), ports):
        again = to_enable(new, outcome, common, "--agent", "claude-code")
        written = "no known agent is in use here, so only .agents/skills was written"
        common.terminal.say(f"{written}; to name one: {again}")


def _with_lists(outcome: Outcome, ports: Ports) -> Outcome:
    """Return the outcome with warnings about the lists of skills that agents' models see.

    They are computed only if there are many skills, or one in both scopes: the modules that read skills as agents do
    are not loaded for a few.
    """
    if not outcome.changed:
        return outcome
    names: list[set[str]] = []
    scopes = {each.scope: each for each in (ports.project, ports.project.users(ports.user_home))}
    for each in scopes.values():
        folders = agent_folders(each, ports.user_home, ports.environ)
        with files.disk_errors(each.base):
            names.append({name for folder in folders for name in os.listdir(folder)})
    if sum(map(len, names)) <= _FEW and not (len(names) > 1 and names[0] & names[1]):
        return outcome
    from skillhub.audit.doctor import listing_checks

    try:
        found = [f"{each.name}: {each.message}" for each in listing_checks(ports, _written(outcome))]
    except SkillhubError as error:  # from an agent's settings, which an install does not need
        found = [f"{error.where}: {error.message}"]
    return replace(outcome, warnings=(*outcome.warnings, *found))


def _written(outcome: Outcome) -> dict[str, Digest]:
    """Return the folders of skills that were not installed here before in any version, with their trees."""
    known = {*outcome.changes, *outcome.unchanged, *outcome.restored}
    new = [each for each in outcome.skills if each.name not in known]
    places = {os.path.split(link): each.tree for each in new for link in each.links if each.tree}
    real = {folder: os.path.realpath(folder) for folder in {folder for folder, _ in places}}
    return {os.path.join(real[folder], name): tree for (folder, name), tree in places.items()}


def bundle_export(common: Common, file: Annotated[str, Arg("FILE", "The bundle to write.")]) -> None:
    """Write a file that installs the lock without a network.

    The file has the lock, the artifacts, the signed metadata and roots of registries, and objects of git. Before it
    is written, everything is fetched and verified again, and installed in memory from the bundle alone.
    The same answers of the sources give the same bytes. The metadata in the file expires as it does online.

    Example: skillhub bundle export skills.bundle
    """
    from skillhub.exchange.bundle import export, usable_until

    answers: dict[str, tuple[str, bytes]] = {}
    recorded, network = open_apart(common, recorded=answers)
    ports = open_ports(common, scratch=True)
    bundle = export(ports, recorded, answers, network.proof, lambda it: open_apart(common, it)[0])
    data = b"".join(bundle.parts())
    if not common.dry_run:
        write_output(file, data, common.open_project())
    until, names = usable_until(bundle), [*bundle.lock.skills]
    row = {"path": file, "skills": names, "size": len(data), "digest": Digest.of(data), "usable_until": until}
    about = f"{common.would('write', 'wrote')} {word(file)}: {amount(len(names), 'skill')}, {len(data)} bytes"
    return common.done("bundle export", row, f"{about}; usable until {until}" if until else about)


def pick(
    common: Common, enabling: Enabling, no_enable: NoEnable = False, allow_unsigned: AllowUnsigned = False
) -> int:
    """Choose from the skills that all sources list, and install them. Needs a terminal.

    The extra pick adds arrow keys, words that filter and a preview. Without it, with TERM=dumb, or with
    SKILLHUB_PICKER=list for screen readers, the skills are a numbered list.

    Example: skillhub pick
    """
    if not common.asks:
        raise UsageError("pick needs a terminal", hint="use skillhub search WORDS and skillhub install NAME")
    options = enabling.options(common, enable=not no_enable)
    ports = open_ports(common, allow_unsigned=allow_unsigned)
    listed = listings(ports)
    common.terminal.warn_each(listed.warnings)
    releases = listed.releases()
    if not releases:
        common.terminal.say("no source lists a skill; skillhub source list shows your sources")
        return 0
    for alias, each in listed.kept.items():
        common.terminal.say(f"{alias} was {each.shown(ports.clock())}", "dim")
    picked = pick_releases(common, releases, ports.sources.places())
    if not picked:
        common.terminal.say("no skill was chosen", "dim")
        return 0
    outcome = flow([reference(each) for each in picked], options, ports)
    return finish(common, _with_lists(outcome, ports), options, "install", "installed")


def update(
    common: Common,
    enabling: Enabling,
    names: Annotated[Strings, Arg("[NAME]...", "Installed skills (default: all).")] = None,
    check: Annotated[bool, Arg("--check", "Only report available updates; exit 1 if there are any.")] = False,
    skill: Annotated[Strings, Arg("--skill NAME", "Also update this skill (repeatable).")] = None,
    every: Annotated[bool, Arg("--all", "Update all locked skills; excludes names.")] = False,
    frozen: Annotated[bool, Arg("--frozen", "Fail if an update would change the lock.")] = False,
    pr_body: Annotated[
        str | None, Arg("--pr-body FILE", "Write the changes to a file, as Markdown for a pull request.")
    ] = None,
    no_enable: NoEnable = False,
    allow_unsigned: AllowUnsigned = False,
    trust_source: TrustSource = None,
) -> int:
    """Update skills to the newest version that skillhub.toml allows: show the plan, ask, then change; all or none.

    The questions name each capability and need that a new version adds. A new signer is refused. Without
    NAME, a skill stays unchanged and is reported (exit status 6) if its source is unreachable or no longer has
    it, or if the newer version is malformed, critical in the scan, or forbidden.
    `skillhub diff NAME` shows every line.

    Example: skillhub update --check
    """
    chosen = [*(names or []), *(skill or [])]
    if every and chosen:
        raise UsageError("--all and names exclude each other", hint="leave one of the two out")
    some = common.chosen(chosen) if not every else None
    if check:
        ports = open_ports(common, scratch=True, believed=True)
        outcome = available_updates(some or [], ports) if some != [] else Outcome((), False)
        if pr_body is not None:
            from skillhub.cli.changes import write_review

            write_review(pr_body, [each.name for each in outcome.skills], ports)
        if common.json or ports.project.lock().skills:
            show_changes(common, outcome)
        else:
            common.say_nothing_locked("update", common.wanted().skills)
        if names and not outcome.skills:
            _show_pins(names, common)
        elif not (chosen or outcome.pending):
            _show_all_pins(common)
        return _BEHIND if outcome.skills or outcome.left_out or outcome.pending else 0
    options = enabling.options(common, enable=not no_enable, frozen=frozen, trusted=trusted_sources(trust_source))
    ports = open_ports(common, allow_unsigned=allow_unsigned)
    before = ports.project.lock()
    if pr_body is not None:
        output_place(pr_body, ports.project)
    planned = replace(ports, show_plan=_planning(common))
    outcome = update_flow(some or [], options, planned) if some != [] else Outcome((), False)
    if pr_body is not None and not common.dry_run:
        from skillhub.cli.changes import write_review

        write_review(pr_body, before, ports)
    if not (common.json or ports.project.lock().skills):
        common.say_nothing_locked("update", common.wanted().skills)
        return 0
    status = finish(common, outcome, options, "update", "updated")
    if names and not outcome.changed:
        _show_pins(names, common)
    elif not (chosen or outcome.pending):  # the warning of a withdrawn skill has the command for its pin
        _show_all_pins(common)
    return status or (_BEHIND if outcome.pending and not common.dry_run else 0)


def _planning(common: Common) -> Callable[[Mapping[str, Changes], Sequence[SourceChange], Sequence[LeftOut]], None]:
    """Return the function that shows the plan; of a plan that the questions contain, only the skills left out."""
    if common.json:
        return show_no_plan
    terminal, is_asked = common.terminal, common.asks and not (common.yes or common.dry_run)
    write = terminal.out if common.dry_run else terminal.say

    def show(plan: Mapping[str, Changes], sources: Sequence[SourceChange], left_out: Sequence[LeftOut]) -> None:
        show_sources(sources, write)
        if is_asked:
            show_left_out(left_out, terminal)
        else:
            show_plan(common, plan, write, _MOST)

    return show
