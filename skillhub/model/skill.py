"""A skill as this machine has it: locked or merely found, enabled or waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from skillhub.model.digest import Digest
from skillhub.model.signer import Signer

State = Literal["enabled", "disabled"]
Scope = Literal["project", "user"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """What ``list`` shows: the lock's entry, this machine's state, and the facts read off the content.

    Attributes:
        path: The folder in the store; of a skill that is in no lock, the folder where it was found.
        links: The places in agents' folders where it is enabled, absolute.
        invocation: Whether the model may call it by itself, or only the user.
        managed: Whether a lock knows it.
    """

    name: str
    path: str | None
    scope: Scope
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
            "path": self.path,
            "links": list(self.links),
            "scope": self.scope,
            "state": self.state,
            "invocation": self.invocation,
            "managed": self.managed,
            "signed_by": [signer.to_json() for signer in self.signed_by],
            "trust": "signed" if self.signed_by else "unsigned",
            "requires": [need.to_json() for need in self.requires],
            "capabilities": list(self.capabilities),
            "description": self.description,
        }
