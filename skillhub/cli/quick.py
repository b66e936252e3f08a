"""``list``, ``verify`` and ``sync`` without Typer, whose import alone costs more than they do.

Only plain uses are served; at anything else (``--help``, a flag not named here, ``--``) Typer takes over, with the
same functions behind it.
"""

from __future__ import annotations

import gc

_FLAGS = {
    "--json": "json",
    "-g": "user_scope",
    "--global": "user_scope",
    "-q": "quiet",
    "--quiet": "quiet",
    "-v": "verbose",
    "--verbose": "verbose",
    "-y": "yes",
    "--yes": "yes",
    "--offline": "offline",
}
_TAKES_NAMES = {"list": False, "verify": True, "sync": False}


def run(args: list[str]) -> int | None:
    """Run the command line if it is one of the plain ones, else return None."""
    if not args or args[0] not in _TAKES_NAMES:
        return None
    values: dict[str, bool] = {}
    names = []
    for word in args[1:]:
        if word in _FLAGS:
            values[_FLAGS[word]] = True
        elif word.startswith("-") or not _TAKES_NAMES[args[0]]:
            return None
        else:
            names.append(word)
    # What they make is freed without it: among a thousand skills, looking for cycles takes 8 ms and finds none.
    gc.disable()
    try:
        return _serve(args[0], values, names)
    finally:
        gc.freeze()  # nor are modules worth a search at the end of the process
        gc.enable()


def _serve(name: str, flags: dict[str, bool], skills: list[str]) -> int:
    from skillhub.cli import shown
    from skillhub.cli.common import Common

    common = Common(**flags)  # type: ignore[arg-type]
    with common.undo:
        if name == "verify":
            return shown.verify_skills(common, skills)
        return shown.list_skills(common) if name == "list" else shown.sync_skills(common)
