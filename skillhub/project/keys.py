"""The user's own signing keys: files that only the user can read, encrypted if the user gives a passphrase."""

from __future__ import annotations

import os
from dataclasses import dataclass

from skillhub.disk import files
from skillhub.disk.home import Home
from skillhub.errors import FormatError, NotFound, PassphraseNeeded, UsageError, hinting
from skillhub.formats.digest import Digest
from skillhub.formats.text import NAME_RULE, as_command, is_name, quote
from skillhub.project.user_state import OWN_SUFFIX
from skillhub.trust.keys import KeyKind, PrivateKey, PublicKey

_CAP = 1 << 16
_HINT = "skillhub key list shows your keys, skillhub key new creates one"


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its name, its kind and fingerprint, and the files of its private and its public half."""

    name: str
    kind: KeyKind
    fingerprint: Digest
    path: str
    public_path: str


class Keys:
    """The keys below ``<state>/keys``: ``NAME.pem`` is private, ``NAME.pub.pem`` is public."""

    def __init__(self, home: Home) -> None:
        self._folder = os.path.join(home.state, "keys")

    def new(self, name: str, kind: KeyKind, passphrase: bytes | None) -> Key:
        """Create a key; an existing one is never replaced.

        Raises:
            UsageError: the name is invalid or taken.
            StateError: the disk refuses.
        """
        return self.add(name, PrivateKey.generate(kind), passphrase)

    def add(self, name: str, key: PrivateKey, passphrase: bytes | None) -> Key:
        """Store a key, with its public half beside it; an existing one is never replaced.

        Raises:
            UsageError: the name is invalid or taken.
            StateError: the disk refuses.
        """
        self.refuse_taken(name)
        # Of two commands that make a key with one name, one is refused: else a half of each could stay.
        with files.lock(f"{self._folder}.lock"):
            self.refuse_taken(name)
            files.write_atomic(self._public(name), key.public.pem, mode=0o644)
            files.write_atomic(self._private(name), key.pem(passphrase), mode=0o600)
        return self._describe(name, key.public)

    def refuse_taken(self, name: str) -> None:
        """Refuse a name with which no key can be created.

        Raises:
            UsageError: the name is invalid or taken.
        """
        if not is_name(name):
            raise UsageError(f"{quote(name)} cannot name a key", hint=NAME_RULE)
        for path in (self._private(name), self._public(name)):
            if os.path.lexists(path):
                shows = as_command("skillhub", "key", "show", name)
                hint = f"{shows} shows it; another name: skillhub key new NAME, skillhub key import FILE --name NAME"
                raise UsageError(f"there is a key {name} already", where=path, hint=hint)

    def all(self) -> list[Key]:
        """Return every key, sorted by name; private keys are not read.

        Raises:
            FormatError: a public half is no key.
            StateError: the folder of keys cannot be read.
        """
        found = [each for each in files.names_in(self._folder) if each.endswith(OWN_SUFFIX)]
        return [self.get(name) for name in sorted(each.removesuffix(OWN_SUFFIX) for each in found)]

    def get(self, name: str) -> Key:
        """Return the key of that name; its private half is not read.

        Raises:
            NotFound: there is none.
            FormatError: its public half is no key.
        """
        if not is_name(name):
            raise NotFound(f"{quote(name)} names no key", hint=_HINT)
        return self._describe(name, PublicKey.load(_read(self._public(name))))

    def load(self, name_or_file: str, passphrase: bytes | None) -> PrivateKey:
        """Return the private key of that name, or in that PEM file.

        Raises:
            NotFound: there is none.
            FormatError: it is no key that may sign, or the passphrase is wrong.
            PassphraseNeeded: the key is encrypted and no passphrase was given.
        """
        path = self._private(name_or_file) if is_name(name_or_file) else name_or_file
        is_file = not os.path.lexists(path) and os.path.exists(name_or_file)
        return read_key(name_or_file if is_file else path, passphrase)

    def _describe(self, name: str, key: PublicKey) -> Key:
        return Key(name, key.kind, key.fingerprint, self._private(name), self._public(name))

    def _private(self, name: str) -> str:
        return os.path.join(self._folder, f"{name}.pem")

    def _public(self, name: str) -> str:
        return os.path.join(self._folder, f"{name}{OWN_SUFFIX}")


def read_key(path: str, passphrase: bytes | None) -> PrivateKey:
    """Return the private key in a PEM file: PKCS #8 or an older form, encrypted or not.

    Raises:
        NotFound: there is no such file.
        FormatError: it is no key that may sign, or the passphrase is wrong.
        PassphraseNeeded: the key is encrypted and no passphrase was given.
    """
    # A person names the file, so a link to it is allowed, as in folders of mounted secrets.
    path = os.path.realpath(os.path.expanduser(path))
    return decrypted(_read(path), path, passphrase)


def decrypted(data: bytes, path: str, passphrase: bytes | None) -> PrivateKey:
    """Return the private key in the bytes of a PEM file, encrypted or not.

    Raises:
        FormatError: it is no key that may sign, or the passphrase is wrong.
        PassphraseNeeded: the key is encrypted and no passphrase was given.
    """
    is_encrypted = b"ENCRYPTED" in data
    if is_encrypted and passphrase is None:
        raise PassphraseNeeded("the key has a passphrase", where=path, hint="SKILLHUB_PASSPHRASE may hold it")
    with hinting(where=path, kinds=FormatError):
        return PrivateKey.load(data, passphrase if is_encrypted else None)


def _read(path: str) -> bytes:
    data = files.read(path, _CAP)
    if data is None:
        raise NotFound("there is no such key", where=path, hint=_HINT)
    return data
