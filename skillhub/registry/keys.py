"""The files with a registry's private keys."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence

from skillhub.disk import files
from skillhub.errors import FormatError, StateError
from skillhub.formats.json import strict_json
from skillhub.project.keys import decrypted
from skillhub.trust.keys import PrivateKey
from skillhub.trust.registry_metadata import keyid
from skillhub.trust.roles import ROLES

_KEY_CAP = 1 << 20
_ROOT, _SIGNED_VERSIONS = "1.root.json", "seen.json"
_PEM, _NEW = ".pem", ".new.pem"


class RegistryKeys:
    """The private keys of a registry, in files that only their owner can read, encrypted if there is a passphrase.

    Args:
        folder: The folder with ``online/``, ``offline/``, ``publishers/``, and ``retired/`` for replaced keys.
        offline: The folder of the offline keys if they are not in ``folder``, such as a removable disk.
        passphrase: Encrypts the files; None if they are not encrypted.
    """

    def __init__(self, folder: str, offline: str | None, passphrase: bytes | None) -> None:
        self._folder = folder
        self._offline = os.path.abspath(offline) if offline else os.path.join(folder, "offline")
        self._passphrase = passphrase
        self._known: dict[str, PrivateKey] = {}  # decrypted once, since one key may sign a thousand documents

    def save(self, name: str, key: PrivateKey) -> None:
        """Write a key under this name (``root-1``, ``publishers/acme``).

        Raises:
            StateError: the disk refuses.
        """
        role = name if name in ROLES else name.rpartition("-")[0]
        place = self._folder if name.startswith("publishers/") else self._folder_of(role)
        self._write(os.path.join(place, *f"{name}{_PEM}".split("/")), key)

    def save_first_root(self, data: bytes) -> None:
        """Write the first root of the registry beside the offline keys.

        Raises:
            StateError: the disk refuses.
        """
        files.write_atomic(self.first_root_path, data, mode=0o600)

    def of(self, role: str) -> Sequence[PrivateKey]:
        """Return the available keys of a role, pending ones included, sorted by file name.

        Raises:
            PassphraseNeeded: a key is encrypted and there is no passphrase.
            FormatError: a file is not a key, or has another passphrase.
            StateError: the disk refuses.
        """
        return [key for _, key in self._keys_of(role)]

    def pending(self, role: str) -> Sequence[PrivateKey]:
        """Return the new keys of a role that the metadata may not have yet; raises as ``of``."""
        return [key for path, key in self._keys_of(role) if path.endswith(_NEW)]

    def add(self, role: str, key: PrivateKey) -> None:
        """Write a key of a role as pending.

        Raises:
            StateError: the disk refuses.
        """
        self._write(os.path.join(self._folder_of(role), f"{role}-{keyid(key.public)[:8]}{_NEW}"), key)

    def settle(self, role: str, keyids: Collection[str]) -> None:
        """Make these the keys of a role: none stays pending, and others move to ``retired/``; raises as ``of``."""
        for path, key in self._keys_of(role):
            if keyid(key.public) not in keyids:
                retired = os.path.join(self._folder, "retired")
                self._move(path, os.path.join(retired, f"{role}-{keyid(key.public)[:8]}{_PEM}"))
            elif path.endswith(_NEW):
                self._move(path, path.removesuffix(_NEW) + _PEM)

    def publisher(self, name: str) -> PrivateKey | None:
        """Return the key of a publisher, or None if there is no file of it; raises as ``of``."""
        return self._read(os.path.join(self._folder, "publishers", name + _PEM))

    @property
    def first_root_path(self) -> str:
        """The path of the first root in the folder of the offline keys."""
        return os.path.join(self._offline, _ROOT)

    def first_root(self) -> bytes | None:
        """Return the first root of the registry from the folder of the offline keys, or None if it is not there.

        Write access to the site is not enough to replace it.

        Raises:
            StateError: the disk refuses.
        """
        return files.read(self.first_root_path, _KEY_CAP)

    def signed_versions(self) -> Mapping[str, int]:
        """Return the version of each offline role at the last signature of its keys.

        Raises:
            FormatError: the file is malformed.
            StateError: the disk refuses.
        """
        path = os.path.join(self._offline, _SIGNED_VERSIONS)
        versions = strict_json(files.read(path, _KEY_CAP) or b"{}", path, _KEY_CAP)
        if not isinstance(versions, dict) or not all(isinstance(version, int) for version in versions.values()):
            raise FormatError("expected versions by role", where=path)
        return versions

    def save_signed_versions(self, versions: Mapping[str, int]) -> None:
        """Write these versions for ``signed_versions``.

        Raises:
            StateError: the disk refuses.
        """
        text = json.dumps(dict(versions), indent=2, sort_keys=True) + "\n"
        files.write_atomic(os.path.join(self._offline, _SIGNED_VERSIONS), text.encode(), mode=0o600)

    def _folder_of(self, role: str) -> str:
        return os.path.join(self._folder, "online") if ROLES[role].online else self._offline

    def _keys_of(self, role: str) -> list[tuple[str, PrivateKey]]:
        place = self._folder_of(role)
        names = files.names_in(place)
        numbered = f"{role}-"
        ours = (name for name in names if name == role + _PEM or (name.startswith(numbered) and name.endswith(_PEM)))
        pairs = ((path, self._read(path)) for path in (os.path.join(place, name) for name in ours))
        return [(path, key) for path, key in pairs if key is not None]

    def _read(self, path: str) -> PrivateKey | None:
        if path in self._known:
            return self._known[path]
        data = files.read(path, _KEY_CAP)
        if data is None:
            return None
        key = self._known[path] = decrypted(data, path, self._passphrase)
        return key

    def _write(self, path: str, key: PrivateKey) -> None:
        files.write_atomic(path, key.pem(self._passphrase), mode=0o600)

    def _move(self, path: str, to: str) -> None:
        data = files.read(path, _KEY_CAP)
        if data is None:
            raise StateError("expected the same key as at the first read", where=path)
        # A rename fails if the other folder is on another disk.
        files.write_atomic(to, data, mode=0o600)
        with files.disk_errors(path):
            os.remove(path)
