"""The pages of a registry, for people. They are unsigned, so they prove nothing.

An author's words are shown as text, under a heading that says so, without the author's markup, links and images.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from itertools import combinations
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

from markdown_it import MarkdownIt
from markupsafe import Markup

from skillhub.edits.patch import difference
from skillhub.errors import SkillhubError
from skillhub.formats.text import clean, collapsed, grouped, is_alias
from skillhub.model.finding import capability_text
from skillhub.model.index import ALWAYS, Release
from skillhub.model.manifest import Manifest
from skillhub.model.tree import SIGNATURE, SKILL_MD, Tree, lines_at
from skillhub.registry import log_writer
from skillhub.registry.other_clients import OfferedSkill, document_of, offered
from skillhub.registry.outputs import WITH_SEARCH, WITH_STYLE, Files, Offer, Part
from skillhub.registry.rendering import STYLE, as_lines, environment
from skillhub.scan.results import ScanCache
from skillhub.scan.views import is_text
from skillhub.trust.documents import bucket_of
from skillhub.trust.log_client import read_entry
from skillhub.trust.publishers import publisher_of
from skillhub.trust.roles import OWN

_PER_PAGE = 100
_PER_GROUP = 200
_NEWEST = 12
_SHORT = 240  # characters of a description in a list, and of the line of a finding
_BODY_MAX = 64 << 10  # characters of instructions that are rendered; longer ones are shown as plain text
_CELLS_MAX = 32 << 10  # cells of tables: a row may omit cells, but each of them is rendered
_FILE_MAX = 64 << 10  # bytes of a file that are shown
_TEXT_MAX = 512 << 10  # bytes of all files of a skill that are shown
_PATCH_MAX = 256 << 10  # bytes of all files that are compared line by line
_FINDINGS_MAX = 200
_FEED = 50
_COMPARED = 8  # newest versions, which are compared with each other
_SITEMAP_MAX = 50_000  # URLs, the limit of the sitemap protocol
_KINDS = {"+": "added", "-": "removed", "@": "place", "d": "place"}
_TEMPLATES = resources.files(__package__).joinpath("templates")


# An author's Markdown, as text with paragraphs, lists, tables and headings.

# Links and images stay as they are written, so nothing hides an address.
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_MARKDOWN.disable(["link", "image", "autolink", "reference"])
_HEADING = re.compile(r"h([1-6])")
# The delimiter row of a table, perhaps in a quotation or a list, whose signs come first.
_COLUMNS = re.compile(r"(?m)^(?>(?:[-|: \t]*+[>*+.)0-9]++)*)[-: \t]*+\|[-|: \t]*+$")


def inert(text: str) -> Markup:
    """Return Markdown as HTML without hidden characters; links and images are text, as the author wrote them.

    Headings begin at the third level, below those of the page.
    """
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        token.attrs = {key: value for key, value in token.attrs.items() if key == "start"}  # of a numbered list
        token.content, token.info = "\n".join(map(clean, token.content.split("\n"))), ""
        if heading := _HEADING.fullmatch(token.tag):
            token.tag = f"h{min(6, int(heading[1]) + 2)}"
        for child in token.children or ():
            child.content = clean(child.content)
    return Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))  # noqa: S704 - the renderer escapes


def is_long(text: str) -> bool:
    """Return whether a text is shown as plain text, since it or its rendered tables would be too large."""
    columns = max((line[0].count("|") + 1 for line in _COLUMNS.finditer(text)), default=0)
    return len(text) > _BODY_MAX or columns * text.count("\n") > _CELLS_MAX


# The paths of pages, and the facts that all pages share.


_ENVIRONMENT = environment(__package__, "templates")


@dataclass(frozen=True, slots=True)
class _Site:
    """The facts about the registry on each of its pages."""

    title: str
    root: str
    url: str | None
    alias: str
    own: str

    @classmethod
    def of(cls, offer: Offer) -> _Site:
        name = offer.hub.settings.publisher
        where = (offer.url or "").partition("://")[2]
        alias = name if is_alias(name) else "registry"
        return cls(f"Skills at {where}" if where else f"Skills of {name}", str(offer.root), offer.url, alias, name)

    @property
    def uuid(self) -> str:
        """The id of the registry in its feed."""
        return str(uuid5(NAMESPACE_URL, self.root))

    @property
    def where(self) -> str:
        """The URL in commands, or a placeholder if it is unknown."""
        return self.url or "URL-OF-THIS-SITE"

    def page(self, path: str, template: str, **facts: object) -> tuple[str, bytes]:
        """Return the path of a page and its content; ``up`` in a template is the way to the top of the site."""
        facts = {"search": False, "site": self, "path": path, "up": "../" * path.count("/"), **facts}
        facts["policy"] = WITH_SEARCH if facts["search"] else WITH_STYLE
        return path, _ENVIRONMENT.get_template(template).render(facts).encode()


def skill_page(name: str) -> str:
    """Return the path of the page of a skill."""
    return f"{OWN}/skill/{name}.html"


def diff_page(name: str, version: str, since: str | None = None) -> str:
    """Return the path of the page with a version's changes, since the version before or since ``since``."""
    return f"{OWN}/skill/{name}/{version}{f'_since_{since}' if since else ''}.html"


