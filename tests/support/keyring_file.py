"""A keyring of the library's own kind that keeps its passwords in a file, which ``TEST_KEYRING`` names."""

from __future__ import annotations

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError


class FileKeyring(KeyringBackend):
    priority = 1

    def get_password(self, service: str, username: str) -> str | None:
        return self._read().get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._write({**self._read(), f"{service} {username}": password})

    def delete_password(self, service: str, username: str) -> None:
        kept = self._read()
        if f"{service} {username}" not in kept:
            raise PasswordDeleteError(f"no {username}")
        del kept[f"{service} {username}"]
        self._write(kept)

    def _read(self) -> dict[str, str]:
        if "TEST_KEYRING_LOCKED" in os.environ:
            raise KeyringLocked(f"locked, and {os.environ['TEST_KEYRING']} said so")
        path = Path(os.environ["TEST_KEYRING"])
        return json.loads(path.read_text()) if path.exists() else {}

    def _write(self, kept: dict[str, str]) -> None:
        Path(os.environ["TEST_KEYRING"]).write_text(json.dumps(kept))
