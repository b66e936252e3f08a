"""Credentials for an OCI registry: what ``docker login`` and its like have kept."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping

from pydantic import Field

from skillhub.errors import FormatError, StateError
from skillhub.model.syntax.document import ForeignDocument
from skillhub.model.syntax.json import strict_json
from skillhub.world import files
from skillhub.world.home import user_home
from skillhub.world.hop import RequestTarget

_CAP = 4 * 1024 * 1024
_HUB = "registry-1.docker.io"
_HUB_LOGIN = "https://index.docker.io/v1/"
# Registries of which it is known that they have logins told to another host of theirs.
_TOLD_AT = {
    f"https://{_HUB}:443": "https://auth.docker.io:443",
    "https://registry.gitlab.com:443": "https://gitlab.com:443",
}


class _Logins(ForeignDocument):
    """``config.json`` of Docker; each login is read when it is asked for."""

    auths: dict[str, object] = Field(default_factory=dict)


class _Login(ForeignDocument):
    auth: str = ""


def kept_login(host: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return user and password for a registry, as ``docker login`` keeps them in the clear.

    Args:
        host: Of the registry, with its port if it has one.
        environ: Where ``DOCKER_CONFIG`` says where they are kept.

    Raises:
        FormatError: the file is malformed, or the login.
        StateError: it cannot be read.
    """
    try:
        folder = environ.get("DOCKER_CONFIG") or os.path.join(user_home(), ".docker")
    except StateError:  # without a home nobody is logged in
        return None
    path = os.path.join(os.path.realpath(folder), "config.json")
    data = files.read(path, _CAP)
    document = strict_json(data, path, _CAP) if data else None
    # What is no object is passed over: an error would show it, and it may be a password.
    if not isinstance(document, dict):
        return None
    login = _Logins.parse(document, path).auths.get(_HUB_LOGIN if host == _HUB else host)
    packed = _Login.parse(login, path).auth if isinstance(login, dict) else ""
    return _unpacked(packed, path) if packed else None


def may_be_told(login_of: str, asker: str) -> bool:
    """Say whether the login for the registry at one URL may be told to another URL, which the registry names.

    Raises:
        UnsafeTransfer: one of them is no http or https URL.
    """
    registry, realm = RequestTarget.parse(login_of).origin, RequestTarget.parse(asker).origin
    return realm in (registry, _TOLD_AT.get(registry))


def _unpacked(packed: str, path: str) -> tuple[str, str]:
    try:
        user, _, password = base64.b64decode(packed, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        # What is there is not shown: it may be a password.
        raise FormatError("expected a login in base64", where=path) from error
    return user, password
