"""Editing ``skillhub.toml`` so that a person's comments, order and layout stay as they are."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from skillhub.errors import FormatError
from skillhub.model.dataclass import dataclass, replace
from skillhub.model.intent import Intent, Wanted
from skillhub.model.toml import spell_toml
from skillhub.model.toml_edit import DEPTH, TOKEN, keys_of, statements

_WHERE = "skillhub.toml"
_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_KEY = re.compile(rf"[ \t]*{_PART}(?:[ \t]*\.[ \t]*{_PART})*[ \t]*=[ \t]*")


def edit(data: bytes, add: Mapping[str, Wanted], remove: Iterable[str]) -> bytes:
    """Return ``data`` with these lines of ``[skills]`` set and those taken out; no change gives the same bytes.

    Raises:
        FormatError: ``data`` is no intent, or is written in a way that cannot be edited without harm.
    """
    before = Intent.parse(data, _WHERE)
    gone = set(remove)
    kept = {name: each for name, each in before.skills.items() if name not in gone}
    wanted = {**kept, **add}
    if wanted == before.skills:
        return data
    text = data.decode("utf-8")
    edited = _ended(text, _edited(text, before.skills, wanted))
    # The parser's word that the edit did what was meant and nothing else.
    if Intent.parse(edited, _WHERE) != replace(before, skills=wanted):
        hint = "write its skills as lines of one [skills] table"
        raise FormatError("the file cannot be edited without harm", where=_WHERE, hint=hint)
    return edited


@dataclass(frozen=True, slots=True)
class _Row:
    """One statement about skills: where it begins and ends, all of its keys, and where its value does.

    Attributes:
        table: The keys of the header that it stands below.
        value: None of a header.
    """

    start: int
    end: int
    keys: tuple[str, ...]
    table: tuple[str, ...]
    value: tuple[int, int] | None


def _rows(text: str) -> Iterator[_Row]:
    """Yield what is said about skills, a header ``[skills]`` among it."""
    table: tuple[str, ...] = ()
    for start, end in statements(text):
        statement = text[start:end]
        if statement.lstrip().startswith("["):
            table = keys_of(statement)
            row = _Row(start, end, table, table, None)
        else:
            key = _KEY.match(statement)
            if key is None:
                raise FormatError("expected a key", where=_WHERE)
            value = start + key.end(), start + _value_end(statement)
            row = _Row(start, end, table + _keys(key[0]), table, value)
        if row.keys[0] == "skills":
            yield row


def _keys(written: str) -> tuple[str, ...]:
    if '"' in written or "'" in written:
        return keys_of(f"{written}0")
    return tuple(key.strip() for key in written.rstrip("= \t").split("."))  # a tenth of the time


def _value_end(statement: str) -> int:
    """Return where the value ends: before a comment behind it, and the blanks before that."""
    depth = 0
    end = len(statement)
    for token in TOKEN.finditer(statement):
        depth += DEPTH.get(token[0], 0)
        if depth == 0 and token[0].startswith("#"):
            end = token.start()
            break
    return len(statement[:end].rstrip())


def _edited(text: str, before: Mapping[str, Wanted], wanted: Mapping[str, Wanted]) -> str:
    """Return ``text`` with the statements about skills that differ; what cannot be done without harm is not done."""
    rows = list(_rows(text))
    inline = next((row.value for row in rows if row.keys == ("skills",) and row.value), None)
    if inline is not None:
        pairs = ", ".join(f"{name} = {_value(each)}" for name, each in wanted.items())
        return f"{text[: inline[0]]}{{ {pairs} }}{text[inline[1] :]}"
    of_skill: defaultdict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        of_skill["".join(row.keys[1:2])].append(row)
    edits: list[tuple[int, int, str]] = []
    added = wanted.keys() - before.keys()
    for name in (name for name in before if before[name] != wanted.get(name)):
        mine = of_skill[name]
        if name in wanted and len(mine) == 1 and mine[0].keys == ("skills", name) and mine[0].value:
            edits.append((*mine[0].value, _value(wanted[name])))
        else:
            edits += [(row.start, row.end, "") for row in mine]
            added |= {name} & wanted.keys()
    if added:
        lines = [f"{name} = {_value(each)}\n" for name, each in wanted.items() if name in added]
        edits.append(_insertion(text, rows, lines))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _insertion(text: str, rows: Sequence[_Row], lines: Sequence[str]) -> tuple[int, int, str]:
    """Return where these lines go, and how they are written there: to skills that are written in the same way."""
    own = [row for row in rows if row.table == ("skills",)]  # the header among them
    dotted = [row for row in rows if not row.table]
    if own or dotted:
        place = (own or dotted)[-1].end
        new = "".join(lines if own else [f"skills.{line}" for line in lines])
        return place, place, new if text[:place].endswith("\n") else f"\n{new}"
    block = "".join(["[skills]\n", *lines])
    if rows:  # of each skill a table
        return rows[0].start, rows[0].start, f"{block}\n"
    return len(text), len(text), f"\n{block}" if text else block


def _ended(text: str, edited: str) -> bytes:
    """Return ``edited`` with the line ends of ``text``."""
    if text.count("\r\n") == text.count("\n") > 0:
        edited = re.sub(r"(?<!\r)\n", "\r\n", edited)
    return edited.encode()


def _value(wanted: Wanted) -> str:
    pairs = [f"{key} = {spell_toml(value)}" for key, value in wanted.spell().items()]
    return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
