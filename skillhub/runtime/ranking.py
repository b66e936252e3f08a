"""Search in skills: ranking, and the SQLite FTS5 index behind it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count, groupby
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from skillhub.disk import files
from skillhub.errors import FormatError, StateError
from skillhub.model.hosts import SkillScope
from skillhub.model.manifest import one_line, split
from skillhub.model.record import Skill, check_paths
from skillhub.model.tree import SKILL_MD
from skillhub.runtime.mention import close, stems, words

# The index of a search, SQLite's FTS5: in memory, or in a file that is made anew when its contents changed.
# Whoever can write that file may have forged it: it is believed only where its schema is ours to the letter, each
# value has its type, and each row is one that the caller gave. Whatever else it holds has it made anew.

_FORMAT = "2"
# Rows whose relevance is worked out. They are kept shortest first, and of two that match equally BM25 prefers the
# shorter: what is cut off is what it would rank low. All of a million would take half a second.
_RANKED_MAX = 1500
_FEW = 50
_PREFIX_MAX = 200
_SPELLINGS_MAX = 200_000
_NAME_WEIGHT, _DESCRIPTION_WEIGHT, _BODY_WEIGHT = 8.0, 3.0, 1.0
_SCHEMA: Final = """
    CREATE TABLE meta (format TEXT, proof TEXT);
    CREATE TABLE skills (
        id INTEGER PRIMARY KEY, name TEXT, bare TEXT, description TEXT, path TEXT, source TEXT, scope TEXT,
        given INTEGER);
    CREATE TABLE spellings (word TEXT PRIMARY KEY, length INTEGER) WITHOUT ROWID;
    CREATE VIRTUAL TABLE texts USING fts5(
        name, description, body, content='', detail='column', tokenize='porter unicode61 remove_diacritics 2');
"""
_INDEXES: Final = """
    CREATE INDEX by_name ON skills (name);
    CREATE INDEX by_bare ON skills (bare);
    CREATE INDEX by_path ON skills (path);
    CREATE INDEX by_length ON spellings (length);
"""
_COLUMNS = "skills.id, skills.name, skills.description, skills.path, skills.source, skills.scope, skills.given"
# Steps of SQLite's machine that one query may take: the largest listing takes a tenth of it.
_STEPS_MAX: Final = 5_000_000
_STEPS: Final = 10_000
# Bytes of one value; a frontmatter has at most one MiB.
_VALUE_MAX: Final = 1 << 21


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What is found: a skill on disk has ``path`` and ``scope``, one that is listed a ``source``."""

    name: str
    description: str
    path: str = ""
    source: str = ""
    scope: str = ""
    body: str = ""


