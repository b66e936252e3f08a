"""The commands as Python methods of an open project; they return pydantic models."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from skillhub.answers.reading import AuditAnswer, CatalogAnswer, LoadAnswer, SearchAnswer, ShowAnswer
from skillhub.answers.skills import ListAnswer, OutcomeAnswer, VerifyAnswer
from skillhub.audit.audit import AuditRequest, audit, names_and_paths
from skillhub.audit.show import found_json, search, show
from skillhub.audit.verify import verify
from skillhub.cli.common import Common
from skillhub.cli.installed import installed
from skillhub.cli.network import open_ports
from skillhub.cli.show import seen_by
from skillhub.command.ports import Options, Outcome, Ports, ReportProgress
from skillhub.errors import UsageError
from skillhub.formats.text import quote
from skillhub.install.apply import disable, enable, remove
from skillhub.install.install import install, update
from skillhub.install.obtain import obtain_locked
from skillhub.install.sync import sync
from skillhub.install.trusted_sources import listings
from skillhub.model.finding import Severity
from skillhub.model.question import NO, UNANSWERED, YES, Answer, Question
from skillhub.model.reference import parse_ref
from skillhub.runtime.envelope import to_json
from skillhub.runtime.loading import Request, load, pick
from skillhub.runtime.overview import section
from skillhub.runtime.ranking import LIMIT

# The reply of a callback to a question: yes or no, the value of a variable or a way to treat edits, or None.
Reply: TypeAlias = Answer | bool | str | None


def open_project(
    folder: str | os.PathLike[str] | None = None,
    *,
    answer: Callable[[Question], Reply] | None = None,
    user_scope: bool = False,
    offline: bool = False,
    report: ReportProgress = lambda _step, _done, _all: None,
) -> OpenProject:
    """Open a project; its files are read, and questions are asked, by the methods of the returned object.

    Args:
        folder: The project's folder; None for the project around the working folder.
        answer: Called with each question; it returns an ``Answer``, True or False, the value of a variable, the name
            of a way to treat edits, or None for no answer. Without it, every question stays unanswered, and an
            unanswered question refuses the action.
        user_scope: Whether to open the user's own scope instead of a project.
        offline: Whether to use no network.
        report: Called with progress: the current step, the number of skills done, the number of all (0 if unknown).

    Raises:
        UsageError: both ``folder`` and ``user_scope`` are given.
        NotFound: the folder does not exist.
    """
    if user_scope and folder is not None:
        raise UsageError("expected a folder or user_scope, found both")
    project = None if folder is None else os.fspath(folder)
    common = Common(json=True, quiet=True, project=project, user_scope=user_scope, offline=offline)
    common.open_project()
    return OpenProject(common, answer or (lambda _: None), report)


class OpenProject:
    """An open project, made by ``open_project``; each method executes the command of its name.

    Questions go to the callback that ``open_project`` was given.

    Raises:
        SkillhubError: the command fails. The subclass tells the caller how to react, ``code`` identifies the error,
            and ``hint`` proposes a remedy. A ``Refused`` has each question with its answer in ``asked``.
    """

    def __init__(self, common: Common, answer: Callable[[Question], Reply], report: ReportProgress) -> None:
        self._common, self._answer, self._report = common, answer, report

    def install(self, *refs: str | os.PathLike[str], options: Options | None = None) -> OutcomeAnswer:
        """Install the skills that the references name; without references, those of the lock and the intent.

        Args:
            refs: References such as ``github:gh-fix-ci@^1.2``, ``owner/repo``, ``https://host`` or ``./my-skill``; a
                relative path is one from the working folder of the process.
            options: The flags of the command.
        """
        return self._outcome(partial(install, [parse_ref(os.fspath(ref)) for ref in refs]), options)

    def update(self, *names: str, options: Options | None = None) -> OutcomeAnswer:
        """Update these skills, or all, to the newest version that ``skillhub.toml`` allows."""
        return self._outcome(partial(update, names), options)

    def enable(self, *names: str, options: Options | None = None) -> OutcomeAnswer:
        """Check the needs of these skills again, and enable those without an open need.

        A need that was satisfied when the skill was enabled, by a value for one call for example, does not disable it
        later.
        """
        return self._outcome(partial(enable, names), options)

    def disable(self, *names: str) -> OutcomeAnswer:
        """Remove these skills from the agents' folders; they stay stored and locked."""
        return self._outcome(lambda _, ports: disable(names, ports))

    def remove(self, *names: str) -> OutcomeAnswer:
        """Remove these skills from the agents' folders, the lock and the intent."""
        return self._outcome(lambda _, ports: remove(names, ports))

    def sync(self) -> OutcomeAnswer:
        """Restore files that differ from the lock, and finish interrupted commands; enable no further skill."""
        return self._outcome(lambda _, ports: sync(partial(obtain_locked, ports=ports), ports))

    def list(self) -> ListAnswer:
        """Return the skills of the project, and those of the user."""
        return ListAnswer.of(installed(self._common).to_json())

    def show(self, ref: str) -> ShowAnswer:
        """Return the details of an installed skill, or of the skill that the reference names; install nothing."""
        with self._ports() as ports:
            return ShowAnswer.of(show(parse_ref(ref), ports).to_json())

    def verify(self, *names: str) -> VerifyAnswer:
        """Compare every byte of the store and of the copies with the lock, and verify signatures, without network."""
        with self._ports() as ports:
            found = verify(names, ports)
        return VerifyAnswer.of({"ok": all(each.ok for each in found), "skills": found})

    def audit(self, *what: str, fail_on: Severity = "high") -> AuditAnswer:
        """Audit skills, and ask their sources for advisories and withdrawn releases.

        Args:
            what: Names of skills, and paths of folders; none means every skill.
            fail_on: The severity from which a finding makes ``ok`` false.
        """
        names, paths = names_and_paths(what)
        request = AuditRequest(names, paths, refresh=not self._common.offline, threshold=fail_on)
        with self._ports() as ports:
            report = audit(request, ports)
            return AuditAnswer.of({"ok": report.ok, "findings": report.findings, "notes": report.notes})

    def search(self, words: str, limit: int = LIMIT) -> SearchAnswer:
        """Search the listings of the sources, and the skills on disk; return at most ``limit`` hits."""
        skills = [skill for skill in seen_by(self._common, "agents")[1].skills if skill.path]
        with self._ports() as ports:
            listed = listings(ports, words, needed=not skills)
            found = search(words, skills, limit, listed.each)
            return SearchAnswer.of(found_json(found, listed.kept))

    def catalog(self, host: str = "agents", window: int | None = None) -> CatalogAnswer:
        """Return the list of skills for the model of a host; ``window`` is the size of its context in tokens."""
        row, found = seen_by(self._common, host)
        return CatalogAnswer.of(section(found, row, window).to_json())

    def load(self, name: str, host: str = "agents", arguments: str = "") -> LoadAnswer:
        """Return a skill as ``host`` loads it, with ``arguments`` in its instructions; run nothing."""
        row, found = seen_by(self._common, host, name=name)
        loaded = load(pick(found, name), Request(arguments=arguments, rules=row.rules))
        return LoadAnswer.of(to_json(loaded, row))

    @contextmanager
    def _ports(self, dry_run: bool = False) -> Iterator[Ports]:
        common = replace(self._common, undo=ExitStack(), dry_run=dry_run)
        with common.undo:
            yield replace(open_ports(common), approver=_Callback(self._answer), report=self._report)

    def _outcome(self, run: Callable[[Options, Ports], Outcome], options: Options | None = None) -> OutcomeAnswer:
        options = options or Options()
        with self._ports(options.dry_run) as ports:
            return OutcomeAnswer.of(run(options, ports).to_json())


class _Callback:
    """The ``Approver`` that passes each question to the callback of ``open_project``."""

    def __init__(self, answer: Callable[[Question], Reply]) -> None:
        self._answer = answer

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Return one answer for each question.

        Raises:
            UsageError: a reply does not answer its question.
        """
        return [_read(question, self._answer(question)) for question in questions]


def _read(question: Question, reply: Reply) -> Answer:
    if isinstance(reply, Answer):
        return reply
    if isinstance(reply, str):
        if question.kind == "env":
            return Answer("yes", reply) if reply else UNANSWERED
        for way in question.ways:
            if way == reply:
                return Answer("yes", way=way)
    elif reply is None:
        return UNANSWERED
    elif isinstance(reply, bool) and not (reply and question.kind == "env"):
        return YES if reply else NO
    expected = "a value, False or None" if question.kind == "env" else "True, False or None"
    found = type(reply).__name__ if question.kind == "env" else quote(str(reply))
    raise UsageError(f"expected {expected} as the answer to {quote(question.message)}, found {found}")
