"""What a person asks for: a skill of a source by name, something local, or a place on the network."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from skillhub.errors import UsageError
from skillhub.model.text import RESERVED_ALIASES, clean, is_alias, is_inner_path, is_name, quote
from skillhub.model.url import NO_SECRET, PORTS, holds_secret, masked

# Patterns are compiled when they are first matched, for `list` has no use for most of them.
_LOCAL = r"(?a)(?:\.{1,2}(?:[/\\]|$)|[/\\~]|[A-Za-z]:[/\\])"
# What a range is made of; whether it is one is seen when it is put to use, for that takes a slower import.
_RANGE = r"(?a)[0-9A-Za-z.*^~<>=!,+ -]{1,256}"
# Neither an option of git nor one of its expressions (`a..b`, `a^{}`): a branch, a tag or a commit.
_REV = r"(?a)(?!.*(?:\.\.|//))[A-Za-z0-9_][A-Za-z0-9._/+-]{0,254}"
_GIT = r"(?s)git\+((?:https?|ssh|file)://(?:[^/@#]*@)?[^@#]*)(?:@([^#]*))?(?:#(.*))?"
# Labels of 1 to 63 characters (RFC 1035); what is longer, or empty, no resolver looks up.
_NAME = r"[A-Za-z0-9][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63})*\.?"
_HOST = rf"(?:{_NAME}|\[[0-9A-Fa-f:.]+\])(?::\d{{1,5}})?"
_GIT_URL = (
    rf"(?a)(?:https?://{_HOST}|ssh://(?:[A-Za-z0-9._][A-Za-z0-9._-]*@)?{_HOST})(?:/[A-Za-z0-9._~!$&'()*+,;=:%-]*)+"
    r"|file:///[^@#?\\]*"
)
_SPELLED = (
    r"(?as)((?:git\+)?)(https?|ssh|file)://((?:[^/@]*@)?)([^/:@\[]*|\[[^\]]*\])(?::(\d{1,5}))?"
    r"((?:/[^@?#]*)?)((?:[@?#].*)?)"
)
_SITE_URL = rf"(?a)https?://{_HOST}(?:[/?][A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
_GITHUB = r"(?s)([A-Za-z0-9][A-Za-z0-9-]{0,38})/([A-Za-z0-9._-]{1,100})((?:/[^@]*)?)(?:@(.*))?"
_GITHUB_WEB = r"https://(?:www\.)?github\.com/([^/]+)/([^/@#?]+?)(?:\.git)?(?:/(?:tree|blob)/([^/#?]+)((?:/[^#?]*)?))?/?"
_OCI = (
    rf"(?a)oci://({_HOST}(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)+)(?::([A-Za-z0-9_][A-Za-z0-9._-]{{0,127}}))?"
    r"(?:@(sha256:[0-9a-f]{64}))?"
)
_GRAMMAR = "github:gh-fix-ci, gh-fix-ci@^1.2, owner/repo, https://host, ./folder or ./skill.zip"


@dataclass(frozen=True, slots=True)
class Named:
    """A skill of a configured source (``source`` is None: of whichever has it), within a version range."""

    name: str
    source: str | None = None
    range: str | None = None

    def __str__(self) -> str:
        alias = f"{self.source}:" if self.source else ""
        return f"{alias}{self.name}{'@' + self.range if self.range else ''}"


@dataclass(frozen=True, slots=True)
class Local:
    """A folder or an archive on this machine, the path as the person wrote it."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Git:
    """A git repository anywhere, at a branch, tag or commit; ``path`` is a folder in it."""

    url: str
    rev: str | None = None
    path: str | None = None

    @property
    def place(self) -> str:
        """The repository, whatever the revision."""
        return f"git+{self.url}"

    @property
    def source(self) -> str:
        """What the lock has as the source: the repository, and the revision that was asked for."""
        return f"{self.place}{'@' + self.rev if self.rev else ''}"

    def is_at(self, url: str) -> bool:
        """Say whether ``url`` is the repository's."""
        return url == self.url

    def __str__(self) -> str:
        return f"{self.source}{'#' + self.path if self.path else ''}"


@dataclass(frozen=True, slots=True)
class GitHub:
    """A repository on GitHub, at a branch, tag or commit; ``path`` is a folder in it."""

    owner: str
    repo: str
    rev: str | None = None
    path: str | None = None

    @property
    def place(self) -> str:
        """The repository, whatever the revision."""
        return f"github:{self.owner}/{self.repo}"

    @property
    def source(self) -> str:
        """What the lock has as the source: the repository, and the revision that was asked for."""
        return f"{self.place}{'@' + self.rev if self.rev else ''}"

    def is_at(self, url: str) -> bool:
        """Say whether ``url`` may be the repository's: on which server, a company says by its environment."""
        return url.removesuffix(".git").lower().endswith(f"/{self.owner}/{self.repo}".lower())

    def __str__(self) -> str:
        path = f"/{self.path}" if self.path else ""
        return f"{self.place}{path}{'@' + self.rev if self.rev else ''}"


