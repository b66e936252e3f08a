"""Publishers that a user trusts, pinned keys, vouchers for the names of signers, stored values; in ``<state>``."""

from __future__ import annotations

import getpass
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Annotated, ClassVar, TypeVar

from skillhub.disk import files
from skillhub.disk.home import Home
from skillhub.disk.proved import Stamp, stamp_of
from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.errors import FormatError, NotFound, SkillhubError, StateError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.document import NAME, Items, Members, Read, part, text_that
from skillhub.formats.json import strict_json
from skillhub.formats.text import NAME_MAX, NAME_RULE, as_command, deferred, is_name, quote
from skillhub.model.hosts import Scope
from skillhub.model.lock import Lock, Locked

# The publishers that a user trusts, and the keys pinned with installed skills; all in ``<state>``.

_KEY_CAP = 1 << 16
_PUBLISHERS_HINT = "restore the file, or move it away and trust your publishers again"
OWN_SUFFIX = ".pub.pem"
_GIT_NAME = deferred(r'^[ \t]*\[user\][^\[]*?^[ \t]*name[ \t]*=[ \t]*"?([^"\n]*)', re.MULTILINE | re.IGNORECASE)


@part
@dataclass(frozen=True, slots=True)
class _Row:
    NEEDED: ClassVar = ("keys", "certificates", "sources")  # files from before identities have these alone

    keys: Items[str] = ()
    certificates: Items[str] = ()
    sources: Items[str] = ()
    identities: Items[str] = ()


@dataclass(frozen=True, slots=True)
class Trusted(_Row):
    """A publisher that may sign skills: public keys and root certificates as PEM, and identities.

    Attributes:
        sources: The aliases to which the trust is limited; empty means every source.
    """

    name: str = field(kw_only=True)


class PublishersFile(StateDocument):
    """``publishers.json`` in the state: the publishers that may sign skills."""

    publishers: Members[str, _Row]


def _trusted(document: PublishersFile | None) -> Mapping[str, Trusted]:
    rows = {} if document is None else document.publishers
    return {name: Trusted(**asdict(row), name=name) for name, row in rows.items()}


def publisher_name(text: str) -> str:
    """Return the valid name of a publisher nearest to ``text``; empty if ``text`` has no letter or digit for it."""
    plain = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    return re.sub("[^a-z0-9]+", "-", plain)[:NAME_MAX].strip("-")


def check_publisher(name: str) -> None:
    """Raise UsageError unless the user may give a publisher this name."""
    if not is_name(name):
        raise UsageError(f"{quote(name)} cannot name a publisher", hint=NAME_RULE)


def _name_in_git() -> str:
    """Return ``user.name`` of the user's own configuration; that of a repository may have a stranger's name."""
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    for path in ("~/.gitconfig", os.path.join(folder, "git", "config")):
        with suppress(SkillhubError):
            data = files.read(os.path.realpath(os.path.expanduser(path)), _KEY_CAP) or b""
            if found := _GIT_NAME.search(data.decode("utf-8", "replace")):
                return found[1]
    return ""


def _login() -> str:
    with suppress(OSError, KeyError, ImportError):  # the system has no name for the user
        name = getpass.getuser()
        return name if name != "root" else ""  # "signed by root" would name the root of a registry
    return ""


@dataclass(frozen=True, slots=True)
class OwnKey:
    """A key of the user's own that signed a skill and that they do not trust yet: its name, its public key file."""

    name: str
    path: str

    @property
    def trusting(self) -> str:
        """The command that trusts it."""
        return as_command("skillhub", "publisher", "trust", self.name, "--key", self.path)


