"""Credentials for a host: tokens that the user's configuration names, and the user's netrc."""

from __future__ import annotations

import netrc
import os
from base64 import b64encode
from collections.abc import Mapping
from functools import cached_property

from skillhub.disk import files
from skillhub.errors import FormatError
from skillhub.formats.text import quote
from skillhub.net.target import RequestTarget

_CAP = 1 << 20


class Logins:
    """What to answer each host that wants to know who asks; looked up when one is asked, and never shown.

    Args:
        tokens: The environment variable that holds the token for a host, or for a host and port.
        environ: The environment, also for ``NETRC``.
        user_home: Where the netrc is, if ``NETRC`` does not say.
    """

    def __init__(self, tokens: Mapping[str, str], environ: Mapping[str, str], user_home: str) -> None:
        self._tokens = tokens
        self._environ = environ
        name = "_netrc" if os.name == "nt" else ".netrc"
        self._netrc = environ.get("NETRC") or os.path.join(user_home, name)

    def __call__(self, target: RequestTarget) -> str | None:
        """Return the value of ``Authorization`` for the host of ``target``, which alone may get it, or None.

        Raises:
            FormatError: a token that no header can hold, or a netrc that is none.
            StateError: the netrc cannot be read.
        """
        if target.scheme != "https" and not target.loopback:
            return None
        variable = self._tokens.get(f"{target.host}:{target.port}") or self._tokens.get(target.host)
        if variable is not None:
            return self._bearer(variable)
        # Most never need it: a netrc that is broken is in the way of those hosts alone that it speaks of.
        if target.host.encode() not in self._netrc_data.lower():
            return None
        user, password = self._logins.get(target.host, ("", ""))
        if not user and not password:
            return None
        return "Basic " + b64encode(f"{user}:{password}".encode()).decode()

    def _bearer(self, variable: str) -> str | None:
        token = self._environ.get(variable, "")
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise FormatError(f"expected a token in {variable}, found blanks or other characters than ASCII")
        return f"Bearer {token}" if token else None

    @cached_property
    def _netrc_data(self) -> bytes:
        # `read` refuses pipes and devices; it follows no link, and dotfiles are often links.
        return files.read(os.path.realpath(self._netrc), _CAP) or b""

    @cached_property
    def _logins(self) -> Mapping[str, tuple[str, str]]:
        """Users and passwords by host; ``default`` speaks of every host, so it is nobody's."""
        path = self._netrc
        try:
            rows = netrc.netrc(path).hosts
        except netrc.NetrcParseError as error:
            # Its message may hold what stands there, a password for one.
            where = f"{path}:{error.lineno}"
            raise FormatError("expected a netrc, found a line that is none of it", where=where) from None
        except ValueError as error:
            raise FormatError(f"expected a netrc in UTF-8: {quote(type(error).__name__)}", where=path) from None
        except OSError as error:
            raise files.disk_error(error, path) from error
        return {host.lower(): (row[0], row[2] or "") for host, row in rows.items() if host != "default"}
