"""``list``, ``verify`` and ``sync`` without Typer, whose import alone costs more than they do.

Only plain uses are served; at anything else (``--help``, a flag not named here, ``--``) Typer takes over, with the
same functions behind it.
"""

from __future__ import annotations

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
    from skillhub.cli import shown
    from skillhub.cli.common import Common

    common = Common(**values)  # type: ignore[arg-type]
    if args[0] == "verify":
        return shown.verify_skills(common, names)
    return shown.list_skills(common) if args[0] == "list" else shown.sync_skills(common)
