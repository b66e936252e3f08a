"""Values of variables that skills need: kept in the system's keyring, released to the skills that a person named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from skillhub.disk import files
from skillhub.errors import ForbiddenVariable, FormatError, NotFound, StateError, UsageError
from skillhub.formats.text import is_name, quote
from skillhub.install.context import refuse_unknown
from skillhub.model.needs import Requirement, is_forbidden
from skillhub.project.project import Project
from skillhub.project.user_state import Secret

# Env: values that skills need, kept in the system's keyring, each for the skills that a person named.
# A value is released to a skill of a project by the name of both, never to whoever declares that it needs it.

VALUE_MAX = 64 * 1024  # characters


class Vault(Protocol):
    """Where the values are."""

    def get(self, secret: Secret) -> str | None:
        """Return the value, or None."""
        ...

    def put(self, secret: Secret, value: str) -> None:
        """Keep the value."""
        ...

    def drop(self, secret: Secret) -> None:
        """Remove the value, if there is one."""
        ...


@dataclass(frozen=True, slots=True)
class Released:
    """What a program is given.

    Attributes:
        environ: Its whole environment.
        missing: The variables that the keyring has no value of any more.
    """

    environ: Mapping[str, str] = field(repr=False)
    missing: tuple[str, ...] = ()


def intended(name: str, skills: Sequence[str], project: Project) -> Secret:
    """Return what a value of this variable would be stored as; nothing is stored yet.

    Without ``skills`` it is for those that may have it already, else for the one skill here that needs it.

    Raises:
        UsageError: no name of a variable or of a skill, or several skills need it and none is named.
        NotFound: a skill that is not installed here; whatever takes that name later would be given the value.
        ForbiddenVariable: it steers programs, and no skill may have it.
        FormatError, StateError: what this machine knows of the project cannot be read.
    """
    _check(name)
    for skill in skills:
        if not is_name(skill):
            raise UsageError(f"expected the name of a skill, found {quote(skill)}")
    installed = {*project.lock().skills, *project.records().skills} if skills else ()
    refuse_unknown(skills, installed, project.scope)
    known = project.secrets.find(project.key, name)
    before = known.skills if known else ()
    chosen = {*before, *skills} or _needing(name, project)
    return Secret(project.key, project.scope, project.base, name, tuple(sorted(chosen)))


def keep(secret: Secret, value: str, project: Project, vault: Vault) -> None:
    """Keep the value, and who may have it.

    Raises:
        UsageError: it is no value, or there is no keyring.
        StateError: the keyring or the disk refuses.
    """
    if not value or "\0" in value or len(value) > VALUE_MAX:
        raise UsageError(f"expected a value of 1 to {VALUE_MAX} characters, none of them NUL")
    is_new = project.secrets.find(secret.key, secret.name) is None
    vault.put(secret, value)
    try:
        project.secrets.put(secret)
    except StateError:
        if is_new:
            vault.drop(secret)
        raise


def remainder(name: str, skills: Sequence[str], project: Project) -> Secret:
    """Return what is left of a stored value once it is taken from these skills; without any, from all.

    Raises:
        NotFound: no value of it is stored, or one of the skills may not have it anyway.
        FormatError, StateError: what this machine knows of values cannot be read.
    """
    secret = project.secrets.find(project.key, name)
    if secret is None:
        raise NotFound(f"no value of {quote(name)} is stored here", hint="skillhub env list shows the stored names")
    for skill in skills:
        if skill not in secret.skills:
            may = ", ".join(secret.skills) or "no skill"
            raise NotFound(f"{quote(skill)} has no access to {name}; only {may} has")
    return replace(secret, skills=tuple(each for each in secret.skills if skills and each not in skills))


def forget(left: Secret, project: Project, vault: Vault) -> None:
    """Leave no more of a stored value than that, as ``remainder`` gave it; with nobody left it is removed.

    Raises:
        UsageError: there is no keyring.
        StateError: the keyring or the disk refuses.
    """
    if left.skills:
        project.secrets.put(left)
        return
    vault.drop(left)
    project.secrets.drop(left)


def due(project: Project, environ: Mapping[str, str]) -> tuple[Secret, ...]:
    """Return the stored values that enabled skills of the project may have and this environment does not have yet.

    Raises:
        FormatError, StateError: what this machine knows of the project cannot be read.
    """
    enabled = _enabled(project)
    return tuple(
        secret
        for secret in project.secrets.all()
        if secret.key == project.key
        and not enabled.isdisjoint(secret.skills)
        and not environ.get(secret.name)
        and not is_forbidden(secret.name)
    )


def release(secrets: Iterable[Secret], environ: Mapping[str, str], vault: Vault) -> Released:
    """Return this environment with these values added.

    Raises:
        UsageError: there is no keyring.
        StateError: the keyring refuses.
    """
    values = {secret.name: vault.get(secret) for secret in secrets}
    added = {name: value for name, value in values.items() if value is not None}
    return Released({**environ, **added}, tuple(sorted(values.keys() - added.keys())))


def _check(name: str) -> None:
    try:
        Requirement("env", name)
    except ForbiddenVariable as error:
        message = f"no skill may have the variable {name}, which controls how programs run"
        raise ForbiddenVariable(message, hint="no flag lifts this") from error
    except FormatError as error:
        # What is no name may be a value that lost it.
        raise UsageError(
            "expected the name of a variable: letters, digits and _", hint="skillhub env set NAME"
        ) from error


def _needing(name: str, project: Project) -> Collection[str]:
    """Return the one skill that needs the variable, by what was read off its bytes when a person agreed to it."""
    found = sorted(
        skill
        for skill, record in project.records().skills.items()
        if any(need.spell() == f"env:{name}" for need in record.facts.needs)
    )
    if len(found) > 1:
        hint = f"name the skills that get it: {' '.join(f'--skill {skill}' for skill in found)}"
        raise UsageError(f"{len(found)} skills here need {name}: {', '.join(found)}", hint=hint)
    return found


def _enabled(project: Project) -> frozenset[str]:
    """Return the skills that are enabled, as they are locked and were agreed to."""
    locked, records = project.lock().skills, project.records().skills
    return frozenset(
        name for name, record in records.items() if record.enabled and name in locked and record.is_of(locked[name])
    )


# Replacing this process by another program.


def become(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a program in the place of this one, by no shell; return its exit status where a system cannot do that.

    Raises:
        NotFound: there is no such program.
        StateError: it cannot be run.
    """
    try:
        if sys.platform == "win32":
            return subprocess.run(words, env=dict(environ), check=False).returncode
        # Python ignores these, and whatever it starts would as well.
        for name in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(name, signal.SIG_DFL)
        os.execvpe(words[0], list(words), dict(environ))  # noqa: S606 - no shell is just what is wanted
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"there is no program {quote(words[0])}", hint="give its path, or check PATH") from error
    except OSError as error:
        raise files.disk_error(error, words[0]) from error
