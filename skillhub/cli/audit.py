"""``audit``, ``doctor``, ``agents`` and ``cache``."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from typing import Annotated, Literal, get_args

from skillhub.audit import report as reports
from skillhub.audit.audit import AuditRequest, looked_at, names_and_paths
from skillhub.audit.audit import audit as audit_flow
from skillhub.audit.cache import collect, places
from skillhub.audit.report import Report, brief
from skillhub.audit.suppressions import BaselineFile
from skillhub.cli.common import Arg, Common, Strings, read_file, read_lock, write_output
from skillhub.cli.network import open_ports
from skillhub.cli.render import show_findings
from skillhub.cli.terminal import Terminal, size_of
from skillhub.disk import files
from skillhub.errors import SkillhubError, StateError, UsageError, hinting
from skillhub.formats.json import members
from skillhub.formats.text import amount, as_command, did_you_mean, is_name, quote, spelled_like
from skillhub.model.finding import CATEGORIES, Severity
from skillhub.model.hosts import Scope, detect, hosts
from skillhub.model.reference import all_masked, masked
from skillhub.policy.policy import effective, rows
from skillhub.project.copies import portable
from skillhub.project.mcp_config import agents_with_file
from skillhub.project.project import policy_places

# ``audit``: checks installed skills and their sources, and prints the report in one of five formats.

Format = Literal["text", "json", "sarif", "markdown", "prompt"]
_SUMMARY, _WORKSPACE = "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"


def audit(
    common: Common,
    what: Annotated[
        Strings, Arg("[NAME|PATH]...", "Skills, or folders and archives that need not be installed.")
    ] = None,
    sources: Annotated[bool, Arg("--sources", "Check only sources and signers.")] = False,
    form: Annotated[Format | None, Arg("--format", "The format of the report.")] = None,
    fail_on: Annotated[Severity, Arg("--fail-on", "Exit 1 on a finding of this severity or a higher one.")] = "high",
    ci: Annotated[bool, Arg("--ci", "For GitHub: annotations, and markdown to GITHUB_STEP_SUMMARY.")] = False,
    from_lock: Annotated[
        str | None, Arg("--from-lock FILE", "Also report changes since this lock (- for stdin, /dev/null for none).")
    ] = None,
    sarif: Annotated[str | None, Arg("--sarif FILE", "Also write the report as SARIF to this file.")] = None,
    baseline: Annotated[str | None, Arg("--baseline FILE", "Accept the findings in this file.")] = None,
    write_baseline: Annotated[
        str | None, Arg("--write-baseline FILE", "Write the current findings as a baseline.")
    ] = None,
    explain: Annotated[str | None, Arg("--explain RULE", "Only explain a rule; all lists the rules.")] = None,
) -> int:
    """Check what is installed and where it came from: bytes, signatures, sources, withdrawals, age, content.

    It runs the checks of verify, scans every skill in the agents' folders, and asks each source for its
    current state; with --offline, it uses the last answer of the source. Exits 1 on a finding at --fail-on.

    `--format prompt` prints a brief about these skills for a model of your choice, to ask it for a second opinion;
    skillhub calls no model.

    Example: skillhub audit --format sarif --fail-on medium
    """
    if explain is not None:
        _explain(explain, common)
        return 0
    for word in what or ():
        if word in reports.RULES and not is_name(word):
            raise UsageError(f"{word} is a rule, no skill", hint=as_command("skillhub", "audit", "--explain", word))
    shape = _shape(form, common)
    names, paths = names_and_paths(what or [])
    is_package = common.package is not None and not (names or paths)
    names = tuple(common.chosen(names) or ()) if is_package else names
    before = read_lock(from_lock, "audit") if from_lock is not None else None
    writes = as_command("skillhub", "audit", "--write-baseline", baseline or "")
    with hinting(f"{writes} writes it"):
        known = None if baseline is None else BaselineFile.parse(read_file(baseline, BaselineFile.CAP), baseline)
    request = AuditRequest(
        names,
        paths,
        sources_alone=sources,
        refresh=not common.offline,
        threshold=fail_on,
        before=before,
        baseline=known,
        makes_baseline=write_baseline is not None,
        remember=not common.dry_run,
        is_package=is_package,
    )
    ports = open_ports(common)
    if write_baseline is not None:
        _check_baseline(write_baseline)
    report = audit_flow(request, ports)
    if write_baseline is not None and not common.dry_run:
        write_output(write_baseline, BaselineFile(findings=report.known, version=1).dump(), ports.project)
        common.terminal.say(f"wrote {write_baseline}: a baseline of {amount(len(report.known), 'finding')}")
    in_repository = report.below(_below(ports.project.base, os.environ.get(_WORKSPACE)))
    # GitHub reads both streams; stdout has only the report if a program reads it.
    if ci:
        for line in reports.workflow_commands(in_repository):
            common.terminal.workflow_command(line, sys.stdout if shape == "text" else sys.stderr)
    if shape == "prompt":
        common.terminal.lines(brief(looked_at(request, ports), report.findings))
    elif not ci or shape != "text":
        _print(report, shape, common.terminal)
    _end(report, shape, common.command("audit", *(what or ()), "--format", "prompt"), common.terminal)
    if sarif is not None and not common.dry_run:
        text = json.dumps(reports.sarif(in_repository), indent=2) + "\n"
        write_output(sarif, text.encode(), ports.project)
    if ci and not common.dry_run:
        _summarise(report, os.environ.get(_SUMMARY))
    return 0 if report.ok else 1


def _explain(word: str, common: Common) -> None:
    """Show one rule, or list all."""
    if word == "all":
        every = sorted(reports.RULES.values(), key=lambda each: each.id)
        if common.json:
            return common.answer("audit --explain all", {"rules": [asdict(each) for each in every]})
        common.terminal.table(("RULE", "SEVERITY", "TITLE"), [(each.id, each.severity, each.title) for each in every])
        return
    rule = reports.RULES.get(word) or reports.RULES.get(word.upper())
    if rule is None:
        hint = did_you_mean(spelled_like(word, reports.RULES), "skillhub audit --explain all lists the rules")
        raise UsageError(f"there is no rule {quote(word)}", hint=hint)
    if common.json:
        return common.answer("audit --explain", asdict(rule))
    common.terminal.out(f"{rule.id}: {rule.title}", "bold")
    category = f"{rule.category} ({CATEGORIES[rule.category]})"
    common.terminal.out(f"severity {rule.severity}, confidence {rule.confidence}, {category}")
    common.terminal.out(f"why: {rule.why}")
    common.terminal.out(f"what to do: {rule.hint}")


def _check_baseline(path: str) -> None:
    """Refuse to replace a file that is no baseline.

    Raises:
        StateError: the path has another file, or its folder does not exist.
    """
    full = os.path.abspath(path)
    if not os.path.isdir(os.path.dirname(full)):
        raise StateError("the folder of the baseline does not exist", where=os.path.dirname(full))
    if os.path.lexists(full):
        try:
            BaselineFile.parse(read_file(full, BaselineFile.CAP), path)
        except SkillhubError as error:
            raise StateError("expected a baseline or no file", where=path, hint="name another file") from error


def _shape(form: Format | None, common: Common) -> Format:
    if common.json and form not in (None, "json"):
        raise UsageError(f"--json and --format {form} exclude each other")
    return "json" if common.json else form or "text"


def _below(base: str, workspace: str | None) -> str:
    """Return the project's path in the repository that GitHub checked out; empty for the top, and off GitHub."""
    if not workspace:
        return ""
    relative = portable(os.path.realpath(base), os.path.realpath(workspace))
    return "" if relative == "." or os.path.isabs(relative) else relative


