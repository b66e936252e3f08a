"""A skill as ``list`` shows it: locked or found in an agent's folder, enabled or disabled; its needs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias

from skillhub.errors import UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.json import members
from skillhub.formats.text import clean, is_path, quote
from skillhub.model.hosts import SkillScope
from skillhub.model.lock import DeclaredNeed, Signer
from skillhub.model.question import HoldReason

State: TypeAlias = Literal["enabled", "disabled"]
# The rule of a host about loading a skill: load it, ask the person first, refuse.
Permission: TypeAlias = Literal["allow", "ask", "deny"]
# Who may load a skill: no one, only the user, or the model too.
Reach: TypeAlias = Literal["disabled", "enabled", "active"]


@dataclass(frozen=True, slots=True)
class Need(DeclaredNeed):
    """A need of a skill, required or optional, and whether it is satisfied."""

    satisfied: bool
    waived: bool = False  # a person took responsibility for it
    server: object = field(default=None, repr=False)  # for ``mcp``, the ``McpServer``, if the skill describes it

    @property
    def open(self) -> bool:
        """Whether the need prevents enabling the skill."""
        return self.required and not (self.satisfied or self.waived)

    def to_json(self) -> dict[str, Any]:
        """Return the need as an object of ``requires`` in ``--json``."""
        return members(self, "kind", "name", "description", "required", "satisfied")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as ``list`` shows it: the lock's entry, this machine's state, and the facts of its content.

    Attributes:
        path: The folder in the store; for a skill that was found in an agent's folder, that folder.
        signed_by: The signers that this machine has verified.
        claimed_by: The signers that only the lock names, of a skill that the user has not agreed to here.
        vouched_by: The registry that vouches for the names of its signers, if it is none of the user's.
        stored: The folder in the store of a locked skill that was found in an agent's folder.
        links: The absolute paths in agents' folders where it is enabled.
        invocation: ``model`` if the model may call it by itself, ``user`` if only the user may.
        managed: Whether a lock has it.
        namespace: The part before ``:`` in its full name; for a plugin's skill, the plugin.
        root: The folder whose search found it; empty if no search did.
        user_invocable: Whether a user may invoke it by name; ``invocation`` is about the model.
        argument_hint: The arguments to type after its name, such as ``[issue-number]``.
        patch: The path of the project's patch of it, relative to the project; patches are not signed.
        held: Why it is not loaded, by the lock, the record or a host's file; then ``state`` is ``disabled``.
        is_command: Whether it is a single file, ``path``, and no folder.
        permission: The rule of its host about loading it; ``ask`` asks the person first.
        interface: How to show it: ``display_name``, ``short_description``, ``default_prompt``, icons.
        permissions: The permissions that it declares, each as ``path.to.key=value``; a declaration grants nothing.
        own_name: The name in its ``SKILL.md``, if it is installed under another name; else None.
        name_only: Whether its host shows the model only its name.
        locks: The ``Locks`` that apply where it was found; ``load`` checks them again.
        rules: The rules of the host that found it, ``Profile.rules``; ``load`` reads as strictly.
        edited: Those of ``links`` that differ from the agreed tree, and are not loaded; None if not checked.
        withdrawn: Why its registry withdrew this version, when last seen; None if not withdrawn, or not checked.
        known_bad: The worst advisory that refuses it; None if none does, or not checked.
        stamp: For a skill in no lock, a text that changes with its ``SKILL.md`` and with the entries of its folder.
        allowed: The tree for which a stored answer of the user replaces ``ask``; with other files ``load`` asks.

    Raises:
        UsageError: ``path``, or one of ``links``, cannot be a path in a file system.
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
    claimed_by: tuple[Signer, ...] = ()
    requires: tuple[Need, ...] = ()
    capabilities: tuple[str, ...] = ()
    description: str = ""
    namespace: str | None = None
    root: str = ""
    user_invocable: bool = True
    argument_hint: str = ""
    patch: str | None = None
    vouched_by: str | None = None
    own_name: str | None = None
    stored: str | None = None
    held: HoldReason | None = None
    permission: Permission = "allow"
    is_command: bool = False
    interface: Mapping[str, str] = field(default_factory=dict, hash=False)
    permissions: tuple[str, ...] = ()
    name_only: bool = False
    locks: object = field(default=None, repr=False, compare=False)
    rules: object = field(default=None, repr=False, compare=False)
    edited: tuple[str, ...] | None = None
    withdrawn: str | None = None
    known_bad: str | None = None
    stamp: str = field(default="", repr=False)
    allowed: Digest | None = None

    def __post_init__(self) -> None:
        check_paths(self.path, *self.links)

    @property
    def full_name(self) -> str:
        """``namespace:name``, or the name where there is no namespace."""
        return f"{self.namespace}:{self.name}" if self.namespace else self.name

    @property
    def file(self) -> str:
        """The file that holds its instructions."""
        path = self.path or ""
        return path if self.is_command else os.path.join(path, "SKILL.md")

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is locked but was found in no searched folder, so that ``path`` is in the store."""
        return self.managed and not self.root

    @property
    def trust(self) -> Literal["signed", "unsigned"]:
        """``signed`` if its content is signed; a patched skill is ``unsigned``."""
        return "signed" if self.signed_by and not self.patch else "unsigned"

    @property
    def why(self) -> dict[str, str]:
        """``why``, ``message`` and ``command`` of a skill that is not loaded, for protocols; empty for others."""
        if self.held is None:
            return {}
        message = f"{self.full_name} {self.held.reason}"
        message += f" (in {clean(self.held.file)})" if self.held.file else ""
        return {"why": self.held.status, "message": message, "command": self.held.command}

    @property
    def reach(self) -> Reach:
        """``active`` if the model may call it, ``enabled`` if only the user may, else ``disabled``."""
        if self.state == "disabled":
            return "disabled"
        return "active" if self.invocation == "model" else "enabled"

    def verified(self) -> Skill:
        """Return the skill if this command has verified its signature: its signers are no claims."""
        return replace(self, signed_by=self.signed_by or self.claimed_by, claimed_by=())

    def to_json(self) -> dict[str, Any]:
        """Return the skill as an object of ``list --json``."""
        converted = {
            "path": self.stored or self.path,
            "links": list(self.links),
            "signed_by": [signer.to_json(self.vouched_by) for signer in self.signed_by],
            "requires": [need.to_json() for need in self.requires],
            "capabilities": list(self.capabilities),
        }
        claimed = [signer.to_json(self.vouched_by) for signer in self.claimed_by] or None
        edited = None if self.edited is None else list(self.edited)
        state = {"claimed_by": claimed, "edited": edited, "withdrawn": self.withdrawn, "known_bad": self.known_bad}
        known = {key: value for key, value in state.items() if value is not None}
        return {key: getattr(self, key) for key in _SKILL} | converted | known


