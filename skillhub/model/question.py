"""Everything risky is a Question; who answers (a person, ``--yes``, a policy, nobody) is an Approver."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from skillhub.model.server_command import Risk
    from skillhub.model.tree import Tree

Kind = Literal[
    "install",  # first install of this tree in this project
    "unsigned",  # nobody vouches for the bytes
    "publisher",  # signed, by a key or root that nobody has pinned
    "finding",  # the scan found something of high severity
    "critical-finding",  # or worse: only a policy may agree
    "capability",  # another version can do what the one before could not
    "need",  # another version needs what the one before did not
    "source",  # a project proposes a registry that this user does not have
    "place",  # a source without a root is to be added: it vouches for nothing, each install of it is asked about
    "root",  # a registry's root is to be trusted on first use
    "env",  # a variable is missing; the answer carries its value
    "mcp",  # an MCP server is to be written into agents' configuration
    "mcp-unpinned",  # the same, or to be used as it is there, and it may be another one whenever it starts
    "mcp-shell",  # the same, or to be used as it is there, and it runs a shell or code that nobody has read
    "mcp-conflict",  # a server of that name is there already, or elsewhere for that agent, and differs
    "mcp-serve",  # the entry that runs our own MCP server is to be written into an agent's configuration
    "mcp-check",  # an MCP server is to be started, or called, to see what it has
    "unused",  # what no project needs is to be removed from the store
    "uninstall",  # all that skillhub put on this machine is to be removed
    "publish",  # a release is to be published, which never changes afterwards
    "local-edit",  # a copy in an agent's folder was edited by hand
]

# What is asked of a server, by what its command may run, and how the question says so.
SERVER_KINDS: Mapping[Risk, Kind] = {"ordinary": "mcp", "unpinned": "mcp-unpinned", "shell": "mcp-shell"}
SERVER_RUNS: Mapping[Risk, str] = {
    "ordinary": "",
    "unpinned": ", which downloads a package without a fixed version",
    "shell": ", which runs a shell or other unchecked code",
}

# What becomes of edits made by hand: a patch keeps them and they give way, they go into what is new, they are thrown
# away, or the skill stays as it is.
Way = Literal["save", "merge", "take", "keep"]

# What `--accept` takes; the first two answer questions, `needs` only makes an open need no failure.
Accept = Literal["findings", "mcp", "needs"]
McpChoice = Literal["ask", "configure", "skip"]  # what `--mcp` takes
Rows = tuple[tuple[str, str, str], ...]
Flag = Literal["--yes", "--allow-unsigned", "--accept findings", "--accept mcp"]


@dataclass(frozen=True, slots=True)
class Beforehand:
    """What is a yes to the questions of one kind before they are asked.

    Attributes:
        flags: Each of these is one.
        policy: Whether the kind may stand in ``agree`` of the machine's or the user's policy.
        otherwise: What else there is to do, for the hint; ``{subject}`` is the question's.
    """

    flags: tuple[Flag, ...] = ()
    policy: bool = False
    otherwise: str = ""


_YES = Beforehand(("--yes",))
_POLICY = Beforehand(("--yes",), policy=True)
A_PERSON = "a person at a terminal"
BEFOREHAND: Mapping[Kind, Beforehand] = {
    "install": _POLICY,
    "unsigned": Beforehand(("--allow-unsigned",), policy=True),
    "publisher": Beforehand(
        otherwise="skillhub publisher trust NAME --key FILE (or --certificate FILE) trusts the signer"
    ),
    "finding": Beforehand(("--accept findings",), policy=True),
    "critical-finding": Beforehand(
        otherwise='a line of the machine\'s or your policy: allow-findings = ["{subject}"]'
    ),
    "capability": _POLICY,
    "need": _POLICY,
    "source": Beforehand(otherwise="{subject}, or trusted-sources in the machine's or your policy"),
    "place": Beforehand(("--yes", "--allow-unsigned")),
    "root": Beforehand(otherwise="--fingerprint sha256:… or --root FILE"),
    "env": Beforehand(otherwise="--env {subject}=VALUE"),
    "mcp": Beforehand(("--yes", "--accept mcp"), policy=True),
    "mcp-unpinned": Beforehand(("--accept mcp",)),
    "mcp-shell": Beforehand(otherwise=A_PERSON),
    "mcp-conflict": Beforehand(otherwise=A_PERSON),
    "mcp-serve": _YES,
    "mcp-check": Beforehand(otherwise=A_PERSON),
    "unused": _YES,
    "uninstall": _YES,
    "publish": _YES,
    "local-edit": _YES,
}
# A no to one of these leaves the skill disabled; a no to any other refuses the whole command.
NEEDS: frozenset[Kind] = frozenset({"env", "mcp", "mcp-unpinned", "mcp-shell", "mcp-conflict"})


@dataclass(frozen=True, slots=True)
class Question:
    """One thing a person has to agree to, in words that say what will happen and why it is asked.

    Attributes:
        skill: The skill it is about, or the source for ``source`` and ``root``.
        message: One sentence.
        details: Lines beneath it: first those that quote text from outside, then our facts, always in the same order.
        subject: What tells two questions of a kind about one skill apart: a variable, a server, a rule.
        ways: Of ``local-edit``, the answers there are; a yes is the first, a no is ``keep`` where that is one.
        row: Of ``install``, the skill in short: name, version, source, signer, capabilities, needs.
        alike: What a yes to all is about: the very signer, source or capability; without it nothing else is answered.
        tree: Of ``install``, what is to be installed, for who wants to read it first.
        compared: Of ``mcp-conflict``, the details in another form: each place, and what stands there beside what the
            skill asks for.
    """

    kind: Kind
    skill: str
    message: str
    details: tuple[str, ...] = ()
    subject: str = ""
    ways: tuple[Way, ...] = ()
    row: tuple[str, ...] = ()
    alike: str = ""
    tree: Tree | None = field(default=None, repr=False, compare=False)
    compared: tuple[tuple[str, Rows], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody said to a Question.

    Attributes:
        value: A secret, in no repr and no JSON.
        way: Which of the question's ``ways``; None leaves it to ``said``.
        seen: Whether a person has read the question, so that nothing of it need be told again.
        past_yes: Whether it is unanswered though ``--yes`` was given, which does not answer it.
    """

    said: Literal["yes", "no", "unanswered"]
    value: str | None = field(default=None, repr=False)
    way: Way | None = None
    seen: bool = field(default=False, compare=False)
    past_yes: bool = field(default=False, compare=False)