def publisher_page(name: str) -> str:
    """Return the path of a publisher's first page."""
    return f"{OWN}/publisher/{name}/index.html"


def capability_page(capability: str) -> str:
    """Return the path of a capability's first page: readable, and unique on any file system."""
    return f"{OWN}/capability/{_slug(capability)}/index.html"


def _slug(text: str) -> str:
    readable = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:48]
    return f"{readable}-{sha256(text.encode()).hexdigest()[:16]}"


# Lists: one page for few entries; for many, one page for each prefix, so that a new entry changes few pages.


def buckets(keys: Sequence[str], most: int = _PER_PAGE) -> list[tuple[str, list[str]]]:
    """Return sorted keys in groups of at most ``most``, each with the prefix that its keys share."""

    def split(group: list[str], length: int) -> Iterator[tuple[str, list[str]]]:
        if len(group) <= most:
            yield group[0][:length], group
            return
        parts: defaultdict[str, list[str]] = defaultdict(list)
        while len(parts) < 2:  # a longer prefix, until the keys differ
            length += 1
            parts.clear()
            for key in group:
                parts[key[:length]].append(key)
        for part in parts.values():
            yield from split(part, length)

    return [*split(list(keys), 0)] if keys else []


def listed(site: _Site, base: str, rows: Mapping[str, object], template: str, **facts: object) -> Files:
    """Yield the pages of a list: its first page, and one for each group if there are many entries.

    Args:
        site: The facts about the registry.
        base: The folder of the pages.
        rows: The entries, by a key of ``a-z 0-9 -`` that sorts them.
        template: The template for ``rows``, and for the links to ``groups``.
        facts: Other values of the template; ``search`` adds a search field to the first page.
    """
    groups, home = buckets(sorted(rows)), f"{base}/index.html"
    links = [(start, f"{base}/p-{start}.html", len(keys)) for start, keys in groups] if groups[1:] else []
    first_rows = [] if links else [rows[key] for key in sorted(rows)]
    yield site.page(home, template, rows=first_rows, groups=links, at=None, **facts)
    neighbours = [None, *(link[:2] for link in links), None]
    for number, (_, keys) in enumerate(groups if links else ()):
        start, path, _ = links[number]
        position = {"start": start, "home": home, "before": neighbours[number], "after": neighbours[number + 2]}
        page_facts = {**facts, "rows": [rows[key] for key in keys], "groups": [], "at": position, "search": False}
        yield site.page(path, template, **page_facts)


def row_of(release: Release) -> dict[str, object]:
    """Return the entry of a skill in a list."""
    text = collapsed(release.description)
    short = f"{text[:_SHORT]}…" if len(text) > _SHORT else text
    short = "" if release.withdrawn is not None else short
    return {"name": release.name, "release": release, "short": short, "page": skill_page(release.name)}