@dataclass(frozen=True, slots=True)
class Site:
    """A URL: of a well-known skills site, an ``index.json``, an archive or one ``SKILL.md``."""

    url: str

    @property
    def place(self) -> str:
        """The URL."""
        return self.url

    source = place

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, slots=True)
class Oci:
    """An artifact in an OCI registry; ``repository`` begins with the registry's host."""

    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def place(self) -> str:
        """The repository, whatever the tag."""
        return f"oci://{self.repository}"

    @property
    def source(self) -> str:
        """What the lock has as the source: the repository, and the tag or digest that was asked for."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.place}{tag}{'@' + self.digest if self.digest else ''}"

    def __str__(self) -> str:
        return self.source


Remote = Git | GitHub | Site | Oci
Ref = Named | Local | Remote


def is_range(text: str) -> bool:
    """Say whether ``text`` is made of what version ranges are made of."""
    return not text.isspace() and re.fullmatch(_RANGE, text) is not None


def is_rev(text: str) -> bool:
    """Say whether ``text`` may be a branch, a tag or a commit: it is no option and no expression of git's."""
    return re.fullmatch(_REV, text) is not None


def parse_ref(text: str) -> Ref:
    """Return what ``text`` refers to; it is only parsed, nothing is looked up.

    Raises:
        UsageError: it is no reference.
    """
    if clean(text) != text:
        raise UsageError(f"expected a reference without hidden characters, found {quote(text)}")
    if re.match(_LOCAL, text):
        return Local(text)
    if "://" in text:
        if holds_secret(text):
            message = (
                f"expected a reference without password or another credential, found {quote(masked(text))}"
            )
            raise UsageError(message, hint=NO_SECRET)
        return _remote(text)
    head, _, version = text.partition("@")
    alias, colon, name = head.rpartition(":")
    if "/" in head and alias in ("", "github"):
        return _github(text.removeprefix("github:"), text)
    if "/" in head or alias in RESERVED_ALIASES:
        raise _unknown(text, "any git repository is git+https://host/repository@rev#folder")
    if (colon and not is_alias(alias)) or not is_name(name) or ("@" in text and not is_range(version)):
        raise _unknown(
            text, "a name is of a-z, 0-9 and single hyphens, 64 at most; put ./ before a folder or an archive"
        )
    return Named(name, alias or None, version.strip() or None)


@lru_cache(maxsize=256)  # the skills of one place name it each for itself
def parse_remote(text: str) -> Remote:
    """Return the place on the network that ``text`` refers to.

    Raises:
        UsageError: it refers to none.
    """
    ref = parse_ref(text)
    if isinstance(ref, Named | Local):
        raise UsageError(f"expected a place on the network, found {quote(text)}")
    return ref


def repository(url: str) -> Git | GitHub:
    """Return the reference to the repository at a URL, as the lock has it in ``git``."""
    found = re.fullmatch(_GITHUB_WEB, url)
    return GitHub(found[1], found[2]) if found else Git(url)


def canonical(place: str) -> str:
    """Return one spelling of a repository's URL, or of a ``source`` that names one, to compare it by.

    No server tells the spellings apart: the case of a host, its default port, a slash at the end. Some do with the
    case of a path, and with ``.git``.
    """
    found = re.fullmatch(_SPELLED, place)
    if found is None:
        return place
    git, scheme, user, host, port, path, rest = found.groups()
    kept = f":{port}" if port and int(port) != PORTS[scheme] else ""
    return f"{git}{scheme}://{user}{host.lower()}{kept}{path.removesuffix('/')}{rest}"


def _unknown(text: str, hint: str) -> UsageError:
    # What stands before the host may be a password, and errors end in logs.
    return UsageError(f"expected a reference such as {_GRAMMAR}, found {quote(masked(text))}", hint=hint)


def _remote(text: str) -> Remote:
    if text.startswith("git+"):
        return _git(text)
    if text.startswith("oci://"):
        found = re.fullmatch(_OCI, text)
        if found is None:
            raise _unknown(text, "oci://registry/repository:tag, or @sha256: and 64 hex digits")
        return Oci(*found.groups())
    if not text.startswith(("https://", "http://")):
        raise _unknown(
            text, "git+ssh://git@host/repository for git over ssh; ./ before what is on this machine"
        )
    if found := re.fullmatch(_GITHUB_WEB, text):
        owner, repo, rev, path = found.groups()
        return _github(f"{owner}/{repo}{path or ''}{'@' + rev if rev else ''}", text)
    if not re.fullmatch(_SITE_URL, text):
        raise _unknown(text, "a URL names no user and no password, and has no blanks and no #")
    return Git(text) if text.endswith(".git") else Site(text)


def _git(text: str) -> Git:
    found = re.fullmatch(_GIT, text)
    url, rev, path = found.groups() if found else ("", None, None)
    if not re.fullmatch(_GIT_URL, url):
        raise _unknown(
            text, "git+https://, git+ssh:// or git+file://, then @rev and #folder; it names no password"
        )
    return Git(url, _checked_rev(rev, text), _checked_path(path, text))


def _github(body: str, text: str) -> GitHub:
    found = re.fullmatch(_GITHUB, body)
    if found is None or found[2] in (".", ".."):
        raise _unknown(
            text, "a repository on GitHub is owner/repo, then /folder and @rev; put ./ before a folder"
        )
    owner, repo, path, rev = found.groups()
    return GitHub(owner, repo, _checked_rev(rev, text), _checked_path(path.strip("/") or None, text))


def _checked_rev(rev: str | None, text: str) -> str | None:
    if rev is not None and not is_rev(rev):
        raise _unknown(text, "what follows @ is a branch, a tag or a commit")
    return rev


def _checked_path(path: str | None, text: str) -> str | None:
    path = path.strip("/") if path else None
    if path and not is_inner_path(path):
        raise _unknown(text, "the folder in a repository has no . and no .. in its path")
    return path or None
