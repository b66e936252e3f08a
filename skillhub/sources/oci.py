"""An artifact in an OCI registry, as a place: login, manifests, blobs (OCI distribution 1.1)."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, ClassVar, Final, TypeAlias
from urllib.parse import urlencode

from pydantic import Field

from skillhub.archive.limits import Limits
from skillhub.archive.unpack import unpack
from skillhub.disk import files
from skillhub.disk.home import user_home
from skillhub.errors import FormatError, NotFound, SourceError, StateError, UnsafeArchive, UsageError, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.document import ForeignDocument, Items, Sha256, few
from skillhub.formats.json import strict_json
from skillhub.formats.text import is_name, quote
from skillhub.model.discovery import LISTING_CAP, parse_listing
from skillhub.model.index import Index, Release
from skillhub.model.manifest import glance
from skillhub.model.reference import Oci, parse_ref
from skillhub.model.tree import SKILL_MD, ArchiveKind, Unpacked, kind_of
from skillhub.net.fetch import Requester, RequestOptions, Response, Web, is_limited, whole
from skillhub.net.target import RequestTarget
from skillhub.sources.layout import name_of_folder

# Logins for OCI registries, as ``docker login`` and similar tools store them.

_CAP = 4 * 1024 * 1024
_HUB_HOST = "registry-1.docker.io"
_HUB_LOGIN = "https://index.docker.io/v1/"
# Whether the user trusts the host of a URL, as ``Settings.trusts``.
Trusts: TypeAlias = Callable[[str], bool]
# Registries whose logins another host of the same operator takes.
_LOGIN_HOSTS = {
    f"https://{_HUB_HOST}:443": "https://auth.docker.io:443",
    "https://registry.gitlab.com:443": "https://gitlab.com:443",
}


class DockerConfig(ForeignDocument):
    """Docker's ``config.json``; each login is parsed when it is needed."""

    auths: dict[str, object] = Field(default_factory=dict)


class _Login(ForeignDocument):
    auth: str = ""


