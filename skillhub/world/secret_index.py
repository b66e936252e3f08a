"""Which values a user has stored, and which skills may have each; the values themselves are in the system's keyring.

One file in ``<state>``, never read from a repository. It is read by commands that know nothing of a keyring.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection

from skillhub.errors import FormatError
from skillhub.model.dataclass import dataclass, replace
from skillhub.model.decode import array, one_of, record, text, text_that, wrong
from skillhub.model.json import strict_json
from skillhub.model.skill import Scope
from skillhub.model.text import is_name
from skillhub.world import files

_CAP = 16 << 20
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Secret:
    """A stored value, without the value.

    Attributes:
        key: What names the project, or the user's own scope, in the files that this machine keeps.
        project: The folder, for a person.
        name: The variable.
        skills: The skills of that project that may have it, sorted; none if nobody agreed to any yet.
    """

    key: str
    scope: Scope
    project: str
    name: str
    skills: tuple[str, ...] = ()


class SecretIndex:
    """All of a user's.

    Args:
        state: The ``state`` folder of a ``Home``.
    """

    def __init__(self, state: str) -> None:
        self._path = os.path.join(state, "secrets.json")
        self._seen: tuple[bytes, tuple[Secret, ...]] = b"", ()

    def all(self) -> tuple[Secret, ...]:
        """Return every one, sorted by project and name.

        Raises:
            FormatError: the file is none of ours.
            StateError: it cannot be read.
        """
        data = files.read(self._path, _CAP) or b""
        if data != self._seen[0]:  # asked for once for each skill that needs a variable
            self._seen = data, _parse(data, self._path)
        return self._seen[1]

    def find(self, key: str, name: str) -> Secret | None:
        """Return that of this variable in this project; raises as ``all``."""
        return next((each for each in self.all() if (each.key, each.name) == (key, name)), None)

    def names_for(self, key: str, skill: str) -> frozenset[str]:
        """Return the variables whose stored values this skill of this project may have; raises as ``all``."""
        return frozenset(each.name for each in self.all() if each.key == key and skill in each.skills)

    def put(self, secret: Secret) -> None:
        """Keep it, in the place of what was kept of this variable in this project; raises as ``leave``."""
        self._change(lambda known: (*(each for each in known if not _same(each, secret)), secret))

    def drop(self, secret: Secret) -> None:
        """Forget it; raises as ``leave``."""
        self._change(lambda known: tuple(each for each in known if not _same(each, secret)))

    def leave(self, key: str, skills: Collection[str]) -> None:
        """Let skills of a project, which are gone, have nothing any more: another of that name is another.

        Raises:
            FormatError: the file is none of ours.
            StateError: it cannot be read or written.
        """
        if any(self.names_for(key, skill) for skill in skills):
            self._change(lambda known: tuple(_without(each, key, skills) for each in known))

    def _change(self, change: Callable[[tuple[Secret, ...]], tuple[Secret, ...]]) -> None:
        with files.lock(f"{self._path}.lock"):
            files.write_atomic(self._path, _dump(change(self.all())), mode=0o600)


def _same(one: Secret, other: Secret) -> bool:
    return (one.key, one.name) == (other.key, other.name)


def _without(secret: Secret, key: str, skills: Collection[str]) -> Secret:
    if secret.key != key:
        return secret
    return replace(secret, skills=tuple(each for each in secret.skills if each not in skills))


def _dump(secrets: tuple[Secret, ...]) -> bytes:
    rows = sorted(secrets, key=lambda each: (each.scope, each.project, each.key, each.name))
    blocks = [
        {
            "key": each.key,
            "scope": each.scope,
            "project": each.project,
            "name": each.name,
            "skills": each.skills,
        }
        for each in rows
    ]
    document = {"secrets": blocks, "version": _VERSION}
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def _parse(data: bytes, where: str) -> tuple[Secret, ...]:
    if not data:
        return ()
    try:
        document = strict_json(data, where, _CAP)
        found: tuple[Secret, ...] = _read(document)["secrets"]
    except FormatError as error:
        error.where = where if error.where in (None, where) else f"{where}: {error.where}"
        error.hint = error.hint or "move the file away, and set the values again with skillhub env set"
        raise
    return found


def _version(value: object) -> int:
    return _VERSION if value == _VERSION and type(value) is int else wrong(f"version {_VERSION}", value)


_block = record(
    {
        "key": text,
        "scope": one_of("project", "user"),
        "project": text,
        "name": text,
        "skills": array(text_that(is_name, "a skill")),
    }
)
_read = record({"secrets": array(lambda value: Secret(**_block(value))), "version": _version})
