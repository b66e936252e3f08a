"""``list``, ``verify``, ``sync`` and ``install`` without Typer, whose import takes longer than the first three.

Only plain uses are served; at anything else (``--help``, a flag not named here, ``--``) Typer takes over, with the
same functions behind it.
"""

from __future__ import annotations

import gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skillhub.cli.common import Common

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
_TAKES_NAMES = {"list": False, "verify": True, "sync": False, "install": True}
_SWITCHES = ("--all", "--allow-unsigned")  # of ``install``
_WITH_A_NAME = ("--agent", "--skill")


def run(args: list[str]) -> int | None:
    """Run the command line if it is one of the plain ones, else return None."""
    if not args or args[0] not in _TAKES_NAMES:
        return None
    command, *rest = args
    flags: dict[str, bool] = {}
    given: dict[str, list[str]] = {}
    names, words = [], iter(rest)
    for word in words:
        if word in _FLAGS:
            flags[_FLAGS[word]] = True
        elif command == "install" and word in _SWITCHES:
            given[word] = []
        elif command == "install" and word in _WITH_A_NAME:
            name = next(words, "-")
            if name.startswith("-"):
                return None
            given.setdefault(word, []).append(name)
        elif word.startswith("-") or not _TAKES_NAMES[command]:
            return None
        else:
            names.append(word)
    # What they make is freed without it: among a thousand skills, looking for cycles takes 8 ms and finds none.
    gc.disable()
    try:
        return _serve(command, flags, names, given)
    finally:
        gc.freeze()  # nor are modules worth a search at the end of the process
        gc.enable()


def _serve(command: str, flags: dict[str, bool], names: list[str], given: dict[str, list[str]]) -> int:
    from skillhub.cli.common import Common

    common = Common(**flags)  # type: ignore[arg-type]
    if command == "install":
        return _install(common, names, given)
    from skillhub.cli import shown

    with common.undo:
        if command == "verify":
            return shown.verify_skills(common, names)
        return shown.list_skills(common) if command == "list" else shown.sync_skills(common)


def _install(common: Common, refs: list[str], given: dict[str, list[str]]) -> int:
    from skillhub.cli import installing
    from skillhub.cli.common import perform
    from skillhub.flows.options import Options

    agents, skills = (tuple(given.get(word, ())) for word in _WITH_A_NAME)
    options = Options(agents=agents, skills=skills, every="--all" in given)
    return perform(installing.install, common, refs, options, allow_unsigned="--allow-unsigned" in given)