def search_files(rows: Mapping[str, Mapping[str, object]], many: bool) -> Files:
    """Yield the files in which a page's script searches: the whole list, or with ``many`` skills groups of names.

    A name is in the group of each of its words, so a release changes at most as many groups as its name has words.
    Unlike the listing for other clients, they have the skills whose releases are all yanked or withdrawn.
    """
    hits: dict[str, dict[str, object]] = {}
    for name, row in rows.items():
        release = row["release"]
        if isinstance(release, Release):
            status = {"publisher": release.publisher, "yanked": release.yanked, "withdrawn": release.withdrawn}
            hits[name] = {"name": name, "description": row["short"], **status}
    document: object = {"skills": [*hits.values()]}
    if many:
        names_by_key = {}
        for name in rows:
            words = name.split("-")
            names_by_key.update({f"{'-'.join(words[index:])}--{name}": name for index in range(len(words))})
        groups = buckets(sorted(names_by_key), _PER_GROUP)
        for start, keys in groups:
            part = {"skills": [{"key": key, **hits[names_by_key[key]]} for key in keys]}
            yield f"{OWN}/search/p-{start}.json", json.dumps(part, separators=(",", ":")).encode()
        document = [start for start, _ in groups]
    yield f"{OWN}/search.json", json.dumps(document, separators=(",", ":")).encode()


# The page of a skill, and the pages with the changes of its versions.


def pages_of_skill(offer: Offer, skill: OfferedSkill) -> Files:
    """Yield the page of a skill, and one with the changes of each version."""
    site, best = _Site.of(offer), skill.best
    tree = skill.tree(best)
    lacking = document_of(best, tree).left_out if tree and offered(skill) is best else None
    steps = zip(skill.releases, [*skill.releases[1:], None], strict=True)
    nearest = [(new, old, diff_page(skill.name, new.version or "")) for new, old in steps]
    further = _further(skill)
    facts = {
        "skill": skill,
        "row": row_of(best),
        "about": "" if best.withdrawn is not None else collapsed(best.description),
        "bad": skill.known_bad(best),
        "signers": publisher_of(offer.admission(skill)).fingerprints,
        "lacking": lacking,
        "versions": [(new, page, [pair for pair in further if pair[0] is new]) for new, _, page in nearest],
        "can": [(capability_text(capability), capability_page(capability)) for capability in best.capabilities],
    }
    yield site.page(skill_page(skill.name), "skill.html", **facts, **_content(offer.scans, tree))
    for release, before, path in (*nearest, *further):
        changes = _changes(skill.tree(before) if before else Tree({}), skill.tree(release))
        yield site.page(path, "diff.html", release=release, before=before, home=skill_page(skill.name), **changes)


def _further(skill: OfferedSkill) -> list[tuple[Release, Release, str]]:
    """Return each pair of the newest versions that are not neighbours, the newer one first, and its page."""
    newest = enumerate(skill.releases[:_COMPARED])
    return [
        (new, old, diff_page(skill.name, new.version or "", old.version))
        for (index, new), (other_index, old) in combinations(newest, 2)
        if other_index - index > 1 and new.withdrawn is old.withdrawn is None
    ]


def _content(scans: ScanCache, tree: Tree | None) -> dict[str, object]:
    """Return the contents of a skill's files in the form of the template, within the limits of a page."""
    if tree is None:
        return {"body": None, "files": [], "needs": [], "found": [], "more": 0, "long": False}
    try:
        manifest = Manifest.read(tree)
        text, needs = manifest.body, manifest.requires
    except SkillhubError:  # a version with other rules published it
        text, needs = tree[SKILL_MD].data.decode("utf-8", "replace"), ()
    rows, room = [], _TEXT_MAX
    for path, file in tree.items():
        text_here = None
        if path != SIGNATURE and len(file.data) <= min(_FILE_MAX, room) and is_text(file.data):
            text_here = as_lines(file.data.decode())
            room -= len(file.data)
        rows.append({"path": path, "file": file, "size": len(file.data), "text": text_here})
    findings = scans.read(tree).findings
    long = is_long(text)
    found_lines = lines_at([(each.path, each.line) for each in findings[:_FINDINGS_MAX]], tree)
    shown_findings = [
        (each, as_lines(found_lines.get((each.path, each.line), b"")[:_SHORT].decode("utf-8", "replace")))
        for each in findings[:_FINDINGS_MAX]
    ]
    facts = {"files": rows, "needs": needs, "found": shown_findings, "more": max(0, len(findings) - _FINDINGS_MAX)}
    return {**facts, "body": as_lines(text) if long else inert(text), "long": long}


