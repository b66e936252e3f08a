"""``show``, ``use``, ``search`` and ``schema``; ``catalog``, ``resolve`` and ``load``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Annotated, Any

from skillhub.audit import show as reading
from skillhub.audit.show import Shown
from skillhub.cli.common import Arg, Common, Strings
from skillhub.cli.network import open_ports
from skillhub.cli.reading import listing, numbered, text_of
from skillhub.cli.render import held_back
from skillhub.cli.terminal import Terminal
from skillhub.errors import NotFound, Refused, UsageError
from skillhub.formats.json import members
from skillhub.formats.text import Quoted, amount, as_command, collapsed, is_name, quote
from skillhub.install.admission import with_advisories
from skillhub.install.candidates import Candidate
from skillhub.install.trusted_sources import Listings, listings
from skillhub.model.finding import in_words, undeclared_variables
from skillhub.model.hosts import Profile, profile
from skillhub.model.index import Release
from skillhub.model.provenance import Delta
from skillhub.model.reference import parse_ref
from skillhub.model.skill import Need, Skill
from skillhub.model.tree import SIGNATURE, SKILL_MD, Tree
from skillhub.project.project import Project, root_markers
from skillhub.runtime import envelope, loading
from skillhub.runtime.agent import catalog_naming, catalog_of
from skillhub.runtime.catalog import Catalog, Session
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.mention_resolver import MentionRules, mentioned
from skillhub.runtime.overview import Section, section
from skillhub.runtime.ranking import LIMIT_MAX
from skillhub.scan import scan

Message = Annotated[str, Arg("TEXT", "A user's message to an agent.")]
HostName = Annotated[str, Arg("--host NAME", "The agent whose folders, rules and texts to use.")]
Window = Annotated[int | None, Arg("--window TOKENS", "The size of the model's context, in tokens.", min=1)]

# ``show``: shows one skill, installed or offered.


def show(
    common: Common,
    ref: Annotated[str, Arg("NAME|REF", "An installed skill, or a reference.")],
    skill: Annotated[str | None, Arg("--skill NAME", "Show this skill of several.")] = None,
    files: Annotated[bool, Arg("--files", "List its files, with the findings of the scan in each.")] = False,
    file: Annotated[
        str | None, Arg("--file PATH", "Show this file, with the findings of the scan at their lines.")
    ] = None,
) -> None:
    """Show a skill that is installed, in an agent's folder, or offered by a source. Installs nothing.

    Example: skillhub show github:gh-fix-ci --file SKILL.md
    """
    if files and file is not None:
        raise UsageError("--files and --file exclude each other")
    shown = reading.show(parse_ref(ref), open_ports(common), skill)
    if file is not None:
        return show_file(common, shown.skill.name, shown.tree, file)
    if files and not common.json:
        for text, tone in listing(shown.tree, scan(shown.tree)):
            common.terminal.out(text, tone)
        return
    if common.json:
        return common.answer("show", shown.to_json())
    _draw(shown, _state(shown.skill, common.open_project()), common.terminal)


def _state(skill: Skill, project: Project) -> str:
    """Return the state of a skill, in the words of ``list`` if it is installed."""
    if skill.managed and skill.state == "disabled":
        return held_back({skill.name}, project).get(skill.name, skill.state)
    if skill.managed or skill.path is not None:
        return skill.state
    entry = project.lock().skills.get(skill.name)
    is_other = entry is not None and entry.version is not None and entry.source == skill.source
    return f"not installed; {entry.version} is" if entry and is_other else "not installed"


def _draw(shown: Shown, state: str, terminal: Terminal) -> None:
    skill = shown.skill
    terminal.out(f"{skill.name} {skill.version}" if skill.version else skill.name, "bold")
    terminal.out(Quoted(collapsed(skill.description)))
    signed = ", ".join(f"{one.named(skill.vouched_by)} ({one.kind} {one.fingerprint})" for one in skill.signed_by)
    unproved = "an unknown key" if SIGNATURE in shown.tree else "(not signed)"
    unproved = "not checked" if skill.claimed_by else unproved
    is_found = not skill.managed and skill.path is not None
    wrong = {"known bad": skill.known_bad, "withdrawn": skill.withdrawn, "edited": skill.edited}
    declared = (each.name for each in skill.requires if each.kind == "env")
    undeclared = undeclared_variables(skill.capabilities, declared)
    rows = [
        ("source", "(unmanaged)" if is_found else skill.source or ""),
        *((("commit", shown.commit if terminal.verbose else shown.commit[:12]),) if shown.commit else ()),
        *((("url", skill.url),) if terminal.verbose and skill.url else ()),
        ("state", ", ".join([state, *(word for word, why in wrong.items() if why)])),
        ("signed by", "nobody: its signature does not fit" if shown.is_broken else signed or unproved),
        *((("tree", skill.tree),) if skill.tree else ()),
        *(("" if number else "patched by", text) for number, text in enumerate(_patched(shown))),
        ("can", in_words(skill.capabilities)),
        *((("undeclared", f"reads {', '.join(undeclared)}"),) if undeclared else ()),
        *(row for need in skill.requires for row in _needed(need)),
        *(() if shown.manifest.is_whole else (("needs", "perhaps more: not all of its declarations can be read"),)),
        *(("edited" if link in (skill.edited or ()) else "link", link) for link in skill.links),
        *(("release", _spelled(each)) for each in shown.releases),
    ]
    terminal.warn_each(terminal.once(shown.warnings))
    for label, text in rows:
        terminal.out(Quoted(f"{'':<16}{text}") if isinstance(text, Quoted) else f"  {label:<14}{text}", hang=16)
    for path, file in shown.tree.items():
        terminal.out(f"  {'x' if file.executable else '-'} {len(file.data):>8}  {path}")


def _patched(shown: Shown) -> Iterator[str]:
    """Yield the path of the project's patch, and each file that it changes."""
    if not shown.skill.patch:
        return
    yield f"{shown.skill.patch}, not signed"
    touched = shown.patched or Delta()
    yield from (f"~ {path}" for path in touched.changed)
    yield from (f"+ {path}" for path in touched.added)
    yield from (f"- {path}" for path in touched.removed)


