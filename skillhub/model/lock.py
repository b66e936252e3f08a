"""``skillhub.lock``: skills, sources and signers; parsed whole or refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from operator import attrgetter, is_, not_
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Field

from skillhub.errors import FormatError, UsageError
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.formats.document import (
    DIGEST,
    Absent,
    Alias,
    Before,
    Document,
    Items,
    Members,
    ObjectId,
    Read,
    Sha256,
    SkillName,
    Visible,
    integer,
    json_bytes,
    matching,
    part,
    version_of,
    visible,
    wrong,
)
from skillhub.formats.text import clean, command, is_alias, is_inner_path, line_of_marker, packaged, quote, word
from skillhub.model.reference import Git, GitHub, Mcp, holds_secret, name_in_uri, parse_remote
from skillhub.model.version import is_version

FIX = "skillhub lock fix"  # ``Project.lock`` adds the flags of its scope
RESTORE = "restore it from version control, if that has it"
RESTORE_LOCK = f"{RESTORE}, or delete it and install again"

# A signer in the lock is written as ``<kind>:<fingerprint>:<identity>``.

SignerKind: TypeAlias = Literal["key", "certificate", "sigstore"]
_KINDS: tuple[SignerKind, ...] = ("key", "certificate", "sigstore")


@dataclass(frozen=True, slots=True)
class Signer:
    """A publisher by its key, certificate root or Sigstore identity.

    Attributes:
        fingerprint: SHA-256 of the key's SubjectPublicKeyInfo, of the root certificate's DER, or of all facts that
            identify a Sigstore identity.
        identity: The publisher's name; without one, the certificate's subject or the account.
    """

    kind: SignerKind
    fingerprint: Digest
    identity: str

    def spell(self) -> str:
        """Return the signer as text, which ``parse`` reads."""
        return f"{self.kind}:{self.fingerprint}:{self.identity}"

    @classmethod
    @lru_cache(maxsize=256)  # few publishers sign the many skills of a lock
    def parse(cls, text: str) -> Signer:
        """Return the signer in ``text``.

        Raises:
            FormatError: the text has another form, or its identity holds invisible characters.
        """
        kind, _, value = text.partition(":")
        fingerprint, identity = value[:71], value[72:]
        if kind not in _KINDS or value[71:72] != ":" or not identity or clean(identity) != identity:
            raise FormatError(f"expected <kind>:<fingerprint>:<identity>, found {quote(text)}")
        return cls(kind, Digest.parse(fingerprint), identity)

    def named(self, voucher: str | None) -> str:
        """Return the name of the signer, as ``by_word`` shows it."""
        return by_word(self.identity, voucher)

    def to_json(self, voucher: str | None = None) -> dict[str, Any]:
        """Return the signer as in ``signed_by`` of ``--json``; ``by`` is the ``voucher``, if there is one."""
        facts = {"kind": self.kind, "identity": self.identity, "fingerprint": self.fingerprint}
        return {**facts, "by": voucher} if voucher else facts


def by_word(name: str, voucher: str | None) -> str:
    """Return the name of a signer or publisher as every output and export shows it; no other function does.

    Args:
        name: The name, or a signer as the lock has it.
        voucher: The source that alone vouches for the name, shown as ``NAME by SOURCE``; None if the user configured
            that source. Callers that do not know the user's sources pass ``Locked.voucher``.
    """
    return f"{word(name)} by {voucher}" if voucher else word(name)


def shown_signers(signed_by: Iterable[str], voucher: str | None) -> str:
    """Return signers as the lock has them, with the source that vouches for them; ``nobody`` if there are none."""
    return ", ".join(by_word(signer, voucher) for signer in signed_by) or "nobody"


# The values that each key of ``skillhub.lock`` may have.

VERSION = 1
# This list is complete: a new kind of capability or need gets a new `version` of the format.
# The characters of a capability, with its kind: the scan writes none that is longer, and a policy would take long to
# judge it. The name of a host may be long in punycode.
_CAPABILITY_MAX, _HOST_MAX = 120, 1000
_CAPABILITY = re.compile(r"agents|binary|hooks|scripts|shell|(?:env|mcp|network):.+|(?:permissions|tools):.*")
_NEED = re.compile(
    r"env:[A-Za-z_][A-Za-z0-9_]{0,254}|mcp:[A-Za-z0-9_-]{1,64}|program:[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}"
    r"|skill:[a-z0-9]+(?:-[a-z0-9]+)*",
    re.ASCII,
)


def _capability(value: object) -> str:
    text = visible(value)
    if not _CAPABILITY.fullmatch(text):
        wrong("a capability", value)
    most = _HOST_MAX if text.startswith("network:") else _CAPABILITY_MAX
    if len(text) > most:
        wrong(f"a capability of at most {most} characters", value)
    return text


def _signer(value: object) -> str:
    text = visible(value)
    Signer.parse(text)
    return text


def _not_empty(value: object) -> object:
    # An absent key means unsigned: an empty list would be a second form of it.
    return wrong("a signer", value) if value == [] else value


def _url(value: object) -> str:
    text = visible(value)
    # The lock is committed to repositories: it must hold no secret.
    if holds_secret(text):
        raise FormatError("expected a URL without user, password or another credential")  # without the secret
    return text


def _path(value: object) -> str:
    text = visible(value)
    if text.startswith("~") or ".." in re.split(r"[/\\]", text):
        wrong("a path below the project, or an absolute one", value)
    return text


def _inner(value: object) -> str:
    text = visible(value)
    return text if is_inner_path(text) and ":" not in text else wrong("a path below the project", value)


def _tree_digest(value: object) -> Digest:
    tree = Digest.parse(value)
    return tree if tree != NO_FILES else wrong("a tree with files", value)


def _repository(value: object) -> str:
    text = visible(value)
    try:
        parse_remote(f"git+{text}")
    except UsageError as error:
        raise FormatError(error.message) from error
    return text


_BELOW = {"pattern": r"(^|/)\.{0,2}(/|$)|\\"}  # refused in a path inside a folder

Capability = Annotated[
    str,
    Read(
        _capability,
        type="string",
        pattern=r"^((agents|binary|hooks|scripts|shell)$|(env|mcp|network):.|(permissions|tools):)",
        maxLength=_HOST_MAX,
    ),
]
FormatVersion = Annotated[int, version_of("lock format", VERSION)]
InnerPath = Annotated[str, Read(_inner, type="string", minLength=1, **{"not": {"anyOf": [_BELOW, {"pattern": ":"}]}})]
_Need = Annotated[str, matching(_NEED, "a need, as kind:name")]
_Path = Annotated[str, Read(_path, type="string", minLength=1)]
_GitUrl = Annotated[str, Read(_repository, type="string", pattern=r"^(https?://[^/@]+/.|ssh://[^/:]+/.|file:///)")]
Signers = Annotated[
    Items[Annotated[str, Read(_signer, type="string", pattern=r"^(key|certificate|sigstore):sha256:[0-9a-f]{64}:.")]],
    Before(_not_empty),
]
Size = Annotated[int, integer("a number of bytes")]
TreeDigest = Annotated[Digest, Read(_tree_digest, **DIGEST)]
_Url = Annotated[str, Read(_url, type="string", minLength=1, **{"not": {"pattern": "^[^/?#]*://[^/?#]*@"}})]


# A skill and a source in the lock, and the check that an entry has exactly one kind of origin.

# The kinds of origin: a registry, a repository, a URL, an MCP server, this machine; and last, a site.
_KINDS_SCHEMA = "model/locked.schema.json"
ROOT_CAP = 32_000  # bytes of the `root` of a registry; a client may have to read thousands
LOCAL = "local"  # the `source` of a skill with a `path` on this machine
_PLUGIN = "?plugin="  # in a `source`, before the name of the marketplace plugin that the skill is part of
_SKILL = "skill:"  # the prefix of a need of another skill
_PLAIN = re.compile(r"(?:(?:0|[1-9][0-9]{0,8})(?:\.(?!\Z)|\Z)){3}", re.ASCII)


@part
@dataclass(frozen=True, slots=True)
class DeclaredNeed:
    """A need as the skill declares it."""

    kind: str
    name: str
    description: str
    required: bool

    def spell(self) -> str:
        """Return ``kind:name``, as in the lock."""
        return f"{self.kind}:{self.name}"


@part
@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch that a team agreed to, applied to the tree that the source offers.

    Attributes:
        base: The tree that the source offers and its publisher signed.
        digest: SHA-256 of the patch file.
        path: The path of the patch file, relative to the folder of the lock.
    """

    base: TreeDigest
    digest: Sha256
    path: InnerPath


