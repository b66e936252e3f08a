"""The values of secrets, in the system's keyring. Importing this takes the extra ``keyring``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import keyring
from keyring.errors import KeyringError, NoKeyringError

from skillhub.errors import StateError, UsageError
from skillhub.formats.text import quote
from skillhub.project.user_state import Secret


class Keyring:
    """The keyring of the logged-in user, in any backend that the system has.

    Raises:
        UsageError: the library would take its configuration, which names code to load, from the working folder.
    """

    def __init__(self) -> None:
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            folder = os.environ.get(name)
            if folder and not os.path.isabs(folder):
                message = f"expected the absolute path of a folder for the keyring, found {quote(folder)}"
                raise UsageError(message, where=name, hint="unset it, or name a folder outside of your projects")

    def get(self, secret: Secret) -> str | None:
        """Return the value; None if the keyring has none.

        Raises:
            UsageError: this system has no keyring.
            StateError: the keyring is locked, or refuses.
        """
        with _refusals():
            return cast("str | None", keyring.get_password(_service(secret), secret.name))

    def put(self, secret: Secret, value: str) -> None:
        """Store the value and replace an existing one.

        Raises:
            UsageError: this system has no keyring, or one that stores nothing.
            StateError: the keyring is locked, or refuses.
        """
        with _refusals():
            keyring.set_password(_service(secret), secret.name, value)
        if self.get(secret) != value:
            raise UsageError("the keyring of this system stores nothing", hint=_HINT)

    def drop(self, secret: Secret) -> None:
        """Remove the value, if there is one.

        Raises:
            UsageError: this system has no keyring.
            StateError: the keyring is locked, or refuses.
        """
        if self.get(secret) is None:
            return
        with _refusals():
            keyring.delete_password(_service(secret), secret.name)


_HINT = "unlock or install one; PYTHON_KEYRING_BACKEND names another; --env NAME gives a value to one command"


def _service(secret: Secret) -> str:
    # Each value has its own service: some keyrings allow only one account for each service.
    return f"skillhub/{secret.key}/{secret.name}"


@contextmanager
def _refusals() -> Iterator[None]:
    # The error's text is not shown: a backend may put a secret into it.
    try:
        yield
    except NoKeyringError as error:
        raise UsageError("this system has no keyring to store values in", hint=_HINT) from error
    except (KeyringError, OSError, RuntimeError) as error:
        raise StateError(f"the system's keyring refused ({type(error).__name__})", hint=_HINT) from error
