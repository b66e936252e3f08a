"""Everything risky is a ``Question``; an ``Approver`` answers it: a person, ``--yes``, a policy, or no one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from skillhub.errors import Refused
from skillhub.formats.text import packaged
from skillhub.model.reference import all_masked

if TYPE_CHECKING:
    from skillhub.model.mcp_server import Risk
    from skillhub.model.tree import Tree

QuestionKind = Literal[
    "install",  # first install of this tree in this project
    "unsigned",  # the skill has no signature
    "publisher",  # the key or root that signed the skill is not pinned
    "finding",  # the scan has a finding of high severity
    "critical-finding",  # the scan has a critical finding, which only a policy may accept
    "capability",  # another version has a capability that the version before did not have
    "need",  # another version has a need that the version before did not have
    "source",  # a project proposes a registry that this user has not configured
    "place",  # add a source without a root: nothing it serves is proved, so each install from it asks
    "root",  # trust a registry's root on first use
    "env",  # a variable is missing; the answer has its value
    "mcp",  # write an MCP server into agents' configuration
    "mcp-unpinned",  # the same, or use the existing entry; each start may run another version of the server
    "mcp-shell",  # the same, or use the existing entry; it runs a shell or unchecked code
    "mcp-conflict",  # a different server has this name in this configuration, or in another file of the agent
    "mcp-serve",  # write the entry for skillhub's own MCP server into an agent's configuration
    "mcp-check",  # start or call an MCP server to list what it offers
    "unused",  # remove trees from the store that no project needs
    "uninstall",  # remove everything that skillhub put on this machine
    "publish",  # publish a release, which can never change afterwards
    "withdraw",  # withdraw a release for good
    "local-edit",  # a copy in an agent's folder was edited by hand
]

# The kind of question about a server, by the risk of its command.
SERVER_KINDS: Mapping[Risk, QuestionKind] = {"ordinary": "mcp", "unpinned": "mcp-unpinned", "shell": "mcp-shell"}

# The fate of edits made by hand: saved as a patch and replaced, merged into the new version, discarded, or kept with
# the skill unchanged.
Way = Literal["save", "merge", "take", "keep"]

# The values of `--accept`: the first two answer questions; with `needs` an open need is no failure.
Accept = Literal["findings", "mcp", "needs"]
McpChoice = Literal["ask", "configure", "skip"]  # the values of `--mcp`
Rows = tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Beforehand:
    """The ways to answer yes to questions of one kind before they are asked: a row of ``beforehand.json``.

    Attributes:
        flags: The flags, each of which answers yes.
        policy: Whether ``agree`` in the policy of the machine or the user may name the kind.
        otherwise: Another way, for the hint; ``{subject}`` is replaced by the question's subject.
    """

    flags: Sequence[str] = ()
    policy: bool = False
    otherwise: str = ""


A_PERSON = "a person at a terminal"
BEFOREHAND: Mapping[QuestionKind, Beforehand] = {
    kind: Beforehand(**row) for kind, row in packaged("model/beforehand.json").items()
}
# A no to a question of these kinds leaves the skill disabled; a no to another refuses the whole command.
NEEDS: frozenset[QuestionKind] = frozenset({"env", "mcp", "mcp-unpinned", "mcp-shell", "mcp-conflict"})


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that a person has to agree to; its text says what will happen and why skillhub asks.

    Attributes:
        skill: The skill of the question; the source for ``source`` and ``root``.
        message: One sentence.
        details: Lines below the message: first quotes of text from outside, then facts, always in the same order.
        subject: The variable, server or rule, which distinguishes two questions of one kind about one skill.
        ways: For ``local-edit``, the possible answers; yes is the first, no is ``keep`` if that is among them.
        row: For ``install``, a summary of the skill: name, version, source, signer, capabilities, needs.
        alike: The signer, source or capability that "yes to all" extends to: it answers the questions with an equal
            value; empty if it answers no other question.
        tree: For ``install``, the files to be installed, which a person can read first.
        compared: For ``mcp-conflict``, the details in another form: for each place, its entry beside the skill's.
    """

    kind: QuestionKind
    skill: str
    message: str
    details: tuple[str, ...] = ()
    subject: str = ""
    ways: tuple[Way, ...] = ()
    row: tuple[str, ...] = ()
    alike: str = ""
    tree: Tree | None = field(default=None, repr=False, compare=False)
    compared: tuple[tuple[str, Rows], ...] = ()

    def to_json(self, answer: Answer) -> dict[str, Any]:
        """Return the JSON of the question with its answer, without the value of the answer, which is a secret."""
        facts = {"kind": self.kind, "skill": self.skill, "message": self.message, "details": self.details}
        return {**all_masked(facts), "answer": answer.said}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a ``Question``.

    Attributes:
        said: Whether the question was answered, and how.
        value: A secret; never in a repr or in JSON.
        way: One of the question's ``ways``; None if ``said`` decides.
        seen: Whether a person has read the question, so that messages need not repeat it.
        past_yes: Whether the question is unanswered despite ``--yes``, which does not answer its kind.
    """

    said: Literal["yes", "no", "unanswered"]
    value: str | None = field(default=None, repr=False)
    way: Way | None = None
    seen: bool = field(default=False, compare=False)
    past_yes: bool = field(default=False, compare=False)


YES, NO, UNANSWERED = Answer("yes"), Answer("no"), Answer("unanswered")


class Approver(Protocol):
    """Answers questions; it gets all questions of a command at once and answers each, in order."""

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Return one answer for each question."""


