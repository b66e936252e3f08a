"""One file with all that a lock needs: what sources answered, kept to be verified again where no network is."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock as Mutex
from typing import Annotated

from skillhub.archive import Limits, Unpacked, unpack
from skillhub.archive.unpack import zip_parts
from skillhub.archive.zip import read_zip
from skillhub.errors import FormatError, NotFound, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.document import Document, Members, Sha256, json_bytes, part, version_of
from skillhub.formats.text import quote
from skillhub.model.index import Index, Release
from skillhub.model.lock import Lock
from skillhub.model.reference import holds_secret
from skillhub.model.tree import File
from skillhub.net.fetch import PLAIN, RequestOptions, Response, Web
from skillhub.sources.git_snapshot import checked, file_id, folder_at, nodes_of
from skillhub.sources.layout import SnapshotNode
from skillhub.sources.repository import Folders
from skillhub.trust.metadata import AHEAD_PATH

# A bundle is a zip: ``skillhub.lock``, ``bundle.json``, and ``blobs/<sha256>``, each blob once. ``bundle.json`` says
# which blob is the answer to what: a URL, ``git:<id>`` for an object of git, ``tree:<name>`` for the files of a
# locked skill that nothing else vouches for. Nothing in it is trusted: whoever reads it verifies it as if a server
# had answered.

CAP = 512 << 20
_LIMITS = Limits(total=CAP, files=30_000)
_LOCK, _CONTENT, _BLOBS = "skillhub.lock", "bundle.json", "blobs/"
_TYPE = re.compile(r"[\x21-\x7e ]{0,128}")


@part
@dataclass(frozen=True, slots=True)
class BundledAnswer:
    """One answer: its bytes by their digest, and the media type that its server gave it."""

    digest: Sha256
    type: str = ""


class BundleFile(Document):
    """``bundle.json``: which blob answers what."""

    CAP = 32 << 20
    UNKNOWN = "a newer skillhub may have written it"

    version: Annotated[int, version_of("version", 1)]
    content: Members[str, BundledAnswer]


@dataclass(frozen=True)
class SkillBundle:
    """A lock, and what its sources answered.

    Attributes:
        answers: By URL, ``git:<id>`` or ``tree:<name>``: the media type and the bytes.
        where: The file, for errors.
        asked: What was asked for and found.
    """

    lock: Lock
    answers: Mapping[str, tuple[str, bytes]]
    where: str = "the bundle"
    asked: set[str] = field(default_factory=set, compare=False)

    def get(self, key: str) -> tuple[str, bytes]:
        """Return an answer.

        Raises:
            NotFound: the bundle has none to this.
        """
        if key not in self.answers:
            raise NotFound(f"the bundle does not hold {quote(key)}", where=self.where, hint="export the bundle again")
        self.asked.add(key)
        return self.answers[key]

    def tree(self, name: str) -> Unpacked | None:
        """Return the files of a skill that nothing but the lock vouches for, if they are here.

        Raises:
            UnsafeArchive, FormatError: they are what no skill may be.
        """
        _, data = self.answers.get(f"tree:{name}", ("", None))
        return None if data is None else unpack(data, "zip", wrapper=False)

    def parts(self) -> list[bytes]:
        """Return the pieces of the file; the same content gives the same bytes.

        Raises:
            FormatError: it is larger than a bundle may be.
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
        """Return the bundle that these bytes are: those that ``parts`` would give of it, and no others.

        Raises:
            FormatError: they are no zip; or lock or content is malformed.
            UnsafeArchive: they are a zip that no honest tool would make.
            WrongBytes: something is in it twice, too much, missing, or not what it is named after.
        """
        files = {each.path: each.file.data for each in read_zip(data, _LIMITS) if each.file is not None}
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
            message = f"expected a bundle as skillhub writes it, found something else at byte {at}"
            raise WrongBytes(message, where=where, hint="export the bundle again, and copy it as it is")
        return found


class BundleWeb(Web):
    """A ``Web`` that answers from a bundle, and reaches nothing.

    Args:
        bundle: It.
    """

    def __init__(self, bundle: SkillBundle) -> None:
        self._bundle = bundle

    def ask(self, url: str, *, cap: int, options: RequestOptions = PLAIN) -> Response:
        """Return what the bundle has, as ``Web.ask`` promises.

        Raises:
            NotFound: it has nothing for this URL.
            WrongBytes: that is longer than ``cap``.
        """
        kind, data = self._bundle.get(url)
        if len(data) > cap:
            raise WrongBytes(f"expected at most {cap} bytes, found {len(data)}", where=url)
        return Response(url, data, kind)


