"""The values of secrets, in the system's keyring. Importing this takes the extra ``keyring``."""

from __future__ import annotations

import keyring
from keyring.errors import KeyringError, NoKeyringError

from skillhub.errors import SkillhubError, StateError, UsageError
from skillhub.project.user_state import Secret

_REFUSALS = (KeyringError, OSError, RuntimeError)


class Keyring:
    """The keyring of the logged-in user, in any backend that the system has."""

    def get(self, secret: Secret) -> str | None:
        """Return the value; None if the keyring has none.

        Raises:
            UsageError: this system has no keyring.
            StateError: the keyring is locked, or refuses.
        """
        try:
            value: str | None = keyring.get_password(_service(secret), secret.name)
        except _REFUSALS as error:
            raise _refused(error) from error
        return value

    def put(self, secret: Secret, value: str) -> None:
        """Store the value and replace an existing one.

        Raises:
            UsageError: this system has no keyring, or one that stores nothing.
            StateError: the keyring is locked, or refuses.
        """
        try:
            keyring.set_password(_service(secret), secret.name, value)
        except _REFUSALS as error:
            raise _refused(error) from error
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
        try:
            keyring.delete_password(_service(secret), secret.name)
        except _REFUSALS as error:
            raise _refused(error) from error


_HINT = "unlock or install one; PYTHON_KEYRING_BACKEND names another; --env NAME gives a value to one command"


def _service(secret: Secret) -> str:
    # Each value has its own service: some keyrings allow only one account for each service.
    return f"skillhub/{secret.key}/{secret.name}"


def _refused(error: Exception) -> SkillhubError:
    # The error's text is not shown: a backend may put a secret into it.
    if isinstance(error, NoKeyringError):
        return UsageError("this system has no keyring to store values in", hint=_HINT)
    return StateError(f"the system's keyring refused ({type(error).__name__})", hint=_HINT)