Asked = tuple[Question, Answer]
Answers = Mapping[str, Sequence[Asked]]  # by skill


def answered_by(question: Question, flags: Collection[str]) -> bool:
    """Return whether one of these flags answers the question with yes."""
    return any(flag in flags for flag in BEFOREHAND[question.kind].flags)


@dataclass(frozen=True, slots=True)
class Flags:
    """Answers that flags give beforehand, each flag to questions of its kinds."""

    typed: frozenset[str] = frozenset()

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer yes to the questions that the flags agree to, and leave the others unanswered."""
        unanswered = replace(UNANSWERED, past_yes="--yes" in self.typed)
        return [YES if answered_by(question, self.typed) else unanswered for question in questions]


def how_to_answer(question: Question, flags: Collection[str] | None = None) -> str:
    """Return a way to answer yes to a question beforehand: a flag or another action.

    Args:
        question: The question.
        flags: The flags that the command takes, or None if unknown; for a flag that it does not take, the text names
            the command that does.
    """
    ways = BEFOREHAND[question.kind]
    if ways.flags:
        answer = " or ".join(ways.flags)
    elif question.kind in ("publisher", "root") and question.subject:
        answer = question.subject
    else:
        answer = ways.otherwise.format(subject=question.subject)
    needed = answer.partition(" ")[0]
    if flags is not None and needed in _ELSEWHERE and needed not in flags:
        return f"{_ELSEWHERE[needed].format(skill=question.skill)} {answer}"
    return answer


# Flags that some commands with questions do not take, and the command that takes each.
_ELSEWHERE: Mapping[str, str] = {
    "--env": "afterwards: skillhub enable {skill}",
    "--allow-unsigned": "first: skillhub install",
    "--trust-source": "first: skillhub install",
}


def unanswerable(asked: Sequence[Asked]) -> list[Asked]:
    """Return the questions that refuse the command: first those about critical findings, then others without a yes.

    A critical finding refuses even with a yes, since only a policy may accept it. Needs and edits to keep are left
    out: they affect their skill alone.
    """
    critical = [(q, a) for q, a in asked if q.kind == "critical-finding"]
    refused = [(q, a) for q, a in asked if a.said != "yes" and q.kind not in NEEDS and chosen_edit(q, a) != "keep"]
    return critical + [pair for pair in refused if pair not in critical]


def refusal(asked: Sequence[Asked]) -> Refused | None:
    """Return the refusal of a command with these answers, or None; a no to a version covers all that it gains."""
    if not (refused := unanswerable(asked)):
        return None
    said_no = [pair for pair in refused if pair[1].said == "no" and pair[0].kind not in ("capability", "need")]
    question, answer = (said_no or refused)[0]
    reason, hint = _refusal(question, answer, refused)
    installs = {each.skill for each, _ in asked if each.kind == "install"}
    if answer.said == "no" and installs - {question.skill}:
        without = f"name them without {question.skill}, or install --all with --except {question.skill}"
        hint = f"{hint}; for the other skills, {without}"
    error = Refused(f"{reason}: {question.message}", where=question.skill, hint=hint)
    error.asked = tuple(asked)
    return error


def _refusal(question: Question, answer: Answer, asked: Sequence[Asked]) -> tuple[str, str]:
    """Return the reason for the refusal of a question, and a hint that answers all open questions."""
    if question.kind == "critical-finding":
        return "no answer accepts it", how_to_answer(question)
    if answer.said == "no":
        return "the answer was no", "nothing was changed"
    reason = "--yes does not answer this" if answer.past_yes else "the question was not answered"
    if question.kind in ("publisher", "root") and question.subject:
        return reason, f"to trust it: {question.subject}"
    answers = ", and ".join(dict.fromkeys(how_to_answer(each) for each, reply in asked if reply.said == "unanswered"))
    without = " without --yes" if answer.past_yes else ""
    return reason, f"answer at a terminal{without}{'' if answers == A_PERSON else f', or beforehand: {answers}'}"


def chosen_edit(question: Question, answer: Answer) -> Way | None:
    """Return the fate of edits by an answer; None if the answer decides nothing about edits."""
    if answer.way is not None or not question.ways or answer.said == "unanswered":
        return answer.way
    if answer.said == "yes":
        return question.ways[0]
    return "keep" if "keep" in question.ways else None


# Why a locked skill is not loaded: its files differ from the lock, no one agreed to it on this machine, it is
# disabled or has an open need, an advisory refuses it, or its registry withdrew it.
HeldStatus: TypeAlias = Literal["drifted", "not-agreed", "disabled", "known-bad", "withdrawn"]


@dataclass(frozen=True, slots=True)
class HoldReason:
    """Why a skill is not loaded.

    Attributes:
        reason: The rest of a sentence that begins with the skill's name.
        command: The command that removes the reason; empty if a person has to change ``file`` by hand.
        file: The host's file, or skillhub's, that disables the skill.
    """

    status: HeldStatus
    reason: str
    command: str
    file: str = ""


class Remedy(NamedTuple):
    """What a user can do about a recalled skill.

    Attributes:
        command: The command to type.
        hint: The same in words, with the command that removes the skill.
        note: Why no other command helps, the end of a sentence; empty if one installs another version.
    """

    command: str
    hint: str
    note: str = ""
