"""Search in skills: ranking, and the index behind it."""

from __future__ import annotations

import os
import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from threading import Lock
from typing import Any, Final, Literal, TypeVar, get_args

from skillhub.disk import files
from skillhub.errors import FormatError, StateError
from skillhub.formats.text import close
from skillhub.model.hosts import SkillScope
from skillhub.model.manifest import split
from skillhub.model.skill import Skill
from skillhub.model.tree import SKILL_MD
from skillhub.runtime.mention_parser import stems, words

# The index of a search: the rows, and SQLite's FTS5 in memory, which ranks them by the words in their texts.

# The number of rows whose relevance is computed. Rows are stored shortest first, and BM25 prefers the shorter of two
# equal matches, so the rows beyond the limit would rank low. All of a million rows would take half a second.
_RANKED_MAX = 1500
_FEW = 50
_PREFIX_MAX = 200
_SPELLINGS_MAX = 200_000
_NAME_WEIGHT, _DESCRIPTION_WEIGHT, _BODY_WEIGHT = 8.0, 3.0, 1.0
_SCHEMA: Final = """
    CREATE VIRTUAL TABLE texts USING fts5(
        name, description, body, content='', detail='column', tokenize='porter unicode61 remove_diacritics 2')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A row of an index: a skill on disk has a ``path`` and a ``scope``, a skill of a listing a ``source``."""

    name: str
    description: str
    path: str = ""
    source: str = ""
    scope: str = ""
    body: str = ""


class _Keys:
    """The numbers of rows, sorted by a text of each, such as its name."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._pairs = sorted((_utf8(text), number) for number, text in enumerate(texts))

    def equal(self, text: str) -> Iterator[int]:
        return islice(self._matching(text, text.__eq__), _FEW)

    def beginning(self, start: str) -> Iterator[int]:
        return islice(self._matching(start, lambda text: text.startswith(start)), _PREFIX_MAX)

    def _matching(self, least: str, matches: Callable[[str], bool]) -> Iterator[int]:
        """Yield the numbers of the rows from ``least`` on, as long as their texts match."""
        for at in range(bisect_left(self._pairs, (least, 0)), len(self._pairs)):
            text, number = self._pairs[at]
            if not matches(text):
                return
            yield number


class SearchIndex:
    """A search index in memory. Threads may share it; their queries wait for each other."""

    def __init__(self, connection: sqlite3.Connection, rows: Sequence[Stored]) -> None:
        self._connection = connection
        self._rows = rows  # by number, shortest first
        self._names, self._paths = _Keys(row.name for row in rows), _Keys(row.path for row in rows)
        self._bare_names = _Keys(row.name.rpartition(":")[2] for row in rows)
        self._words = sorted({word for row in rows for word in words(_utf8(f"{row.name} {row.description}"))})
        self._lock = Lock()

    @classmethod
    def build(cls, rows: Iterable[Stored]) -> SearchIndex:
        """Return a new index of these rows.

        Raises:
            StateError: this Python's SQLite has no FTS5.
        """
        ordered = sorted(rows, key=lambda row: len(row.name) + len(row.description) + len(row.body))
        texts = ((number, *map(_utf8, (row.name, row.description, row.body))) for number, row in enumerate(ordered))
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            connection.execute(_SCHEMA)
            connection.executemany("INSERT INTO texts (rowid, name, description, body) VALUES (?, ?, ?, ?)", texts)
            connection.execute("INSERT INTO texts (texts) VALUES ('optimize')")
            connection.commit()
        except sqlite3.OperationalError as error:
            connection.close()
            raise StateError(f"this Python's SQLite cannot index texts: {error}") from error
        return cls(connection, [replace(row, body="") if row.body else row for row in ordered])

    def __enter__(self) -> SearchIndex:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the index; so does the end of a ``with``."""
        with self._lock:
            self._connection.close()

    def at_path(self, path: str) -> dict[int, Stored]:
        """Return the rows of the skills at ``path``, by number."""
        return self.read(self._paths.equal(path) if path else ())

    def named(self, name: str) -> dict[int, Stored]:
        """Return rows with this name, with or without its namespace."""
        return self.read((*self._names.equal(name), *self._bare_names.equal(name)))

    def beginning(self, name: str) -> dict[int, Stored]:
        """Return rows whose name begins with ``name``, among them the shortest."""
        rows = self.read(chain(self._names.beginning(name), self._bare_names.beginning(name)))
        shortest = sorted(rows, key=lambda number: len(rows[number].name))[:_FEW]
        return {number: rows[number] for number in shortest}

    def with_words_in_name(self, terms: Sequence[str]) -> dict[int, Stored]:
        """Return rows with all of these words in the name; if there are none, rows with any of them."""
        query = "SELECT rowid FROM texts WHERE texts MATCH ? LIMIT ?"
        numbers = self._run(query, f"name : ({_all_of(terms)})", _FEW)
        numbers = numbers or self._run(query, f"name : ({_any_of(terms)})", _FEW)
        return self.read(number for (number,) in numbers)

    def matching(self, terms: Sequence[str]) -> dict[int, float]:
        """Return the rank of each matching row, lower is better: rows with all words; if few, also rows with any."""
        ranks = self._ranked(_all_of(terms)) if terms else {}
        if terms[1:] and len(ranks) < _FEW:
            # A row that lacks a word ranks below every row with all words.
            ranks = {number: rank - 1000 for number, rank in ranks.items()}
            ranks = {**self._ranked(_any_of(terms)), **ranks}
        return ranks

    def read(self, numbers: Iterable[int]) -> dict[int, Stored]:
        """Return the rows with these numbers."""
        return {number: self._rows[number] for number in numbers}

    def spellings(self, length: int) -> list[str]:
        """Return the words of all names and descriptions whose length differs by at most two."""
        near = (word for word in self._words if abs(len(word) - length) <= 2)
        return [*islice(near, _SPELLINGS_MAX)]

    def _ranked(self, match: str) -> dict[int, float]:
        weights = f"{_NAME_WEIGHT}, {_DESCRIPTION_WEIGHT}, {_BODY_WEIGHT}"
        query = f"SELECT rowid, bm25(texts, {weights}) FROM texts WHERE texts MATCH ? LIMIT ?"  # noqa: S608
        return dict(self._run(query, match, _RANKED_MAX))

    def _run(self, query: str, *values: str | int) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise StateError(f"the search index cannot be read: {error}") from error


