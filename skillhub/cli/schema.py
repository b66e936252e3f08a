"""``schema``: shows the JSON Schema of a document, or of what a command prints with ``--json``."""

from __future__ import annotations

import json
from typing import Annotated

from skillhub.cli.common import Common
from skillhub.cli.options import argument
from skillhub.errors import NotFound
from skillhub.model.text import quote


def schema(
    common: Common,
    words: Annotated[
        list[str] | None,
        argument("[NAME]...", "A document, or a command as it is typed; else all are listed."),
    ] = None,
) -> int:
    """Show the JSON Schema of a document, or of what a command prints with --json.

    Example: skillhub schema lock
    """
    from skillhub.model.answers.schema import DOCUMENTS, schema_of
    from skillhub.model.answers.table import ANSWERS

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


COMMANDS = {"schema": schema}