def kept_login(host: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return user and password for a registry, if ``docker login`` stored them unencrypted.

    Args:
        host: The host of the registry, with its port if it has one.
        environ: The environment, in which ``DOCKER_CONFIG`` may name the folder of the logins.

    Raises:
        FormatError: the file or the login is malformed.
        StateError: the file cannot be read.
    """
    try:
        folder = environ.get("DOCKER_CONFIG") or os.path.join(user_home(), ".docker")
    except StateError:  # without a home folder there is no login
        return None
    path = os.path.join(os.path.realpath(folder), "config.json")
    data = files.read(path, _CAP)
    document = strict_json(data, path, _CAP) if data else None
    # A value that is no object is ignored: an error would show it, and it may be a password.
    if not isinstance(document, dict):
        return None
    login = DockerConfig.parse(document, path).auths.get(_HUB_LOGIN if host == _HUB_HOST else host)
    packed = _Login.parse(login, path).auth if isinstance(login, dict) else ""
    if not packed:
        return None
    try:
        user, _, password = base64.b64decode(packed, validate=True).decode().partition(":")
    except ValueError as error:
        # The error does not show the value, which may be a password.
        raise FormatError("expected a login in base64", where=path) from error
    return user, password


def is_login_host(registry: str, asker: str) -> bool:
    """Return whether ``asker``, a URL that the registry names, is on its own host or on its known login host.

    The login for the registry may also be sent to a host that the user trusts. The user's credentials for that host
    are never sent to it: the registry, which named the host, would get the token that it gives for them.

    Raises:
        UnsafeTransfer: one of them is no http or https URL.
    """
    own, realm = RequestTarget.parse(registry).origin, RequestTarget.parse(asker).origin
    return realm in (own, _LOGIN_HOSTS.get(own))


def login_not_sent(host: str, asker: str) -> str:
    """Return the hint for a refusal after the login for ``host`` was kept from ``asker``."""
    remedy = "if that host is yours, add it to trusted-hosts in config.toml"
    return f"your login was not sent: {host} asks for it at {quote(asker)}, another host; {remedy}"


# The manifest of an artifact (OCI image specification 1.1), and the layer of it that is the skill.
# Three layouts are read. ToolHive: one image per platform, all with the same single layer, a ``tar.gz``. skr, and any
# pushed archive: one layer, a ``tar.gz`` or zip by its media type or title. skillhub: the site of a whole registry,
# one layer per file, whose title is the path.

REGISTRY_SITE: Final = "application/vnd.skillhub.registry.v1"
TITLE: Final = "org.opencontainers.image.title"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
MANIFEST_CAP: Final = 4 * 1024 * 1024  # bytes; the usual limit of registries
ACCEPTED: Final = (
    MANIFEST,
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_NAME = "dev.toolhive.skills.name"
_SIZE_MAX = (1 << 40) - 1


class Blob(ForeignDocument):
    """A descriptor: the digest, the size and the media type of a blob."""

    LENIENT: ClassVar = ("annotations",)

    digest: Sha256
    size: Annotated[int, Field(strict=True, ge=0, le=_SIZE_MAX)]
    media_type: str = Field("", alias="mediaType")
    annotations: dict[str, str] = Field(default_factory=dict)

    @property
    def title(self) -> str:
        """The path of the file that was pushed; empty if there was none."""
        return self.annotations.get(TITLE, "")

    @property
    def kind(self) -> ArchiveKind | None:
        """The kind of archive, by the media type, else by the title."""
        return kind_of(self.title, self.media_type)


class OciManifest(ForeignDocument):
    """The manifest of one artifact, whose type decides how the layers are read."""

    LENIENT: ClassVar = ("annotations",)

    config: Blob
    layers: Items[Blob]
    artifact_type: str = Field("", alias="artifactType")
    annotations: dict[str, str] = Field(default_factory=dict)

    @property
    def name(self) -> str | None:
        """The name of the skill in ToolHive's annotation; None if there is no valid one."""
        name = self.annotations.get(_NAME, "")
        return name if is_name(name) else None

    @property
    def is_site(self) -> bool:
        """Whether the artifact is the site of a skillhub registry."""
        return self.artifact_type == REGISTRY_SITE

    def skill(self, where: str) -> Blob:
        """Return the layer that is the skill.

        Raises:
            FormatError: there is not exactly one layer, or it is no archive.
        """
        if len(self.layers) != 1 or self.layers[0].kind is None:
            found = ", ".join(quote(each.media_type, 60) for each in self.layers[:3]) or "none"
            message = f"expected one layer, a zip or tar.gz, found {len(self.layers)}: {found}"
            raise FormatError(message, where=where, hint="expected a skill as ToolHive, skr or skillhub push it")
        return self.layers[0]


class OciIndex(ForeignDocument):
    """An image index: the manifests for several platforms."""

    manifests: Items[Blob]


def read_image(data: bytes, where: str) -> OciManifest | Blob:
    """Return a manifest; of an image index the descriptor of the first one, since all have the same layers.

    Raises:
        FormatError: the document is neither.
    """
    document = strict_json(data, where, MANIFEST_CAP)
    if not isinstance(document, dict) or "manifests" not in document:
        return OciManifest.parse(document, where)
    if "layers" in document:  # a reviewer's program may read the one, and we the other, under the same digest
        raise FormatError("expected layers or manifests, found both", where=where)
    if images := OciIndex.parse(document, where).manifests:
        return images[0]
    raise FormatError("expected a manifest for some platform, found none", where=f"{where}: manifests")


# The manifests and blobs of one repository of an OCI registry, each hashed, with a login if the registry asks for it.

_HUB = {"docker.io": _HUB_HOST, "index.docker.io": _HUB_HOST}
_TOKEN_CAP = 256 * 1024
# RFC 9110, 11.6.1: a scheme, then parameters; no known registry sends two schemes in one field.
_PARAMETER = re.compile(r'\b([A-Za-z_]+)="([^"\\]*)"', re.ASCII)
_HINT = "log in with docker or oras, or name a token for this host in config.toml"


def registry_host(name: str) -> str:
    """Return the host of the registry of this name; the names of Docker Hub are not those of its registry."""
    return _HUB.get(name, name)


def refused_access(status: int, headers: Mapping[str, str]) -> str | None:
    """Return the message about an answer that refuses access, whether or not a login was sent; None for another."""
    is_refusal = status in (401, 403) and not is_limited(status, headers)
    return f"the registry refuses access: it answered {status}" if is_refusal else None


class OciWire:
    """A client of one repository; it uses plain http only on this machine.

    Args:
        repository: The host of the registry, a slash, and the name of the repository.
        web: Sends the requests.
        environ: The environment, as for ``kept_login``; None if no login may be sent.
    """

    def __init__(self, repository: str, web: Web, environ: Mapping[str, str] | None, trusts: Trusts) -> None:
        host, _, name = repository.partition("/")
        self._host = registry_host(host)
        self._name = f"library/{name}" if host in _HUB and "/" not in name else name
        self._base = f"{'http' if RequestTarget.parse(f'http://{host}').loopback else 'https'}://{self._host}/v2/"
        self._web, self._environ, self._trusts = web, environ, trusts
        self._authorization: str | None = None
        self._hint = _HINT

    def manifest(self, tag_or_digest: str, accepted: Sequence[str]) -> bytes:
        """Return the bytes of a manifest, which have the digest if ``tag_or_digest`` is one.

        Raises:
            NotFound: there is no such manifest.
            SourceError: the registry cannot be reached, or refuses access.
            WrongBytes: the answer has another digest.
        """
        data = self._get(f"manifests/{tag_or_digest}", MANIFEST_CAP, {"Accept": ", ".join(accepted)})
        return self._checked(data, tag_or_digest) if tag_or_digest.startswith("sha256:") else data

    def blob(self, blob: Blob, cap: int) -> bytes:
        """Return the bytes of a layer or configuration, which have its digest.

        Raises:
            NotFound, SourceError: as for ``manifest``.
            WrongBytes: the answer has another digest or size, or exceeds ``cap``.
        """
        data = self._checked(self._get(f"blobs/{blob.digest}", min(cap, blob.size), {}), blob.digest)
        if len(data) != blob.size:
            raise WrongBytes(f"expected {blob.size} bytes, found {len(data)}", where=blob.digest)
        return data

    def _checked(self, data: bytes, digest: str) -> bytes:
        if (found := Digest.of(data)) != digest:
            raise WrongBytes(f"expected {digest}, found {found}", where=self._name)
        return data

    def _get(self, path: str, cap: int, headers: Mapping[str, str]) -> bytes:
        url = f"{self._base}{self._name}/{path}"
        answer = self._ask(url, cap, headers)
        if answer.status == 401:
            self._authorization = self._authorization_for(answer.headers.get("www-authenticate", ""), url)
            answer = self._ask(url, cap, headers)
        if (message := refused_access(answer.status, answer.headers)) is not None:
            raise SourceError(message, where=url, hint=self._hint)
        return whole(answer).data

    def _ask(self, url: str, cap: int, headers: Mapping[str, str]) -> Response:
        known = {"Authorization": self._authorization} if self._authorization else {}
        return self._web.ask(url, cap=cap, options=RequestOptions(headers={**headers, **known}))

    def _authorization_for(self, challenge: str, url: str) -> str | None:
        """Return the ``Authorization`` for a challenge: the login, if there is one, or a token from the realm."""
        scheme, _, rest = challenge.partition(" ")
        login = self._login()
        if scheme.lower() == "basic":
            return login
        if scheme.lower() != "bearer":
            raise SourceError("the registry asks for a login of an unsupported kind", where=url)
        parameters = dict(_PARAMETER.findall(rest))
        query_fields = {"service": parameters.get("service", ""), "scope": f"repository:{self._name}:pull"}
        realm = parameters.get("realm", "")
        is_own = is_login_host(self._base, realm)
        if login and not (is_own or self._trusts(realm)):
            login = None
            self._hint = login_not_sent(self._host, realm)
        query = urlencode({key: value for key, value in query_fields.items() if value})
        answer = self._web.ask(
            f"{realm}{'&' if '?' in realm else '?'}{query}",
            cap=_TOKEN_CAP,
            options=RequestOptions(
                named_by=Requester("site", self._base),
                # The registry gets the token, so another host that issues it must not know the user: an empty
                # field keeps the client from adding the user's credentials for that host.
                headers={"Authorization": login or ""} if login or not is_own else {},
            ),
        )
        if answer.status in (401, 403):
            raise SourceError("the registry needs a login", where=self._host, hint=self._hint)
        match strict_json(whole(answer).data, self._host, _TOKEN_CAP):
            case {"token": str(token)} | {"access_token": str(token)} if token.isascii() and token.isprintable():
                return f"Bearer {token}"
        raise FormatError("expected a token, found none", where=self._host)

    def _login(self) -> str | None:
        login = None if self._environ is None else kept_login(self._host, self._environ)
        return "Basic " + base64.b64encode(":".join(login).encode()).decode() if login else None


# An artifact as a place (OCI distribution specification 1.1, "Pull").
# A tag or digest names the manifest; the digest of the manifest pins it and all blobs below it. Each answer is
# hashed against the descriptor that names it, so that the registry can withhold a blob, but not replace it.

_LISTING = ".well-known/agent-skills/index.json"
_LAYER_CAP = Limits().total + (1 << 20)
_LATEST = "latest"
_DEPTH = 2  # an image index, and a manifest in it


class Artifact:
    """A place: the skill of an artifact, or the skills of a registry's site that was pushed as an artifact.

    Args:
        ref: The artifact; without tag and digest it is ``latest``. No request is sent yet.
        web: Sends the requests.
        environ: The environment, as for ``kept_login``; None if no login may be sent.
        trusts: Whether the user trusts the host of a URL, which may then get the login for the registry.
    """

    def __init__(self, ref: Oci, web: Web, environ: Mapping[str, str] | None, trusts: Trusts) -> None:
        self._ref = ref
        self._wire = OciWire(ref.repository, web, environ, trusts)
        self._images: dict[str, tuple[Digest, OciManifest]] = {}
        self._unpacked: dict[tuple[str, Digest], Unpacked] = {}

    def index(self, words: Collection[str] | None = None) -> Index:
        """Return the skills of the artifact.

        Raises:
            NotFound: there is no such artifact.
            SourceError: the registry cannot be reached, or refuses access.
            WrongBytes: an answer has another digest than the one that names it.
            UnsafeArchive: the skill holds what no skill may hold.
            FormatError: the manifest is malformed, or its layout is not that of a skill.
        """
        return self._index

    @cached_property
    def _index(self) -> Index:
        pin, image = self._image(self._ref.digest or self._ref.tag or _LATEST)
        url = f"{self._ref.place}@{pin}"
        if image.is_site:
            return self._site(url, image)
        layer = image.skill(url)
        self._wire.blob(image.config, MANIFEST_CAP)
        self._unpacked[url, layer.digest] = unpacked = self._layer(layer, url)
        head = glance(unpacked.tree[SKILL_MD].data)
        name = image.name or head.name or name_of_folder(self._ref.repository)
        release = Release(name=name, url=url, digest=layer.digest, size=layer.size, description=head.description)
        return Index({name: (release,)}, warnings=image.warnings())

    def committed(self, release: Release) -> None:
        """Return None, since these files are in no commit."""

    def unpacked(self, release: Release) -> Unpacked:
        """Return the skill of a release of ``index``, or of one built from a lock.

        Raises:
            UsageError: the URL of the release is not this repository with a digest.
            NotFound, SourceError, WrongBytes, UnsafeArchive, FormatError: as for ``index``.
        """
        if release.digest is None:
            raise FormatError("expected the digest of a layer, found none", where=release.url)
        if known := self._unpacked.get((release.url, release.digest)):
            return known
        ref = parse_ref(release.url)
        if not isinstance(ref, Oci) or ref.digest is None or ref.repository != self._ref.repository:
            message = f"expected {self._ref.place}@sha256:…, found {quote(release.url)}"
            raise UsageError(message, where=self._ref.source)
        _, image = self._image(ref.digest)
        for layer in image.layers:
            if layer.digest == release.digest:
                return self._layer(layer, release.url)
        raise WrongBytes(f"expected a layer {release.digest}, found none", where=release.url)

    def _image(self, tag_or_digest: str) -> tuple[Digest, OciManifest]:
        """Return a manifest and the digest that pins it: its own, or that of the image index that names it."""
        if tag_or_digest not in self._images:
            data = self._wire.manifest(tag_or_digest, ACCEPTED)
            pin = Digest.of(data)
            for _ in range(_DEPTH):
                found = read_image(data, f"{self._ref.place}@{Digest.of(data)}")
                if isinstance(found, OciManifest):
                    self._images[tag_or_digest] = self._images[pin] = pin, found
                    break
                data = self._wire.manifest(found.digest, ACCEPTED)
            else:
                raise FormatError("expected a manifest, found an index in an index", where=self._ref.source)
        return self._images[tag_or_digest]

    def _layer(self, layer: Blob, where: str) -> Unpacked:
        if (kind := layer.kind) is None:
            raise FormatError(f"expected a zip or tar.gz, found {quote(layer.media_type)}", where=where)
        if layer.size > _LAYER_CAP:
            raise UnsafeArchive("too-large", f"expected at most {_LAYER_CAP} bytes, found {layer.size}", where=where)
        return unpack(self._wire.blob(layer, _LAYER_CAP), kind)

    def _site(self, url: str, image: OciManifest) -> Index:
        """Return the skills that a registry's site lists. Its metadata is not read, since a digest pins the site."""
        listing = next((each for each in image.layers if each.title == _LISTING), None)
        if listing is None:
            raise NotFound(f"the site has no {_LISTING}", where=url)
        listed = parse_listing(self._wire.blob(listing, LISTING_CAP), url)
        layers = {each.digest for each in image.layers}
        warnings = list(listed.warnings)
        skills = {name: tuple(_offered(releases, url, layers, warnings)) for name, releases in listed.skills.items()}
        return Index({name: each for name, each in skills.items() if each}, warnings=few(warnings))


def _offered(releases: tuple[Release, ...], url: str, layers: set[Digest], warnings: list[str]) -> Iterator[Release]:
    for release in releases:
        if release.withdrawn is not None:
            warnings.append(f"{release.name} {release.version or ''} was withdrawn: {release.withdrawn}")
        elif release.digest not in layers:
            warnings.append(f"{release.name} was left out: the artifact does not hold it")
        else:
            yield replace(release, url=url)