def _needed(need: Need) -> Iterator[tuple[str, str]]:
    yield f"needs {need.kind}", f"{need.name}{'' if need.satisfied else ' (missing)'}"
    if need.kind == "program" and need.description:
        yield "", Quoted(collapsed(need.description))


def _spelled(release: Release) -> str:
    """Return the version and day of a release, and whether it was yanked or withdrawn."""
    spelled = f"{release.version} {release.published or ''}"
    return f"{spelled} {release.taken_back}" if release.taken_back else spelled


def show_file(common: Common, name: str, tree: Tree, path: str) -> None:
    """Show one file of a skill: on a terminal with line numbers and findings, elsewhere its text alone.

    Raises:
        NotFound: the skill has no such file.
        UsageError: the file is binary.
    """
    file = tree.get(path)
    if file is None:
        raise NotFound(f"{name} has no file {quote(path)}", hint="--files lists the files of a skill")
    findings = [each for each in scan(tree) if each.path == path]
    text = text_of(file)
    if common.json:
        (row,) = reading.file_rows(Tree({path: file}))
        return common.answer("show file", {"skill": name, **row, "text": text, "findings": findings})
    if sys.stdout.isatty():
        common.terminal.page(numbered(path, file, findings))
        return
    if text is None:
        raise UsageError(f"{quote(path)} is binary: it has no text to show")
    common.terminal.warn_each(common.terminal.once(map(str, findings)))
    common.terminal.lines(text)


# ``use``: prints one skill for one use.


