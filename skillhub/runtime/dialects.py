"""Spells the list of skills that a model sees first, as each host does; text from skills is escaped inside tags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import PurePath
from typing import Final, NamedTuple

from skillhub.model.text import clean


class Entry(NamedTuple):
    """One skill as it is listed.

    Attributes:
        name: Its full name.
        description: One line, or nothing.
        path: Its ``SKILL.md``.
        scope: Whose it is.
        files: How many files are in ``scripts``, ``references`` and ``assets``; zeros where nobody counted.
    """

    name: str
    description: str
    path: str
    scope: str
    files: tuple[int, int, int] = (0, 0, 0)


Spell = Callable[[Sequence[Entry], int], list[str]]


class Dialect(NamedTuple):
    """How to spell entries, and how many more there are than are listed, in lines; never called for no entry."""

    spell: Spell
    counts_files: bool = False


def _more(omitted: int) -> str:
    return f"{omitted} more {'skill is' if omitted == 1 else 'skills are'} not listed here"


def _rest(omitted: int, line: str) -> list[str]:
    return [line.format(_more(omitted))] if omitted else []


def _listed(entries: Sequence[Entry], spell: Callable[[str], str]) -> Iterator[str]:
    yield "<available_skills>"
    for entry in entries:
        yield "  <skill>"
        yield f"    <name>{_xml(entry.name)}</name>"
        yield f"    <description>{_xml(entry.description)}</description>"
        yield f"    <location>{_xml(spell(entry.path))}</location>"
        yield "  </skill>"
    yield "</available_skills>"


def _agents(entries: Sequence[Entry], omitted: int) -> list[str]:
    return [
        "These skills hold instructions for tasks of one kind each. When a task is what a description speaks of,",
        "read the SKILL.md at its location before anything else; paths in it are relative to its folder.",
        *_listed(entries, clean),
        *_rest(omitted, "{}."),
    ]


def _claude_code(entries: Sequence[Entry], omitted: int) -> list[str]:
    lines = ["<available_skills>"]
    for entry in entries:
        lines += ["<skill>", "<name>", escape(entry.name), "</name>"]
        lines += ["<description>", escape(entry.description), "</description>"]
        lines += ["<location>", clean(entry.path), "</location>", "</skill>"]
    return [*lines, "</available_skills>", *_rest(omitted, "{}.")]


_CODEX_USE: Final = (
    "- When: the user names a skill (`$name`, or in words), or the task is what a description speaks of. It counts "
    "for that turn alone.",
    "- How: open its `SKILL.md` first and read as much as the task needs. Paths in it are relative to its folder. "
    "Open further files one by one as it asks for them, and run its scripts rather than retype them.",
    "- Of several that fit, take the fewest that cover the task, and say in a line which and why.",
    "- If one is missing or cannot be read, say so in a line and go on without it.",
)
_CODEWHALE_USE: Final = (
    "- When: the user names a skill (`$name`, `/skill name`, or in words), or the task is what a description "
    "speaks of. It counts for that turn alone.",
    "- How: call `load_skill` with its name.",
    "- If one is missing or cannot be read, say so in a line and go on without it.",
    "- Run no script of a skill unless the user asks for it.",
)


def _markdown(use: Sequence[str]) -> Spell:
    def spell(entries: Sequence[Entry], omitted: int) -> list[str]:
        rows = (
            f"- {entry.name}: {entry.description}{' ' if entry.description else ''}(file: {clean(entry.path)})"
            for entry in entries
        )
        return [
            "## Skills",
            "A skill is a folder with instructions in its `SKILL.md`. Each line below has its name, what it is "
            "for, and that file.",
            "### Available skills",
            *rows,
            *_rest(omitted, "- … {}"),
            "### How to use skills",
            *use,
        ]

    return spell


def _opencode(entries: Sequence[Entry], omitted: int) -> list[str]:
    return [
        "Load the instructions of a skill into this conversation, with its folder and its files.",
        "",
        "Call it with the name of a skill when the task at hand is what its description speaks of.",
        "",
        *_listed(entries, lambda path: PurePath(path).as_uri()),
        *_rest(omitted, "{}."),
    ]


def _codelia(entries: Sequence[Entry], omitted: int) -> list[str]:
    lines = [
        "<skills_context>",
        "<skills_usage>",
        "  <rule>When a task is what a description speaks of, call skill_load with the name or the path before "
        "anything else.</rule>",
        "  <rule>Of several skills of one name, load by path.</rule>",
        "  <rule>Paths in a skill are relative to its folder; read only the files that the task needs.</rule>",
        "</skills_usage>",
        f'<skills_catalog scope="initial" truncated="{"true" if omitted else "false"}">',
    ]
    for entry in entries:
        lines += [
            "  <skill>",
            f"    <name>{_xml(entry.name)}</name>",
            f"    <description>{_xml(entry.description)}</description>",
            f"    <path>{_xml(clean(entry.path))}</path>",
            f"    <scope>{'repo' if entry.scope == 'project' else entry.scope}</scope>",
            "  </skill>",
        ]
    note = _rest(omitted, "  <note>{}; skill_search finds them.</note>")
    return [*lines, *note, "</skills_catalog>", "</skills_context>"]


def _pegasus(entries: Sequence[Entry], omitted: int) -> list[str]:
    rows = [_row(entry.name, entry.description) for entry in entries]
    use = "Use the use_skill tool to invoke a skill when relevant."
    return ["Available skills:", *rows, *_rest(omitted, "- … {}"), "", use]


def _gencode(entries: Sequence[Entry], omitted: int) -> list[str]:
    rows = [_row(_xml(entry.name), _xml(entry.description)) + _counted(entry.files) for entry in entries]
    return [
        "<system-reminder>",
        "Use the Skill tool to invoke these capabilities:",
        "",
        *rows,
        *_rest(omitted, "- … {}"),
        "",
        'Invoke with: Skill(skill="name", args="optional args")',
        "</system-reminder>",
    ]


def _row(name: str, description: str) -> str:
    return f"- {name}: {description}" if description else f"- {name}"


def _counted(files: tuple[int, int, int]) -> str:
    words = [
        f"{number} {word}{'s' if number > 1 else ''}"
        for number, word in zip(files, ("script", "ref", "asset"), strict=True)
        if number
    ]
    return f" [{', '.join(words)}]" if words else ""


def _xml(text: str) -> str:
    return escape(text, quote=False)


DIALECTS: Final[Mapping[str, Dialect]] = {
    "agents": Dialect(_agents),
    "claude-code": Dialect(_claude_code),
    "codex": Dialect(_markdown(_CODEX_USE)),
    "openoxide": Dialect(_markdown(_CODEX_USE)),
    "codewhale": Dialect(_markdown(_CODEWHALE_USE)),
    "opencode": Dialect(_opencode),
    "codelia": Dialect(_codelia),
    "pegasus": Dialect(_pegasus),
    "gencode": Dialect(_gencode, counts_files=True),
}
