"""Which values a user has stored, and which skills may have each; the values themselves are in the system's keyring.

One file in ``<state>``, never read from a repository. It is read by commands that know nothing of a keyring.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from typing import Annotated, ClassVar

from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.formats.document import NAME, Items, Read, part, text_that
from skillhub.formats.text import is_name
from skillhub.model.record import Scope

_Skill = Annotated[str, Read(text_that(is_name, "a skill"), **NAME)]
_HINT = "move the file away, and set the values again with skillhub env set"


@part
@dataclass(frozen=True, slots=True)
class Secret:
    """A stored value, without the value.

    Attributes:
        key: What names the project, or the user's own scope, in the files that this machine keeps.
        project: The folder, for a person.
        name: The variable.
        skills: The skills of that project that may have it, sorted; none if nobody agreed to any yet.
    """

    NEEDED: ClassVar = ("skills",)

    key: str
    scope: Scope
    project: str
    name: str
    skills: Items[_Skill] = ()


class SecretsFile(StateDocument):
    """``secrets.json`` in the state: which values are stored in the keyring, and for which skills."""

    secrets: Items[Secret]


def _parse(document: SecretsFile | None) -> tuple[Secret, ...]:
    return () if document is None else document.secrets


class SecretIndex:
    """All of a user's.

    Args:
        state: The ``state`` folder of a ``Home``.
    """

    def __init__(self, state: str) -> None:
        path = os.path.join(state, "secrets.json")
        self._file = StateFile(path, "the list of values that a user has stored", _HINT, SecretsFile)

    def all(self) -> tuple[Secret, ...]:
        """Return every one, sorted by project and name.

        Raises:
            StateError: the file is none of ours, or cannot be read.
        """
        return self._file.read(_parse)

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
            StateError: the file is none of ours, or cannot be read or written.
        """
        if any(self.names_for(key, skill) for skill in skills):
            self._change(lambda known: tuple(_without(each, key, skills) for each in known))

    def _change(self, change: Callable[[tuple[Secret, ...]], tuple[Secret, ...]]) -> None:
        with self._file.locked():
            rows = sorted(change(self.all()), key=lambda each: (each.scope, each.project, each.key, each.name))
            self._file.write({"secrets": [asdict(each) for each in rows]})


def _same(one: Secret, other: Secret) -> bool:
    return (one.key, one.name) == (other.key, other.name)


def _without(secret: Secret, key: str, skills: Collection[str]) -> Secret:
    if secret.key != key:
        return secret
    return replace(secret, skills=tuple(each for each in secret.skills if each not in skills))
