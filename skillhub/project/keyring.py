"""The values of secrets, in the system's keyring. Importing this takes the extra ``keyring``."""

from __future__ import annotations

import keyring
from keyring.errors import KeyringError, NoKeyringError

from skillhub.errors import SkillhubError, StateError, UsageError
from skillhub.project.user_state import Secret

_REFUSALS = (KeyringError, OSError, RuntimeError)


class Keyring:
    """The keyring of whoever is logged in, of whichever kind the system has."""

    def get(self, secret: Secret) -> str | None:
        """Return the value; None if the keyring has none.

        Raises:
            UsageError: this system has no keyring.
            StateError: it is locked, or refuses.
        """
        try:
            value: str | None = keyring.get_password(_service(secret), secret.name)
        except _REFUSALS as error:
            raise _refused(error) from error
        return value

    def put(self, secret: Secret, value: str) -> None:
        """Keep the value, in the place of one that is there.

        Raises:
            UsageError: this system has no keyring, or one that keeps nothing.
            StateError: it is locked, or refuses.
        """
        try:
            keyring.set_password(_service(secret), secret.name, value)
        except _REFUSALS as error:
            raise _refused(error) from error
        if self.get(secret) != value:
            raise UsageError("the keyring of this system stores nothing", hint=_HINT)

    def drop(self, secret: Secret) -> None:
        """Remove the value; that there is none is fine.

        Raises:
            UsageError: this system has no keyring.
            StateError: it is locked, or refuses.
        """
        if self.get(secret) is None:
            return
        try:
            keyring.delete_password(_service(secret), secret.name)
        except _REFUSALS as error:
            raise _refused(error) from error


_HINT = "unlock or install one; PYTHON_KEYRING_BACKEND names another; --env NAME gives a value to one command"


def _service(secret: Secret) -> str:
    # One to each value: some keyrings know a single account for each service.
    return f"skillhub/{secret.key}/{secret.name}"


def _refused(error: Exception) -> SkillhubError:
    # What it says is not shown: nobody knows what a backend puts there.
    if isinstance(error, NoKeyringError):
        return UsageError("this system has no keyring to store values in", hint=_HINT)
    return StateError(f"the system's keyring refused ({type(error).__name__})", hint=_HINT)
