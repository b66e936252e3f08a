"""The private keys of a registry, as files."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence

from skillhub.disk import files
from skillhub.errors import FormatError, StateError
from skillhub.formats.json import strict_json
from skillhub.project.keys import decrypted
from skillhub.trust.keys import PrivateKey
from skillhub.trust.metadata import keyid
from skillhub.trust.roles import ROLES

_KEY_CAP = 1 << 20
_ROOT, _SEEN = "1.root.json", "seen.json"
_PEM, _NEW = ".pem", ".new.pem"


class RegistryKeys:
    """Keys as files for their owner's eyes only, encrypted if there is a passphrase.

    Args:
        folder: ``online/``, ``offline/``, ``publishers/``, and ``retired/`` for keys that count no longer.
        offline: Where the offline keys are, if not in ``folder``: a disk that is brought for a ceremony.
        passphrase: What the files are encrypted with.
    """

    def __init__(self, folder: str, offline: str | None, passphrase: bytes | None) -> None:
        self._folder = folder
        self._offline = os.path.abspath(offline) if offline else os.path.join(folder, "offline")
        self._passphrase = passphrase
        self._known: dict[str, PrivateKey] = {}  # decrypted once, for a thousand documents are signed

    def save(self, name: str, key: PrivateKey) -> None:
        """Keep a key under this name (``root-1``, ``publishers/acme``).

        Raises:
            StateError: the disk refuses.
        """
        role = name if name in ROLES else name.rpartition("-")[0]
        place = self._folder if name.startswith("publishers/") else self._place(role)
        self._write(os.path.join(place, *f"{name}{_PEM}".split("/")), key)

    def save_first_root(self, data: bytes) -> None:
        """Keep the root that the registry begins with beside the offline keys.

        Raises:
            StateError: the disk refuses.
        """
        files.write_atomic(os.path.join(self._offline, _ROOT), data, mode=0o600)

    def of(self, role: str) -> Sequence[PrivateKey]:
        """Return the keys of a role that are at hand, those that are pending among them, in a lasting order.

        Raises:
            PassphraseNeeded: a key is encrypted and there is no passphrase.
            FormatError: a file is no key, or has another passphrase.
            StateError: the disk refuses.
        """
        return [key for _, key in self._all(role)]

    def pending(self, role: str) -> Sequence[PrivateKey]:
        """Return the keys that were made for a role and that perhaps count for it not yet; raises as ``of``."""
        return [key for path, key in self._all(role) if path.endswith(_NEW)]

    def add(self, role: str, key: PrivateKey) -> None:
        """Keep a key, pending.

        Raises:
            StateError: the disk refuses.
        """
        self._write(os.path.join(self._place(role), f"{role}-{keyid(key.public)[:8]}{_NEW}"), key)

    def settle(self, role: str, keyids: Collection[str]) -> None:
        """Take these for the keys of a role: none is pending any more, others are put aside; raises as ``of``."""
        for path, key in self._all(role):
            if keyid(key.public) not in keyids:
                retired = os.path.join(self._folder, "retired")
                self._move(path, os.path.join(retired, f"{role}-{keyid(key.public)[:8]}{_PEM}"))
            elif path.endswith(_NEW):
                self._move(path, path.removesuffix(_NEW) + _PEM)

    def publisher(self, name: str) -> PrivateKey | None:
        """Return the key of a publisher, or None if it is not at hand; raises as ``of``."""
        return self._read(os.path.join(self._folder, "publishers", name + _PEM))

    def first_root(self) -> bytes | None:
        """Return the root that the registry began with, kept where its site cannot be tampered with.

        Raises:
            StateError: the disk refuses.
        """
        return files.read(os.path.join(self._offline, _ROOT), _KEY_CAP)

    def seen(self) -> Mapping[str, int]:
        """Return the versions that offline roles had when their keys last signed, by role.

        Raises:
            FormatError: the file is malformed.
            StateError: the disk refuses.
        """
        path = os.path.join(self._offline, _SEEN)
        found = strict_json(files.read(path, _KEY_CAP) or b"{}", path, _KEY_CAP)
        if not isinstance(found, dict) or not all(isinstance(each, int) for each in found.values()):
            raise FormatError("expected versions by role", where=path)
        return found

    def remember(self, versions: Mapping[str, int]) -> None:
        """Keep these versions for ``seen``.

        Raises:
            StateError: the disk refuses.
        """
        text = json.dumps(dict(versions), indent=2, sort_keys=True) + "\n"
        files.write_atomic(os.path.join(self._offline, _SEEN), text.encode(), mode=0o600)

    def _place(self, role: str) -> str:
        return os.path.join(self._folder, "online") if ROLES[role].online else self._offline

    def _all(self, role: str) -> list[tuple[str, PrivateKey]]:
        place = self._place(role)
        names = files.names_in(place)
        numbered = f"{role}-"
        ours = (name for name in names if name == role + _PEM or (name.startswith(numbered) and name.endswith(_PEM)))
        found = ((path, self._read(path)) for path in (os.path.join(place, name) for name in ours))
        return [(path, key) for path, key in found if key is not None]

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
        # The other folder may be on another disk, across which nothing can be renamed.
        files.write_atomic(to, data, mode=0o600)
        with files.disk_errors(path):
            os.remove(path)