YES, NO, UNANSWERED = Answer("yes"), Answer("no"), Answer("unanswered")


class Approver(Protocol):
    """Whoever answers; gets every question of a command at once and answers each, in order."""

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Return one answer for each question."""
        ...


Asked = tuple[Question, Answer]


def answered_by(question: Question, given: Collection[str]) -> bool:
    """Say whether one of the flags that were given is a yes to a question."""
    return any(flag in given for flag in BEFOREHAND[question.kind].flags)


def how_to_answer(question: Question, flags: Collection[str] | None = None) -> str:
    """Return what would be a yes to a question beforehand: a flag, or what else there is to do.

    Args:
        question: What was asked.
        flags: Those that the command takes, if it is known which; a command that takes the flag is named else.
    """
    known = BEFOREHAND[question.kind]
    if known.flags:
        told = " or ".join(known.flags)
    elif question.kind in ("publisher", "root") and question.subject:
        told = question.subject
    else:
        told = known.otherwise.format(subject=question.subject)
    needed = told.partition(" ")[0]
    if flags is not None and needed in _ELSEWHERE and needed not in flags:
        return f"{_ELSEWHERE[needed].format(skill=question.skill)} {told}"
    return told


# Flags that not every command takes which asks, and the command that takes each.
_ELSEWHERE: Mapping[str, str] = {
    "--env": "afterwards: skillhub enable {skill}",
    "--allow-unsigned": "first: skillhub install",
    "--trust-source": "first: skillhub install",
}


def unanswerable(asked: Sequence[Asked]) -> list[Asked]:
    """Return those that refuse the command: first any answer to what only a policy may agree to, then what is no yes.

    A need is not among them, nor are edits that a person wants to keep: their skill alone is left out.
    """
    critical = [(q, a) for q, a in asked if q.kind == "critical-finding"]
    refused = [(q, a) for q, a in asked if a.said != "yes" and q.kind not in NEEDS and chosen_edit(q, a) != "keep"]
    return critical + [each for each in refused if each not in critical]


def chosen_edit(question: Question, answer: Answer) -> Way | None:
    """Return what an answer makes of edits; None if it is no answer to that."""
    if answer.way is not None or not question.ways or answer.said == "unanswered":
        return answer.way
    if answer.said == "yes":
        return question.ways[0]
    return "keep" if "keep" in question.ways else None


# Why a skill of a lock is not loaded: its files are not the lock's, nobody agreed to it on this machine, or it was
# disabled or waits for a need.
HeldStatus: TypeAlias = Literal["drifted", "not-agreed", "disabled", "known-bad", "withdrawn"]


@dataclass(frozen=True, slots=True)
class Held:
    """Why a skill is not loaded.

    Attributes:
        reason: A sentence that its name begins.
        command: What lifts it; empty where a person has to change ``file`` by hand.
        file: The host's file, or ours, that disables it.
    """

    status: HeldStatus
    reason: str
    command: str
    file: str = ""
