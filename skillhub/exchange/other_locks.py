"""The locks of other installers: parsed leniently, and never trusted as a proof of integrity."""

from __future__ import annotations

import posixpath
import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from skillhub.errors import FormatError, UsageError
from skillhub.formats.document import ForeignDocument
from skillhub.formats.json import BOM, strict_json
from skillhub.formats.text import clean, is_inner_path, is_name, is_object_id, quote
from skillhub.formats.yaml import parse
from skillhub.model.reference import masked, names_user, of_repository, parse_remote

# The origin of a skill of another installer, as a reference that ``install`` can resolve and pin.

_ON_GITHUB = re.compile(r"https://(?:www\.)?github\.com/([^/]+/[^/]+?)(?:\.git)?/?", re.ASCII)
_PATH_MAX, _NAME_MAX = 1024, 255  # a longer one would be an error of the disk, which ends the command
_SHORT = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Origin:
    """A place from which skills can be installed.

    Attributes:
        name: The name in the other lock: of a skill, or of a package with several.
        ref: The reference for ``install``.
        skills: The skills to take, if the place may have several; empty if it has one.
        note: A remark about this pin for the user.
    """

    name: str
    ref: str
    skills: tuple[str, ...] = ()
    note: str = ""

    def per_skill(self) -> Iterator[Origin]:
        """Yield an origin for each skill; for a package that names none, the package's own."""
        for name in self.skills or (self.name,):
            yield replace(self, name=name, skills=(name,) if self.skills else ())


@dataclass(frozen=True, slots=True)
class NoOrigin:
    """A skill that cannot be pinned, and the reason."""

    name: str
    reason: str


OriginResult = Origin | NoOrigin
# A text that other installers omit or write as null.
NullAsEmpty = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


@dataclass(frozen=True, slots=True)
class OtherLock:
    """The skills in a lock of another installer: those with an origin, and those without."""

    format: str
    origins: tuple[Origin, ...]
    unpinned: tuple[NoOrigin, ...]

    @classmethod
    def of(cls, name: str, found_entries: Iterable[OriginResult]) -> OtherLock:
        """Return the lock with the entries separated by whether they have an origin."""
        entries = list(found_entries)
        origins = tuple(entry for entry in entries if isinstance(entry, Origin))
        return cls(name, origins, tuple(entry for entry in entries if isinstance(entry, NoOrigin)))


class OtherEntry(ForeignDocument):
    """An entry of another installer's lock. An invalid value of a known key leaves the entry without an origin.

    For example, a malformed commit is not ignored, since the newest commit would then be installed.
    """

    LENIENT: ClassVar[Collection[str]] = ()

    @classmethod
    def origin(cls, name: str, block: object, folder: str) -> OriginResult:
        """Return the origin of the skill of an entry."""
        try:
            return cls.parse(block, "").found(name, folder)
        except FormatError as error:
            place = (error.where or "").removeprefix(": ")
            return NoOrigin(name, f"its entry is malformed: {f'{place}: ' if place else ''}{error.message}")

    @abstractmethod
    def found(self, name: str, folder: str) -> OriginResult:
        """Return the origin of the skill; a relative path starts at ``folder``."""


def text(block: Mapping[str, Any], key: str) -> str:
    """Return the text under ``key``; empty if the value has another type."""
    value = block.get(key)
    return value if isinstance(value, str) else ""


def folder_of(path: str) -> str:
    """Return the folder of a skill from a path to the folder or to its ``SKILL.md``; ``""`` is the top."""
    return re.sub(r"(^|/)SKILL\.md$", "", path).strip("/").removeprefix("./")


def at_path(name: str, path: str, folder: str, skills: tuple[str, ...] = ()) -> OriginResult:
    """Return the origin at a local path; a relative one starts at ``folder``."""
    is_too_long = len(path) > _PATH_MAX or any(len(name.encode()) > _NAME_MAX for name in path.split("/"))
    if not path or clean(path) != path or path.startswith("~") or is_too_long:
        return NoOrigin(name, f"{quote(path)} is not a path on this machine")
    return Origin(name, posixpath.normpath(posixpath.join(folder, path)), skills)