@part
@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One skill that the team agreed to: ``tree`` pins its content, the other keys state its origin and its effects.

    With a ``patch``, ``tree``, ``capabilities`` and ``requires`` are those of the patched skill.

    A skill of a registry has ``url``, ``digest`` and ``version``, and its ``source`` is a key of ``sources``. A local
    skill has ``path``, relative to the project if inside it, and the source ``local``.

    If a skill was requested by its location, its ``source`` is that reference without the skill's name. A skill of a
    git repository has ``git``, ``rev`` and its folder as ``path``. One of an MCP server has the server's ``url`` and
    the URI of its folder as ``path``. Any other has ``url``, and ``digest`` if the site states one.

    Without ``signed_by`` the skill is unsigned. ``name`` is the skill's own name if its key is an alias.
    """

    NEEDED: ClassVar = ("capabilities", "requires")
    SCHEMA: ClassVar = _KINDS_SCHEMA

    source: Visible
    tree: TreeDigest
    size: Size
    version: Absent[Visible] = None
    url: Absent[_Url] = None
    digest: Absent[Sha256] = None
    git: Absent[_GitUrl] = None
    rev: Absent[ObjectId] = None
    path: Absent[_Path] = None
    capabilities: Items[Capability] = ()
    requires: Items[_Need] = ()
    # An unsigned skill has no such key: an empty list would be a second form of it.
    signed_by: Annotated[Signers, Field(exclude_if=not_, json_schema_extra={"minItems": 1})] = ()
    patch: Absent[Patch] = None
    name: Absent[SkillName] = None

    def own_name(self, key: str) -> str:
        """Return the name of the skill in its ``SKILL.md`` and at its source; ``key`` is its key in the lock."""
        return self.name or key

    def install_command(self, key: str, version: str | None, scope: str) -> str:
        """Return the command that installs another version of the skill from its source."""
        alias = ("--as", key) if self.name else ()
        return command(scope, "install", f"{self.source}:{self.own_name(key)}@{version}", *alias)

    @property
    def original(self) -> Locked:
        """The entry without the project's patch: the skill as its source offers it."""
        return replace(self, tree=self.patch.base, patch=None) if self.patch else self

    @property
    def local(self) -> bool:
        """Whether the skill comes from this machine, from ``path``."""
        return place_of(self.source) == LOCAL and self.path is not None

    @property
    def named(self) -> bool:
        """Whether ``source`` is an alias, which is a key of ``sources``."""
        return is_alias(self.source) and not self.local

    @property
    def voucher(self) -> str | None:
        """The source that vouches for the names of its signers, for callers that do not know the user's sources."""
        return self.source if self.named else None

    @property
    def place(self) -> str:
        """The source without the plugin."""
        return place_of(self.source)

    @property
    def plugin(self) -> str | None:
        """The plugin of a marketplace that the skill is part of."""
        return self.source.partition(_PLUGIN)[2] or None

    @property
    def dependencies(self) -> tuple[str, ...]:
        """The names of the skills that it needs."""
        return tuple(need.removeprefix(_SKILL) for need in self.requires if need.startswith(_SKILL))

    @property
    def short(self) -> str:
        """The first 12 digits of the commit or the tree, to identify a skill without a version."""
        return self.rev[:12] if self.rev else self.tree.hex[:12]

    @property
    def origin(self) -> str:
        """The location of its bytes, for a person."""
        if self.git is not None:
            return f"{self.git}@{self.rev}{'#' + self.path if self.path else ''}"
        if self.path and self.url:
            return f"{self.url}#{self.path}"
        return self.path or self.url or self.source