def _changes(old: Tree | None, new: Tree | None) -> dict[str, object]:
    """Return the files that differ, and the changed lines of the first ones up to a size limit."""
    if old is None or new is None:
        return {"differ": None, "lines": []}
    paths, room = sorted(path for path in {*old, *new} if old.get(path) != new.get(path)), _PATCH_MAX
    differ = [("added" if path not in old else "removed" if path not in new else "changed", path) for path in paths]
    compared = []
    for path in paths if old else ():
        room -= sum(len(tree[path].data) for tree in (old, new) if path in tree)
        if room > 0 and path != SIGNATURE:
            compared.append(path)
    before, after = ({path: tree[path] for path in compared if path in tree} for tree in (old, new))
    patch, _ = difference(before, after)
    lines = [(_KINDS.get(line[:1], ""), as_lines(line)) for line in patch.split("\n")[:-1]]
    return {"differ": differ, "lines": lines}


# The pages about more than one skill.


def pages_of_all(offer: Offer) -> Files:
    """Yield the start page, the lists, the log of changes, and the files that all pages use."""
    site = _Site.of(offer)
    yield f"{OWN}/style.css", STYLE.encode()
    yield f"{OWN}/search.js", _TEMPLATES.joinpath("search.js").read_bytes()
    skills = {skill.name: skill.best for skill in offer.skills()}
    newest = sorted(skills.values(), key=lambda best: (best.published or "", best.name), reverse=True)[:_NEWEST]
    facts = {"newest": [*map(row_of, newest)], "total": len(skills), "publishers": len(offer.index.admissions)}
    yield site.page("index.html", "start.html", search=True, **facts)
    rows = {name: row_of(best) for name, best in skills.items()}
    yield from listed(site, f"{OWN}/skills", rows, "skills.html", search=True, total=len(rows))
    yield from search_files(rows, many=offer.hub.large is not None)
    yield site.page("404.html", "404.html", up=f"{urlsplit(site.url or '').path}/")
    yield from _publishers(site, offer, rows)
    yield from _capabilities(site, skills, rows)
    events = [*events_of(offer)]
    yield from _history(site, events)
    places = {skill_page(name): best.published or "" for name, best in skills.items()}
    places |= {event.page: event.time for event in events}
    yield from _sitemap(site, {"index.html": "", f"{OWN}/skills/index.html": "", **places})


def _publishers(site: _Site, offer: Offer, rows: Mapping[str, object]) -> Files:
    rows_by_owner: defaultdict[str, dict[str, object]] = defaultdict(dict)
    for name, releases in offer.index.skills.items():
        rows_by_owner[releases[0].publisher or ""][name] = rows[name]
    entries = {}
    for name, admission in offer.index.admissions.items():
        page, own_rows = publisher_page(name), rows_by_owner[name]
        entries[name] = {"name": name, "page": page, "count": len(own_rows)}
        facts = {"name": name, "total": len(own_rows), "signers": publisher_of(admission).fingerprints}
        facts |= {"revoked": admission.revoked, "always": ALWAYS}
        yield from listed(site, page.removesuffix("/index.html"), own_rows, "publisher.html", **facts)
    yield from listed(site, f"{OWN}/publisher", entries, "index.html", what="Publishers")


