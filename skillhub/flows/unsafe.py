"""The refusal of ``--all`` where skills are not what they should be: all of them are named, to be left out."""

from __future__ import annotations

from collections.abc import Sequence

from skillhub.errors import SecurityError
from skillhub.model.text import as_word


class UnsafeSkills(SecurityError):
    """Skills that came with ``--all`` and are not what they should be: every one of them, and why.

    Args:
        failing: By the word that ``--except`` takes.
        where: The place that has them.
        excepted: What was left out already.

    Attributes:
        skills: Each as ``name``, ``code``, ``reason`` and ``message``.
        code: Theirs, if they have one and the same; so is ``reason``.
    """

    code = "unsafe-skills"

    def __init__(
        self, failing: Sequence[tuple[str, SecurityError]], *, where: str, excepted: Sequence[str] = ()
    ) -> None:
        self.skills = tuple(
            {"name": word, "code": each.code, "reason": getattr(each, "reason", None), "message": _told(each)}
            for word, each in failing
        )
        words = dict.fromkeys([*excepted, *(word for word, _ in failing)])
        without = f"--all {' '.join(f'--except {as_word(word)}' for word in words)}"
        (word, first), *others = failing
        named = ", ".join(f"{each['name']} ({each['reason'] or each['code']})" for each in self.skills)
        super().__init__(
            f"{len(failing)} skills are not as promised: {named}" if others else _about(word, first),
            where=where if others else first.where or where,
            hint=f"to install the others: {without}{f'; {first.hint}' if first.hint and not others else ''}",
        )
        codes = {each.code for _, each in failing}
        reasons = {each["reason"] for each in self.skills}
        self.code = codes.pop() if len(codes) == 1 else self.code
        self.reason = reasons.pop() if len(reasons) == 1 else None


def _about(word: str, error: SecurityError) -> str:
    is_said = error.message.startswith(f"{word} ")
    return error.message if is_said else f"{word}: {error.message}"


def _told(error: SecurityError) -> str:
    return f"{error.message} ({error.where})" if error.where else error.message