class Publishers:
    """The trusted publishers in ``<state>``; parsed once for a command, for any number of skills."""

    def __init__(self, home: Home) -> None:
        path = os.path.join(home.state, "publishers.json")
        self._file = StateFile(path, "the publishers of a user", _PUBLISHERS_HINT, PublishersFile, _trusted)
        self._pins = os.path.join(home.state, "signers")
        self._own = os.path.join(home.state, "keys")

    def all(self) -> Mapping[str, Trusted]:
        """Return every trusted publisher by name.

        Raises:
            StateError: the file is malformed, or cannot be read.
        """
        return self._file.read()

    def get(self, name: str) -> Trusted:
        """Return the trusted publisher with this name.

        Raises:
            NotFound: no publisher with this name is trusted.
            StateError: as for ``all``.
        """
        if name not in self.all():
            raise NotFound(f"no publisher {quote(name)} is trusted", hint="see skillhub publisher list")
        return self.all()[name]

    def own(self, claim: Digest) -> str | None:
        """Return the file with this digest among the public halves of the user's own keys; None if there is none."""
        names = (name for name in files.names_in(self._own) if name.endswith(OWN_SUFFIX))
        halves = (os.path.join(self._own, name) for name in names)
        return next((path for path in halves if Digest.of(self.read_own(path).encode()) == claim), None)

    def read_own(self, path: str) -> str:
        """Return the PEM text of a public half that ``own`` returned."""
        return (files.read(path, _KEY_CAP) or b"").decode("utf-8", "replace")

    def name_of_user(self) -> str:
        """Return a name for the user as a publisher: from git or the system, but of no trusted one; else ``me``."""
        for name in filter(None, map(publisher_name, (_name_in_git(), _login()))):
            if name not in self.all():
                return name
        return "me"

    def trust(self, added: Trusted) -> Trusted:
        """Trust a publisher, or add keys, roots, identities or sources to a trusted one; return it as it is now.

        Raises:
            UsageError: the name is invalid.
        """
        check_publisher(added.name)
        with self._file.locked():
            publishers = self.all()
            old = publishers.get(added.name, replace(added, keys=(), certificates=(), identities=()))
            # A later call with sources does not limit trust for every source; a call without sources extends it to
            # every source.
            everywhere = not added.sources or not old.sources
            merged = Trusted(
                tuple(dict.fromkeys(old.keys + added.keys)),
                tuple(dict.fromkeys(old.certificates + added.certificates)),
                () if everywhere else tuple(dict.fromkeys(old.sources + added.sources)),
                tuple(dict.fromkeys(old.identities + added.identities)),
                name=added.name,
            )
            self._write({**publishers, merged.name: merged})
        return merged

    def remove(self, name: str) -> Trusted:
        """Remove the trust in a publisher, and return the publisher.

        Raises:
            NotFound: no publisher with this name is trusted.
        """
        with self._file.locked():
            publisher = self.get(name)
            self._write({kept: one for kept, one in self.all().items() if kept != name})
        return publisher

    def pin(self, proven: Digest, pem: str) -> None:
        """Store the key, root or identity that signed an installed skill, to verify the signature again offline.

        Args:
            proven: The digest of the signed content and its origin; the key is trusted for nothing else.
            pem: The key or root as PEM, or the text of the identity.
        """
        if self.pinned(proven) is None:
            files.write_atomic(self.pin_path(proven), pem.encode(), mode=0o600, sync=False)

    def pin_path(self, proven: Digest) -> str:
        """Return the path of the file that is pinned for ``proven``."""
        return os.path.join(self._pins, f"{proven.hex}.pem")

    def pinned(self, proven: Digest) -> str | None:
        """Return the text that is pinned for ``proven``; None if there is none, or a power cut has torn the file."""
        data = files.read(self.pin_path(proven), 1 << 16)
        return data.decode("ascii", "replace") if data and b"\0" not in data else None

    def _write(self, publishers: Mapping[str, Trusted]) -> None:
        self._file.write(publishers=dict(sorted(publishers.items())))


# The registry that vouches for the name of a signer: one of the user's, or one that only a project names.
# These functions are for output: they load little, since ``list`` calls them, and an unreadable file counts as empty.

# In ``<state>``; ``sources/configured.py`` writes them.
FILE, AGREED_FILE = "sources.json", "project-sources.json"
EMBEDDED = "embedded:"
_CAP = 16 << 20
_T = TypeVar("_T")
_PACKAGED = os.path.join(os.path.dirname(__file__), os.pardir, "embedded", "metadata", "1.root.json")


def voucher(entry: Locked, lock: Lock, home: Home) -> str | None:
    """Return the registry that alone vouches for the names of an entry's signers; None if it is one of the user's.

    Args:
        entry: An entry of the lock, or one to be added.
        lock: The lock, for the kinds and roots of sources.
        home: The folders of the user.
    """
    if not (entry.signed_by and entry.named):
        return None
    locked, roots = lock.sources.get(entry.source), own_roots(home)
    if locked is None:
        return None if entry.source in roots else entry.source
    return None if locked.root is None or roots.get(entry.source) == locked.root else entry.source


def own_roots(home: Home) -> Mapping[str, str | None]:
    """Return the root of each of the user's sources by alias."""
    if not os.path.lexists(os.path.join(home.state, FILE)):
        return {"github": _packaged()}
    rows = _member(_state_document(home, FILE), "sources", dict).items()
    found = {alias: row for alias, row in rows if isinstance(row, dict)}
    return {alias: _packaged() if row.get("url") == EMBEDDED else row.get("root") for alias, row in found.items()}


def advising_roots(home: Home, project: str) -> Mapping[str, str | None]:
    """Return the root of each source by alias: the user's own, and those agreed to for the project with this key."""
    agreed = _agreed_rows(home, project).items()
    return {**{alias: _member(row, "root", str) for alias, row in agreed}, **own_roots(home)}


