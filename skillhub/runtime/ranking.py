"""Searches skills by what a person remembers of them, those on disk and those that a source lists alike.

Five ways of finding are tried, and their rankings fused by reciprocal rank (Cormack, Clarke, Büttcher 2009) with
a weight for each, so that the stronger way wins and several weak ones still help each other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, Literal

from skillhub import disk
from skillhub.errors import FormatError, StateError
from skillhub.model.skill import Skill, SkillScope
from skillhub.model.syntax.frontmatter import split
from skillhub.model.tree import SKILL_MD
from skillhub.runtime.search_index import SearchIndex, Stored, utf8
from skillhub.runtime.words import close, stems, words

LIMIT: Final = 8
LIMIT_MAX: Final = 50
Reason = Literal["exact_path", "exact_name", "prefix", "token_overlap", "full_text", "spelling"]
# Each at the first rank outweighs all that follow it together.
_WEIGHTS: Final[Mapping[Reason, float]] = {
    "exact_path": 16,
    "exact_name": 8,
    "prefix": 4,
    "token_overlap": 2,
    "full_text": 1,
}
_RANK_BASE = 60
_FUSED = 100  # of the full text's ranking
_WORDS_MAX = 8
_CAP = 1 << 20
_ALTERNATIVES = 3
_SCOPES: tuple[SkillScope, ...] = ("project", "user", "system", "admin", "plugin", "extra")


@dataclass(frozen=True, slots=True)
class Hit:
    """One skill that was found.

    Attributes:
        source: The alias of the source that lists it; None for one on disk.
        scope: The scope of one on disk; None for a listed one.
        score: Higher is better; comparable between indexes.
        reason: The strongest way in which it was found.
    """

    name: str
    description: str
    path: str
    source: str | None
    scope: str | None
    score: float
    reason: Reason

    def to_json(self) -> dict[str, Any]:
        """Return the hit as the contract has it."""
        place = (
            {"source": self.source} if self.source is not None else {"scope": self.scope, "path": self.path}
        )
        shown = {"name": self.name, **place, "description": self.description}
        return {**shown, "score": self.score, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Hits:
    """The best of what was found; ``truncated`` if there is more."""

    hits: tuple[Hit, ...] = ()
    truncated: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return what ``skillhub search --json`` prints."""
        shown = [hit.to_json() for hit in self.hits]
        return {"hits": shown, "count": len(shown), "truncated": self.truncated}


def rows_of(skills: Iterable[Skill]) -> Iterator[Stored]:
    """Yield what an index holds of skills on disk, their instructions among it; what cannot be read has none.

    What is held back is not found.
    """
    for skill in skills:
        if skill.held is not None:
            continue
        yield Stored(
            name=skill.full_name,
            description=skill.description,
            path=skill.path or "",
            scope=skill.scope,
            body=_body(skill.path) if skill.path else "",
        )


def _body(folder: str) -> str:
    path = os.path.join(folder, SKILL_MD)
    with suppress(FormatError, StateError):
        return split(disk.read(path, _CAP) or b"", path).body
    return ""


def search(query: str, indexes: Iterable[SearchIndex], limit: int = LIMIT) -> Hits:
    """Return the best hits for ``query`` in all indexes together; ties go by scope, then by path or source.

    Only where nothing at all is found, words are taken for misspelt ones.

    Args:
        query: A path, a name, the beginning of one, or words; any text will do.
        indexes: Where to look.
        limit: How many hits to return, 50 at most.

    Raises:
        StateError: an index cannot be read any more.
    """
    several = list(indexes)
    found = [hit for each in several for hit in _hits(query, each)]
    if not found:
        found = [hit for each in several for hit in _respelt(query, each)]
    found.sort(key=lambda hit: (-hit.score, _scope_rank(hit), hit.path, hit.source or "", hit.name))
    most = min(max(limit, 1), LIMIT_MAX)
    return Hits(tuple(found[:most]), len(found) > most)


