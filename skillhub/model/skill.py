"""A skill as this machine has it: locked or merely found, enabled or waiting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from skillhub.model.digest import Digest
from skillhub.model.signer import Signer

State: TypeAlias = Literal["enabled", "disabled"]
Scope: TypeAlias = Literal["project", "user"]
# Where agents read skills: beside the two scopes that skillhub installs into, what others put there.
SkillScope: TypeAlias = Literal["project", "user", "system", "admin", "plugin", "extra"]
# Why a skill of a lock is not loaded: its files are not the lock's, nobody agreed to it on this machine, or it was
# disabled or waits for a need.
HeldStatus: TypeAlias = Literal["drifted", "not-agreed", "disabled"]
# How far a skill reaches: no further than the disk, to the user who asks for it, to the model by itself.
Reach: TypeAlias = Literal["disabled", "enabled", "active"]


def typed_flags(scope: SkillScope) -> tuple[str, ...]:
    """Return what a command takes, as it is typed, to be about this scope."""
    return ("--global",) if scope == "user" else ()


@dataclass(frozen=True, slots=True)
class Need:
    """Something a skill cannot work without (``required``) or with less (not), and whether it is there."""

    kind: str
    name: str
    description: str
    required: bool
    satisfied: bool
    waived: bool = False  # a person said that they see to it themselves

    @property
    def open(self) -> bool:
        """Whether it keeps the skill from being enabled."""
        return self.required and not (self.satisfied or self.waived)

    def spell(self) -> str:
        """Return ``kind:name``, as in the lock."""
        return f"{self.kind}:{self.name}"

    def to_json(self) -> dict[str, Any]:
        """Return the NEED of the contract."""
        return {
            "kind": self.kind,
            "name": self.name,
            "description": self.description,
            "required": self.required,
            "satisfied": self.satisfied,
        }


@dataclass(frozen=True, slots=True)
class Held:
    """Why a skill is not loaded: a sentence that its name begins (``reason``), and the command that lifts it."""

    status: HeldStatus
    reason: str
    command: str


@dataclass(frozen=True, slots=True)
class Skill:
    """What ``list`` shows: the lock's entry, this machine's state, and the facts read off the content.

    Attributes:
        path: The folder in the store; of a skill that was found in an agent's folder, that one.
        vouched_by: The registry that says who its signers are, where it is none of the user's.
        stored: Of a locked skill that was found, the folder in the store.
        links: The places in agents' folders where it is enabled, absolute.
        invocation: Whether the model may call it by itself, or only the user.
        managed: Whether a lock knows it.
        namespace: What goes before ``:`` in its full name; of a plugin's skill, the plugin.
        root: The folder in which it was looked for; empty for what was not looked for.
        user_invocable: Whether a user may ask for it by name; ``invocation`` is about the model.
        argument_hint: What to type behind its name, such as ``[issue-number]``.
        patch: The project's patch of it, which nobody signed; relative to the project.
        held: Why it is not loaded, where the lock or this machine's record says so; then ``state`` is ``disabled``.
        locks: The ``Locks`` that count where it was found; ``load`` asks them again.
    """

    name: str
    path: str | None
    scope: SkillScope
    state: State
    source: str | None = None
    version: str | None = None
    digest: Digest | None = None
    tree: Digest | None = None
    size: int | None = None
    url: str | None = None
    links: tuple[str, ...] = ()
    invocation: Literal["user", "model"] = "model"
    managed: bool = True
    signed_by: tuple[Signer, ...] = ()
    requires: tuple[Need, ...] = ()
    capabilities: tuple[str, ...] = ()
    description: str = ""
    namespace: str | None = None
    root: str = ""
    user_invocable: bool = True
    argument_hint: str = ""
    patch: str | None = None
    vouched_by: str | None = None
    stored: str | None = None
    held: Held | None = None
    locks: object = field(default=None, repr=False, compare=False)

    @property
    def full_name(self) -> str:
        """``namespace:name``, or the name where there is no namespace."""
        return f"{self.namespace}:{self.name}" if self.namespace else self.name

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is locked and in no folder that was looked into, so that its path is that of the store."""
        return self.managed and not self.root

    @property
    def why(self) -> dict[str, str]:
        """``why``, ``message`` and ``command`` of a skill that is held back, for protocols; nothing of others."""
        if self.held is None:
            return {}
        message = f"{self.full_name} {self.held.reason}"
        return {"why": self.held.status, "message": message, "command": self.held.command}

    @property
    def reach(self) -> Reach:
        """``active`` if the model may call it, ``enabled`` if only the user may, else ``disabled``."""
        if self.state == "disabled":
            return "disabled"
        return "active" if self.invocation == "model" else "enabled"

    def to_json(self) -> dict[str, Any]:
        """Return the SKILL of the contract."""
        return {
            "name": self.name,
            "source": self.source,
            "version": self.version,
            "digest": self.digest,
            "tree": self.tree,
            "size": self.size,
            "url": self.url,
            "path": self.stored or self.path,
            "links": list(self.links),
            "scope": self.scope,
            "state": self.state,
            "invocation": self.invocation,
            "managed": self.managed,
            "signed_by": [signer.to_json(self.vouched_by) for signer in self.signed_by],
            "trust": "signed" if self.signed_by and not self.patch else "unsigned",
            "patch": self.patch,
            "requires": [need.to_json() for need in self.requires],
            "capabilities": list(self.capabilities),
            "description": self.description,
        }