def in_git(name: str, place: str, rev: str, path: str, skills: tuple[str, ...] = ()) -> OriginResult:
    """Return the origin in a git repository: ``place`` is a URL, ``user@host:path`` or ``owner/repo``."""
    if path and not is_inner_path(path):
        return NoOrigin(name, f"its path {quote(path)} leads out of its repository")
    url = place.removeprefix("git+").removeprefix("github:")
    revision = f"@{rev}" if rev else ""
    on_github = _ON_GITHUB.fullmatch(url)
    if on_github or _SHORT.fullmatch(url):
        ref = f"github:{on_github[1] if on_github else url}{'/' + path if path else ''}{revision}"
    else:
        ref = f"git+{of_repository(url)}{revision}{'#' + path if path else ''}"
    at = quote(rev) if rev else "its default branch"
    return _checked(name, ref, skills, "" if is_object_id(rev) else f"pinned at the present commit of {at}")


def noted_by_gh(name: str, metadata: Mapping[str, Any]) -> OriginResult | None:
    """Return the origin that ``gh skill`` wrote into the frontmatter at install, or None if there is none."""
    repository, ref = text(metadata, "github-repo"), text(metadata, "github-ref")
    if not repository:
        return None
    rev = ref.removeprefix("refs/heads/").removeprefix("refs/tags/")
    return in_git(name, repository, rev, folder_of(text(metadata, "github-path")))


def at_site(name: str, url: str, skills: tuple[str, ...]) -> OriginResult:
    """Return the origin at a site, by the site's URL or by the URL of its index, an archive or a file."""
    base = (url if "://" in url else f"https://{url}").partition("/.well-known/")[0].rstrip("/")
    return _checked(name, base, skills, "pinned at the present content of the site")


def _checked(name: str, ref: str, skills: tuple[str, ...], note: str) -> OriginResult:
    shown_ref = quote(masked(ref))
    if ref.startswith(("http://", "git+http://")):
        return NoOrigin(name, f"{shown_ref} uses plain http")
    try:
        parse_remote(ref)
    except UsageError:  # its message could contain a password
        problem = " holds a password" if names_user(ref) else " is not a place to install from"
        return NoOrigin(name, shown_ref + problem)
    return Origin(name, ref, skills, note)


# ``apm.lock.yaml``: packages at commits, each with one or more skills.

_SKILL = "claude_skill"  # the type of a package that is itself a skill


def _false_if_empty(value: object) -> object:
    return False if value in (None, "", "~", "null") else value


