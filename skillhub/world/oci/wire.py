"""Reading manifests and blobs, each hashed, from one repository of an OCI registry, with a login if it wants one."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from skillhub.errors import FormatError, SourceError, WrongBytes
from skillhub.model.digest import Digest
from skillhub.model.syntax.json import strict_json
from skillhub.model.text import quote
from skillhub.world.fetch import Answer, Web, is_limited, whole
from skillhub.world.hop import RequestTarget
from skillhub.world.oci.login import kept_login, may_be_told
from skillhub.world.oci.manifest import MANIFEST_CAP, Blob
from skillhub.world.requester import Requester

_HUB = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}
_TOKEN_CAP = 256 * 1024
# RFC 9110, 11.6.1: a scheme, then parameters; no registry has been seen to send two schemes in one field.
_PARAMETER = re.compile(r'([A-Za-z_]+)="([^"\\]*)"', re.ASCII)
_HINT = "log in with docker or oras, or name a token for this host in config.toml"


class OciWire:
    """A repository; spoken to over plain http only if it is on this very machine.

    Args:
        repository: Its registry's host, a slash, its name there.
        web: What fetches.
        environ: Where ``DOCKER_CONFIG`` says where logins are kept; None if no login may be told.
    """

    def __init__(self, repository: str, web: Web, environ: Mapping[str, str] | None) -> None:
        host, _, name = repository.partition("/")
        self._host = _HUB.get(host, host)
        self._name = f"library/{name}" if host in _HUB and "/" not in name else name
        self._base = (
            f"{'http' if RequestTarget.parse(f'http://{host}').loopback else 'https'}://{self._host}/v2/"
        )
        self._web = web
        self._environ = environ
        self._authorization: str | None = None
        self._hint = _HINT

    def manifest(self, tag_or_digest: str, accepted: Sequence[str]) -> bytes:
        """Return a manifest; one that is asked for by digest is what the digest says.

        Raises:
            NotFound: there is none.
            SourceError: the registry cannot be reached, or does not let us in.
            WrongBytes: it is another.
        """
        data = self._get(f"manifests/{tag_or_digest}", MANIFEST_CAP, {"Accept": ", ".join(accepted)})
        if tag_or_digest.startswith("sha256:"):
            _check(data, tag_or_digest, self._name)
        return data

    def blob(self, blob: Blob, cap: int) -> bytes:
        """Return the bytes of a layer or configuration, which are of its size and digest.

        Raises:
            NotFound, SourceError: as for ``manifest``.
            WrongBytes: they are not, or are more than ``cap``.
        """
        data = self._get(f"blobs/{blob.digest}", min(cap, blob.size), {})
        _check(data, blob.digest, self._name)
        return data

    def _get(self, path: str, cap: int, headers: Mapping[str, str]) -> bytes:
        url = f"{self._base}{self._name}/{path}"
        answer = self._ask(url, cap, headers)
        if answer.status == 401:
            self._authorization = self._answered(answer.headers.get("www-authenticate", ""), url)
            answer = self._ask(url, cap, headers)
        if answer.status in (401, 403) and not is_limited(answer.status, answer.headers):
            raise SourceError(
                f"the registry does not let you in: it answered {answer.status}", where=url, hint=self._hint
            )
        return whole(answer).data

    def _ask(self, url: str, cap: int, headers: Mapping[str, str]) -> Answer:
        known = {"Authorization": self._authorization} if self._authorization else {}
        return self._web.ask(url, cap=cap, headers={**headers, **known})

    def _answered(self, challenge: str, url: str) -> str | None:
        """Return what the registry wants to be told, as far as we know it; None is nothing."""
        scheme, _, rest = challenge.partition(" ")
        login = self._login()
        if scheme.lower() == "basic":
            return login
        if scheme.lower() != "bearer":
            raise SourceError(
                "the registry wants to know who asks, in a way that is not known here", where=url
            )
        said = dict(_PARAMETER.findall(rest))
        asked = {"service": said.get("service", ""), "scope": f"repository:{self._name}:pull"}
        realm = said.get("realm", "")
        is_told = may_be_told(self._base, realm)
        if login and not is_told:
            login = None
            self._hint = (
                f"your login was not sent: {self._host} wants it told to {quote(realm)}, on another host"
            )
        query = urlencode({key: value for key, value in asked.items() if value})
        answer = self._web.ask(
            f"{realm}{'&' if '?' in realm else '?'}{query}",
            cap=_TOKEN_CAP,
            named_by=Requester("site", self._base),
            # What another host gives to us goes to this registry: it must not know who asks, trusted or not.
            headers={"Authorization": login or ""} if login or not is_told else {},
        )
        if answer.status in (401, 403):
            raise SourceError("the registry does not know who asks", where=self._host, hint=self._hint)
        return f"Bearer {_token(whole(answer).data, self._host)}"

    def _login(self) -> str | None:
        login = None if self._environ is None else kept_login(self._host, self._environ)
        return "Basic " + b64encode(":".join(login).encode()).decode() if login else None


def _check(data: bytes, digest: str, name: str) -> None:
    if Digest.of(data) != digest:
        raise WrongBytes(f"expected {digest}, found {Digest.of(data)}", where=name)


def _token(data: bytes, where: str) -> str:
    match strict_json(data, where, _TOKEN_CAP):
        case {"token": str(token)} | {"access_token": str(token)} if token.isascii() and token.isprintable():
            return token
    raise FormatError("expected a token, found none", where=where)
