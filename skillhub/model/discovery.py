"""What a well-known site says it offers: Agent Skills Discovery 0.2.0, and 0.1.0 as it was before.

One bad entry refuses the whole document, as in ``model.index``. But whoever runs such a site owes us nothing beyond
the specification: of our own fields those are taken that make sense, and a description is cut, not refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote as percent_encoded
from urllib.parse import urljoin, urlsplit

from skillhub.errors import FormatError
from skillhub.model.digest import Digest
from skillhub.model.index import FACTS, LISTING_CAP, SCHEMA, TYPES, refuse_twice
from skillhub.model.release import Index, Release
from skillhub.model.syntax.decode import Read, array, located, record, text, text_that, wrong
from skillhub.model.syntax.json import strict_json
from skillhub.model.text import clean, is_inner_path, is_name, quote
from skillhub.model.tree import SKILL_MD

CURRENT: Final = "0.2.0"
LEGACY: Final = "0.1.0"
_DESCRIPTION_MAX = 1024
# RFC 3986, 4.1, of http and https alone, with neither user nor password, and nothing left to escape.
_URL = re.compile(
    r"(?:(?:(?i:https?):)?//(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?=[/?#]|$)"
    r"|(?!//)(?![A-Za-z][A-Za-z0-9+.-]*:))"
    r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?#-]|%[0-9A-Fa-f]{2})*",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Discovered:
    """An index, and the version of the specification that it is of."""

    version: Literal["0.2.0", "0.1.0"]
    index: Index


def parse_discovery(data: bytes, url: str) -> Discovered:
    """Return what the ``index.json`` at ``url`` offers, its URLs resolved against that (RFC 3986, 5).

    Raises:
        FormatError: it is of neither version, or one of its entries is malformed or there twice.
    """
    document = strict_json(data, url, LISTING_CAP)
    # The schema is looked at first: another one may mean anything by the rest.
    schema = document.get("$schema") if isinstance(document, dict) else None
    if schema is not None and schema != SCHEMA:
        raise FormatError(
            f"expected $schema {SCHEMA}, found {quote(schema)}: nothing of it is used",
            where=url,
            hint="a newer skillhub may know it",
        )
    with located(url):
        if schema is None:
            return Discovered(LEGACY, _legacy(_LEGACY(document)["skills"], url))
        return Discovered(CURRENT, _current(_CURRENT(document)["skills"], url))


def _current(entries: tuple[dict[str, Any], ...], url: str) -> Index:
    refuse_twice((entry["name"] for entry in entries), url)
    skills, warnings = {}, []
    for entry in entries:
        if entry["type"] in TYPES:
            release = Release(**{**entry, "url": _resolved(url, entry["url"])})
            skills[release.name] = (release,)
        else:
            warnings.append(f"{entry['name']}: skipped, its type {quote(entry['type'])} is unknown")
    return Index(skills, warnings=tuple(warnings))


def _resolved(base: str, url: str) -> str:
    try:
        return urlsplit(urljoin(base, url)).geturl().partition("#")[0]
    except ValueError as error:  # what stands in brackets is no address
        raise FormatError(f"expected a URL, found {quote(url)}") from error


def _legacy(entries: tuple[dict[str, Any], ...], url: str) -> Index:
    refuse_twice((entry["name"] for entry in entries), url)
    return Index(
        {
            entry["name"]: (Release(**entry, type="files", url=urljoin(url, f"{entry['name']}/")),)
            for entry in entries
        }
    )


def url_of(release: Release, path: str) -> str:
    """Return where one of the ``files`` of a release is."""
    return release.url + percent_encoded(path)


def _is_file(path: str) -> bool:
    """Say whether it is a relative path that names one file; what else it may not be is for the archive's gate."""
    return clean(path) == path and is_inner_path(path)


def _described(value: object) -> str:
    return clean(text(value))[:_DESCRIPTION_MAX]


def _files(value: object) -> tuple[str, ...]:
    found = _paths(value)
    if SKILL_MD not in found or len(set(found)) < len(found):
        wrong(f"{SKILL_MD} among the files, and each of them once", value)
    return found


def _entry(value: object) -> dict[str, Any]:
    head = _HEAD(value)
    return {**_ENTRY(value), **head} if head["type"] in TYPES else head


def _if_sound(read: Read) -> Callable[[object], Any]:
    """Return a reader that passes over what ``read`` refuses: the key may mean something else to somebody else."""

    def read_or_not(value: object) -> Any:  # noqa: ANN401 - whatever the reader makes of it
        try:
            return read(value)
        except FormatError:
            return None

    return read_or_not


_OURS: Mapping[str, Read] = {
    **{key: _if_sound(FACTS[key]) for key in ("version", "published", "size")},
    **{key: _if_sound(_described) for key in ("yanked", "withdrawn")},
}
_name = text_that(is_name, "a name of a-z, 0-9 and single hyphens, 64 at most")
_paths = array(text_that(_is_file, "a relative path without dot segments"))
_HEAD = record({"name": _name, "type": text})
_ENTRY = record(
    {
        "description": _described,
        "url": text_that(lambda url: url and _URL.fullmatch(url), "a relative, http or https URL"),
        "digest": Digest.parse,
    },
    _OURS,
)
_CURRENT = record({"skills": array(_entry)})
_LEGACY = record(
    {
        "skills": array(
            record(
                {"name": _name, "files": _files},
                {"description": _described, "version": _if_sound(FACTS["version"])},
            )
        )
    }
)
