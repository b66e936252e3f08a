"""Values of variables that skills need: stored in the system's keyring, released to skills that the user named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from skillhub.command.state import refuse_unknown
from skillhub.disk import files
from skillhub.errors import ForbiddenVariable, FormatError, NotFound, StateError, UsageError
from skillhub.formats.text import command, is_name, quote
from skillhub.model.needs import Requirement, check_value, is_forbidden
from skillhub.project.project import Project
from skillhub.project.user_state import Secret

if TYPE_CHECKING:
    from skillhub.project.keyring import Keyring

# A value is released to a skill by the names of project and skill, never just because a skill declares the need.


@dataclass(frozen=True, slots=True)
class Released:
    """The environment of a program with the released values.

    Attributes:
        environ: The whole environment.
        missing: The variables whose values are no longer in the keyring.
    """

    environ: Mapping[str, str] = field(repr=False)
    missing: tuple[str, ...] = ()


def intended(name: str, skills: Sequence[str], project: Project) -> Secret:
    """Return the entry for a value of this variable, without storing it.

    Without ``skills``, it is for the skills that already have access, else for the one skill here that needs it.

    Raises:
        UsageError: the name of the variable or of a skill is malformed, or several skills need the variable and none
            is named.
        NotFound: a skill is not installed on this machine; another one that gets its name would receive the value.
        ForbiddenVariable: the variable controls how programs run, and no skill may have it.
        FormatError, StateError: the record of the project cannot be read.
    """
    _check(name)
    for skill in skills:
        if not is_name(skill):
            raise UsageError(f"expected the name of a skill, found {quote(skill)}")
    # Once a record is gone, the skill has no more values; a name in the lock alone would keep them.
    refuse_unknown(skills, project.records().skills if skills else (), project)
    stored = project.secrets.find(project.key, name)
    allowed = stored.skills if stored else ()
    chosen = {*allowed, *skills} or _needing(name, project)
    return Secret(project.key, project.scope, project.base, name, tuple(sorted(chosen)))


def keep(secret: Secret, value: str, project: Project, vault: Keyring) -> None:
    """Store the value, and the skills that may have it.

    Raises:
        UsageError: the value is empty, too long or contains NUL, or there is no keyring.
        NotFound: one of the skills was removed meanwhile.
        StateError: the keyring or the disk refuses.
    """
    check_value(value)
    with project.exclusively():
        intended(secret.name, secret.skills, project)
        is_new = project.secrets.find(secret.key, secret.name) is None
        vault.put(secret, value)
        try:
            project.secrets.put(secret)
        except StateError:
            if is_new:
                vault.drop(secret)
            raise


def remainder(name: str, skills: Sequence[str], project: Project) -> Secret:
    """Return the entry of a stored value without access for these skills; without ``skills``, for none at all.

    Raises:
        NotFound: no value of the variable is stored, or one of the skills has no access to it.
        FormatError, StateError: the list of stored values cannot be read.
    """
    secret = project.secrets.find(project.key, name)
    if secret is None:
        hint = f"{command(project.scope, 'env', 'list')} shows the stored names"
        raise NotFound(f"no value of {quote(name)} is stored here", hint=hint)
    for skill in skills:
        if skill not in secret.skills:
            allowed = ", ".join(secret.skills) or "no skill"
            raise NotFound(f"{quote(skill)} has no access to {name}; only {allowed} has")
    return replace(secret, skills=tuple(other for other in secret.skills if skills and other not in skills))


def forget(secret: Secret, project: Project, vault: Keyring) -> None:
    """Replace the entry of a stored value by ``secret``, from ``remainder``; if no skill is left, remove the value.

    Raises:
        UsageError: there is no keyring.
        StateError: the keyring or the disk refuses.
    """
    if secret.skills:
        project.secrets.put(secret)
        return
    vault.drop(secret)
    project.secrets.drop(secret)


def due(project: Project, environ: Mapping[str, str]) -> tuple[Secret, ...]:
    """Return the stored values that enabled skills of the project may have, and that this environment lacks.

    Raises:
        FormatError, StateError: the lock, the record or the list of stored values cannot be read.
    """
    enabled = project.records().enabled(project.lock().skills)
    stored = (each for each in project.secrets.all() if each.key == project.key and not is_forbidden(each.name))
    return tuple(each for each in stored if not (enabled.isdisjoint(each.skills) or environ.get(each.name)))


def release(secrets: Iterable[Secret], environ: Mapping[str, str], vault: Keyring) -> Released:
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
        # The message does not show the text: it may be a value that was typed without its name.
        message = "expected the name of a variable: letters, digits and _"
        raise UsageError(message, hint="skillhub env set NAME") from error


def _needing(name: str, project: Project) -> Collection[str]:
    """Return the one skill that needs the variable, by the needs in its files when the user agreed to it.

    Raises:
        UsageError: several skills need the variable.
    """
    records, wanted = project.records().skills, f"env:{name}"
    needing = sorted(each for each in records if any(need.spell() == wanted for need in records[each].facts.needs))
    if len(needing) > 1:
        hint = f"name the skills that get it: {' '.join(f'--skill {skill}' for skill in needing)}"
        raise UsageError(f"{len(needing)} skills here need {name}: {', '.join(needing)}", hint=hint)
    return needing


# Replace this process with another program.

# The secrets of skillhub's own commands: of `sign` and `publish`, of `push`, and a packed registry with its keys.
_OWN_SECRETS = frozenset({"SKILLHUB_PASSPHRASE", "SKILLHUB_OCI_PASSWORD", "SKILLHUB_REGISTRY"})


def become(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Replace this process with a program, without a shell; on Windows, run it and return its exit status.

    The program does not get skillhub's own secrets.

    Raises:
        NotFound: there is no such program.
        StateError: the program cannot be run.
    """
    passed = {name: value for name, value in environ.items() if name not in _OWN_SECRETS}
    try:
        if sys.platform == "win32":
            path = words[0] if os.path.dirname(words[0]) else files.program(words[0], environ)
            if path is None:
                raise FileNotFoundError
            return subprocess.run([path, *words[1:]], env=passed, check=False).returncode
        # Python ignores these signals, and the program would inherit that.
        for name in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(name, signal.SIG_DFL)
        os.execvpe(words[0], list(words), passed)  # noqa: S606 - without a shell on purpose
    except OSError as error:
        # The system names a folder of PATH that may not be searched, although no other folder has the program either.
        named = [os.path.join(folder, words[0]) for folder in os.get_exec_path(passed)]
        is_absent = not os.path.dirname(words[0]) and not any(map(os.path.isfile, named))
        if is_absent or isinstance(error, FileNotFoundError | NotADirectoryError):
            raise NotFound(f"there is no program {quote(words[0])}", hint="give its path, or check PATH") from error
        raise files.disk_error(error, words[0]) from error