def _scope_rank(hit: Hit) -> int:
    return _SCOPES.index(hit.scope) if hit.scope in _SCOPES else len(_SCOPES)


def _hits(query: str, index: SearchIndex) -> Iterator[Hit]:
    """Yield what is found in one index, unordered."""
    scores: dict[int, float] = {}
    reasons: dict[int, Reason] = {}
    rows: dict[int, Stored] = {}
    for reason, ranking in _rankings(query, index, rows):
        for rank, tied in enumerate(ranking, 1):
            for number in tied:
                scores[number] = scores.get(number, 0.0) + _WEIGHTS[reason] / (_RANK_BASE + rank)
                reasons.setdefault(number, reason)
    for number, score in scores.items():
        row = rows[number]
        place = {"source": row.source or None, "scope": row.scope or None}
        yield Hit(row.name, row.description, row.path, **place, score=round(score, 6), reason=reasons[number])


def _rankings(
    query: str, index: SearchIndex, rows: dict[int, Stored]
) -> Iterator[tuple[Reason, list[list[int]]]]:
    """Yield each way's ranking, the strongest way first, equals side by side; ``rows`` gets what was read."""
    text = utf8(query).strip()
    typed = text.lower().lstrip("$/")
    terms = list(dict.fromkeys(words(text)))[:_WORDS_MAX]
    rows.update(index.at_path(_folder(text)))
    yield "exact_path", [list(rows)]
    spelt = dict.fromkeys((typed, "-".join(terms)))
    exact = {number: row for name in spelt if name for number, row in index.named(name).items()}
    rows.update(exact)
    yield "exact_name", [list(exact)]
    begun = {number: row for name in spelt if name for number, row in index.beginning(name).items()}
    rows.update(begun)
    yield "prefix", _tied(begun, {number: len(row.name) for number, row in begun.items()})
    text_scores = index.matching(terms)
    best = sorted(text_scores, key=text_scores.__getitem__)[:_FUSED]
    rows.update(index.read(number for number in best if number not in rows))
    rows.update(named := index.with_words_in_name(terms) if text_scores else {})
    yield "token_overlap", _overlap(terms, {number: rows[number] for number in (*best, *named, *begun)})
    yield "full_text", _tied(best, text_scores)


def _folder(path: str) -> str:
    return os.path.dirname(path) if os.path.basename(path) == SKILL_MD else path.rstrip("/") or path


def _overlap(terms: Sequence[str], rows: Mapping[int, Stored]) -> list[list[int]]:
    """Rank rows by how many of the words are in name and description, then in the name alone."""
    wanted = stems(" ".join(terms))
    shared = {}
    for number, row in rows.items():
        in_name = wanted & stems(row.name)
        if in_all := in_name | wanted & stems(row.description):
            shared[number] = (-len(in_all), -len(in_name))
    return _tied(shared, shared)


def _tied(numbers: Iterable[int], keys: Mapping[int, Any]) -> list[list[int]]:
    ordered = sorted(numbers, key=keys.__getitem__)
    return [list(group) for _, group in groupby(ordered, key=keys.__getitem__)]


def _respelt(query: str, index: SearchIndex) -> Iterator[Hit]:
    """Yield what is found when each word that is in no skill gives way to words that are spelt alike."""
    terms = list(dict.fromkeys(words(utf8(query))))[:_WORDS_MAX]
    instead = [
        [term] if index.matching([term]) else close(term, index.spellings(len(term))) for term in terms
    ]
    seen: set[str] = set()
    for choice in _choices(instead):
        for hit in _hits(choice, index):
            if hit.name not in seen:
                seen.add(hit.name)
                yield replace(hit, reason="spelling")


def _choices(instead: Sequence[Sequence[str]]) -> list[str]:
    return [
        " ".join(each[min(nth, len(each) - 1)] for each in instead if each)
        for nth in range(min(_ALTERNATIVES, max(map(len, instead), default=0)))
    ]
