"""Pages from templates: every text is escaped, hidden characters are removed, and a skill adds no markup."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from skillhub.formats.text import clean, shown

STYLE: Final = files(__package__).joinpath("templates", "style.css").read_text("utf-8")


def environment(package: str, folder: str = "") -> Environment:
    """Return the Jinja environment of the templates in a folder of a package.

    Every value is escaped, and a text loses its hidden characters, which could reverse or hide the text beside them.
    A missing value is an error.
    """
    loader = PackageLoader(package, folder)
    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=loader,
    )


def _shown(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def as_lines(text: str) -> Markup:
    """Return a text of many lines, escaped, with each hidden character replaced by a visible escape."""
    lines = (line.removesuffix("\r").expandtabs(4) for line in text.split("\n"))
    return escape("\n".join(line if clean(line) == line else shown(line) for line in lines))