def use(
    common: Common,
    ref: Annotated[str, Arg("NAME|REF", "An installed skill, or a reference.")],
    skill: Annotated[str | None, Arg("--skill NAME", "This skill of several.")] = None,
) -> None:
    """Print the instructions of one skill for one use. Asks nothing, installs nothing, runs nothing.

    The skill is verified and scanned as for install. A missing signature and findings are warnings on stderr.
    A skill is refused if it has a critical finding, if an advisory calls it known bad, or if a policy forbids it.

    Example: skillhub use github:code-review
    """
    ports = open_ports(common, scratch=True)
    found = with_advisories(reading.obtained(parse_ref(ref), skill, ports), ports)
    critical = [each for each in found.findings if each.severity == "critical"]
    if critical:
        hint = f"{common.command('show', ref, '--files')} shows the files"
        raise Refused(f"the scan found in {found.name}: {critical[0]}", hint=hint)
    common.terminal.warn_each(common.terminal.once(_warnings(found)))
    text = text_of(found.tree[SKILL_MD]) or ""
    if common.json:
        return common.answer("use", {**_facts(found), "text": text})
    common.terminal.lines(text)
    others = [path for path in found.tree if path != SKILL_MD]
    if others:
        shows = common.command("show", ref, *(("--skill", skill) if skill else ()), "--file", others[0])
        common.terminal.say(f"it has {amount(len(others), 'more file')}: {shows}", "dim")


def _facts(found: Candidate) -> dict[str, Any]:
    facts = members(found, "name", "signed_by", "capabilities", "findings")
    facts |= members(found.entry, "version", "source", "tree")
    trust = "signed" if found.trust == "signed" else "unsigned"
    return {**facts, "trust": trust, "files": reading.file_rows(found.tree), "warnings": _warnings(found)}


def _warnings(found: Candidate) -> list[str]:
    signed = {
        "signed": [],
        "untrusted": [f"{found.name} is signed by {found.signed_by or 'an unknown key'}, which you do not trust"],
        "unsigned": [f"{found.name} is not signed"],
    }
    return [*signed[found.trust], *found.warnings, *map(str, found.findings)]


# ``search``: searches the lists of sources and the skills here.

_DEAREST = 20  # skills that a bill lists one by one
_FOUND_BY = {
    "exact_path": "path",
    "exact_name": "name",
    "prefix": "name",
    "token_overlap": "words",
    "full_text": "text",
    "spelling": "spelling",
}


def search(
    common: Common,
    words: Annotated[list[str], Arg("WORDS...", "A name, its beginning, words of the text, or a path.")],
    local: Annotated[bool, Arg("--local", "Search only local skills; contact no source.")] = False,
    limit: Annotated[int, Arg("--limit N", "The number of results, at most 50.", min=1)] = 8,
    host: HostName = "agents",
) -> None:
    """Search the skills that sources list and the skills here. Shows the best match first, and why it matches.

    Example: skillhub search failing checks
    """
    if not " ".join(words).strip():
        raise UsageError("expected words to search for, found none")
    skills = [skill for skill in seen_by(common, host)[1].skills if skill.path]
    listed = Listings() if local else listings(open_ports(common), " ".join(words), needed=not skills)
    found = reading.search(" ".join(words), skills, limit, listed.each)
    common.terminal.warn_each(listed.warnings)
    if common.json:
        return common.answer("search", reading.found_json(found, listed.kept))
    rows = [(hit.name, hit.source or f"({hit.scope})", _FOUND_BY[hit.reason], hit.description) for hit in found.hits]
    if rows:
        common.terminal.table(("NAME", "FROM", "FOUND BY", "DESCRIPTION"), rows, is_short=True)
    else:
        more = "" if local or len(common.sources.mine()) > 1 else "; to add well-known repositories: "
        common.terminal.say(f"nothing was found{more}{more and 'skillhub source add --suggested'}")
    if found.truncated:
        wider = min(limit + found.more, LIMIT_MAX)
        most = f"at most {LIMIT_MAX} are shown; use more words"
        if limit < LIMIT_MAX:
            most = f"--limit {wider}" + (f" shows {wider - limit} of them" if wider < limit + found.more else "")
        common.terminal.say(f"{found.more} more: {most}", "dim")
    if first := next((f"{hit.source}:{hit.name}" for hit in found.hits if hit.source and is_name(hit.name)), None):
        reads = as_command("skillhub", "show", first, "--file", SKILL_MD)
        common.terminal.say(f"to read one first: {reads}", "dim")
    now, hits = common.time().now(), {hit.source for hit in found.hits}
    if ages := [f"{alias} {each.age(now)}" for alias, each in listed.kept.items() if alias in hits]:
        common.terminal.say(f"listed: {', '.join(ages)}", "dim")