class ApmPackage(OtherEntry):
    """A package of ``apm.lock.yaml``."""

    LENIENT: ClassVar = ("name", "skill_subset", "deployed_files")

    name: NullAsEmpty = ""
    materialization_repo_url: NullAsEmpty = ""
    repo_url: NullAsEmpty = ""
    virtual_path: NullAsEmpty = ""
    package_type: NullAsEmpty = ""
    local_path: NullAsEmpty = ""
    is_insecure: Annotated[bool, BeforeValidator(_false_if_empty)] = False
    resolved_url: NullAsEmpty = ""
    resolved_commit: NullAsEmpty = ""
    resolved_ref: NullAsEmpty = ""
    host: NullAsEmpty = ""
    port: NullAsEmpty = ""
    skill_subset: tuple[object, ...] = ()
    deployed_files: tuple[object, ...] = ()

    def found(self, name: str, folder: str) -> OriginResult:
        """Return where it is to be had."""
        # repo_url is in lower case for hosts that ignore case.
        repository = self.materialization_repo_url or self.repo_url
        path = folder_of(self.virtual_path)
        name, skills = self.name or repository, self._skills()
        if self.package_type == _SKILL:
            name, skills = posixpath.basename(path) or next(iter(skills), name), ()
        elif not skills:
            return NoOrigin(name, "its lock names no skills of the package")
        if self.local_path:
            return at_path(name, posixpath.join(self.local_path, path), folder, skills)
        if self.is_insecure:
            return NoOrigin(name, "its repository is reached over plain http")
        if self.resolved_url:
            return at_site(name, self.resolved_url, skills)
        return in_git(name, self._address(repository), self.resolved_commit or self.resolved_ref, path, skills)

    def _address(self, repository: str) -> str:
        host = self.host or "github.com"
        if host == "dev.azure.com" and repository.count("/") == 2:
            owner, _, name = repository.rpartition("/")
            repository = f"{owner}/_git/{name}"  # the form of that host
        port = f":{self.port}" if self.port else ""
        return repository if "://" in repository else f"https://{host}{port}/{repository}"

    def _skills(self) -> tuple[str, ...]:
        """Return the installed skills of the package: the requested ones, else those in agents' folders."""
        # Older versions list only the folder.
        folders = (folder_of(path) for path in self.deployed_files if isinstance(path, str))
        split = (posixpath.split(path) for path in folders)
        deployed = [name for folder, name in split if posixpath.basename(folder) == "skills"]
        requested = self.skill_subset or deployed
        return tuple(dict.fromkeys(name for name in requested if isinstance(name, str) and is_name(name)))


def _apm_entries(document: Mapping[str, Any], folder: str) -> Iterator[OriginResult]:
    """Yield the origin of each package with skills, and for every other entry the reason why it is left out."""
    for package in _as_list(document.get("dependencies")):
        if isinstance(package, dict):
            yield ApmPackage.origin(text(package, "name") or text(package, "repo_url"), package, folder)
        else:
            yield NoOrigin(quote(package), "its entry is not a package")
    for server in _as_list(document.get("mcp_servers")):
        name = text(server, "name") if isinstance(server, dict) else quote(server)
        yield NoOrigin(name, "it is an MCP server; skills declare the servers that they need")


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


# The parsers of other installers' locks are pure and lenient, and take nothing as a proof of integrity.
# Each skill gets an origin, as a reference that ``install`` resolves and pins, or the reason why there is none.
# Unknown keys are ignored. Hashes in these locks are not used: each installer computes them in its own way, and an
# attacker who can change a skill can also change the lock beside it.

CAP = 16 * 1024 * 1024
_YAML_CAP = 1024 * 1024  # APM lists every file of every package three times
KNOWN = "known: skills-lock.json, .skill-lock.json, apm.lock.yaml and .clawhub/lock.json"
_Block = Mapping[str, Any]


class SkillsCliEntry(OtherEntry):
    """An entry of the ``skills`` CLI, of a project or of a user; ``gh skill`` also writes those of a user."""

    kind: NullAsEmpty = Field("", alias="sourceType")
    source: NullAsEmpty = ""
    url: NullAsEmpty = Field("", alias="sourceUrl")
    base_url: NullAsEmpty = Field("", alias="sourceBaseUrl")
    skill_path: NullAsEmpty = Field("", alias="skillPath")
    ref: NullAsEmpty = ""
    pinned_ref: NullAsEmpty = Field("", alias="pinnedRef")

    def found(self, name: str, folder: str) -> OriginResult:
        """Return where it is to be had."""
        kind, source, path = self.kind, self.source, folder_of(self.skill_path)
        skills = () if self.skill_path else (name,)
        if kind in ("github", "gitlab", "git"):
            place = self.url or source
            if kind == "gitlab" and "://" not in place and "@" not in place:
                place = f"https://gitlab.com/{place}.git"
            return in_git(name, place, self.ref or self.pinned_ref, path, skills)
        if kind == "local":
            return at_path(name, source and posixpath.join(source, path), folder, skills)
        if kind == "well-known":
            return at_site(name, self.base_url or self.url or source, (name,))
        return NoOrigin(name, f"it came from {quote(kind)}, which skillhub does not install from")