def _capabilities(site: _Site, skills: Mapping[str, Release], rows: Mapping[str, object]) -> Files:
    rows_by_capability: defaultdict[str, dict[str, object]] = defaultdict(dict)
    for name, release in skills.items():
        for capability in release.capabilities if release.withdrawn is None else ():
            rows_by_capability[capability][name] = rows[name]
    entries = {}
    for capability, own_rows in rows_by_capability.items():
        page = capability_page(capability)
        facts = {"name": capability_text(capability), "total": len(own_rows)}
        entries[_slug(capability)] = {**facts, "page": page, "count": len(own_rows)}
        yield from listed(site, page.removesuffix("/index.html"), own_rows, "capability.html", **facts)
    yield from listed(site, f"{OWN}/capability", entries, "index.html", what="Capabilities")


# Events, from the registry's log.


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        what: ``published``, ``yanked``, ``withdrawn`` or ``offered again`` for a release; ``admitted`` or ``revoked``
            for a publisher.
        name: The skill or the publisher.
        version: The version of the release, the fingerprint of the revoked key, or empty.
        why: The reason of a yank or withdrawal.
    """

    time: str
    what: str
    name: str
    version: str
    why: str = ""

    @property
    def page(self) -> str:
        """The path of the page of the skill or publisher."""
        return publisher_page(self.name) if self.what in ("admitted", "revoked") else skill_page(self.name)

    @property
    def id(self) -> str:
        """The id of the event in the feed."""
        return uuid5(NAMESPACE_URL, repr(self)).urn


def events_of(offer: Offer) -> Iterator[Event]:
    """Yield the events in the registry's log, oldest first; none if the registry has no log."""
    hub, admitted = offer.hub, set[str]()
    head = hub.log_head(hub.metadata)
    for entry in map(read_entry, log_writer.entries(head.checkpoint.size, hub.registry.served) if head else ()):
        kind, time, publisher = entry["kind"], entry.get("time", ""), entry.get("publisher", "")
        release = entry.get("name", ""), entry.get("version", "")
        if kind == "release":
            yield Event(entry.get("published", ""), "published", *release)
        elif kind in ("yanked", "withdrawn"):
            yield Event(time, kind if "reason" in entry else "offered again", *release, entry.get("reason", ""))
        elif kind == "key-revoked":
            yield Event(time, "revoked", publisher, entry.get("fingerprint", ""))
        elif kind == "key-added" and publisher not in admitted:
            admitted.add(publisher)
            yield Event(time, "admitted", publisher, "")


def _history(site: _Site, events: Sequence[Event]) -> Files:
    parts = [events[start : start + _PER_PAGE] for start in range(0, len(events), _PER_PAGE)] or [[]]
    base = f"{OWN}/changes"
    paths = [*(f"{base}/{number}.html" for number in range(1, len(parts))), f"{base}/index.html"]
    for number, part in enumerate(parts):
        neighbours = [paths[number - 1] if number else None, paths[number + 1] if parts[number + 1 :] else None]
        yield site.page(paths[number], "changes.html", events=part[::-1], older=neighbours[0], newer=neighbours[1])
    yield site.page("feed.xml", "feed.xml", events=events[: -_FEED - 1 : -1])


def _sitemap(site: _Site, places: Mapping[str, str], most: int = _SITEMAP_MAX) -> Files:
    """Yield the sitemap; with more than ``most`` pages, 256 sitemaps by path and their index, so that few change."""
    rows = [*places.items()] if site.url else []  # the sitemap protocol has no relative links
    divided = rows if len(rows) > most else ()
    parts = grouped((f"{OWN}/sitemap-{bucket_of(row[0])}.xml", row) for row in divided)
    for path, part in sorted(parts.items()):
        yield site.page(path, "sitemap.xml", rows=part, maps=[])
    yield site.page("sitemap.xml", "sitemap.xml", rows=[] if parts else rows, maps=sorted(parts))


def _version() -> str:
    """Return a digest of all templates."""
    texts = sorted((template.name, template.read_text("utf-8")) for template in _TEMPLATES.iterdir())
    return sha256(repr(texts).encode()).hexdigest()


PAGES = Part(name="pages", version=_version(), of_skill=pages_of_skill, of_all=pages_of_all)