# ``schema``: shows the JSON Schema of a document, or of a command's answer with ``--json``.


def schema(
    common: Common,
    words: Annotated[
        Strings, Arg("[NAME]...", "A document, or a command and its subcommand (default: list all).")
    ] = None,
) -> None:
    """Show the JSON Schema of a document, or of a command's answer with --json.

    Example: skillhub schema lock
    """
    from skillhub.answers.table import ANSWERS, DOCUMENTS, schema_of

    name = " ".join(words or ())
    if not name:
        found = {"documents": [*DOCUMENTS], "answers": [*ANSWERS]}
        if common.json:
            return common.answer("schema", found)
        for kind, names in found.items():
            common.terminal.out(f"{kind}:", "bold")
            for each in names:
                common.terminal.out(f"  {each}")
        return
    try:
        document = schema_of(name)
    except KeyError as error:
        raise NotFound(f"there is no schema of {quote(name)}", hint="skillhub schema lists all schemas") from error
    common.terminal.lines(json.dumps(document, indent=2))


# ``catalog``, ``resolve`` and ``load``: show the list, the mentions and the texts of an agent in the working folder.


def catalog(common: Common, host: HostName = "agents", window: Window = None) -> None:
    """Show the list of skills for an agent's model, in the agent's format and budget.

    Example: skillhub catalog --host codex
    """
    agent, found = seen_by(common, host)
    seen = section(found, agent, window)
    if common.json:
        return common.answer("catalog", seen.to_json())
    common.terminal.lines(seen.text)
    if not (seen.text or seen.omitted):
        common.terminal.say(f"{agent.name} finds no skill here that its model may call")
    _show_bill(seen, common)
    if seen.warning:
        common.terminal.warn(f"warning: {seen.warning}")
    common.terminal.warn_each(
        f"{name} is listed {len(places)} times, from {', '.join(places)}" for name, places in seen.repeated.items()
    )
    for name in seen.omitted:
        common.terminal.warn(f"  left out: {name}")
    for skill in seen.held:
        why = skill.why
        common.terminal.warn("; ".join(filter(None, (why["message"], why["command"]))))
    for each in (shadowed.to_json() for shadowed in seen.shadowed):
        common.terminal.say(f"{each['path']} is hidden by {each['by']}", "dim")
    for problem in seen.problems:
        line = f":{problem.line}" if problem.line else ""
        common.terminal.warn_of(f"{problem.path}{line}", problem.message)


def _show_bill(seen: Section, common: Common) -> None:
    """Show on stderr the size of each skill in the list, and the size of the list and its budget."""
    rows = seen.bill
    for name, cost, is_listed in rows[:_DEAREST]:
        common.terminal.say(f"{cost:>8,}  {name}{'' if is_listed else ' (left out)'}", "dim")
    if more := rows[_DEAREST:]:
        common.terminal.say(f"{sum(cost for _, cost, _ in more):>8,}  {len(more)} more", "dim")
    if rows:
        limit = f" of {seen.budget:,}" if seen.budget is not None else ""
        common.terminal.say(f"{seen.used:>8,}{limit} {seen.unit} in all, with the text around the skills", "dim")


def resolve(common: Common, text: Message, host: HostName = "agents") -> None:
    """Show the skills that a message to an agent names, and the rest of the message. Loads no skill.

    If a mention may mean several skills, all of them are listed and none is chosen.

    Example: skillhub resolve '$release-notes since v1.2'
    """
    if not text.strip():
        raise UsageError("expected a message, found none", hint="skillhub resolve '$NAME and a task'")
    agent, seen = seen_by(common, host)
    rules = MentionRules(leads=len(seen.skills) if agent.many else 1, folder=_folder(common))
    found = mentioned(text, seen, rules=rules)
    if common.json:
        return common.answer("resolve", found.to_json())
    for each in found.mentions:
        common.terminal.out(f"{each.text}: {each.message}", "green" if each.outcome == "activated" else "yellow")
    if not found.mentions:
        common.terminal.say("no skill is mentioned; a mention is written $NAME")
    common.terminal.out(f"task: {found.task}")


