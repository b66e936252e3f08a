"""Every rule that an audit knows, in one table; the ids are the codes by which other commands tell of the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from skillhub import scan
from skillhub.model.finding import Finding, Rule

Location = tuple[str | None, int]  # a path and a line, as of a ``Finding``

_MEND = "skillhub sync puts back what is locked"
_LEAVE = "skillhub remove takes it out; look for another version, or another skill"
_ASK = "ask whoever runs the registry"

_RELEASE = (
    Rule("withdrawn", "critical", "its registry has withdrawn the release", _LEAVE),
    Rule("revoked", "critical", "the key that signed it was revoked", _LEAVE),
    Rule("name-not-owned", "critical", "the name was taken from the publisher who signed it", _LEAVE),
    Rule("release-changed", "critical", "the registry offers other bytes as the same version", _ASK),
    Rule("signature", "critical", "its signature is broken, or is not the locked signer's", _LEAVE),
    Rule(
        "signer-changed",
        "high",
        "it is signed by another than the earlier lock says, or by nobody",
        "find out whether that is meant before you take the change",
    ),
    Rule(
        "origin-changed",
        "high",
        "it comes from another place than the earlier lock says, or than was agreed to here",
        "find out whether that is meant before you take the change",
    ),
    Rule(
        "source-mismatch",
        "critical",
        "the lock gives it another name than it has",
        "take the lock back out of version control; else remove the skill and install it anew",
    ),
    Rule(
        "patch-changed",
        "high",
        "the project patches it otherwise than the earlier lock says",
        "read the patch before you take the change; no signature speaks for it",
    ),
    Rule("yanked", "medium", "the release was yanked: nobody should choose it anew", "take another version"),
    Rule("release-gone", "medium", "its registry no longer has the release", _ASK),
    Rule("signer-retired", "medium", "its signer is no longer admitted by its registry", "take a newer version"),
    Rule(
        "signer-untrusted",
        "high",
        "you no longer trust whoever signed it, and no registry vouches for them",
        "skillhub publisher trust NAME trusts them again; skillhub remove takes the skill out",
    ),
    Rule("unsigned", "medium", "nobody signed it", "prefer a signed release; read it before each update"),
    Rule("certificate-expired", "medium", "the certificate of its signer has expired", "take a newer version"),
    Rule(
        "policy",
        "high",
        "a policy of the machine, the user or the project forbids it",
        "skillhub doctor policy shows every line; skillhub remove takes the skill out",
    ),
    Rule(
        "newer-refused",
        "medium",
        "its place offers another one that no update would take",
        "ask its author; what is installed is as it was",
    ),
    Rule(
        "outdated",
        "low",
        "there is a newer version",
        "skillhub diff NAME@VERSION shows what it changes, skillhub install SOURCE:NAME@VERSION takes it",
    ),
)
_SOURCE = (
    Rule("source-refused", "critical", "what a source says of itself is not to be trusted", _ASK),
    Rule(
        "source-changed",
        "high",
        "the lock has another URL or root for a source than this user",
        "find out which of the two is right; skillhub source show NAME tells yours",
    ),
    Rule(
        "source-unknown",
        "high",
        "the lock names a source that this user does not have",
        "skillhub source add NAME URL if you trust it, or remove what came from it",
    ),
    Rule(
        "source-added",
        "medium",
        "the lock names a source that the earlier lock does not",
        "find out whether that is meant before you take the change",
    ),
    Rule(
        "source-removed",
        "low",
        "the lock names a source no longer that the earlier lock does",
        "find out whether that is meant before you take the change",
    ),
    Rule(
        "source-unreachable",
        "high",
        "a source could not be asked, so that nobody knows what it has recalled",
        "try again later, or with --offline take what it said last",
    ),
    Rule("source-expired", "high", "what is known of a source is out of date", "ask it again without --offline"),
    Rule("source-expiring", "medium", "metadata of a source is about to expire", _ASK),
    Rule("source-http", "medium", "a source is asked over plain http", "ask for an https address"),
)
_STATE = (
    Rule("missing", "high", "the store does not hold a locked skill", _MEND),
    Rule("listing", "high", "the list of stored files is gone or was changed", _MEND),
    Rule("changed-file", "high", "a file is not as locked", _MEND),
    Rule("changed-mode", "high", "an execute bit is not as locked", _MEND),
    Rule("extra-file", "high", "a file that the lock does not know", _MEND),
    Rule("missing-file", "high", "a locked file is gone", _MEND),
    Rule("not-a-file", "high", "something that is neither file nor folder", _MEND),
    Rule("unreadable", "high", "something that cannot be read", "look at who may read it"),
    Rule(
        "patch",
        "high",
        "the patch that the lock names is gone or was changed",
        "take it back out of version control, or agree to another: skillhub patch NAME",
    ),
    Rule("missing-link", "high", "an enabled skill is not in an agent's folder", _MEND),
    Rule("wrong-link", "high", "a link that skillhub did not make", _MEND),
    Rule("not-a-folder", "high", "something else where a skill's folder should be", _MEND),
    Rule("other-tree", "high", "another version is enabled than the lock has", "skillhub install asks about it"),
    Rule("other-skill", "high", "another skill has the name of a locked one", "move it away"),
    Rule("not-enabled", "high", "agents read a skill that is not enabled", "skillhub sync takes it away"),
    Rule("unknown", "high", "a copy that is not what is locked, nobody can tell in what", _MEND),
    Rule("tracked-copy", "medium", "git tracks an installed copy", "git rm -r --cached it; commit the lock"),
    Rule(
        "capability-unsaid",
        "medium",
        "it can do what the lock does not say",
        "look at it (skillhub show NAME), remove it and install it anew: the lock says so then",
    ),
    Rule("unmanaged", "low", "a skill that no lock knows", "install it with skillhub, or remove it"),
)
_CONTENT = (
    Rule("unsafe-archive", "critical", "it holds what no honest skill needs", "do not install it"),
    Rule("malformed", "high", "it cannot be read as a skill", "mend it, or remove it"),
    Rule("form", "low", "its form is not as the specification has it", "tell its author"),
)

RULES: Mapping[str, Rule] = {**{rule.id: rule for rule in chain(_RELEASE, _SOURCE, _STATE, _CONTENT)}, **scan.RULES}


def note(rule: str, message: str, skill: str | None, place: Location) -> Finding:
    """Return a finding by a rule of the table, as grave as that says."""
    return RULES[rule].finding(*place, message, skill)


def seen(found: Finding, skill: str, folder: str) -> Finding:
    """Return what the scan saw in the skill that is shown as lying at ``folder``."""
    return replace(found, skill=skill, path=f"{folder}/{found.path}")