def place_of(source: str) -> str:
    """Return ``source`` without the plugin."""
    return source.partition(_PLUGIN)[0]


def of_plugin(source: str, plugin: str | None) -> str:
    """Return ``source`` with the plugin that the skill is part of, if there is one."""
    return f"{source}{_PLUGIN}{plugin}" if plugin else source


@part
@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSource:
    """The target of an alias when its skills were locked; ``root`` is the SHA-256 of its ``1.root.json``.

    ``kind`` is ``registry``, or ``well-known`` for a site, which has no root.
    """

    SCHEMA: ClassVar = "model/locked_source.schema.json"

    kind: Literal["registry", "well-known"]
    url: _Url
    root: Absent[Sha256] = None

    def check(self) -> None:
        """Refuse a registry without a root, and a site with one.

        Raises:
            FormatError: the source is one of these.
        """
        if (self.root is None) == (self.kind == "registry"):
            article = "a" if self.root is None else "no"
            raise FormatError(f"expected {article} root for a source of kind {self.kind}", where=".root")

    def __str__(self) -> str:
        if self.root:
            return f"{self.url} with root {self.root}"
        return f"{self.url}, {'whose root is not named' if self.kind == 'registry' else 'which is not a registry'}"


def check_origin(entry: Locked, kinds: Mapping[str, str], where: str) -> None:
    """Refuse an entry that does not have exactly the keys of one kind of origin.

    Args:
        entry: One skill of a lock.
        kinds: The kind of each source of the lock, by alias.
        where: The path of the entry, for the error.

    Raises:
        FormatError: a key is missing, not allowed, or contradicts another; ``where`` names the key.
    """
    if entry.local:
        return _check_keys(entry, (), ("git", "rev", "url"), where)
    if entry.named:
        kind = kinds.get(entry.source)
        is_site = kind == "well-known"
        _check_keys(entry, ("url",) if is_site else ("digest", "url", "version"), ("git", "path", "rev"), where)
        if kind is None:
            raise FormatError(f"{quote(entry.source)} is not in sources", where=f"{where}.source")
        return None
    return _check_place(entry, where)