def _print(report: Report, shape: Format, terminal: Terminal) -> None:
    """Print the report in its form on stdout."""
    if shape == "json":
        terminal.answer("audit", members(report, "ok", "findings", "notes"))
    elif shape == "sarif":
        terminal.json(reports.sarif(report))
    elif shape == "markdown":
        terminal.lines(reports.markdown(report))
    else:
        show_findings(report.findings, terminal)


def _end(report: Report, shape: Format, prompt: str, terminal: Terminal) -> None:
    """Print what follows the findings: notes, the summary, and ``prompt``, the command that prints the brief."""
    if shape != "markdown":
        for line in report.notes:
            terminal.warn(f"note: {line}")
    if shape == "text":
        if report.ok:
            terminal.did(report.summary, "green")
        else:
            terminal.out(report.summary, "red")
        if report.skills:
            terminal.say(f"{reports.UNSEEN}{prompt}", "dim")


def _summarise(report: Report, path: str | None) -> None:
    """Append the report to the summary of the workflow's step, if there is one."""
    if not path:
        return
    with files.disk_errors(path), open(path, "a", encoding="utf-8", errors="replace") as file:
        file.write(reports.markdown(report))


# ``agents`` and ``doctor``: list agents, check the setup of this machine and project, show the policy in force.


def agents(common: Common) -> None:
    """List the agents that skills can be enabled for, with the id for --agent, and which are in use here.

    An agent counts as in use if a folder or file that only it reads is in the project or in your home folder.

    Example: skillhub agents
    """
    base = common.open_project().base
    in_use = detect(base, common.user_home, os.environ, os.path.exists)
    servers = {scope: agents_with_file(scope) for scope in get_args(Scope)}
    rows = [
        {
            **members(each, "id", "name", "aliases", "project_dir", "user_dir"),
            "in_use": each in in_use,
            "mcp": [scope for scope, ids in servers.items() if each.id in ids],
        }
        for each in hosts().values()
    ]
    if common.json:
        return common.answer("agents", {"agents": rows})
    head = ("ID", "AGENT", "USED", "PROJECT FOLDER", "USER FOLDER")
    shown = [
        (row["id"], row["name"], "yes" if row["in_use"] else "", row["project_dir"] or "-", row["user_dir"] or "-")
        for row in sorted(rows, key=lambda row: not row["in_use"])
    ]
    common.terminal.table(head, shown, spare=("AGENT",))


