"""The scan of a skill: patterns over single lines, and detectors that read more than one line or file."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Final

from skillhub.formats.text import clean, deferred, without_garbage_collection
from skillhub.model.finding import SEVERITIES, Finding, Rule, Sighting, at_least, rules
from skillhub.model.tree import SKILL_MD, File, Tree
from skillhub.scan.code import encodings, in_programs, leaks
from skillhub.scan.commands import LINE_PATTERNS, staged
from skillhub.scan.disguise import ARCHIVES_MAX, disguises, is_archive, look_alikes, members, rules_of_file
from skillhub.scan.hidden import hidden, hidden_in_binary
from skillhub.scan.pattern import LinePattern
from skillhub.scan.prose import near_each_other, orders, pasted, prerequisites, told_to_start
from skillhub.scan.secrets import secrets
from skillhub.scan.skill_files import TEXT_MAX, Detector, SkillFiles, SourceFile
from skillhub.scan.views import Letters, decoded, is_text, joined, register, spaced, squeezed, unescaped, windows

RULES: Final = {rule.id: rule for rule in rules().values() if rule.is_content}
# By each word of a pattern's first group, the positions in ``LINE_PATTERNS`` of the patterns with this word.
_BY_WORD: Final[defaultdict[bytes, list[int]]] = defaultdict(list)
for _number, (_, _pattern) in enumerate(LINE_PATTERNS):
    for _word in _pattern.words[0]:
        _BY_WORD[_word].append(_number)
# A detector reads more than one line or file, and yields the sightings of its rules.
DETECTORS: Final[tuple[Detector, ...]] = (
    prerequisites,
    pasted,
    told_to_start,
    orders,
    near_each_other,
    staged,
    in_programs,
    encodings,
    leaks,
    disguises,
    look_alikes,
)
_ESCAPABLE: Final = (".json", ".jsonc", ".json5", ".ipynb", ".yaml", ".yml", ".toml")
_ESCAPE: Final = deferred(rb"\\[xuULPN]")
# The lists of a program's words in JSON, YAML or TOML, by their keys: `"args": ["-y", "…"]`, or lines with `- …`.
_LISTS: Final = tuple(
    (key, deferred(rb"%b(?<=\b%b)[\"']?[ \t]*+[:=](?>(?:\s++|#[^\n]*\n)*)(\[|(?=-[ \t]))" % (key, key)))
    for key in (b"args", b"command", b"cmd", b"entrypoint")
)
_VALUE: Final = rb"(?:\"((?>(?:[^\"\\\n]++|\\.)*))\"|'([^'\n]*+)'|([^\s\"'\[\]%b][^\n%b]*+))"
_IN_BRACKETS: Final = deferred(rb"(?>(?:[\s,]++|#[^\n]*\n)*)" + _VALUE % (b",#", b"\\[\\],"))
_IN_LINES: Final = deferred(rb"(?>(?:\s++|#[^\n]*\n)*)-[ \t]++" + _VALUE % (b"|>", b""))
_PROGRAM: Final = deferred(
    rb"(?:command|cmd|program|path|executable)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?([^\"'\s,{}\[]{1,200})"
)
_PROGRAM_NEAR: Final = 1 << 12
# Calls that start a program with a list of words: `run(["docker", "run", …])`, `spawn("docker", ["run", …])`,
# `Command::new("docker").args(["run", …])`; only in files with such a word, or in these languages.
_STARTS: Final = frozenset(b"subprocess popen spawn spawnsync execfile execfilesync execvp execv execa".split())
register(_STARTS)
_START_PROGRAMS: Final = frozenset(("go", "rust", "java", "swift", "ruby", "php", "perl"))
_FIRST_WORD: Final = deferred(rb"[(\[{]\s{0,40}[\"']([\w./+-]{1,60})[\"']")
_NEXT_WORD: Final = deferred(
    rb"(?:\s{0,40},\s{0,40}(?:[\[{]\s{0,40})?|\s{0,40}\)\s{0,40}\.args?\(\s{0,9}(?:&?\[\s{0,40})?)(?:[fbru]{0,2}\"((?:[^\"\\\n]"
    rb"|\\.){0,300})\"|[fbru]{0,2}'((?:[^'\\\n]|\\.){0,300})'|([\w.]{1,60})(?=\s{0,40}[,\])]))"
)
_CALLED: Final = deferred(
    rb"(?i)(?:run|popen|call|check_output|spawn(?:sync)?|execfile(?:sync)?|execvp?|execa|exec|system|command(?:context)?"
    rb"|start|command::new|processbuilder|create_subprocess_exec|seq|arrayof)\(\s{0,40}[\[{]?$"
    rb"|(?:cmd|command|args|argv)(?:: \S{1,40})?\s{0,4}=\s{0,4}\[$|string\[\]\s?\{$"
)
# More places of one rule in one file give a reader no new information.
PLACES_MAX: Final = 10
_CUT: Final = (
    f"not read to its end: the skill has more than {TEXT_MAX >> 20} MiB of text, or twice as much other data"
)
# Bytes of packed files that are scanned, over all archives of a skill.
_PACKED_MAX = 1 << 22


@without_garbage_collection()
def scan(tree: Tree, sources: SkillFiles | None = None) -> tuple[Finding, ...]:
    """Return the findings in ``tree``, as ``skillhub.scan.scan`` documents; ``sources`` are the files of the tree."""
    sources = SkillFiles(tree) if sources is None else sources
    findings: list[Finding] = []
    for source in sources:
        with sources.noting_failure(source.path):
            findings.extend(_findings(source))
    for path in sources.cut:
        findings.append(RULES["SH616" if is_text(sources.held[path].data) else "SH503"].finding(path, 0, _CUT))
    with sources.noting_failure(SKILL_MD):
        findings.extend(_archive_findings(sources.held))
    known = {(finding.rule, finding.path, finding.line) for finding in findings}
    seen = defaultdict[tuple[str, str], set[int]](set)
    for detector in DETECTORS:
        with sources.noting_failure(SKILL_MD):
            findings.extend(_detector_findings(detector(sources), known, seen))
    findings += (RULES["SH616"].finding(path, 0, why) for path, why in dict.fromkeys(sources.failures))
    return tuple(sorted(findings, key=_worst_first))


def _archive_findings(tree: Mapping[str, File]) -> Iterator[Finding]:
    """Yield the severe findings within the first archives of a tree and the archives nested in these.

    Each rule is yielded once for each archive of the tree.
    """
    queue = [(path, path, file.data) for path, file in tree.items() if is_archive(path, file.data)]
    seen: set[tuple[str, str]] = set()
    budget = _PACKED_MAX
    for number, (path, outer, packed) in enumerate(queue):
        for name, data in members(outer, packed) if number < ARCHIVES_MAX and budget > 0 else ((outer, None),):
            budget -= len(data or b"")
            if data is None or budget < 0 or (path != outer and is_archive(name, data)):
                findings = [RULES["SH613"].finding(path, 0)]
            else:
                if is_archive(name, data):
                    queue.append((path, name, data))
                findings = list(_findings(SourceFile(name, data)))
            for finding in findings:
                # Its format (SH5) and unseen characters in it (SH0) often come from the tools that packed it.
                is_grave = at_least(finding.severity, "high") and finding.rule[:3] not in ("SH0", "SH5")
                if is_grave and (finding.rule, path) not in seen:
                    seen.add((finding.rule, path))
                    within = f" (in the archive: {clean(name)[-80:]})" if data is not None else ""
                    yield RULES[finding.rule].finding(path, 0, f"{finding.message}{within}")
            if budget < 0:
                break


def _detector_findings(
    hits: Iterable[Sighting], known: Set[tuple[str, str | None, int]], seen: defaultdict[tuple[str, str], set[int]]
) -> Iterator[Finding]:
    """Yield the findings of a detector, each line of a rule once, without those in ``known`` and ``seen``."""
    for hit in hits:
        lines = seen[hit.rule, hit.path]
        is_new = hit.line not in lines and (hit.rule, hit.path, hit.line) not in known
        if is_new and len(lines) < PLACES_MAX:
            lines.add(hit.line)
            yield RULES[hit.rule].finding(hit.path, hit.line, hit.message or None)


def _worst_first(finding: Finding) -> tuple[int, str, int, str]:
    return -SEVERITIES.index(finding.severity), finding.path or "", finding.line, finding.rule


def _findings(source: SourceFile) -> Iterator[Finding]:
    path, data = source.path, source.data
    for rule_id in rules_of_file(source):
        yield RULES[rule_id].finding(path, 0)
    for rule, offset in hidden_in_binary(data) if source.is_binary else ():
        yield rule.finding(path, data.count(b"\n", 0, offset) + 1)
    seen: dict[str, set[int]] = {}
    for view in _views(source):
        for rule, line in _matches(view, source):
            lines = seen.setdefault(rule.id, set())
            if line not in lines and len(lines) < PLACES_MAX:
                lines.add(line)
                yield rule.finding(path, line)


def _views(source: SourceFile) -> Iterator[Letters]:
    """Yield the bytes of a file, without padding, and in their other readings."""
    for letters in (source.letters, *map(Letters, () if source.is_binary else spaced(source.data))):
        yield letters
        if (shorter := squeezed(letters)) is not letters:
            yield shorter
    keys = [key for key, _ in _LISTS if key in source.letters.words]
    if keys and (commands := _started(source.letters.data, keys)):
        yield Letters(commands)
    starts = source.language in _START_PROGRAMS or not _STARTS.isdisjoint(source.letters.words)
    if starts and (commands := _called(source.letters.data)):
        yield Letters(commands)
    if not source.is_text:
        if b"\0" in source.data:
            yield source.without_nul
        yield from map(source.letters_of, decoded(source.data))
    # Agents take a description of the skill from the YAML of these files, and YAML can escape characters.
    if source.path == SKILL_MD or (source.path.startswith("agents/") and source.path.endswith((".yaml", ".yml"))):
        yield Letters(unescaped(source.data, whole=source.path != SKILL_MD))
    elif _may_escape(source) and _ESCAPE.search(source.data):
        yield Letters(unescaped(source.data, whole=True))


def _started(data: bytes, keys: list[bytes]) -> bytes:
    """Return the commands that start servers or hooks, each with its arguments as one line, and no other text.

    A command stands on the line on which its arguments begin in the file.

    Args:
        data: The bytes.
        keys: The keys of lists of words that occur in them.
    """
    lists = sorted(
        (match.end(), key, bool(match[1])) for key, regex in _LISTS if key in keys for match in regex.finditer(data)
    )
    programs = [(match.end(), match[1]) for match in _PROGRAM.finditer(data)] if lists else []
    commands, copied, before, last = list[bytes](), 0, b"", 0
    for start, key, is_bracketed in lists:
        if start < last:  # within the list before it
            continue
        words, end = _listed(data, start, _IN_BRACKETS if is_bracketed else _IN_LINES)
        ways = [b" ".join(words)]
        if key == b"args":  # the program stands before or after them, or is a list, too
            index = bisect_left(programs, (start,))
            near = [program for at, program in programs[max(index - 1, 0) : index] if at > last]
            near += [program for at, program in programs[index : index + 1] if _is_of(data, end, at)]
            ways = [b" ".join((program, *words)) for program in (*near, before) if program]
        before, last = (b"" if key == b"args" else ways[0]), end
        if ways and words:
            commands += b"\n" * data.count(b"\n", copied, start), b" ; ".join(ways), b" "
            copied = start
    joined = b"".join(commands)
    return unescaped(joined, whole=True) if b"\\" in joined else joined


def _called(data: bytes) -> bytes:
    """Return the commands that a program starts by lists of words, each as one line, and no other text."""
    commands, copied = list[bytes](), 0
    for first in _FIRST_WORD.finditer(data):
        if _CALLED.search(data, max(0, first.start() - 40), first.start(1) - 1):
            words, end = [first[1]], first.end()
            while match := _NEXT_WORD.match(data, end):
                words.append(match[1] or match[2] or b"$" + (match[3] or b""))
                end = match.end()
            if len(words) > 1:
                commands += b"\n" * data.count(b"\n", copied, first.start()), b" ".join(words), b" ; "
                copied = first.start()
    return b"".join(commands)


def _is_of(data: bytes, end: int, program: int) -> bool:
    """Return whether a program that is named behind the end of a list is named in the same object."""
    between = data[end:program] if program - end < _PROGRAM_NEAR else b"}"
    return b"}" not in between or b"{" in between.partition(b"}")[0]


def _listed(data: bytes, start: int, item: re.Pattern[bytes]) -> tuple[list[bytes], int]:
    """Return the words of a list, and the offset of its end."""
    words = list[bytes]()
    while match := item.match(data, start):  # a bracket within quotes does not end the list
        words.append(next(filter(None, match.groups()), b"").strip())
        start = match.end()
    return words, start


def _may_escape(source: SourceFile) -> bool:
    """Return whether a file is JSON, YAML or TOML, which can escape the characters of a command."""
    return source.recipe in ("json", "yaml") or source.path.lower().endswith(_ESCAPABLE)


def _matches(view: Letters, source: SourceFile) -> Iterator[tuple[Rule, int]]:
    """Yield the rules that a view falls under, each with the number of a line."""
    line, counted_to = 1, 0
    for window in windows(view.data):
        letters = view if window.data is view.data else Letters(window.data)
        text = letters.data
        invisible = hidden_in_binary(text) if source.is_binary else hidden(text, first=window.start == 0)
        found = (*invisible, *_window_matches(letters, source.path))
        kept = [(rule, at) for rule, at in found if window.keep <= window.start + at < window.until]
        lines = dict[int, int]()
        for offset in sorted({offset for _, offset in kept}):
            line, counted_to = line + view.data.count(b"\n", counted_to, window.start + offset), window.start + offset
            lines[offset] = line
        yield from ((rule, lines[offset]) for rule, offset in kept)


def _window_matches(letters: Letters, path: str) -> Iterator[tuple[Rule, int]]:
    yield from secrets(letters)
    for view in joined(letters.lowered, path):
        # A joint replaced by blanks adds no word to the text.
        candidates = _candidates(
            letters.literals if view.joints is None else letters.literals | Letters(view.new_words).literals
        )
        spans = list(view.changed_spans()) if candidates else []
        for rule, pattern in candidates:
            for offset, judged_id in (match for span in spans for match in pattern.matches(view.text, *span)):
                yield RULES[judged_id] if judged_id else rule, view.offset_of(offset)


def _candidates(words: Set[bytes]) -> list[tuple[Rule, LinePattern]]:
    """Return the patterns that may match in a text with these words, each with its rule."""
    numbers = sorted({number for word in _BY_WORD.keys() & words for number in _BY_WORD[word]})
    return [LINE_PATTERNS[number] for number in numbers if LINE_PATTERNS[number][1].may_match(words)]
