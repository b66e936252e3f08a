"""Where a skill of another installer came from, as a reference that ``install`` can resolve and pin."""

from __future__ import annotations

import posixpath
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BeforeValidator

from skillhub.errors import FormatError, UsageError
from skillhub.model.ref import parse_remote
from skillhub.model.syntax.document import ForeignDocument
from skillhub.model.text import clean, is_inner_path, is_object_id, quote
from skillhub.model.url import masked, names_user, of_repository

_ON_GITHUB = re.compile(r"https://(?:www\.)?github\.com/([^/]+/[^/]+?)(?:\.git)?/?", re.ASCII)
_SHORT = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Origin:
    """A place to have skills from.

    Attributes:
        name: What the other lock calls it: a skill, or a package of several.
        ref: What a person would give to ``install``.
        skills: The skills to take, where the place may hold several; empty where it is one.
        note: What a person should know of this pin.
    """

    name: str
    ref: str
    skills: tuple[str, ...] = ()
    note: str = ""

    def each(self) -> Iterator[Origin]:
        """Yield the origin of each skill alone; of a package that names none, the package's."""
        for name in self.skills or (self.name,):
            yield replace(self, name=name, skills=(name,) if self.skills else ())


@dataclass(frozen=True, slots=True)
class NoOrigin:
    """A skill that cannot be pinned, and why."""

    name: str
    reason: str


Found = Origin | NoOrigin
# What others leave out or have as null.
Absent = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


@dataclass(frozen=True, slots=True)
class OtherLock:
    """What a lock of another installer names."""

    format: str
    origins: tuple[Origin, ...]
    unpinned: tuple[NoOrigin, ...]

    @classmethod
    def of(cls, name: str, found: Iterable[Found]) -> OtherLock:
        """Sort what was found into what has a place and what has none."""
        every = list(found)
        return cls(
            name,
            tuple(each for each in every if isinstance(each, Origin)),
            tuple(each for each in every if isinstance(each, NoOrigin)),
        )


class OtherEntry(ForeignDocument):
    """An entry of another installer's lock; one of its known keys that is invalid leaves it without an origin.

    A commit that is none, say, is not passed over: what is newest would be taken in its place.
    """

    @classmethod
    def origin(cls, name: str, block: object, folder: str) -> Found:
        """Return where the skill of an entry is to be had."""
        try:
            return cls.parse(block, "").found(name, folder)
        except FormatError as error:
            at = (error.where or "").removeprefix(": ")
            return NoOrigin(name, f"its entry is malformed: {f'{at}: ' if at else ''}{error.message}")

    @abstractmethod
    def found(self, name: str, folder: str) -> Found:
        """Return where it is to be had; a relative path starts at ``folder``."""


def text(block: Mapping[str, Any], key: str) -> str:
    """Return the text under ``key``; whatever else is there counts as none."""
    value = block.get(key)
    return value if isinstance(value, str) else ""


def folder_of(path: str) -> str:
    """Return the folder of a skill that is named by itself or by its ``SKILL.md``; ``""`` is the top."""
    return re.sub(r"(^|/)SKILL\.md$", "", path).strip("/").removeprefix("./")


def at_path(name: str, path: str, folder: str, skills: tuple[str, ...] = ()) -> Found:
    """Return the origin at a path of this machine; a relative one starts at ``folder``."""
    if not path or clean(path) != path or path.startswith("~"):
        return NoOrigin(name, f"{quote(path)} is no path of this machine")
    return Origin(name, posixpath.normpath(posixpath.join(folder, path)), skills)


def in_git(name: str, place: str, rev: str, path: str, skills: tuple[str, ...] = ()) -> Found:
    """Return the origin in a git repository: ``place`` is a URL, ``user@host:path`` or ``owner/repo``."""
    if path and not is_inner_path(path):
        return NoOrigin(name, f"its path {quote(path)} leads out of its repository")
    url = place.removeprefix("git+").removeprefix("github:")
    at = f"@{rev}" if rev else ""
    if short := (url if _SHORT.fullmatch(url) else (found := _ON_GITHUB.fullmatch(url)) and found[1]):
        ref = f"github:{short}{'/' + path if path else ''}{at}"
    else:
        ref = f"git+{of_repository(url)}{at}{'#' + path if path else ''}"
    note = "" if is_object_id(rev) else f"pinned at what {quote(rev or 'its default branch')} is now"
    return _checked(name, ref, skills, note)


def noted_by_gh(name: str, metadata: Mapping[str, Any]) -> Found | None:
    """Return the origin that ``gh skill`` wrote into the frontmatter of a skill that it installed, if it did."""
    repository, ref = text(metadata, "github-repo"), text(metadata, "github-ref")
    if not repository:
        return None
    rev = ref.removeprefix("refs/heads/").removeprefix("refs/tags/")
    return in_git(name, repository, rev, folder_of(text(metadata, "github-path")))


def at_site(name: str, url: str, skills: tuple[str, ...]) -> Found:
    """Return the origin at a site that is asked at its well-known place, or at one file or archive of it."""
    base = (url if "://" in url else f"https://{url}").partition("/.well-known/")[0].rstrip("/")
    return _checked(name, base, skills, "pinned at what the site offers now")


def _checked(name: str, ref: str, skills: tuple[str, ...], note: str) -> Found:
    shown = quote(masked(ref))
    if ref.startswith(("http://", "git+http://")):
        return NoOrigin(name, f"{shown} goes over plain http")
    try:
        parse_remote(ref)
    except UsageError:  # its message would show a password
        holds = " holds a password" if names_user(ref) else " is no place to install from"
        return NoOrigin(name, shown + holds)
    return Origin(name, ref, skills, note)
