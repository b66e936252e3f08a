"""``cache``: shows what skillhub keeps on this disk, and removes what nobody needs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from skillhub.cli.common import Common, Run
from skillhub.cli.failure import question_json
from skillhub.cli.options import option

if TYPE_CHECKING:
    from skillhub.audit.cache import Collected

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def info(common: Common) -> int:
    """Show what is kept where, and how large it is. Everything but the store can be deleted at any time.

    Example: skillhub cache info
    """
    from skillhub.audit.cache import places

    found = places(common.home, common.store)
    if common.json:
        rows = [asdict(place) for place in found]
        return common.result("cache info", {"places": rows, "size": sum(place.size for place in found)})
    cells = [(place.name, _spelled(place.size), str(place.files), place.path) for place in found]
    common.terminal.table(("WHAT", "SIZE", "FILES", "WHERE"), cells)
    common.terminal.say("skillhub cache gc --dry-run shows what of it nobody needs", "dim")
    return 0


def gc(
    common: Common, days: Annotated[int, option("--days N", "Keep what was fetched in the last N days.", min=0)] = 30
) -> int:
    """Remove what nobody needs. Stored skills that no project names, old downloads, what killed processes left.

    A project counts as gone only if its folder is not there any more. What is removed is fetched again when it is
    needed. You are asked before a stored skill goes.

    Example: skillhub cache gc --dry-run
    """
    from skillhub.audit.cache import collect

    found = collect(common.home, days, common.ports(), dry_run=common.dry_run)
    if common.json:
        return common.result("cache gc", _json(found, removed=not common.dry_run))
    done = "would remove" if common.dry_run else "removed"
    for each in found.waste:
        about = f"{each.about}: " if each.about else ""
        common.terminal.did(f"{done} {each.kind} {about}{each.path} ({_spelled(each.size)})")
    for base in found.gone:
        common.terminal.say(f"{base} had some of these, and is no more", "dim")
    if found.waste:
        common.terminal.did(f"{done} {_spelled(found.size)} in all", "green")
    else:
        common.terminal.say("there is nothing that nobody needs", "dim")
    return 0


def _json(found: Collected, *, removed: bool) -> dict[str, Any]:
    rows = [
        {"kind": each.kind, "path": each.path, "size": each.size, "name": each.about or None, "tree": each.tree}
        for each in found.waste
    ]
    return {
        "removed": rows,
        "size": found.size,
        "changed": removed and bool(rows),
        "gone": list(found.gone),
        "questions": [question_json(question, answer) for question, answer in found.asked],
    }


def _spelled(size: int) -> str:
    number, unit = float(size), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{size} B"


VERBS: dict[str, Run] = {"info": info, "gc": gc}
