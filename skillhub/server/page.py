"""The page of what is installed here; every text of a skill is escaped, and nothing on it runs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from threading import Lock
from time import monotonic
from typing import Any, Final

from jinja2 import Template

from skillhub import __version__
from skillhub.audit.workplace import Workplace
from skillhub.formats.browser import NOTHING_LOADS
from skillhub.model.finding import in_words
from skillhub.model.hosts import profiles
from skillhub.model.record import Skill
from skillhub.registry.rendering import environment
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.overview import section

PER_PAGE: Final = 50
_FINDINGS: Final = 20
_NAMES: Final = 40
_FRESH: Final = 1.0
PAGE_HEADERS: Final = {"Content-Security-Policy": f"{NOTHING_LOADS}; style-src 'self'"}


class StatusPage:
    """The page; what agents see of all skills takes the longest, and is read once a second at most."""

    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace
        self._lock = Lock()
        self._agents: list[tuple[dict[str, Any], Catalog]] = []
        self._read_at = -_FRESH

    def text(self, number: int) -> str:
        """Return the page with the skills of this number, from 1; what is past the end is the last."""
        workplace = self._workplace
        every = workplace.skills()
        last = max(1, -(-len(every) // PER_PAGE))
        number = min(max(1, number), last)
        with self._lock:
            if monotonic() - self._read_at >= _FRESH:
                self._agents, self._read_at = [*_agents(workplace)], monotonic()
            agents = self._agents
        why = {skill.path: skill.why["message"] for _, catalog in agents for skill in catalog.skills if skill.held}
        return _template().render(
            version=__version__,
            folder=workplace.around.cwd,
            total=len(every),
            number=number,
            last=last,
            skills=[_row(workplace, each, why) for each in every[(number - 1) * PER_PAGE : number * PER_PAGE]],
            agents=[row for row, _ in agents],
            most=_NAMES,
        )


@cache
def _template() -> Template:
    return environment("skillhub.server").get_template("page.html")


def _row(workplace: Workplace, skill: Skill, why: dict[str | None, str]) -> dict[str, Any]:
    found = workplace.contents(skill)
    links = (skill.path, *skill.links)
    return {
        "skill": skill,
        "why": next((why[each] for each in links if each in why), ""),
        "signers": [f"{each.named(skill.vouched_by)} ({each.kind} {each.fingerprint})" for each in skill.signed_by],
        "can": "unknown" if found.capabilities is None else in_words(found.capabilities),
        "open": [need for need in skill.requires if need.open],
        "fault": found.fault,
        "findings": found.findings[:_FINDINGS],
        "more": max(0, len(found.findings) - _FINDINGS),
    }


def _agents(workplace: Workplace) -> Iterator[tuple[dict[str, Any], Catalog]]:
    for host in profiles():
        row, catalog = workplace.seen(host)
        seen = section(catalog, row)
        share = min(100, round(100 * seen.used / seen.budget)) if seen.budget else None
        yield {"name": row.name, "seen": seen, "share": share, "skills": catalog.skills}, catalog
