"""A registry on its operator's disk: what is served, the keys, and the settings.

DIR/site/           what any web server may serve as it is
DIR/keys/           the private keys, see ``registry_keys``
DIR/registry.json   the settings
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Annotated

from tuf.api.exceptions import LengthOrHashMismatchError
from tuf.api.metadata import TargetFile  # type: ignore[attr-defined]

from skillhub.errors import BadMetadata, NotFound, Rollback, SecurityError, StateError
from skillhub.model.digest import Digest
from skillhub.model.syntax.document import ExtensibleDocument, Read, name_that, version_of
from skillhub.model.text import as_command, is_name, quote
from skillhub.trust.metadata import MetadataSet, path_of
from skillhub.trust.roles import ROOT, SNAPSHOT, TIMESTAMP
from skillhub.trust.signing import verify
from skillhub.world import files
from skillhub.world.registry_keys import RegistryKeys

_CAP = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """What an operator decided when the registry was made.

    Attributes:
        publisher: Who publishes what ``add`` is given.
        bin_bits: Releases are spread over two to the power of this many documents.
        days: How long all metadata holds; None for what each role's rule says.
        compress: Deflate archives, whose bytes then depend on the build of zlib.
    """

    publisher: str
    bin_bits: int = 4
    days: int | None = None
    compress: bool = True

    def dump(self) -> bytes:
        """Return the bytes of ``registry.json``."""
        return (json.dumps({**asdict(self), "version": 1}, indent=2, sort_keys=True) + "\n").encode()

    @classmethod
    def parse(cls, data: bytes, where: str) -> RegistrySettings:
        """Return the settings that ``dump`` wrote.

        Raises:
            FormatError: they are none.
        """
        found = _File.parse(data, where)
        return cls(found.publisher, found.bin_bits, found.days, found.compress)


class _File(ExtensibleDocument):
    CAP = _CAP

    publisher: Annotated[str, Read(name_that(is_name, "publisher"))]
    bin_bits: int
    days: int | None
    compress: bool
    version: Annotated[int, version_of("version", 1)]


class RegistryDir:
    """The folder of a registry.

    Args:
        path: It; made by ``create``.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.site = os.path.join(self.path, "site")
        self._settings = os.path.join(self.path, "registry.json")

    def locked(self) -> AbstractContextManager[None]:
        """Hold the registry against every other process that would change it.

        Raises:
            StateError: another one is at it.
        """
        return files.lock(os.path.join(self.path, ".lock"))

    def create(self, settings: RegistrySettings) -> None:
        """Write the settings, by which the folder is a registry from now on.

        Raises:
            StateError: the disk refuses.
        """
        files.write_atomic(self._settings, settings.dump())

    @property
    def exists(self) -> bool:
        """Whether a registry is here."""
        return os.path.lexists(self._settings)

    def settings(self) -> RegistrySettings:
        """Return the settings.

        Raises:
            NotFound: no registry is here.
            FormatError: they are none.
        """
        data = files.read(self._settings, _CAP)
        if data is None:
            hint = as_command("skillhub", "registry", "init", self.path)
            raise NotFound("there is no registry", where=self.path, hint=hint)
        return RegistrySettings.parse(data, self._settings)

    def metadata(self, keys: RegistryKeys | None = None) -> MetadataSet:
        """Return the metadata that is served now, every signature of it verified.

        Who signs the next state vouches for this one: were it not verified, whoever can write to the site could
        have offline keys sign what they please.

        Args:
            keys: They keep the first root, which the site's must be, and versions, which it may not fall behind.

        Raises:
            StateError: a document is gone.
            FormatError: one is no metadata.
            BadMetadata: one is not signed as its role wants it, or the first root is another.
            Rollback: one is older than what its offline keys signed last.
        """
        documents = {ROOT: self._last_root(keys), TIMESTAMP: self.served("metadata/timestamp.json")}
        top = MetadataSet.load(documents)
        documents[SNAPSHOT] = self.served(f"metadata/{top.snapshot_version}.snapshot.json")
        versions = MetadataSet.load(documents).target_versions
        for role, version in versions.items():
            documents[role] = self.served(f"metadata/{version}.{role}.json")
        found = MetadataSet.load(documents)
        found.verify()
        for role, version in {**versions, SNAPSHOT: top.snapshot_version}.items():
            if found.read(role).version != version:
                raise BadMetadata(f"expected version {version} of {role}", where=self.site)
        for role, version in keys.seen().items() if keys else ():
            if found.read(role).version < version:
                message = f"expected version {version} of {role} or a newer one, as was signed before"
                raise Rollback(message, where=self.site, hint="restore the site as it was published last")
        return found

    def _last_root(self, keys: RegistryKeys | None) -> bytes:
        last = self.served("metadata/1.root.json")
        pinned = keys.first_root() if keys else None
        if pinned not in (None, last):
            hint = "restore the site; clients believe the root that the registry began with, and no other"
            raise BadMetadata(
                "the first root is not the one beside the offline keys", where=self.site, hint=hint
            )
        number = 1
        while (data := self._read(f"metadata/{(number := number + 1)}.root.json")) is not None:
            for root in (last, data):
                verify(ROOT, data, MetadataSet.load({ROOT: root}).read(ROOT))
            last = data
        return last

    def target(self, metadata: MetadataSet, path: str) -> bytes | None:
        """Return the content of a target as it is signed, or None if there is no such target.

        Raises:
            StateError: the file is gone.
            SecurityError: it is not what is signed.
        """
        found = metadata.find(path)
        return None if found is None else self.content(found)

    def content(self, target: TargetFile) -> bytes:
        """Return the content of a target file, or of a publisher's document, as it is vouched for.

        Raises:
            StateError: the file is gone.
            SecurityError: it is not what is signed.
        """
        data = self.served(path_of(target))
        try:
            target.verify_length_and_hashes(data)
        except LengthOrHashMismatchError as error:
            where = os.path.join(self.site, target.path)
            raise SecurityError("the file is not what is signed of it", where=where) from error
        return data

    def publish(self, site: Mapping[str, bytes]) -> None:
        """Write these files below the site, in their order; what is there already is not touched.

        Raises:
            StateError: the disk refuses; what was written stays, and the next run goes on from there.
        """
        for path, data in site.items():
            full = os.path.join(self.site, *path.split("/"))
            if files.read(full, max(len(data), _CAP)) != data:
                files.write_atomic(full, data, mode=0o644)

    def keys(self, passphrase: bytes | None = None, offline: str | None = None) -> RegistryKeys:
        """Return the keys; the offline ones may be in a folder of their own."""
        return RegistryKeys(os.path.join(self.path, "keys"), offline, passphrase)

    def fingerprint(self) -> Digest:
        """Return the SHA-256 of the first root, by which clients pin this registry.

        Raises:
            StateError: it is gone.
        """
        return Digest.of(self.served("metadata/1.root.json"))

    def served(self, path: str) -> bytes:
        """Return a file as the site has it.

        Raises:
            StateError: it is gone.
        """
        data = self._read(path)
        if data is None:
            raise StateError(f"expected the file {quote(path)}", where=self.site)
        return data

    def _read(self, path: str) -> bytes | None:
        return files.read(os.path.join(self.site, *path.split("/")), _CAP)
