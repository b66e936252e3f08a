"""An OCI registry as a target: the whole site is one artifact. This module needs the extra ``oci``.

Each file is a layer with its path as ``org.opencontainers.image.title``, so ``oras pull`` restores the site
(OCI image specification 1.1, "Guidelines for Artifact Usage").
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from socket import socket
from time import sleep
from typing import Any, TypeVar

from dxf import DXF
from dxf.exceptions import DXFAuthInsecureError, DXFError, DXFUnauthorizedError
from requests import ConnectionError as RequestsConnectionError
from requests import PreparedRequest, RequestException, Response, Timeout
from requests.auth import HTTPBasicAuth
from requests.utils import get_netrc_auth

from skillhub.errors import FormatError, SourceError, StateError, UnsafeTransfer, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.json import strict_json
from skillhub.formats.text import quote
from skillhub.model.reference import Oci, parse_ref
from skillhub.net.fetch import Requester
from skillhub.net.target import RequestTarget, is_public, judge, judged, proxy_for
from skillhub.registry import push_targets
from skillhub.registry.outputs import media_type
from skillhub.registry.push_targets import FILE_CAP, SiteFile, SiteFiles, Target
from skillhub.sources import oci

_EMPTY = b"{}"
_OLD = "application/vnd.docker.distribution.manifest.v1+json"  # accepted, since the tag would otherwise seem free
_PATIENCE = 60.0  # seconds without a byte
_ANSWER_CAP = 1 << 20  # bytes of an answer that is no file
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
_T = TypeVar("_T")

Layers = Mapping[str, oci.Blob]


class OciTarget(Target):
    """A ``Target`` that changes as a whole, when its tag gets the new manifest.

    The distribution protocol has no conditional write of a tag, so the tag is read again just before the write. Each
    step is idempotent, and is repeated after a temporary failure of the registry or the network.

    Args:
        client: The client of the repository, entered; ``close`` closes it.
        tag: The tag.
        where: Registry, repository and tag, for messages.
        trusts: Whether the user trusts the host of a URL, which may then get the login for the registry.

    Raises:
        StateError: the tag names something other than a registry's site.
        SourceError: the registry cannot be reached, or refuses.
        UnsafeTransfer: the registry names another host that it may not name.
        FormatError: the manifest is malformed.
    """

    is_browsed = False
    waits: Sequence[float] = (0.5, 1.0, 2.0)  # seconds before each further attempt
    seconds = 600.0  # for each attempt

    def __init__(self, client: Any, tag: str, where: str, trusts: oci.Trusts) -> None:  # noqa: ANN401 - a DXF
        self._client, self._tag, self.where, self._trusts = client, tag, where, trusts
        self._hint = "log in with docker or oras, or set SKILLHUB_OCI_USERNAME and SKILLHUB_OCI_PASSWORD"
        session = client._sessions[0]
        session.auth = session.rebuild_auth = self._bind_login
        session.hooks["response"].append(self._read_answer)
        self._is_public: set[bool] = set()  # whether the registry's own addresses are, of the connections so far
        for adapter in session.adapters.values():  # a proxy has its own pools, and looks names up itself
            pools = adapter.poolmanager.pool_classes_by_scheme.items()
            judging = {scheme: self._judging(scheme, pool) for scheme, pool in pools}
            adapter.poolmanager.pool_classes_by_scheme = judging
        self._before = self._manifest()
        self._layers = {} if self._before is None else _layers(self._before, where)

    def read(self, path: str) -> bytes | None:
        """Return a file of the manifest that the tag had at the start, or None if the manifest lacks it.

        Raises:
            SourceError: the registry cannot be reached, or refuses.
        """
        layer = self._layers.get(path)
        if layer is None:
            return None
        with self._converted_errors():
            pull = self._client.pull_blob
            return self._with_retries(
                lambda: push_targets.read_at_most(FILE_CAP, pull(layer.digest), path, self.where)
            )

    def compare(self, file: SiteFile) -> bool | None:
        """Return whether the file is a layer with the same content, or None if it is no layer."""
        layer = self._layers.get(file.path)
        return None if layer is None else layer.digest == Digest.of(file.read())

    def publish(self, site: SiteFiles, changed: SiteFiles, gone: Sequence[str] = (), records: SiteFiles = ()) -> None:
        """Upload the changed files, many at a time, and then the manifest, which publishes all of them at once.

        Layers that an interrupted push uploaded are not sent again.

        Raises:
            UsageError: the site has more files than fit into one manifest.
            StateError: another process published there since the start.
            SourceError: the registry cannot be reached, refuses, or accepts the manifest and does not keep it.
        """
        new_layers = {file.path: _layer(file, file.read()) for file in changed}
        layers = [new_layers.get(file.path) or self._layers[file.path] for file in site]
        manifest = _dump(layers)
        if len(manifest) > oci.MANIFEST_CAP:
            hint = "publish to a folder or to S3, which have no such limit"
            raise UsageError(f"{len(site)} files are too many for one artifact", where=self.where, hint=hint)
        with self._converted_errors():
            self._upload(_EMPTY)  # logs in once, before the parallel uploads
            push_targets.in_stages(changed, lambda file: self._upload(file.read()))
            if self._manifest() != self._before:
                raise push_targets.overtaken(self._tag, self.where)
            self._with_retries(lambda: self._client.set_manifest(self._tag, manifest))
            if self._manifest() != manifest.encode():
                raise push_targets.not_kept(self._tag, self.where)

    def close(self) -> None:
        """Close the connections."""
        self._client.__exit__(None, None, None)

    def _bind_login(self, request: PreparedRequest, redirect: object = None) -> PreparedRequest:
        """Take the login or token off a request to another host that the registry names, for tokens or for an upload.

        The session calls this for each request and after each redirect. It then reads no netrc itself, which would
        give the registry a token of any host that it names.

        Raises:
            UnsafeTransfer: the other host is in a private network and the registry is not, or plain http leads there.
        """
        url = str(request.url)
        is_own = oci.is_login_host(self._client._base_url, url)
        if not (is_own or self._trusts(url)):
            self._check_named(url)
            if request.headers.pop("Authorization", None) and redirect is None:
                self._hint = oci.login_not_sent(self._client._host, url.partition("?")[0])
        elif is_own and "Authorization" not in request.headers and (login := get_netrc_auth(url)):
            HTTPBasicAuth(*login)(request)
        return request

    def _judging(self, scheme: str, pool: Any) -> Any:  # noqa: ANN401 - classes of urllib3
        """Return a pool whose connections judge the address that they reach, and send it nothing if it is refused.

        The look-up of the connection may find another address than the look-up before it (DNS rebinding).
        """
        target = self

        class Connection(pool.ConnectionCls):  # type: ignore[misc]
            def _new_conn(self) -> socket:
                with ExitStack() as undo:
                    sock: socket = undo.enter_context(super()._new_conn())
                    host = f"[{self.host}]" if ":" in self.host else self.host
                    target._check_address(f"{scheme}://{host}:{self.port}/", str(sock.getpeername()[0]))
                    undo.pop_all()
                return sock

        return type(pool.__name__, (pool,), {"ConnectionCls": Connection})

    def _check_address(self, url: str, address: str) -> None:
        if RequestTarget.parse(url).origin == RequestTarget.parse(self._client._base_url).origin:
            self._is_public.add(is_public(address))
        elif not (is_public(address) or self._trusts(url)):
            self._check_named(url, address)

    def _check_named(self, url: str, address: str | None = None) -> None:
        """Raise UnsafeTransfer unless the registry may name this URL, as one that skills come from may."""
        base = self._client._base_url
        private = {RequestTarget.parse(base).origin} if self._is_public == {False} else ()
        try:
            target = judge(url, Requester("site", base), private)
            if address is None:
                judged(target, is_proxied=proxy_for(target) is not None)
            elif target.public_only:
                raise UnsafeTransfer(f"leads into a private network, to {address}", where=url)
        except UnsafeTransfer as error:
            error.hint = "if that host is yours, add it to trusted-hosts in config.toml"
            raise

    def _read_answer(self, response: Response, *, stream: bool, **_: object) -> None:
        """Read the body of an answer that is no file: the session would read it without a limit."""
        if response.is_redirect or not stream:
            with response:
                chunks = response.iter_content(1 << 16)
                response._content = push_targets.read_at_most(_ANSWER_CAP, chunks, "an answer", self.where)

    def _upload(self, data: bytes) -> None:
        # Bytes are sent with their length. An iterator would be sent without, which some registries refuse.
        self._with_retries(lambda: self._client.push_blob(data=data, digest=Digest.of(data)), len(data))

    def _manifest(self) -> bytes | None:
        headers, path = {"Accept": ", ".join((*oci.ACCEPTED, _OLD))}, f"manifests/{self._tag}"

        def read() -> bytes:
            # The client's own method for manifests has no limit of size.
            with self._client._request("get", path, headers=headers, stream=True) as response:
                chunks = response.iter_content(1 << 16)
                return push_targets.read_at_most(oci.MANIFEST_CAP, chunks, "its manifest", self.where)

        with self._converted_errors():
            try:
                return self._with_retries(read)
            except RequestException as error:
                if error.response is None or error.response.status_code != 404:
                    raise
                return None

    def _with_retries(self, step: Callable[[], _T], size: int = 0) -> _T:
        attempt = partial(push_targets.in_time, self.seconds, step, self.where, size)
        for wait in self.waits:
            try:
                return attempt()
            except RequestException as error:
                if error.response is not None and error.response.status_code not in _PASSING:
                    raise
            sleep(wait)
        return attempt()

    @contextmanager
    def _converted_errors(self) -> Iterator[None]:
        """Convert the exceptions of the client."""
        try:
            yield
        except DXFAuthInsecureError as error:
            raise SourceError("no password is sent over plain http", where=self.where) from error
        except (RequestsConnectionError, Timeout) as error:
            raise SourceError("cannot reach the registry", where=self.where) from error
        # RequestException is an OSError; dxf raises the others for answers that are not as it expects.
        except (DXFError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            answer = getattr(error, "response", None)
            status, headers = (0, {}) if answer is None else (answer.status_code, answer.headers)
            status = 401 if isinstance(error, DXFUnauthorizedError) else status
            if (message := oci.refused_access(status, headers)) is not None:
                raise SourceError(message, where=self.where, hint=self._hint) from error
            raise SourceError(f"the registry refuses the request: {quote(str(error))}", where=self.where) from error


def open_target(address: str, trusts: oci.Trusts) -> Target:
    """Return the target for ``oci://REGISTRY/REPOSITORY:TAG``; the default tag is ``latest``.

    Plain http is used only for a registry on this machine. The login is sent to no other host than those of the
    registry and those that ``trusts`` names.

    Raises:
        UsageError: the address is malformed.
        StateError: the tag names something other than a registry's site.
        SourceError: the registry cannot be reached, or refuses.
        FormatError: the manifest, or the file with the login, is malformed.
    """
    ref = _parsed(address)
    name, _, repository = ref.repository.partition("/")
    host = oci.registry_host(name)
    tag = ref.tag or "latest"
    plain = RequestTarget.parse(f"http://{host}").loopback
    with ExitStack() as stack:
        client: Any = DXF(host, repository, _login(host), insecure=plain, timeout=_PATIENCE)
        target = OciTarget(stack.enter_context(client), tag, f"oci://{name}/{repository}:{tag}", trusts)
        stack.pop_all()
    return target


def _parsed(address: str) -> Oci:
    with suppress(UsageError):
        ref = parse_ref(address)
        if isinstance(ref, Oci) and ref.digest is None:
            return ref
    raise UsageError(f"expected oci://REGISTRY/REPOSITORY:TAG, found {quote(address)}")


def _login(host: str) -> Callable[[Any, Any], None]:
    def login(client: Any, response: Any) -> None:  # noqa: ANN401 - a callback with the arguments of dxf
        user, password = _credentials(host) or (None, None)
        client.authenticate(user, password, response=response)

    return login


def _credentials(host: str) -> tuple[str, str] | None:
    """Return user and password from the environment, or else from the file of `docker login`."""
    user, password = (os.environ.get(f"SKILLHUB_OCI_{name}") for name in ("USERNAME", "PASSWORD"))
    if user and password:
        return user, password
    return oci.kept_login(host, os.environ)


def _layer(file: SiteFile, data: bytes) -> oci.Blob:
    annotations = {oci.TITLE: file.path}
    return oci.Blob(digest=Digest.of(data), size=len(data), mediaType=media_type(file.path), annotations=annotations)


def _dump(layers: Sequence[oci.Blob]) -> str:
    """Return the manifest of these layers; equal layers give equal bytes."""
    document = {
        "artifactType": oci.REGISTRY_SITE,
        "config": {
            "digest": Digest.of(_EMPTY),
            "mediaType": "application/vnd.oci.empty.v1+json",
            "size": len(_EMPTY),
        },
        "layers": [
            {"annotations": blob.annotations, "digest": blob.digest, "mediaType": blob.media_type, "size": blob.size}
            for blob in layers
        ],
        "mediaType": oci.MANIFEST,
        "schemaVersion": 2,
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def _layers(manifest: bytes, where: str) -> Layers:
    """Return the layers of a manifest by path.

    Raises:
        StateError: the manifest is not that of a registry's site.
        FormatError: the manifest is malformed, or a layer has no title.
    """
    document = strict_json(manifest, where, oci.MANIFEST_CAP)
    if not isinstance(document, dict) or document.get("artifactType") != oci.REGISTRY_SITE:
        hint = "publish under another tag"
        raise StateError("expected a registry's site under this tag, found another artifact", where=where, hint=hint)
    image = oci.read_image(manifest, where)
    if not isinstance(image, oci.OciManifest):
        raise FormatError("expected layers, found manifests", where=where)
    if not all(layer.title for layer in image.layers):
        raise FormatError("expected a layer with a title", where=where)
    return {layer.title: layer for layer in image.layers}