@dataclass(frozen=True, slots=True)
class Problem:
    """A skill that cannot be read (``error``), or a fault of one that can (``warning``).

    Attributes:
        path: The file or folder.
        message: What was expected and what was found.
        line: The line in that file, from 1.
        level: ``error`` if a skill is missing because of it, else ``warning``.
        is_cut: Whether the folder holds more than the limit, so that its rest was not read.
    """

    path: str
    message: str
    line: int | None = None
    level: Literal["error", "warning"] = "error"
    is_cut: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the problem as a row of ``problems`` in ``--json``."""
        return {"path": self.path, "line": self.line, "message": self.message, "level": self.level}


# The keys of a skill in `--json`, in order.
_SKILL = (
    *("name", "source", "version", "digest", "tree", "size", "url", "path", "links", "scope", "state", "invocation"),
    *("managed", "signed_by", "trust", "patch", "own_name", "requires", "capabilities", "description"),
)


def check_paths(*paths: str | None) -> None:
    """Refuse a text that cannot be a path; None is skipped.

    Raises:
        UsageError: one cannot.
    """
    for path in paths:
        if path is not None and not is_path(path):
            raise UsageError(f"expected a path, found {quote(path)}")


# Permissions: rules on names, and stored answers of the user, allow a skill, deny it, or require a question.

ACTIONS: Final[tuple[Permission, ...]] = ("deny", "allow", "ask")


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """A rule about skills; ``pattern`` is a name or full name, in which ``*`` is any text and ``?`` any character."""

    pattern: str
    action: Permission


def permitted(
    skill: Skill,
    rules: Iterable[PermissionRule],
    answers: Mapping[str, bool] | None = None,
    otherwise: Permission = "allow",
    last_wins: bool = False,
) -> Permission:
    """Return the permission of a skill: ``allow``, ``ask`` or ``deny``.

    Args:
        skill: The skill; a rule matches its name or its full name.
        rules: The rules in the order of the file.
        answers: Stored answers of the user by full name; they replace ``ask``, never ``deny``.
        otherwise: The permission if no rule matches.
        last_wins: Whether the last matching rule decides, as in OpenCode; otherwise ``deny`` takes precedence over
            ``allow``, and ``allow`` over ``ask``, as in Codelia.
    """
    actions = [rule.action for rule in rules if name_fits(rule.pattern, skill.name, skill.full_name)]
    if last_wins:
        action = actions[-1] if actions else otherwise
    else:
        action = next((action for action in ACTIONS if action in actions), otherwise)
    if action == "ask" and answers and skill.full_name in answers:
        return "allow" if answers[skill.full_name] else "deny"
    return action


def name_fits(pattern: str, *names: str) -> bool:
    """Return whether one of the names fits a pattern, in which ``*`` is any text and ``?`` any character."""
    plain = pattern.replace("[", "[[]")  # begins a set of characters in `fnmatch`, but not in these rules
    return any(fnmatchcase(name, plain) for name in names)
