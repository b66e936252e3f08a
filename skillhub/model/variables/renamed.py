"""Variables that programs read from the environment by another name of it, or out of the whole of it.

    env = os.environ;  const e = process.env;  const p = process    another name: env, e, p.env
    from os import environ as e, getenv as g;  import os as o       another name: e, o.environ; g("A") reads A
    const { env: e } = process;  import { env } from "process"      another name: e, env
    const { A, B: b } = process.env;  "A" in os.environ             A and B are read, with `...rest` all
    dict(os.environ);  { ...process.env };  json=os.environ         all are read

By another name `e`: `e.A`, `e["A"]`, `e.get("A")` read A, `f(e)`, `{...e}`, `e.copy()` all.
"""

from __future__ import annotations

import re

from skillhub.model.matching import Budget, TooMany
from skillhub.model.variables.direct import MEMBER, NAME, PROCESS_ENV, QUOTED, after, begins

_NAMES_MAX = 16  # more other names than a program has
_OTHER = rb"([A-Za-z_]\w{0,30})"
# The whole of it: no member is taken of what stands here.
_WHOLE = rb"(?!\w|\??\s{0,9}+[.\[])"
_AS = rb"\s{1,9}+as\s{1,9}+" + _OTHER
_IMPORT_OS = begins(b"import") + rb"\s{1,9}+os" + _AS
_FROM_OS = (
    begins(b"from") + rb"\s{1,9}+os\s{1,9}+import\b\s{0,9}(?:\([^)]{0,300}?|[^\n(;]{0,300}?)"
    rb"\b(environ|getenv)\b(?:" + _AS + rb")?"
)
_OWNER = rb"(?:process\??|import\.meta|Bun|Deno)\Z"  # of `.env`
# `process` itself, and what stands before it where it is given a name or taken apart.
_PROCESS = after((rb"[=\s\"':.]",), b"process") + rb"[\"']?\)?(?!\s{0,9}+[\w.\[?(])"
_GIVEN = rb"(?:=\s{0,9}(?:globalThis\.|require\(\s{0,9}[\"'](?:node:)?)?|\bfrom\s{0,9}[\"'](?:node:)?)\Z"
# `env`, `env: e`, `env as e` or `env: {A, B}` between its braces.
_PART = rb"\benv\b(?:\s{0,9}+(?::|as\b)\s{0,9}+(?:" + _OTHER + rb"|\{([^{}]*+)\}))?"
_KEY = rb"(?:^|,)\s*+" + NAME
# What stands before the environment: a name that it is given, with its type; a name that is looked for in it; what
# takes it as a value.
_NAMED = _OTHER + rb"\s{0,9}(?::[^=\n]{0,40})?\Z"
_SOUGHT = rb"[\"']" + NAME + rb"[\"']\s{1,9}+(?:not\s{1,9}+)?in\Z"
_TAKER = (
    rb"(?:\*\*|\.{3}|[:|]|(?<!\.)(?:dict|list|sorted)\(|\{\},|(?:copy|str|repr|print|stringify|entries|values|dumps?)\("
    rb"|(?:data|json|params|headers)=|\bfor\s{1,9}\w{1,30}\s{1,9}in\b)\s*\Z"
)


def renamed(data: bytes, budget: Budget) -> set[bytes]:
    """Return what a program reads so. Raises TooMany where it is an attack on its reader."""
    program = _Program(data, budget)
    spelled = [rb"os\.environ"] if b"os.environ" in data else []
    if b"environ" in data or b"getenv" in data:
        spelled += program.imported()
    if b".env" in data:
        spelled.append(PROCESS_ENV)
    if b"env" in data and b"process" in data:
        program.take_process_apart()
    for environment in spelled:
        program.take_apart(environment)
    program.read_by_other_names()
    return program.found


class _Program:
    """One program's text, what it was seen to read, and the patterns of other names of its environment."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        self.found: set[bytes] = set()
        self._names: set[bytes] = set()
        self._data = data
        self._budget = budget

    def imported(self) -> list[bytes]:
        """Look for other names that Python's `import` gives; return the patterns of `os.environ` by those of `os`."""
        if b"import" not in self._data:
            return []
        for match in self._budget.matches(_FROM_OS, self._data):
            if match[1] == b"environ":
                self._names.add(match[2] or match[1])
            elif match[2]:
                self.found.update(self._budget.all(match[2] + QUOTED, self._data))
        return [name + rb"\.environ" for name in {*self._budget.all(_IMPORT_OS, self._data)}]

    def take_process_apart(self) -> None:
        """Look for what is done with JavaScript's `process` where it is taken whole."""
        for match in self._budget.matches(_PROCESS, self._data):
            before = self._before(match, 300)
            given = re.search(_GIVEN, before[-40:])
            left = before.removesuffix(given[0]).rstrip() if given else b""
            if not left.endswith(b"}"):
                self._names.update(name + rb"\.env" for name in self._budget.all(_NAMED, left[-80:]))
                continue
            for part in self._budget.matches(_PART, left.rpartition(b";")[2]):
                if part[2] is None:
                    self._names.add(part[1] or b"env")
                else:
                    self._read_keys(part[2])

    def take_apart(self, environment: bytes) -> None:
        """Look for what is done with the environment, spelled so, where it is taken whole."""
        for match in self._budget.matches(environment + _WHOLE, self._data):
            owner = re.compile(_OWNER).search(self._data, max(0, match.start() - 12), match.start())
            before = self._before(owner or match, 2000).rstrip()
            left, last = before[:-1].rstrip(), before[-1:]
            if last == b"=" and left.endswith(b"}"):
                _, brace, keys = left[:-1].rpartition(b"{")
                self._read_keys(keys if brace else b"...")
            elif re.search(_TAKER, before[-40:]):
                self.found.add(b"*")
            elif last == b"=":
                self._names.update(self._budget.all(_NAMED, left[-80:]))
            else:
                self.found.update(self._budget.all(_SOUGHT, before[-300:]))

    def read_by_other_names(self) -> None:
        """Look for what is read by the names that were found."""
        if len(self._names) > _NAMES_MAX:
            raise TooMany
        for name in self._names:
            alone = name + rb"(?<![\w.$]" + name + rb")"
            self.found.update(self._budget.all(alone + MEMBER, self._data))
            handed_on = rb"(?:(?<=[(*]" + name + rb")|(?<=\.\." + name + rb"))\s{0,9}+[,)}]"
            if re.search(name + rb"(?:" + handed_on + rb"|\.(?:copy|items|values)\()", self._data):
                self.found.add(b"*")

    def _before(self, match: re.Match[bytes], most: int) -> bytes:
        return self._data[max(0, match.start() - most) : match.start()]

    def _read_keys(self, braces: bytes) -> None:
        self.found.update(self._budget.all(_KEY, braces), [b"*"] if b"..." in braces else ())