def load(
    common: Common,
    name: Annotated[str | None, Arg("[NAME]", "The skill.")] = None,
    path: Annotated[
        str | None, Arg("--path PATH", "Its folder, instead of NAME, if several skills have that name.")
    ] = None,
    arguments: Annotated[str, Arg("--arguments TEXT", "The user's arguments, inserted into its instructions.")] = "",
    session: Annotated[str, Arg("--session ID", "The id of the session, inserted into its instructions.")] = "",
    host: HostName = "agents",
) -> None:
    """Show a skill as an agent loads it: its instructions in the agent's envelope. Runs nothing.

    A locked skill is refused if its files differ from the lock. A skill that the agent's settings ask about is
    refused too, unless you run the command at a terminal or pass --yes.

    Example: skillhub load release-notes --host codex
    """
    if name is None and path is None:
        raise UsageError("expected the NAME of a skill, or its --path", hint="skillhub catalog lists the skills")
    agent, seen = seen_by(common, host, name="" if path else name or "")
    try:
        skill = loading.pick(seen, name, os.path.abspath(os.path.expanduser(path)) if path else None)
    except NotFound as error:
        if name and {":", "/"} & {*name}:
            error.hint = f"load shows an installed skill; of a reference: {as_command('skillhub', 'use', name)}"
        project = common.open_project()
        for package in filter(None, project.intent().packages.get(name or "", ())):
            folder = os.path.relpath(os.path.join(project.root, package))
            error.message += f"; it is in the package {package}"
            error.hint = as_command("skillhub", "load", name or "", "--project", folder)
        raise
    agrees = common.yes or common.asks
    if skill.permission == "ask" and not agrees:
        message = f"the settings of {agent.name} require a question before {quote(skill.full_name)} is loaded"
        raise Refused(message, hint="type the command at a terminal, or agree with --yes")
    request = loading.Request(arguments=arguments, session=Session(session), rules=agent.rules, ask=lambda _: agrees)
    loaded = loading.load(skill, request)
    for note in loaded.notes:
        common.terminal.say(note, "dim")
    if common.json:
        return common.answer("load", envelope.to_json(loaded, agent))
    common.terminal.lines(f"{envelope.inject(loaded, agent)}\n")


def seen_by(common: Common, host: str, around: Surroundings | None = None, name: str = "") -> tuple[Profile, Catalog]:
    """Return the profile of an agent, and the catalog of the skills that it finds here, compared with the locks.

    With a ``name``, the catalog is for one load of that name.

    Raises:
        UsageError: there is no such agent.
    """
    row = profile(host)
    project = common.open_project()
    for each in (project, project.users(common.user_home)):
        each.lock()  # an unreadable one is an error of the command, as are unreadable records
        each.records()
    around = around or surroundings(common)
    return row, catalog_naming(row, around, name) if name else catalog_of(row, around)


def surroundings(common: Common, cwd: str | None = None) -> Surroundings:
    """Return the surroundings of an agent that runs in ``cwd``, by default in the folder that the flags name."""
    cwd = cwd or _folder(common)
    home, state, markers = common.user_home, common.home.state, root_markers(cwd)
    return Surroundings(cwd=cwd, home=home, environ=os.environ, state=state, markers=markers)


def _folder(common: Common) -> str:
    return common.user_home if common.user_scope else worked_in(common)


def worked_in(common: Common) -> str:
    """Return the folder that the flags name: the package's, the project's, or the working folder."""
    if common.package is not None:
        project = common.open_project()
        return os.path.join(project.base, project.package)
    return os.path.abspath(common.project) if common.project is not None else os.getcwd()
