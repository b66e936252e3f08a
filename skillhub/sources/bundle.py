"""A bundle: one file with a lock and all answers of its sources, which an offline machine verifies again."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock as Mutex
from typing import Annotated

from skillhub.archive.limits import Limits
from skillhub.archive.unpack import unpack, zip_parts
from skillhub.archive.zip import read_zip
from skillhub.errors import FormatError, NotFound, UnsafeArchive, WrongBytes, hinting
from skillhub.formats.digest import Digest
from skillhub.formats.document import Document, Members, Sha256, json_bytes, part, version_of
from skillhub.formats.text import quote
from skillhub.model.index import Index, Release
from skillhub.model.lock import Lock
from skillhub.model.reference import holds_secret
from skillhub.model.tree import File, Unpacked
from skillhub.net.fetch import PLAIN, RequestOptions, Response, Web
from skillhub.sources.git_snapshot import checked, file_id, folder_at, nodes_of
from skillhub.sources.repository import Folders
from skillhub.trust.registry_metadata import METADATA_BUNDLE_PATH

# A bundle is a zip: ``skillhub.lock``, ``bundle.json``, and ``blobs/<sha256>``, each blob once. ``bundle.json`` maps
# keys to blobs. A key is a URL, ``git:<id>`` for an object of git, or ``tree:<digest>`` for the files of a skill that
# only the lock vouches for. Nothing in a bundle is trusted: the reader verifies it like the answer of a server.

CAP = 512 << 20
_LIMITS = Limits(total=CAP, files=30_000)
_LOCK, _CONTENT, _BLOBS = "skillhub.lock", "bundle.json", "blobs/"
_TYPE = re.compile(r"[\x21-\x7e ]{0,128}")


@part
@dataclass(frozen=True, slots=True)
class BundledAnswer:
    """One answer: the digest of its bytes, and the media type that the server sent."""

    digest: Sha256
    type: str = ""


class BundleFile(Document):
    """``bundle.json``: the blob for each key."""

    CAP = 32 << 20
    UNKNOWN = "a newer skillhub may have written it"

    version: Annotated[int, version_of("version", 1)]
    content: Members[str, BundledAnswer]


@dataclass(frozen=True)
class SkillBundle:
    """A lock and the answers of its sources.

    Attributes:
        answers: The media type and the bytes, by URL, ``git:<id>`` or ``tree:<digest>``.
        where: The file, for errors.
        asked: The keys that ``get`` has found so far.
    """

    lock: Lock
    answers: Mapping[str, tuple[str, bytes]]
    where: str = "the bundle"
    asked: set[str] = field(default_factory=set, compare=False)

    def get(self, key: str) -> tuple[str, bytes]:
        """Return the media type and the bytes of an answer.

        Raises:
            NotFound: the bundle has no answer for this key.
        """
        if key not in self.answers:
            raise NotFound(f"the bundle does not hold {quote(key)}", where=self.where, hint="export the bundle again")
        self.asked.add(key)
        return self.answers[key]

    def tree(self, digest: Digest | None) -> Unpacked | None:
        """Return the files of a tree that only the lock vouches for; None if the bundle does not have them.

        Raises:
            UnsafeArchive, FormatError: no skill may have such files.
        """
        _, data = self.answers.get(f"tree:{digest}", ("", None))
        return None if data is None else unpack(data, "zip", wrapper=False)

    def parts(self) -> list[bytes]:
        """Return the pieces of the file; equal content gives equal bytes.

        Raises:
            FormatError: the bundle exceeds the limits on bytes or files.
        """
        digests = {key: Digest.of(data) for key, (_, data) in self.answers.items()}
        content = {
            key: {"digest": digests[key], **({"type": kind} if kind else {})}
            for key, (kind, _) in sorted(self.answers.items())
        }
        blobs = {f"{_BLOBS}{digests[key].hex}": data for key, (_, data) in self.answers.items()}
        found = {_CONTENT: json_bytes({"version": 1, "content": content}), _LOCK: self.lock.dump()}
        parts = zip_parts({path: File(data) for path, data in sorted((found | blobs).items())})
        if sum(map(len, parts)) > CAP or len(blobs) + 2 > _LIMITS.files:
            raise FormatError(f"a bundle has at most {CAP} bytes and {_LIMITS.files} files", where=self.where)
        return parts

    @classmethod
    def parse(cls, data: bytes, where: str) -> SkillBundle:
        """Return the bundle in these bytes, which must equal the ``parts`` of the result.

        Raises:
            FormatError: the bytes are no zip, or the lock or ``bundle.json`` is malformed.
            UnsafeArchive: the zip is one that no honest tool makes.
            WrongBytes: a file is duplicate, superfluous or missing, or its digest differs from its name.
        """
        with hinting(where=where, kinds=(FormatError, UnsafeArchive)):
            # Nothing in a bundle is compressed.
            limits = replace(_LIMITS, total=min(CAP, len(data)))
            files = {each.path: each.file.data for each in read_zip(data, limits) if each.file is not None}
        for name in (_LOCK, _CONTENT):
            if name not in files:
                raise FormatError(f"expected a bundle, found a zip without {name}", where=where)
        content = BundleFile.parse(files[_CONTENT], f"{where}: {_CONTENT}").content
        answers: dict[str, tuple[str, bytes]] = {}
        for key, row in content.items():
            blob = files.get(f"{_BLOBS}{row.digest.hex}")
            if blob is None or Digest.of(blob) != row.digest:
                raise WrongBytes(f"expected {row.digest} for {quote(key)}, found other bytes or none", where=where)
            if not _TYPE.fullmatch(row.type):
                raise FormatError(f"expected a media type, found {quote(row.type)}", where=where)
            answers[key] = row.type, blob
        found = cls(Lock.parse(files[_LOCK], f"{where}: {_LOCK}"), answers, where)
        at = 0
        for each in found.parts():
            if data[at : at + len(each)] != each:
                break
            at += len(each)
        if at != len(data):
            raise WrongBytes(f"the bundle is damaged at byte {at}", where=where, hint="export and copy it again")
        return found


class BundleWeb(Web):
    """A ``Web`` that answers from a bundle and sends no request."""

    def __init__(self, bundle: SkillBundle) -> None:
        self._bundle = bundle

    def ask(self, url: str, *, cap: int, options: RequestOptions = PLAIN) -> Response:
        """Return the bundle's answer for a URL, as ``Web.ask`` promises.

        Raises:
            NotFound: the bundle has no answer for this URL.
            WrongBytes: the answer is longer than ``cap``.
        """
        kind, data = self._bundle.get(url)
        if len(data) > cap:
            raise WrongBytes(f"expected at most {cap} bytes, found {len(data)}", where=url)
        return Response(url, data, kind)


class Recorder(Web):
    """A ``Web`` that records the answers of another one, but no headers and no bodies of requests.

    Args:
        web: The ``Web`` that sends the requests.
        answers: The mapping to add the answers to, by URL.
    """

    def __init__(self, web: Web, answers: dict[str, tuple[str, bytes]]) -> None:
        self._web, self._answers = web, answers
        self._mutex = Mutex()

    def ask(self, url: str, *, cap: int, options: RequestOptions = PLAIN) -> Response:
        """Return the server's answer, as ``Web.ask`` promises, except for a registry's metadata bundle.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: as for ``Web.ask``.
            NotFound: the URL is that of a metadata bundle: other clients than new ones need its documents one by one.
        """
        if url.endswith(f"/{METADATA_BUNDLE_PATH}"):
            raise NotFound("a bundle holds each document by itself", where=url)
        found = self._web.ask(url, cap=cap, options=options)
        if found.status == 200 and options.body is None and not holds_secret(url):
            kind = found.content_type if _TYPE.fullmatch(found.content_type) else ""
            with self._mutex:
                self._answers[url] = kind, found.data
        return found


class BundledRepository:
    """A place: the part of one commit that a bundle holds; every object is hashed against its id.

    Args:
        bundle: The bundle.
        rev: The full commit that the lock names.
    """

    def __init__(self, bundle: SkillBundle, rev: str | None) -> None:
        self._bundle = bundle
        self._rev = rev or ""

    def index(self, words: Collection[str] | None = None) -> Index:
        """Raise an error, since a bundle has no listing.

        Raises:
            NotFound: always.
        """
        raise NotFound("a bundle has the skills of its lock, and no listing", where=self._bundle.where)

    def unpacked(self, release: Release) -> Unpacked:
        """Return the files of a locked skill, as its commit has them.

        Raises:
            NotFound: the bundle lacks an object of the skill.
            WrongBytes: an object does not have its id, or the lock names another commit.
            UnsafeArchive, FormatError: as for ``Folders.unpack``.
        """
        return Folders(self._commit(release), release.url).unpack(release.path or "")

    def committed(self, release: Release) -> str | None:
        """Return the time of the commit, UTC, as its committer states it."""
        return self._commit(release).date

    def _commit(self, release: Release) -> BundledCommit:
        if release.rev != self._rev:
            raise WrongBytes(f"expected the commit {self._rev}, found {release.rev}", where=release.url)
        return BundledCommit(self._bundle, self._rev, release.path or "")


class BundledCommit:
    """A ``Snapshot`` of one folder of a commit, read from a bundle."""

    def __init__(self, bundle: SkillBundle, rev: str, folder: str) -> None:
        self.rev: str | None = rev
        self._bundle = bundle
        proved = folder_at(rev, folder, self._objects)
        self.date, self._leaves = proved.date, proved.leaves
        ids = {leaf.id for leaf in self._leaves.values() if leaf.node.kind == "file"}
        sizes = {id_: len(self._bundle.get(f"git:{id_}")[1]) for id_ in ids}
        self.nodes = nodes_of(self._leaves, sizes)

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of these files, in this order, exactly as the commit has them.

        Raises:
            NotFound: the bundle has no such file.
            WrongBytes: the bytes do not have the id of the file.
        """
        return iter(self._objects("blob", [file_id(self._leaves, path, self._bundle.where) for path in paths]))

    def _objects(self, kind: str, ids: Sequence[str]) -> list[bytes]:
        return [checked(id_, kind, self._bundle.get(f"git:{id_}")[1]) for id_ in ids]


class BundledTrees(BundledRepository):
    """A place: skills whose files alone are in a bundle; the lock names their trees."""

    def unpacked(self, release: Release) -> Unpacked:
        """Return the files of a locked skill.

        Raises:
            NotFound: the bundle does not have them.
            UnsafeArchive, FormatError: no skill may have such files.
        """
        if (found := self._bundle.tree(release.tree)) is None:
            raise NotFound(f"the bundle does not hold the files of {release.name}", where=self._bundle.where)
        return found

    def committed(self, release: Release) -> None:
        """Return None, since these files are in no commit."""