def doctor(
    common: Common, what: Annotated[str | None, Arg("[policy]", "Show the policy that applies here.")] = None
) -> int:
    """Check sources, lock, agents, skills and their needs; change nothing. Exits 1 if something is wrong.

    `skillhub doctor policy` shows the policy in force: the lines of machine, user and project, each with
    its file.

    Example: skillhub doctor
    """
    if what is not None:
        if what != "policy":
            raise UsageError(f"expected nothing or policy, found {quote(what)}", hint="skillhub doctor policy")
        _policy(common)
        return 0
    from skillhub.audit.doctor import diagnose  # here, since `audit` does not need it

    found = diagnose(open_ports(replace(common, offline=True)), common.time())
    if common.json:
        sources = [{"name": each.alias, **members(each, "url", "root")} for each in found.sources]
        common.answer("doctor", {**members(found, "ok", "checks", "roots", "agents"), "sources": sources})
        return 0 if found.ok else 1
    for each in found.checks:
        show = common.terminal.did if each.ok else common.terminal.out
        if each.ok and not each.hint:
            show(f"ok  {each.name}: {each.message}", "green")
            continue
        show(f"{'note' if each.ok else 'problem'}  {each.name}: {each.message}", "yellow" if each.ok else "red")
        if each.hint:
            show(f"    {each.hint}")
    for root in found.roots:
        common.terminal.did(f"    skills are read from {root.path} ({root.scope})", "dim")
    common.terminal.say("doctor checks only the setup; to check the skills: skillhub audit", "dim")
    return 0 if found.ok else 1


def _policy(common: Common) -> None:
    """Show every line of the policies, its file, and whether a stricter line applies."""
    ports = open_ports(common)
    every = list(rows(ports.policies))
    where = {**policy_places(common.home), "project": ports.project.intent_path}
    if common.json:
        lines = [row._asdict() for row in every]
        answer = {"effective": effective(ports.policies), "lines": lines, "places": where}
        return common.answer("doctor policy", all_masked(answer))
    for row in every:
        beaten = "" if row.in_force else "  (a stricter line applies)"
        common.terminal.out(f"{masked(row.text)}{beaten}", "plain" if row.in_force else "dim")
        common.terminal.out(f"    {row.level}: {row.where}", "dim")
    if not every:
        common.terminal.say("no policy applies; skillhub would read these files:")
        for level, path in where.items():
            common.terminal.out(f"{level}: {path}")


# ``cache``: shows skillhub's folders on this disk, and removes unused data.


def cache_info(common: Common) -> None:
    """Show skillhub's folders and their sizes. You can delete everything but the store at any time.

    Example: skillhub cache info
    """
    found = places(common.home, common.store)
    if common.json:
        return common.answer("cache info", {"places": found, "size": sum(place.size for place in found)})
    for place in found:
        common.terminal.out(f"{place.name}: {size_of(place.size)}, {amount(place.files, 'file')}")
        common.terminal.verbatim(f"  {place.path}")  # a path to copy is not broken
    common.terminal.say("skillhub cache gc --dry-run shows what can be removed", "dim")


def cache_gc(
    common: Common, days: Annotated[int, Arg("--days N", "Keep downloads of the last N days.", min=0)] = 30
) -> None:
    """Remove unused data. Stored skills that no project names, old downloads, leftovers of killed processes.

    A project counts as gone only if its folder no longer exists. Removed data is fetched again when a project
    needs it. The command asks before it removes a stored skill.

    Example: skillhub cache gc --dry-run
    """
    found = collect(common.home, days, open_ports(common), dry_run=common.dry_run)
    if common.json:
        questions = [question.to_json(answer) for question, answer in found.asked]
        answer = {"removed": found.waste, "changed": bool(found.waste) and not common.dry_run, "questions": questions}
        return common.answer("cache gc", answer | members(found, "size", "gone"))
    done = common.would("remove", "removed")
    for each in found.waste:
        about = f"{each.name}: " if each.name else ""
        common.terminal.did(f"{done} {each.kind} {about}{each.path} ({size_of(each.size)})")
    for base in found.gone:
        common.terminal.say(f"{base} used some of these, and no longer exists", "dim")
    if found.waste:
        common.terminal.did(f"{done} {size_of(found.size)} in all", "green")
    else:
        common.terminal.say("there is nothing to remove", "dim")