def check_version(version: str, where: str) -> None:
    """Refuse a version that no release of a registry may have.

    Raises:
        FormatError: it is no version by Semantic Versioning 2.0.0.
    """
    if not _PLAIN.fullmatch(version) and not is_version(version):
        raise FormatError(f"expected a version by Semantic Versioning 2.0.0, found {quote(version)}", where=where)


def _check_place(entry: Locked, where: str) -> None:
    try:
        ref = parse_remote(entry.place)
    except UsageError as error:
        raise FormatError(error.message, where=f"{where}.source") from error
    if isinstance(ref, Mcp):
        return _check_server(entry, ref, where)
    if entry.git is None:
        return _check_keys(entry, ("url",), ("path", "rev"), where)
    _check_keys(entry, ("rev",), ("digest", "url"), where)
    # Questions show the source and policies permit it, so `git` must be the same repository; only a plugin may be in
    # another one.
    if not isinstance(ref, Git | GitHub) or not (entry.plugin or ref.is_at(entry.git)):
        raise FormatError(f"expected a URL of {quote(entry.source)}, found {quote(entry.git)}", where=f"{where}.git")
    if entry.path is not None and not is_inner_path(entry.path):
        raise FormatError(f"expected a folder of the repository, found {quote(entry.path)}", where=f"{where}.path")
    return None


def _check_server(entry: Locked, ref: Mcp, where: str) -> None:
    _check_keys(entry, ("url", "path"), ("digest", "git", "rev"), where)
    # Questions show the source, but requests go to `url` and policies permit it, so both must be the same.
    if entry.place != f"mcp+{entry.url}" or entry.plugin or ref.path:
        raise FormatError(f"expected a URL of {quote(entry.source)}, found {quote(entry.url)}", where=f"{where}.url")
    if name_in_uri(entry.path or "") is None:
        raise FormatError(f"expected the URI of a skill's folder, found {quote(entry.path)}", where=f"{where}.path")


def _check_keys(entry: Locked, needed: tuple[str, ...], unwanted: tuple[str, ...], where: str) -> None:
    for key in unwanted:
        if getattr(entry, key) is not None:
            raise FormatError(f"expected no key {key} for {quote(entry.source)}, found one", where=f"{where}.{key}")
    for key in needed:
        if getattr(entry, key) is None:
            raise FormatError(f"expected the key {key} for {quote(entry.source)}, found none", where=f"{where}.{key}")


# ``skillhub.lock``: the skills that a team agreed to; parsed whole or refused.
# Format 1 is JSON, indented by two spaces, keys sorted, one block for each skill, so that two branches that each add
# a skill merge as text. It holds no time, no secret, and no path of a store, a home or a cache.


CAP = 10 * 1024 * 1024  # bytes: 10,000 signed skills of 1 kB; parsing a hostile lock may take 350 MiB of memory
_where = attrgetter("url", "digest", "version", "rev", "path")
_is_absent = partial(is_, None)