def _all_of(terms: Sequence[str]) -> str:
    # Quotes make each term a word instead of an operator of FTS5; `words` leaves no quote in a term.
    return " AND ".join(f'"{term}"' for term in terms)


def _any_of(terms: Sequence[str]) -> str:
    return " OR ".join(f'"{term}"' for term in terms)


def _utf8(text: str) -> str:
    """Return the text in the form that SQLite stores: bytes of a path that are no UTF-8 become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


# The search in skills on disk and in the listings of sources.
# Five methods each rank the skills, and their rankings are combined by reciprocal rank fusion (Cormack, Clarke,
# Büttcher 2009) with a weight for each, so that a stronger method wins and several weaker ones add up.

LIMIT: Final = 8
LIMIT_MAX: Final = 50
Reason = Literal["exact_path", "exact_name", "prefix", "token_overlap", "full_text", "spelling"]
# At the first rank, the weight of each method exceeds the sum of the weights below it.
_WEIGHTS: Final[Mapping[Reason, float]] = {reason: 2 ** (4 - place) for place, reason in enumerate(get_args(Reason))}
_RANK_BASE = 60
_TEXT_RANKS_MAX = 100  # ranks of the full-text search that count
_WORDS_MAX = 8
_CAP = 1 << 20
_ALTERNATIVES = 3
_T = TypeVar("_T")
_Matches = dict[int, tuple[Stored, Any]]  # by number, the row and the key that it is ranked by
_SCOPES: tuple[SkillScope, ...] = ("project", "user", "system", "admin", "plugin", "extra")


@dataclass(frozen=True, slots=True)
class Hit:
    """A skill that matches a search.

    Attributes:
        name: The full name of the skill.
        description: Its description, one line.
        path: The folder of a skill on disk; empty for a skill of a listing.
        source: The alias of the source that lists it; None for a skill on disk.
        scope: The scope of a skill on disk; None for a skill of a listing.
        score: Higher is better; comparable only within one search.
        reason: The strongest method that found it.
    """

    name: str
    description: str
    path: str
    source: str | None
    scope: str | None
    score: float
    reason: Reason

    def to_json(self) -> dict[str, Any]:
        """Return the hit as a row of ``hits`` in ``skillhub search --json``."""
        place = {"source": self.source} if self.source is not None else {"scope": self.scope, "path": self.path}
        row = {"name": self.name, **place, "description": self.description}
        return {**row, "score": self.score, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Hits:
    """The best hits of a search, and the number of further ones."""

    hits: tuple[Hit, ...] = ()
    more: int = 0

    @property
    def truncated(self) -> bool:
        """Whether there are further hits."""
        return self.more > 0

    def to_json(self) -> dict[str, Any]:
        """Return the hits with their number, as JSON."""
        rows = [hit.to_json() for hit in self.hits]
        return {"hits": rows, "count": len(rows), "truncated": self.truncated}


def rows_of(skills: Iterable[Skill]) -> Iterator[Stored]:
    """Yield the index rows of skills on disk, with their instructions, except skills that are held back.

    If a ``SKILL.md`` cannot be read, its row has no instructions.
    """
    for skill in skills:
        if skill.held is not None:
            continue
        path, body = skill.path or "", _body(skill.file) if skill.path else ""
        yield Stored(name=skill.full_name, description=skill.description, path=path, scope=skill.scope, body=body)


def _body(path: str) -> str:
    with suppress(FormatError, StateError):
        return split(files.read(path, _CAP) or b"", path).body
    return ""


def search(query: str, indexes: Iterable[SearchIndex], limit: int = LIMIT) -> Hits:
    """Return the best hits for ``query`` in all indexes together; ties are ordered by scope, path, source and name.

    If there is no hit, no skill has any of the words; then words with a similar spelling replace them.

    Args:
        query: A path, a name, the beginning of a name, or words; any text is valid.
        indexes: The indexes to search.
        limit: The largest number of hits to return, from 1 to 50.

    Raises:
        StateError: an index is closed.
    """
    all_indexes = list(indexes)
    hits = list(_hits(query, all_indexes)) or list(_hits_of_spellings(query, all_indexes))
    hits.sort(key=lambda hit: (-hit.score, _scope_rank(hit), hit.path, hit.source or "", hit.name))
    most = min(max(limit, 1), LIMIT_MAX)
    return Hits(tuple(hits[:most]), max(len(hits) - most, 0))


def _scope_rank(hit: Hit) -> int:
    return _SCOPES.index(hit.scope) if hit.scope in _SCOPES else len(_SCOPES)


def _hits(query: str, indexes: Sequence[SearchIndex]) -> Iterator[Hit]:
    """Yield the hits of all indexes, unordered; each method ranks the rows of all indexes together."""
    rows: dict[tuple[int, int], Stored] = {}
    keys: dict[Reason, dict[tuple[int, int], Any]] = {}
    for position, index in enumerate(indexes):
        for reason, matches in _matches(query, index):
            rows.update(((position, number), row) for number, (row, _) in matches.items())
            keys.setdefault(reason, {}).update(((position, number), key) for number, (_, key) in matches.items())
    scores: dict[tuple[int, int], float] = {}
    reasons: dict[tuple[int, int], Reason] = {}
    for reason, ranked in keys.items():
        ordered = sorted(ranked, key=ranked.__getitem__)
        for rank, (_, tied) in enumerate(groupby(ordered, key=ranked.__getitem__), 1):
            for row_key in tied:
                scores[row_key] = scores.get(row_key, 0.0) + _WEIGHTS[reason] / (_RANK_BASE + rank)
                reasons.setdefault(row_key, reason)
    for row_key, score in scores.items():
        row = rows[row_key]
        place = {"source": row.source or None, "scope": row.scope or None}
        yield Hit(row.name, row.description, row.path, **place, score=round(score, 6), reason=reasons[row_key])


def _matches(query: str, index: SearchIndex) -> Iterator[tuple[Reason, _Matches]]:
    """Yield the rows that each method finds in one index, strongest method first; a lower key is a better hit."""
    text = _utf8(query).strip()
    typed = text.lower().lstrip("$/")
    terms = list(dict.fromkeys(words(text)))[:_WORDS_MAX]
    rows = dict(index.at_path(_folder(text)))
    yield "exact_path", {number: (row, 0) for number, row in rows.items()}
    spellings = dict.fromkeys((typed, "-".join(terms)))
    exact = {number: row for name in spellings if name for number, row in index.named(name).items()}
    yield "exact_name", {number: (row, 0) for number, row in exact.items()}
    prefixed = {number: row for name in spellings if name for number, row in index.beginning(name).items()}
    yield "prefix", {number: (row, len(row.name)) for number, row in prefixed.items()}
    text_scores = index.matching(terms)
    best = sorted(text_scores, key=text_scores.__getitem__)[:_TEXT_RANKS_MAX]
    rows |= exact | prefixed
    rows.update(index.read(number for number in best if number not in rows))
    rows.update(by_name := index.with_words_in_name(terms) if text_scores else {})
    yield "token_overlap", _overlap(terms, {number: rows[number] for number in (*best, *by_name, *prefixed)})
    yield "full_text", {number: (rows[number], text_scores[number]) for number in best}


def _folder(path: str) -> str:
    return os.path.dirname(path) if os.path.basename(path) == SKILL_MD else path.rstrip("/") or path


def _overlap(terms: Sequence[str], rows: Mapping[int, Stored]) -> _Matches:
    """Rank rows by the number of words in name and description, then in the name alone."""
    query_stems = stems(" ".join(terms))
    ranked = {}
    for number, row in rows.items():
        in_name = query_stems & stems(row.name)
        if in_all := in_name | query_stems & stems(row.description):
            ranked[number] = (row, (-len(in_all), -len(in_name)))
    return ranked


def _hits_of_spellings(query: str, indexes: Sequence[SearchIndex]) -> Iterator[Hit]:
    """Yield the hits for a query, none of whose words a skill has, with similar words in their place."""
    terms = list(dict.fromkeys(words(_utf8(query))))[:_WORDS_MAX]
    alternatives = [close(term, chain(*(index.spellings(len(term)) for index in indexes))) for term in terms]
    seen: set[tuple[str, str | None]] = set()
    for choice in _replaced_queries(alternatives):
        for hit in _hits(choice, indexes):
            if (hit.name, hit.source) not in seen:
                seen.add((hit.name, hit.source))
                yield replace(hit, reason="spelling")


def _replaced_queries(alternatives: Sequence[Sequence[str]]) -> list[str]:
    return [
        " ".join(spellings[min(nth, len(spellings) - 1)] for spellings in alternatives if spellings)
        for nth in range(min(_ALTERNATIVES, max(map(len, alternatives), default=0)))
    ]
