"""``show``, ``search`` and ``schema``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

from skillhub.audit.show import Shown
from skillhub.cli.agent import HostName, seen_by
from skillhub.cli.common import Common
from skillhub.cli.options import argument, option
from skillhub.cli.terminal import Terminal
from skillhub.errors import NotFound
from skillhub.formats.text import Quoted, collapsed, quote
from skillhub.model.index import Release
from skillhub.model.provenance import Delta
from skillhub.scan.capability import in_words

# ``show``: shows one skill, installed or offered.


def show(common: Common, ref: Annotated[str, argument("NAME|REF", "An installed skill, or a reference.")]) -> int:
    """Show a skill: one installed, one in an agent's folder, else what the reference finds. Installs nothing.

    Example: skillhub show github:gh-fix-ci
    """
    from skillhub.audit.show import show as flow
    from skillhub.model.reference import parse_ref

    shown = flow(parse_ref(ref), common.ports())
    if common.json:
        common.terminal.answer("show", shown.to_json())
    else:
        _draw(shown, common.terminal)
    return 0


def _draw(shown: Shown, terminal: Terminal) -> None:
    skill = shown.skill
    terminal.out(f"{skill.name} {skill.version or ''}", "bold")
    terminal.out(Quoted(collapsed(skill.description)))
    signed = ", ".join(f"{one.named(skill.vouched_by)} ({one.kind} {one.fingerprint})" for one in skill.signed_by)
    is_found = not skill.managed and skill.state == "enabled"
    state = skill.state if skill.managed or is_found else "not installed"
    rows = [
        ("source", "(unmanaged)" if is_found else skill.source or ""),
        *((("url", skill.url),) if terminal.verbose and skill.url else ()),
        ("state", state),
        ("signed by", signed or "nobody"),
        *((("tree", skill.tree),) if skill.tree else ()),
        *(("" if number else "patched by", text) for number, text in enumerate(_patched(shown))),
        ("can", in_words(skill.capabilities)),
        *((f"needs {need.kind}", f"{need.name}{'' if need.satisfied else ' (missing)'}") for need in skill.requires),
        *(("link", link) for link in skill.links),
        *(("release", _spelled(each)) for each in shown.releases),
    ]
    for warning in shown.warnings:
        terminal.warn(f"warning: {warning}")
    for label, text in rows:
        terminal.out(f"  {label:<14}{text}", hang=16)
    for path, file in shown.tree.items():
        terminal.out(f"  {'x' if file.executable else '-'} {len(file.data):>8}  {path}")


def _patched(shown: Shown) -> Iterator[str]:
    """Yield the project's patch, and each file that it touches."""
    if not shown.skill.patch:
        return
    yield f"{shown.skill.patch}, which nobody signed"
    touched = shown.patched or Delta()
    yield from (f"~ {path}" for path in touched.changed)
    yield from (f"+ {path}" for path in touched.added)
    yield from (f"- {path}" for path in touched.removed)


def _spelled(release: Release) -> str:
    """Return version and day, and whether it was taken back."""
    spelled = f"{release.version} {release.published or ''}"
    return f"{spelled} {release.taken_back}" if release.taken_back else spelled


# ``search``: searches what sources list and what is here.

_FOUND_BY = {
    "exact_path": "path",
    "exact_name": "name",
    "prefix": "name",
    "token_overlap": "words",
    "full_text": "text",
    "spelling": "spelling",
}


def search(
    common: Common,
    words: Annotated[list[str], argument("WORDS...", "A name, its beginning, words of the text, or a path.")],
    local: Annotated[bool, option("--local", "Search only what is here; ask no source.")] = False,
    limit: Annotated[int, option("--limit N", "How many to show, 50 at most.", min=1)] = 8,
    host: HostName = "agents",
) -> int:
    """Search the skills that sources list, and those that are here. What matches best comes first, with the reason.

    Example: skillhub search failing checks
    """
    from skillhub.audit.show import search as flow
    from skillhub.install.sources import Listings, listings

    skills = [skill for skill in seen_by(common, host)[1].skills if skill.path]
    listed = Listings() if local else listings(common.ports(), needed=not skills)
    found = flow(" ".join(words), skills, limit, listed.each, common.home.cache)
    for warning in listed.warnings:
        common.terminal.warn(f"warning: {warning}")
    if common.json:
        return common.result("search", found.to_json())
    rows = [(hit.name, hit.source or f"({hit.scope})", _FOUND_BY[hit.reason], hit.description) for hit in found.hits]
    if rows:
        common.terminal.table(("NAME", "FROM", "FOUND BY", "DESCRIPTION"), rows)
    else:
        common.terminal.say("nothing was found")
    if found.truncated:
        common.terminal.say(_more(limit), "dim")
    return 0


def _more(limit: int) -> str:
    from skillhub.runtime.ranking import LIMIT_MAX

    if limit >= LIMIT_MAX:
        return f"there is more; {LIMIT_MAX} are shown at most: say more words"
    return f"there is more; --limit {min(2 * limit, LIMIT_MAX)} shows more of it"


# ``schema``: shows the JSON Schema of a document, or of what a command prints with ``--json``.


def schema(
    common: Common,
    words: Annotated[
        list[str] | None, argument("[NAME]...", "A document, or a command as it is typed; else all are listed.")
    ] = None,
) -> int:
    """Show the JSON Schema of a document, or of what a command prints with --json.

    Example: skillhub schema lock
    """
    from skillhub.answers.table import ANSWERS, DOCUMENTS, schema_of

    name = " ".join(words or ())
    if not name:
        found = {"documents": [*DOCUMENTS], "answers": [*ANSWERS]}
        if common.json:
            return common.result("schema", found)
        for kind, names in found.items():
            common.terminal.out(f"{kind}:", "bold")
            for each in names:
                common.terminal.out(f"  {each}")
        return 0
    try:
        document = schema_of(name)
    except KeyError as error:
        hint = "skillhub schema lists those that there are"
        raise NotFound(f"there is no schema of {quote(name)}", hint=hint) from error
    for line in json.dumps(document, indent=2).splitlines():
        common.terminal.verbatim(line)
    return 0


COMMANDS = {"show": show, "search": search, "schema": schema}