@dataclass(frozen=True)
class Lock:
    """The whole lock."""

    skills: Mapping[str, Locked] = field(default_factory=dict)
    sources: Mapping[str, LockedSource] = field(default_factory=dict)

    @cached_property
    def dependents(self) -> Mapping[str, tuple[str, ...]]:
        """For each skill name that a locked skill needs, the skills that need it, in the order of the lock."""
        dependents: dict[str, list[str]] = {}
        for name, entry in self.skills.items():
            for needed in dict.fromkeys(entry.dependencies):
                dependents.setdefault(needed, []).append(name)
        return {name: tuple(needing) for name, needing in dependents.items()}

    def root_of(self, entry: Locked) -> Digest | None:
        """Return the root of the entry's registry at the time of the lock; None if it is not from a registry."""
        source = self.sources.get(entry.source) if entry.named else None
        return source.root if source else None

    def dump(self) -> bytes:
        """Return the file's bytes; the same lock gives the same bytes.

        Raises:
            FormatError: ``parse`` would refuse the file, so it must not be written.
        """
        file = LockFile.model_construct(version=VERSION, sources=dict(self.sources), skills=dict(self.skills))
        document = file.plain()
        LockFile.parse(document, "skillhub.lock")
        data = json_bytes(document)
        if len(data) > CAP:
            raise FormatError(f"expected a lock of at most {CAP} bytes, found {len(data)}", where="skillhub.lock")
        return data

    @classmethod
    def parse(cls, data: bytes, where: str = "skillhub.lock") -> Lock:
        """Return the lock in these bytes.

        Raises:
            FormatError: they are not a lock of this format; ``where`` names the line and the key.
        """
        file = LockFile.parse(data, where)
        return cls(dict(sorted(file.skills.items())), dict(sorted(file.sources.items())))


def _without_sites(schema: dict[str, Any]) -> None:
    """Add to the lock's schema: if every source is a registry, no skill has the keys of a site's skill."""
    *origins, _ = packaged(_KINDS_SCHEMA)["anyOf"]
    registry = {"properties": {"kind": {"const": "registry"}}}
    schema["if"] = {"properties": {"sources": {"additionalProperties": registry}}}
    schema["then"] = {"properties": {"skills": {"additionalProperties": {"anyOf": origins}}}}


class LockFile(Document):
    """The rules of the lock that JSON Schema can express.

    docs/formats/lock.md has the others: no key twice, each source is in sources, no hidden characters, the bytes.
    """

    model_config = ConfigDict(title="skillhub.lock, format 1", json_schema_extra=_without_sites)

    CAP = CAP
    NAMES_LINE = True
    UNKNOWN = "a newer skillhub may have written it"

    version: FormatVersion
    sources: Members[Alias, LockedSource]
    skills: Members[SkillName, Locked]

    @classmethod
    def read_json(cls, data: bytes, where: str) -> object:
        """Return the parsed JSON, as ``Document.read_json`` does; an error's hint tells how to restore the lock."""
        if not data.strip():
            raise FormatError("the lock is empty", where=where, hint=RESTORE_LOCK)
        try:
            return super().read_json(data, where)
        except FormatError as error:
            if line := line_of_marker(data):
                hint = f"{FIX} resolves it, skill by skill"
                raise FormatError("the lock holds a merge conflict", where=f"{where}:{line}", hint=hint) from error
            error.hint = RESTORE_LOCK
            raise

    def check(self) -> None:
        """Refuse an entry without a valid origin, one whose alias equals its key, and a bad version of a registry.

        Raises:
            FormatError: there is one.
        """
        # The values that decide about an origin: a thousand skills of one source need one check.
        seen_shapes: set[tuple[object, ...]] = set()
        kinds = {alias: source.kind for alias, source in self.sources.items()}
        for name, entry in self.skills.items():
            if entry.name == name:
                raise FormatError(f"expected no name, or another than the key {name}", where=f".skills.{name}.name")
            path = entry.path if entry.git or entry.url else None
            shape = (entry.source, entry.git, path, path and entry.url, *map(_is_absent, _where(entry)))
            if shape not in seen_shapes:
                check_origin(entry, kinds, f".skills.{name}")
                seen_shapes.add(shape)
            if entry.version is not None and entry.named and kinds[entry.source] == "registry":
                check_version(entry.version, f".skills.{name}.version")