class SearchIndex:
    """An index that is ready; made by ``build``, or by ``kept`` in a file."""

    def __init__(
        self, connection: sqlite3.Connection, file: tuple[str, str] = ("", ""), rows: Sequence[Stored] | None = None
    ) -> None:
        self._connection = connection
        self._file = file
        self._rows = rows
        self._is_closed = False

    @classmethod
    def build(cls, rows: Iterable[Stored]) -> SearchIndex:
        """Return an index of these rows in memory.

        Raises:
            StateError: this Python's SQLite has no FTS5.
        """
        return cls(_in_memory(rows))

    @classmethod
    def opened(cls, path: str, proof: str, rows: Iterable[Stored] | None = None) -> SearchIndex | None:
        """Return the index at ``path`` if it was made of what ``proof`` names; None if not, or if it is damaged.

        Args:
            path: The file.
            proof: What ``kept`` was given.
            rows: What it was made of. Then each hit is one of these rows, and an index that turns out to be damaged
                or forged is made anew; without them a hit says what the file says.
        """
        try:
            if not os.path.isfile(path):
                return None
            # Immutable: no lock is waited for, and no journal beside it is played back.
            place = f"{Path(os.path.abspath(path)).as_uri()}?mode=ro&immutable=1"
            connection = sqlite3.connect(place, uri=True, check_same_thread=False)
        except (sqlite3.Error, ValueError):
            return None
        with suppress(sqlite3.Error, UnicodeError):
            _bound(connection)
            if _is_ours(connection, proof):
                return cls(connection, (path, proof), None if rows is None else list(rows))
        connection.close()
        return None

    @classmethod
    def kept(cls, path: str, proof: str, rows: Iterable[Stored]) -> SearchIndex:
        """Return an index of these rows, kept at ``path`` for the next time; it replaces the old one at once.

        Raises:
            StateError: the disk refuses, or this Python's SQLite has no FTS5.
            UsageError: it is no path.
        """
        check_paths(path)
        given = list(rows)
        temporary = f"{path}.{os.urandom(6).hex()}.tmp"
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            connection = sqlite3.connect(temporary)
            try:
                connection.execute("PRAGMA journal_mode = OFF")
                connection.execute("PRAGMA synchronous = OFF")
                _fill(connection, given, proof)
            finally:
                connection.close()
            os.replace(temporary, path)
        except (OSError, sqlite3.Error, ValueError) as error:
            raise StateError(f"the search index cannot be stored: {error}", where=path) from error
        finally:
            with suppress(OSError, ValueError):
                os.unlink(temporary)
        found = cls.opened(path, proof, given)
        if found is None:
            raise StateError("the search index was changed while it was built", where=path)
        return found

    def close(self) -> None:
        """Let go of the file."""
        self._is_closed = True
        self._connection.close()

    def make_anew(self) -> bool:
        """Make a damaged or forged index again of the rows that it was to be made of; say whether they are known."""
        if self._rows is None or self._is_closed:
            return False
        self._connection.close()
        with suppress(StateError):
            SearchIndex.kept(*self._file, self._rows).close()
        # Not from the file: whoever forged it may do so again.
        self._connection = _in_memory(self._rows)
        return True

    def at_path(self, path: str) -> dict[int, Stored]:
        """Return what is at ``path``."""
        found = self._select("FROM skills WHERE path = ? AND path != '' LIMIT ?", path, _FEW)
        return _all(found, lambda row: utf8(row.path) == path)

    def named(self, name: str) -> dict[int, Stored]:
        """Return what has this name, with or without its namespace."""
        found = self._select("FROM skills WHERE name = ? LIMIT ?", name, _FEW)
        found |= self._select("FROM skills WHERE bare = ? LIMIT ?", name, _FEW)
        return _all(found, lambda row: name in _names(row))

    def beginning(self, name: str) -> dict[int, Stored]:
        """Return some of what has a name that begins so, the shortest among them."""
        where = "FROM skills WHERE {0} >= ? AND {0} < ? LIMIT ?"
        last = name + "\U0010ffff"
        found = {
            **self._select(where.format("name"), name, last, _PREFIX_MAX),
            **self._select(where.format("bare"), name, last, _PREFIX_MAX),
        }
        _all(found, lambda row: any(each.startswith(name) for each in _names(row)))
        shortest = sorted(found, key=lambda number: len(found[number].name))[:_FEW]
        return {number: found[number] for number in shortest}

    def with_words_in_name(self, terms: Sequence[str]) -> dict[int, Stored]:
        """Return some of what has all of these words in its name, or else any of them."""
        where = "FROM texts JOIN skills ON skills.id = texts.rowid WHERE texts MATCH ? LIMIT ?"
        found = self._select(where, f"name : ({_all_of(terms)})", _FEW)
        return found or self._select(where, f"name : ({_any_of(terms)})", _FEW)

    def matching(self, terms: Sequence[str]) -> dict[int, float]:
        """Return by row how well it matches, lower is better: what has all words, or if that is little, any."""
        found = self._ranked(_all_of(terms)) if terms else {}
        if terms[1:] and len(found) < _FEW:
            # What lacks a word comes after whatever lacks none.
            found = {number: rank - 1000 for number, rank in found.items()}
            found = {**self._ranked(_any_of(terms)), **found}
        return found

    def read(self, numbers: Iterable[int]) -> dict[int, Stored]:
        """Return these rows."""
        wanted = list(numbers)
        found = self._select(f"FROM skills WHERE id IN ({','.join('?' * len(wanted))}) LIMIT -1", *wanted)
        if len(found) < len(wanted):
            raise _odd("a row is missing")
        return found

    def spellings(self, length: int) -> list[str]:
        """Return the words of all names and descriptions that have about this many letters."""
        query = "SELECT word FROM spellings WHERE length BETWEEN ? AND ? ORDER BY word LIMIT ?"
        return [word for (word,) in self._run(query, (length - 2, length + 2, _SPELLINGS_MAX), (str,))]

    def _ranked(self, match: str) -> dict[int, float]:
        weights = f"{_NAME_WEIGHT}, {_DESCRIPTION_WEIGHT}, {_BODY_WEIGHT}"
        query = f"SELECT rowid, bm25(texts, {weights}) FROM texts WHERE texts MATCH ? LIMIT ?"  # noqa: S608
        return dict(self._run(query, (match, _RANKED_MAX), (int, float)))

    def _select(self, where: str, *values: str | int) -> dict[int, Stored]:
        types = (int, str, str, str, str, str, int)
        return {row[0]: self._stored(row) for row in self._run(f"SELECT {_COLUMNS} {where}", values, types)}

    def _stored(self, columns: tuple[int, str, str, str, str, str, int]) -> Stored:
        """Return a row of the file; where it is known what it was made of, the one that was given."""
        said, given = columns[1:6], columns[6]
        name, description, path, source, scope = said
        if self._rows is None:
            name, description = (one_line(text) if self._file[0] else text for text in (name, description))
            return Stored(name=name, description=description, path=path, source=source, scope=scope)
        row = self._rows[given] if 0 <= given < len(self._rows) else None
        if row is None or said != tuple(map(utf8, (row.name, row.description, row.path, row.source, row.scope))):
            raise _odd("it says something else than what it was made of")
        return row

    def _run(self, query: str, values: Sequence[str | int], types: tuple[type, ...]) -> list[tuple[Any, ...]]:
        try:
            self._connection.set_progress_handler(_stopping(), _STEPS)
            rows = self._connection.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeError, OverflowError, MemoryError) as error:
            raise StateError(f"the search index cannot be read: {error}") from error
        if rows and [{*map(type, column)} for column in zip(*rows, strict=True)] != [{each} for each in types]:
            raise _odd("a value has another type")
        return rows


