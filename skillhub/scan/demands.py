"""What a skill demands of an agent and no task needs: at every start, before every task, with every result.

One demand alone proves little, so each is two signs within a few sentences: a script at an address, and that it is to
be fetched and run; more skills to be installed, and that this is done at each start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skillhub.scan.commands import is_installer
from skillhub.scan.skill_files import Sighting, Signs, SkillFiles, sign

_NEAR: Final = 3
_SIGNS: Final = {
    "script": sign(
        "http / .py .sh .bash .js .mjs .ps1 .rb .pl",
        r"https?://[^\s\"'`<>()\[\]]{1,300}\.(?:py|sh|bash|mjs|js|ps1|rb|pl)\b",
    ),
    "run it": sign(
        "download fetch save retrieve grab / run execute launch source start",
        r"\b(?:download|fetch|save|retrieve|grab)\s"
        r"(?:(?:it|this|that|them)\b|the (?:\w{1,20} )?(?:script|file|program)\b)"
        r"[^.\n]{0,80}\b(?:run|execute|launch|source|start)\s(?:it|this|that|them|the)?\b",
    ),
    "more skills": sign(
        "skill / npx bunx dlx uvx",
        r"\b(?:npx|bunx|dlx|uvx)\s(?:-{1,2}\w{1,12}\s){0,3}[@\w./-]{0,60}skills?[\w@./-]{0,30}\s"
        r"(?:add|install|pull|sync|update)\s[\w@\"'$]",
    ),
    "each start": sign(
        "every each any / session instance conversation chat start launch boot",
        r"\b(?:every|each|any)\s(?:new\s)?(?:[\w-]{1,20}\s){0,2}"
        r"(?:session|instance|conversation|chat|start-?up|launch|boot)s?\b",
    ),
    "no question": sign(
        "askuserquestion",
        r"askuserquestion\W{0,3}[^\n.]{0,30}(?:禁止|forbidden|prohibited|banned|not allowed|disabled)",
        r"\b(?:never|do not|don't|must not)\s(?:use |call |invoke )(?:the )?\W{0,2}askuserquestion",
    ),
    "program": sign(".sh .py .js .mjs http", r"[\w/-]\.(?:sh|py|js|mjs)\b|https?://"),
    "in front": sign(
        "entry_point auto-load auto_load autoload auto-activat auto_activat autoactivat this_skill",
        r"\bonly entry point\b[^\n]{0,60}\b(?:any|every|all)\b|\bauto[- ]?load and execute\b",
        r"\bauto[- ]?activates?\b\W{1,6}(?:when|whenever|before)\s(?:claude|the (?:agent|model|assistant))\b",
        r"\bthis skill (?:cannot|can't|must not|may not) be (?:bypassed|skipped|disabled|turned off|overridden)\b",
    ),
    "each result": sign(
        "every each any all / must required mandatory / send upload post submit transmit",
        r"\b(?:every|each|any|all)\b[^\n.]{0,80}\b(?:must|required|mandatory)\b[^\n.]{0,60}"
        r"\b(?:send|sent|upload|post|submit|transmit)",
        r"\b(?:must|required|mandatory)\b[^\n.]{0,60}\b(?:send|upload|post|submit|transmit)\b[^\n.]{0,60}"
        r"\b(?:every|each|any|all)\b",
    ),
    "sent": sign(
        "curl / post / http",
        r"\bcurl\b[^\n]{0,120}(?:-x|--request)[ =]?[\"']?post\b(?:[^\n]|\\\n){0,200}?https?://"
        r"(?!(?:localhost|127\.|\[|[^\s/\"']{0,60}(?:example|your|<|\{|\$)))",
    ),
}
# Each rule: the sign that it is seen by, and the one that has to be near; the passages before and after.
_RULES: Final = (
    ("SH115", "run it", "script", 2, 1),
    ("SH116", "more skills", "each start", _NEAR, _NEAR),
    ("SH309", "no question", "program", 1, _NEAR),
    ("SH310", "in front", "in front", 0, 0),
    ("SH311", "each result", "sent", 0, _NEAR + 1),
)


def demands(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the demands of documents."""
    for file in files:
        if file.is_document and not file.is_program:
            signs = Signs(file, _SIGNS)
            for rule, first, second, before, after in _RULES:
                for number in signs.where(first) if signs.is_worth(first) else ():
                    if signs.near(second, number, before, after) and (rule != "SH115" or _is_unknown(signs, number)):
                        yield Sighting(rule, file.path, signs.line(first, number))


def _is_unknown(signs: Signs, number: int) -> bool:
    """Say whether a script around a passage is no installer of a well-known project."""
    around = signs.texts[max(0, number - 2) : number + 2]
    found = [match[0] for text in around for match in _SIGNS["script"].pattern.finditer(text)]
    return not all(map(is_installer, found))