def places_by_alias(home: Home, project: str) -> Mapping[str, Collection[str]]:
    """Return the URL and the root that each alias names in a project, whatever its lock and intent say now.

    They are those of the user's source; without one, of the source agreed to for the project; without both, of each
    former source. ``project`` is the ``key`` of a ``Project``.
    """
    mine, agreed = _state_document(home, FILE), _state_document(home, AGREED_FILE)
    former = *_member(mine, "former", list), *_member(_member(agreed, "former", dict), project, list)
    found: dict[str, set[str | None]] = {}
    for pair in former:
        if isinstance(pair, list) and len(pair) == 2:
            found.setdefault(str(pair[0]), set()).add(str(pair[1]))
    rows = {**_agreed_rows(home, project), **_member(mine, "sources", dict)}
    found |= {alias: {_member(row, "root", str), _member(row, "url", str)} for alias, row in rows.items()}
    for alias, root in own_roots(home).items():
        found.setdefault(alias, set()).add(root)  # that of the registry in the package is in no file
    return {alias: [*filter(None, places)] for alias, places in found.items()}


def _agreed_rows(home: Home, project: str) -> Mapping[str, object]:
    return _member(_member(_state_document(home, AGREED_FILE), "projects", dict), project, dict)


def _state_document(home: Home, name: str) -> object:
    path = os.path.join(home.state, name)
    with suppress(OSError):
        return _parsed(path, stamp_of(os.lstat(path)))
    return None


@lru_cache(maxsize=4)
def _parsed(path: str, stamp: Stamp) -> object:
    with suppress(FormatError, StateError):
        return strict_json(files.read(path, _CAP) or b"{}", path, _CAP)
    return None


def _member(document: object, key: str, kind: type[_T]) -> _T:
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, kind) else kind()


@lru_cache(maxsize=1)
def _packaged() -> str | None:
    return Digest.of(data) if (data := files.read(_PACKAGED, _CAP)) is not None else None


_Skill = Annotated[str, Read(text_that(is_name, "a skill"), **NAME)]
_SECRETS_HINT = "move the file away, and set the values again with skillhub env set"


@part
@dataclass(frozen=True, slots=True)
class Secret:
    """The facts about a stored value, without the value.

    Attributes:
        key: The ``key`` of the project, or of the user scope.
        project: The folder of the project, for a person.
        name: The variable.
        skills: The skills of that project that may have the value, sorted; empty until a person agrees to one.
    """

    NEEDED: ClassVar = ("skills",)

    key: str
    scope: Scope
    project: str
    name: str
    skills: Items[_Skill] = ()


class SecretsFile(StateDocument):
    """``secrets.json`` in the state: the variables with a value in the keyring, and the skills that may have it."""

    secrets: Items[Secret]


class SecretIndex:
    """The index of the values that a user has stored.

    Args:
        state: The ``state`` folder of a ``Home``.
    """

    def __init__(self, state: str) -> None:
        path, what = os.path.join(state, "secrets.json"), "the list of values that a user has stored"
        self._file = StateFile(path, what, _SECRETS_HINT, SecretsFile, lambda found: found.secrets if found else ())

    def all(self) -> tuple[Secret, ...]:
        """Return every entry, sorted by project and name.

        Raises:
            StateError: the file is malformed, or cannot be read.
        """
        return self._file.read()

    def find(self, key: str, name: str) -> Secret | None:
        """Return the entry of this variable in this project, if there is one; raises as ``all``."""
        return next((each for each in self.all() if (each.key, each.name) == (key, name)), None)

    def names_for(self, key: str, skill: str) -> frozenset[str]:
        """Return the variables whose stored values this skill of this project may have; raises as ``all``."""
        return frozenset(each.name for each in self.all() if each.key == key and skill in each.skills)

    def put(self, secret: Secret) -> None:
        """Add an entry, or replace that of the same variable in the same project; raises as ``leave``."""
        self._change(lambda known: (*(each for each in known if not _same(each, secret)), secret))

    def drop(self, secret: Secret) -> None:
        """Remove the entry of this variable in this project; raises as ``leave``."""
        self._change(lambda known: tuple(each for each in known if not _same(each, secret)))

    def leave(self, key: str, skills: Collection[str]) -> None:
        """Withdraw all values from removed skills of a project: a later skill may have the same name.

        Raises:
            StateError: the file is malformed, or cannot be read or written.
        """
        if any(self.names_for(key, skill) for skill in skills):
            self._change(lambda known: tuple(_without(each, key, skills) for each in known))

    def _change(self, change: Callable[[tuple[Secret, ...]], tuple[Secret, ...]]) -> None:
        with self._file.locked():
            rows = sorted(change(self.all()), key=lambda each: (each.scope, each.project, each.key, each.name))
            self._file.write(secrets=tuple(rows))


def _same(one: Secret, other: Secret) -> bool:
    return (one.key, one.name) == (other.key, other.name)


def _without(secret: Secret, key: str, skills: Collection[str]) -> Secret:
    if secret.key != key:
        return secret
    return replace(secret, skills=tuple(each for each in secret.skills if each not in skills))