def _odd(why: str) -> StateError:
    return StateError(f"the search index cannot be read: {why}")


def _all(rows: dict[int, Stored], is_so: Callable[[Stored], bool]) -> dict[int, Stored]:
    """Return the rows; each was looked up by what is checked here again, for an index can disagree with its table."""
    if not all(map(is_so, rows.values())):
        raise _odd("a row is listed under what it does not hold")
    return rows


def _names(row: Stored) -> tuple[str, str]:
    name = utf8(row.name)
    return name, name.rpartition(":")[2]


def _bound(connection: sqlite3.Connection) -> None:
    """Have a file that may be forged run nothing of its own, and hold no value that fills the memory."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_MAX)
    connection.set_progress_handler(_stopping(), _STEPS)
    for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _stopping() -> Callable[[], bool]:
    """Return what SQLite asks each so many steps of one query: whether these were enough."""
    asked = count(1)
    return lambda: next(asked) * _STEPS > _STEPS_MAX


def _is_ours(connection: sqlite3.Connection, proof: str) -> bool:
    """Say whether a file has our tables and nothing else, and was made of what ``proof`` names."""
    if _schema_of(connection) != _our_schema():
        return False
    return connection.execute("SELECT format, proof FROM meta LIMIT 2").fetchall() == [(_FORMAT, proof)]


def _schema_of(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return sorted(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master LIMIT 99"), key=str)


@cache
def _our_schema() -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(":memory:")
    try:
        _fill(connection, (), "")
        return _schema_of(connection)
    finally:
        connection.close()


def _in_memory(rows: Iterable[Stored]) -> sqlite3.Connection:
    with ExitStack() as undone:
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        undone.callback(connection.close)
        _fill(connection, rows, "")
        undone.pop_all()
    return connection


def _all_of(terms: Sequence[str]) -> str:
    # In quotes a word is a word to FTS5, not a part of its language; `words` leaves no quote in it.
    return " AND ".join(f'"{term}"' for term in terms)


def _any_of(terms: Sequence[str]) -> str:
    return " OR ".join(f'"{term}"' for term in terms)


def _fill(connection: sqlite3.Connection, rows: Iterable[Stored], proof: str) -> None:
    shortest_first = sorted(
        enumerate(rows), key=lambda each: sum(map(len, (each[1].name, each[1].description, each[1].body)))
    )
    ordered = [row for _, row in shortest_first]
    try:
        connection.executescript(_SCHEMA)
        connection.executemany(
            "INSERT INTO skills VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            ((number, *_facts(row), given) for number, (given, row) in enumerate(shortest_first)),
        )
        connection.executemany(
            "INSERT INTO texts (rowid, name, description, body) VALUES (?, ?, ?, ?)",
            ((number, *map(utf8, (row.name, row.description, row.body))) for number, row in enumerate(ordered)),
        )
        known = {word for row in ordered for word in words(utf8(f"{row.name} {row.description}"))}
        connection.executemany("INSERT INTO spellings VALUES (?, ?)", ((word, len(word)) for word in known))
        connection.executescript(_INDEXES)
        connection.execute("INSERT INTO texts (texts) VALUES ('optimize')")
        connection.execute("INSERT INTO meta VALUES (?, ?)", (_FORMAT, proof))
        connection.commit()
    except sqlite3.OperationalError as error:
        raise StateError(f"this Python's SQLite cannot index texts: {error}") from error


def _facts(row: Stored) -> tuple[str, ...]:
    bare = row.name.rpartition(":")[2]
    return tuple(map(utf8, (row.name, bare, row.description, row.path, row.source, row.scope)))


def utf8(text: str) -> str:
    """Return the text as SQLite takes it: what in a path is no UTF-8 is a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


