"""The pages of a registry, for people. Nothing of them is signed: what a person reads there proves nothing.

What an author wrote stands there as text, under a heading that says so: no markup, link, image or style of theirs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from urllib.parse import quote as percent

from jinja2 import Template
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from skillhub.formats.browser import WITH_SEARCH, WITH_STYLE
from skillhub.formats.text import clean, collapsed, is_alias
from skillhub.model.index import Release
from skillhub.registry.outputs import OWN, Files, Offer, OfferedSkill, Part
from skillhub.registry.rendering import STYLE, environment

_PER_PAGE = 100
_NEWEST = 12
_SHORT = 240  # characters of a description in a list
_BODY_MAX = 128 << 10  # bytes of instructions that are rendered; longer ones are shown as they are written
_FILE_MAX = 64 << 10  # bytes of a file that are shown
_TEXT_MAX = 512 << 10  # bytes of all files of a skill that are shown
_FINDINGS_MAX = 200
_SCRIPT = files(__package__).joinpath("templates", "search.js").read_text("utf-8")


# What an author wrote in Markdown, as text with paragraphs, lists and headings.

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_HEADING = re.compile(r"h([1-6])")


def inert(text: str) -> Markup:
    """Return Markdown as HTML that leads nowhere: no link, image, attribute or hidden character of the text's own.

    Where a link leads and where an image is stands behind it, as text. Headings begin at the third level, below ours.
    """
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        token.attrs = {}
        token.content, token.info = as_lines_of(token.content), ""
        if found := _HEADING.fullmatch(token.tag):
            token.tag = f"h{min(6, int(found[1]) + 2)}"
        token.children = None if token.children is None else list(_plain(token.children))
    return Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))  # noqa: S704 - of escaped texts


def as_lines_of(text: str) -> str:
    """Return a text of many lines without what is hidden in them."""
    return "\n".join(map(clean, text.split("\n")))


def _plain(tokens: Iterable[Token]) -> Iterator[Token]:
    leads: list[str] = []
    seen = ""
    for token in tokens:
        target = str(token.attrs.get("href" if token.type == "link_open" else "src", ""))
        token.attrs = {}
        token.content = clean(token.content)
        if token.type == "link_open":
            leads.append(target)
            seen = ""
        elif token.type == "link_close":
            address = leads.pop() if leads else ""
            if collapsed(seen) != collapsed(address):
                yield from _address(address)
        elif token.type == "image":
            yield Token("text", "", 0, content=f"[image: {token.content}]")
            yield from _address(target)
        else:
            seen += token.content
            yield token


def _address(target: str) -> Iterator[Token]:
    yield Token("text", "", 0, content=" (")
    yield Token("code_inline", "code", 0, content=clean(target))
    yield Token("text", "", 0, content=")")


# Where a page is, and what all pages have in common.


@cache
def _template(name: str) -> Template:
    return environment(__package__, "templates").get_template(name)


@dataclass(frozen=True, slots=True)
class _Site:
    """What each page says of the registry that it belongs to."""

    title: str
    root: str
    url: str | None
    alias: str

    @classmethod
    def of(cls, offer: Offer) -> _Site:
        own = offer.hub.settings.publisher
        where = (offer.url or "").partition("://")[2]
        alias = own if is_alias(own) else "registry"
        return cls(f"Skills at {where}" if where else f"Skills of {own}", str(offer.root), offer.url, alias)

    def page(self, path: str, template: str, **facts: object) -> tuple[str, bytes]:
        """Return a page and its path; ``up`` in a template leads from it to the top of the site."""
        facts = {"search": False, "site": self, "path": path, "up": "../" * path.count("/"), **facts}
        facts["policy"] = WITH_SEARCH if facts["search"] else WITH_STYLE
        return path, _template(template).render(facts).encode()


def href(path: str) -> str:
    """Return a path below the site as a link has it."""
    return percent(path, safe="/")


def skill_page(name: str) -> str:
    """Return where the page of a skill is."""
    return f"{OWN}/skill/{name}.html"


def diff_page(name: str, version: str) -> str:
    """Return where the page is of what a version changed."""
    return f"{OWN}/skill/{name}/{version}.html"


def publisher_page(name: str) -> str:
    """Return where the page of a publisher begins."""
    return f"{OWN}/publisher/{name}/index.html"


def capability_page(capability: str) -> str:
    """Return where the page of a capability begins: readable, and another for each, whatever the file system."""
    return f"{OWN}/capability/{_slug(capability)}/index.html"


def _slug(text: str) -> str:
    readable = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:48]
    return f"{readable}-{sha256(text.encode()).hexdigest()[:8]}"


# Lists: of few entries one page, of many a page for each beginning, so that a new entry changes one of them.


def buckets(keys: Sequence[str], most: int = _PER_PAGE) -> list[tuple[str, list[str]]]:
    """Return sorted keys in groups of at most so many, each group with the beginning that its keys share."""

    def split(group: list[str], length: int) -> Iterator[tuple[str, list[str]]]:
        if len(group) <= most:
            yield group[0][:length], group
            return
        parts: defaultdict[str, list[str]] = defaultdict(list)
        while len(parts) < 2:  # names that go on alike for long
            length += 1
            parts.clear()
            for key in group:
                parts[key[:length]].append(key)
        for part in parts.values():
            yield from split(part, length)

    return [*split(list(keys), 0)] if keys else []


def listed(site: _Site, base: str, rows: Mapping[str, object], template: str, **facts: object) -> Files:
    """Yield the pages of a list below ``base``: its beginning, and one for each group where there are many.

    Args:
        site: Whose.
        base: A folder of pages.
        rows: By a key of ``a-z 0-9 -`` that sorts them.
        template: Shows ``rows``, or the ``groups`` that they are in.
        facts: What the template wants besides; with ``search`` there is one at the beginning.
    """
    groups, home = buckets(sorted(rows)), f"{base}/index.html"
    links = [(start, f"{base}/p-{start}.html", len(keys)) for start, keys in groups] if groups[1:] else []
    first = [] if links else [rows[key] for key in sorted(rows)]
    yield site.page(home, template, rows=first, groups=links, at=None, **facts)
    near = [None, *(link[:2] for link in links), None]
    for number, (_, keys) in enumerate(groups if links else ()):
        start, path, _ = links[number]
        at = {"start": start, "home": home, "before": near[number], "after": near[number + 2]}
        here = {**facts, "rows": [rows[key] for key in keys], "groups": [], "at": at, "search": False}
        yield site.page(path, template, **here)


def row_of(release: Release) -> dict[str, object]:
    """Return what a list says of a skill."""
    text = collapsed(release.description)
    short = f"{text[:_SHORT]}…" if len(text) > _SHORT else text
    return {"name": release.name, "release": release, "short": short, "page": skill_page(release.name)}


# All pages that are about more than one skill.


def pages_of_all(offer: Offer) -> Files:
    """Make the start page, the lists, and what all pages need."""
    site = _Site.of(offer)
    yield f"{OWN}/style.css", STYLE.encode()
    yield f"{OWN}/search.js", _SCRIPT.encode()
    skills = {skill.name: skill.best for skill in offer.skills()}
    newest = sorted(skills.values(), key=lambda each: (each.published or "", each.name), reverse=True)[:_NEWEST]
    facts = {"newest": [*map(row_of, newest)], "total": len(skills), "publishers": len(offer.index.admissions)}
    yield site.page("index.html", "start.html", search=True, **facts)
    rows = {name: row_of(release) for name, release in skills.items()}
    yield from listed(site, f"{OWN}/skills", rows, "skills.html", search=True, total=len(rows))
    yield site.page("404.html", "404.html")


def pages_of_skill(skill: OfferedSkill) -> Files:
    """Make the page of a skill."""
    site = _Site.of(skill.offer)
    yield site.page(skill_page(skill.name), "skill.html", skill=skill, row=row_of(skill.best))


def _version() -> str:
    """Return what says that the templates are others."""
    place = files(__package__).joinpath("templates")
    texts = sorted((each.name, each.read_text("utf-8")) for each in place.iterdir())
    return sha256(repr(texts).encode()).hexdigest()


PAGES = Part(name="pages", version=_version(), of_skill=pages_of_skill, of_all=pages_of_all)