class Recorder(Web):
    """A ``Web`` that notes what another answers; of requests and their fields it notes nothing.

    Args:
        web: Who asks.
        answers: Where to note it.
    """

    def __init__(self, web: Web, answers: dict[str, tuple[str, bytes]]) -> None:
        self._web = web
        self._answers = answers
        self._turn = Mutex()

    def ask(self, url: str, *, cap: int, options: RequestOptions = PLAIN) -> Response:
        """Return what the server answers, as ``Web.ask`` promises; what a registry packs for new clients is left out.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: see there.
            NotFound: it is such a pack: a client that is not new needs what is in it one by one.
        """
        if url.endswith(f"/{AHEAD_PATH}"):
            raise NotFound("a bundle holds each document by itself", where=url)
        found = self._web.ask(url, cap=cap, options=options)
        if found.status == 200 and options.body is None and not holds_secret(url):
            kind = found.content_type if _TYPE.fullmatch(found.content_type) else ""
            with self._turn:
                self._answers[url] = kind, found.data
        return found


class BundledRepository:
    """A place: one commit of a repository, as far as a bundle has it; every object is hashed against its id.

    Args:
        bundle: It.
        rev: The full commit that the lock has.
    """

    def __init__(self, bundle: SkillBundle, rev: str | None) -> None:
        self._bundle = bundle
        self._rev = rev or ""

    def index(self, words: Collection[str] | None = None) -> Index:
        """Refuse to say what else is there.

        Raises:
            NotFound: always.
        """
        raise NotFound("a bundle holds what its lock has, and no listing", where=self._bundle.where)

    def unpacked(self, release: Release) -> Unpacked:
        """Return the files of a locked skill, as its commit has them.

        Raises:
            NotFound: the bundle does not have all of it.
            WrongBytes: an object is not the one of its id, or the lock names another commit.
            UnsafeArchive, FormatError: as ``Folders.unpack`` says.
        """
        return Folders(self._commit(release), release.url).unpack(release.path or "")

    def committed(self, release: Release) -> str | None:
        """Return when the commit was made, UTC, as whoever made it says."""
        return self._commit(release).date

    def _commit(self, release: Release) -> BundledCommit:
        if release.rev != self._rev:
            raise WrongBytes(f"expected the commit {self._rev}, found {release.rev}", where=release.url)
        return BundledCommit(self._bundle, self._rev, release.path or "")


class BundledCommit:
    """A ``Snapshot`` of one folder of a commit, out of a bundle."""

    def __init__(self, bundle: SkillBundle, rev: str, folder: str) -> None:
        self.rev: str | None = rev
        self._bundle = bundle
        proved = folder_at(rev, folder, self._objects)
        self.date, self._leaves = proved.date, proved.leaves
        sizes = {id_: len(self._bundle.get(f"git:{id_}")[1]) for id_ in self._files().values()}
        self.nodes: Mapping[str, SnapshotNode] = nodes_of(self._leaves, sizes)

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of these files, in this order, exactly as the commit has them.

        Raises:
            NotFound: the bundle has no such file.
            WrongBytes: it is another.
        """
        return iter(self._objects("blob", [file_id(self._leaves, path, self._bundle.where) for path in paths]))

    def _files(self) -> dict[str, str]:
        return {path: leaf.id for path, leaf in self._leaves.items() if leaf.node.kind == "file"}

    def _objects(self, kind: str, ids: Sequence[str]) -> list[bytes]:
        return [checked(id_, kind, self._bundle.get(f"git:{id_}")[1]) for id_ in ids]


class BundledTrees(BundledRepository):
    """A place: skills of which a bundle has the files alone, held to the tree that the lock names."""

    def unpacked(self, release: Release) -> Unpacked:
        """Return the files of a locked skill.

        Raises:
            NotFound: the bundle does not have them.
            UnsafeArchive, FormatError: they are what no skill may be.
        """
        if (found := self._bundle.tree(release.name)) is None:
            raise NotFound(f"the bundle does not hold the files of {release.name}", where=self._bundle.where)
        return found

    def committed(self, release: Release) -> None:
        """Return nothing: what is here is in no commit."""