# Searches skills by what a person remembers of them, those on disk and those that a source lists alike.
# Five ways of finding are tried, and their rankings fused by reciprocal rank (Cormack, Clarke, Büttcher 2009)
# with a weight for each, so that the stronger way wins and several weak ones still help each other.

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
_T = TypeVar("_T")
_Found = dict[int, tuple[Stored, Any]]  # by row, with the key that it is ranked by
_SCOPES: tuple[SkillScope, ...] = ("project", "user", "system", "admin", "plugin", "extra")


@dataclass(frozen=True, slots=True)
class Hit:
    """One skill that was found.

    Attributes:
        source: The alias of the source that lists it; None for one on disk.
        scope: The scope of one on disk; None for a listed one.
        score: Higher is better; comparable with the others of the same search.
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
        place = {"source": self.source} if self.source is not None else {"scope": self.scope, "path": self.path}
        shown = {"name": self.name, **place, "description": self.description}
        return {**shown, "score": self.score, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Hits:
    """The best of what was found, and how many more there are."""

    hits: tuple[Hit, ...] = ()
    more: int = 0

    @property
    def truncated(self) -> bool:
        """Say whether there are more."""
        return self.more > 0

    def to_json(self) -> dict[str, Any]:
        """Return them as data."""
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
            body=_body(skill.file) if skill.path else "",
        )


def _body(path: str) -> str:
    with suppress(FormatError, StateError):
        return split(files.read(path, _CAP) or b"", path).body
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
    found = list(_hits(query, several)) or list(_respelt(query, several))
    found.sort(key=lambda hit: (-hit.score, _scope_rank(hit), hit.path, hit.source or "", hit.name))
    most = min(max(limit, 1), LIMIT_MAX)
    return Hits(tuple(found[:most]), max(len(found) - most, 0))


def _asked(index: SearchIndex, ask: Callable[[SearchIndex], Iterable[_T]]) -> list[_T]:
    try:
        return list(ask(index))
    except StateError:
        if not index.make_anew():
            raise
    return list(ask(index))


def _scope_rank(hit: Hit) -> int:
    return _SCOPES.index(hit.scope) if hit.scope in _SCOPES else len(_SCOPES)


def _hits(query: str, indexes: Sequence[SearchIndex]) -> Iterator[Hit]:
    """Yield the hits of all indexes, unordered; each way of finding ranks the rows of all indexes together."""
    rows: dict[tuple[int, int], Stored] = {}
    keys: dict[Reason, dict[tuple[int, int], Any]] = {}
    for which, index in enumerate(indexes):
        for reason, found in _asked(index, partial(_found, query)):
            rows.update(((which, number), row) for number, (row, _) in found.items())
            keys.setdefault(reason, {}).update(((which, number), key) for number, (_, key) in found.items())
    scores: dict[tuple[int, int], float] = {}
    reasons: dict[tuple[int, int], Reason] = {}
    for reason, ranked in keys.items():
        ordered = sorted(ranked, key=ranked.__getitem__)
        for rank, (_, tied) in enumerate(groupby(ordered, key=ranked.__getitem__), 1):
            for each in tied:
                scores[each] = scores.get(each, 0.0) + _WEIGHTS[reason] / (_RANK_BASE + rank)
                reasons.setdefault(each, reason)
    for each, score in scores.items():
        row = rows[each]
        place = {"source": row.source or None, "scope": row.scope or None}
        yield Hit(row.name, row.description, row.path, **place, score=round(score, 6), reason=reasons[each])


def _found(query: str, index: SearchIndex) -> Iterator[tuple[Reason, _Found]]:
    """Yield what each way finds in one index, the strongest way first; of two keys the lower is the better hit."""
    text = utf8(query).strip()
    typed = text.lower().lstrip("$/")
    terms = list(dict.fromkeys(words(text)))[:_WORDS_MAX]
    rows = dict(index.at_path(_folder(text)))
    yield "exact_path", {number: (row, 0) for number, row in rows.items()}
    spelt = dict.fromkeys((typed, "-".join(terms)))
    exact = {number: row for name in spelt if name for number, row in index.named(name).items()}
    yield "exact_name", {number: (row, 0) for number, row in exact.items()}
    begun = {number: row for name in spelt if name for number, row in index.beginning(name).items()}
    yield "prefix", {number: (row, len(row.name)) for number, row in begun.items()}
    text_scores = index.matching(terms)
    best = sorted(text_scores, key=text_scores.__getitem__)[:_FUSED]
    rows |= exact | begun
    rows.update(index.read(number for number in best if number not in rows))
    rows.update(named := index.with_words_in_name(terms) if text_scores else {})
    yield "token_overlap", _overlap(terms, {number: rows[number] for number in (*best, *named, *begun)})
    yield "full_text", {number: (rows[number], text_scores[number]) for number in best}


def _folder(path: str) -> str:
    return os.path.dirname(path) if os.path.basename(path) == SKILL_MD else path.rstrip("/") or path


def _overlap(terms: Sequence[str], rows: Mapping[int, Stored]) -> _Found:
    """Rank rows by how many of the words are in name and description, then in the name alone."""
    wanted = stems(" ".join(terms))
    shared = {}
    for number, row in rows.items():
        in_name = wanted & stems(row.name)
        if in_all := in_name | wanted & stems(row.description):
            shared[number] = (row, (-len(in_all), -len(in_name)))
    return shared


def _respelt(query: str, indexes: Sequence[SearchIndex]) -> Iterator[Hit]:
    """Yield what is found when each word that is in no skill gives way to words that are spelt alike."""
    terms = list(dict.fromkeys(words(utf8(query))))[:_WORDS_MAX]
    instead = [_alike(term, indexes) for term in terms]
    seen: set[tuple[str, str | None]] = set()
    for choice in _choices(instead):
        for hit in _hits(choice, indexes):
            if (hit.name, hit.source) not in seen:
                seen.add((hit.name, hit.source))
                yield replace(hit, reason="spelling")


def _alike(term: str, indexes: Sequence[SearchIndex]) -> Sequence[str]:
    if any(_asked(index, lambda index: index.matching([term])) for index in indexes):
        return [term]
    return close(term, [word for each in indexes for word in _asked(each, lambda index: index.spellings(len(term)))])


def _choices(instead: Sequence[Sequence[str]]) -> list[str]:
    return [
        " ".join(each[min(nth, len(each) - 1)] for each in instead if each)
        for nth in range(min(_ALTERNATIVES, max(map(len, instead), default=0)))
    ]
