"""The scan of a skill: patterns over single lines, and detectors that read more than one line or file."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from typing import Final

from skillhub.formats.text import clean
from skillhub.model.finding import SEVERITIES, Finding, Rule, at_least, rules
from skillhub.model.tree import SKILL_MD, File, Tree
from skillhub.scan.code import encodings, in_programs, leaks
from skillhub.scan.commands import FETCH, SYSTEM
from skillhub.scan.disguise import ARCHIVES_MAX, disguises, is_archive, members
from skillhub.scan.files import files, is_read
from skillhub.scan.hidden import hidden, hidden_in_binary
from skillhub.scan.orders import INSTRUCTIONS, covert, demands, hooks, orders
from skillhub.scan.pattern import Letters, SearchSpot, decoded, joined, squeezed, unescaped, windows
from skillhub.scan.prerequisites import prerequisites, staged
from skillhub.scan.secrets import secrets
from skillhub.scan.skill_files import Detector, SkillFiles, SourceFile

_PATTERNS: Final = (*FETCH, *INSTRUCTIONS, *SYSTEM)
RULES: Final = {rule.id: rule for rule in rules().values() if rule.is_content}
LOOKS: Final = tuple((rule, look) for rule, looks in _PATTERNS for look in looks)
# By each word of a look's first group, the positions in ``LOOKS`` of the looks with this word.
_BY_WORD: Final[defaultdict[bytes, list[int]]] = defaultdict(list)
for _number, (_, _look) in enumerate(LOOKS):
    for _word in _look.words[0]:
        _BY_WORD[_word].append(_number)
# A detector reads more than one line or file, and yields the sightings of its rules.
DETECTORS: Final[tuple[Detector, ...]] = (
    prerequisites,
    orders,
    demands,
    hooks,
    covert,
    staged,
    in_programs,
    encodings,
    leaks,
    disguises,
)
# More places of one rule in one file give a reader no new information.
PLACES_MAX: Final = 10
# Bytes of packed files that are scanned, over all archives of a skill.
_PACKED_MAX = 1 << 22


def scan(tree: Tree, sources: SkillFiles | None = None) -> tuple[Finding, ...]:
    """Return the findings in ``tree``, as ``skillhub.scan.scan`` documents; ``sources`` are the files of the tree."""
    sources = SkillFiles(tree) if sources is None else sources
    found = [finding for source in sources for finding in _findings(source)]
    found += _packed(sources.held)
    found += _detected(sources, {(each.rule, each.path, each.line) for each in found})
    return tuple(sorted(found, key=_worst_first))


def _packed(tree: Mapping[str, File]) -> Iterator[Finding]:
    """Yield the severe findings within the first archives of a tree and the archives nested in these.

    Each rule is yielded once for each archive of the tree.
    """
    waiting = [(path, path, file.data) for path, file in tree.items() if is_archive(path, file.data)]
    seen: set[tuple[str, str]] = set()
    left = _PACKED_MAX
    for number, (path, outer, packed) in enumerate(waiting):
        for name, data in members(outer, packed) if number < ARCHIVES_MAX and left > 0 else ((outer, None),):
            left -= len(data or b"")
            if data is None or left < 0 or (path != outer and is_archive(name, data)):
                found = [RULES["SH613"].finding(path, 0)]
            else:
                if is_archive(name, data):
                    waiting.append((path, name, data))
                found = list(_findings(SourceFile(name, data)))
            for each in found:
                # Its format (SH5) and unseen characters in it (SH0) often come from the tools that packed it.
                is_grave = at_least(each.severity, "high") and each.rule[:3] not in ("SH0", "SH5")
                if is_grave and (each.rule, path) not in seen:
                    seen.add((each.rule, path))
                    within = f" (in the archive: {clean(name)[-80:]})" if data is not None else ""
                    yield RULES[each.rule].finding(path, 0, f"{each.message}{within}")
            if left < 0:
                break


def _detected(sources: SkillFiles, known: Set[tuple[str, str | None, int]]) -> Iterator[Finding]:
    """Yield the findings of the detectors, each line of a rule once, without those in ``known``."""
    seen: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for hit in (hit for detector in DETECTORS for hit in detector(sources)):
        lines = seen[hit.rule, hit.path]
        is_new = hit.line not in lines and (hit.rule, hit.path, hit.line) not in known
        if is_new and len(lines) < PLACES_MAX:
            lines.add(hit.line)
            yield RULES[hit.rule].finding(hit.path, hit.line, hit.message or None)


def _worst_first(finding: Finding) -> tuple[int, str, int, str]:
    return -SEVERITIES.index(finding.severity), finding.path or "", finding.line, finding.rule


def _findings(source: SourceFile) -> Iterator[Finding]:
    path, data = source.path, source.data
    for rule in files(path, data, source.is_text):
        yield rule.finding(path, 0)
    is_document = source.is_text or is_read(path, data)
    seen: dict[str, set[int]] = {}
    for view in _views(source):
        ends: list[int] = []
        for rule, offset in _places(view, source, is_document):
            ends = ends or [*(end.start() for end in re.finditer(b"\n", view.data)), len(view.data)]
            line = bisect_left(ends, offset) + 1
            lines = seen.setdefault(rule.id, set())
            if line not in lines and len(lines) < PLACES_MAX:
                lines.add(line)
                yield rule.finding(path, line)


def _views(source: SourceFile) -> Iterator[Letters]:
    """Yield the bytes of a file, without padding, and in their other readings."""
    yield source.letters
    if (shorter := squeezed(source.letters)) is not source.letters:
        yield shorter
    if not source.is_text:
        if b"\0" in source.data:
            yield source.without_nul
        yield from map(source.letters_of, decoded(source.data))
    # Agents take a description of the skill from the YAML of these files, and YAML can escape characters.
    if source.path == SKILL_MD or (source.path.startswith("agents/") and source.path.endswith((".yaml", ".yml"))):
        yield Letters(unescaped(source.data, whole=source.path != SKILL_MD))


def _places(view: Letters, source: SourceFile, is_document: bool) -> Iterator[tuple[Rule, int]]:
    for window in windows(view.data):
        letters = view if window.data is view.data else Letters(window.data)
        for rule, offset in _in_window(letters, source.path, is_document, first=window.start == 0):
            at = window.start + offset
            if window.keep <= at < window.until:
                yield rule, at


def _in_window(letters: Letters, path: str, is_document: bool, *, first: bool) -> Iterator[tuple[Rule, int]]:
    yield from hidden(letters.data, first=first) if is_document else hidden_in_binary(letters.data)
    yield from secrets(letters)
    for each in joined(letters.lowered, path):
        # A joint replaced by blanks adds no word to the text.
        worth = _worth(letters.literals if each.joints is None else letters.literals | Letters(each.new).literals)
        parts = list(each.parts()) if worth else []
        for rule, look in worth:
            for offset, judged in (place for part in parts for place in look.places(each.text, *part)):
                yield RULES[judged] if judged else rule, each.offset_of(offset)


def _worth(words: Set[bytes]) -> list[tuple[Rule, SearchSpot]]:
    """Return the looks that may match in a text with these words, each with its rule."""
    numbers = sorted({number for word in _BY_WORD.keys() & words for number in _BY_WORD[word]})
    return [LOOKS[number] for number in numbers if LOOKS[number][1].is_worth(words)]