class SkillsLockEntry(OtherEntry):
    """An entry of the program ``skills-lock``, whose file has the same name, and has commits."""

    resolved: NullAsEmpty = ""
    spec: NullAsEmpty = ""
    path: NullAsEmpty = ""
    commit: NullAsEmpty = ""
    ref: NullAsEmpty = ""

    def found(self, name: str, folder: str) -> OriginResult:
        """Return where it is to be had."""
        place, path = self.resolved or self.spec, folder_of(self.path)
        skills = () if "path" in self.model_fields_set else (name,)
        if place.startswith("file:"):
            return at_path(name, posixpath.join(place.removeprefix("file:"), path), folder, skills)
        return in_git(name, place, self.commit or self.ref, path, skills)


class ClawHubEntry(OtherEntry):
    """An entry of ``.clawhub/lock.json``."""

    LENIENT: ClassVar = ("version",)

    version: NullAsEmpty = ""

    def found(self, name: str, folder: str) -> OriginResult:
        """Return the reason: this lock has no origins."""
        version = f"version {quote(self.version or 'unknown')}"
        return NoOrigin(name, f"its lock says {version}, but neither its URL nor its hash")


def parse_other_lock(data: bytes, folder: str, where: str) -> OtherLock:
    """Return the skills of another installer's lock; the structure of the file shows the installer.

    Args:
        data: The file's bytes.
        folder: The absolute path of the folder for relative paths in the lock, with ``/`` between segments.
        where: The file, for errors.

    Raises:
        FormatError: the file is not a known lock. A malformed entry does not raise; it is in ``unpinned``.
    """
    data = data.removeprefix(BOM.encode())  # PowerShell and some editors write it
    if data.lstrip()[:1] != b"{":
        return _apm(data, folder, where)
    document = strict_json(data, where, CAP)
    skills = document.get("skills") if isinstance(document, dict) else None
    if isinstance(document, dict) and isinstance(document.get("sources"), dict):
        hint = "run skillhub install in the folder of the lock"
        raise FormatError("expected a lock of another installer, found skillhub's own", where=where, hint=hint)
    if not isinstance(document, dict) or not isinstance(skills, dict):
        raise _unknown(where, "an object without skills")
    name, kind = _format_of(document, skills, where)
    return OtherLock.of(name, (kind.origin(skill, block, folder) for skill, block in skills.items()))


def _apm(data: bytes, folder: str, where: str) -> OtherLock:
    try:
        document = parse(data.decode("utf-8"), where, cap=_YAML_CAP)
    except UnicodeDecodeError as error:
        raise FormatError(f"expected UTF-8, found another byte at {error.start}", where=where) from error
    except FormatError:
        if b"lockfile_version" in data:
            raise
        document = None
    version = document.get("lockfile_version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or version != "1":
        raise _unknown(where, f"lockfile_version {quote(version)}" if version else "neither JSON nor APM's YAML")
    return OtherLock.of("apm.lock.yaml 1", _apm_entries(document, folder))


def _format_of(document: _Block, skills: _Block, where: str) -> tuple[str, type[OtherEntry]]:
    """Return the name of the format and the class of its entries."""
    if document.get("lockfileVersion") == 1:
        return "skills-lock.json, lockfileVersion 1", SkillsLockEntry
    version = document.get("version")
    blocks = [block for block in skills.values() if isinstance(block, dict)]
    if version == 1 and any("version" in block and "sourceType" not in block for block in blocks):
        return ".clawhub/lock.json 1", ClawHubEntry
    if type(version) is int and version in (1, 3):
        return f"{'skills-lock.json' if version == 1 else '.skill-lock.json'} {version}", SkillsCliEntry
    raise _unknown(where, f"version {quote(version)}")


def _unknown(where: str, description: str) -> FormatError:
    return FormatError(f"expected a lock of another installer, found {description}", where=where, hint=KNOWN)
