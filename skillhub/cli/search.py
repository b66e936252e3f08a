"""``search``: searches what sources list and what is here."""

from __future__ import annotations

from typing import Annotated

from skillhub.cli.agent import HostName, seen_by
from skillhub.cli.common import Common
from skillhub.cli.options import argument, option

_FOUND_BY = {
    "exact_path": "path",
    "exact_name": "name",
    "prefix": "name",
    "token_overlap": "words",
    "full_text": "text",
    "spelling": "spelling",
}


def search(
    common: Common,
    words: Annotated[list[str], argument("WORDS...", "A name, its beginning, words of the text, or a path.")],
    local: Annotated[bool, option("--local", "Search only what is here; ask no source.")] = False,
    limit: Annotated[int, option("--limit N", "How many to show, 50 at most.", min=1)] = 8,
    host: HostName = "agents",
) -> int:
    """Search the skills that sources list, and those that are here. What matches best comes first, with the reason.

    Example: skillhub search failing checks
    """
    from skillhub.flows.offered import Listings, listings
    from skillhub.flows.search import search as flow

    skills = [skill for skill in seen_by(common, host)[1].skills if skill.path]
    listed = Listings() if local else listings(common.ports(), needed=not skills)
    found = flow(" ".join(words), skills, limit, listed.each, common.home.cache)
    for warning in listed.warnings:
        common.terminal.warn(f"warning: {warning}")
    if common.json:
        return common.result("search", found.to_json())
    rows = [
        (hit.name, hit.source or f"({hit.scope})", _FOUND_BY[hit.reason], hit.description)
        for hit in found.hits
    ]
    if rows:
        common.terminal.table(("NAME", "FROM", "FOUND BY", "DESCRIPTION"), rows)
    else:
        common.terminal.say("nothing was found")
    if found.truncated:
        common.terminal.say(_more(limit), "dim")
    return 0


def _more(limit: int) -> str:
    from skillhub.runtime.ranking import LIMIT_MAX

    if limit >= LIMIT_MAX:
        return f"there is more; {LIMIT_MAX} are shown at most: say more words"
    return f"there is more; --limit {min(2 * limit, LIMIT_MAX)} shows more of it"


COMMANDS = {"search": search}
