"""The inner layer of a skill's signature: an in-toto Statement v1 with OpenSSF Model Signing's predicate.

It lists files and their SHA-256; the digest of its one subject binds the list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from skillhub.errors import BadSignature
from skillhub.model.digest import is_hex
from skillhub.model.text import is_inner_path, quote
from skillhub.model.tree import SIGNATURE, SKILL_MD, Tree
from skillhub.trust.oms_bundle import document, expect, fields, items, shown

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
# Never covered by any signature (specification, 6.2); the reference refuses a signature that covers one.
IGNORED = (".git", ".gitattributes", ".github", ".gitignore")


@dataclass(frozen=True, slots=True)
class Statement:
    """What a signature says of a folder.

    Attributes:
        files: SHA-256 in hex by path, in the order of the statement.
        ignored: Paths, of files or folders, that are not part of what was signed.
    """

    files: dict[str, str]
    ignored: tuple[str, ...] = ()

    @classmethod
    def of(cls, tree: Tree) -> Statement:
        """Return the statement on every file of ``tree`` that a signature can cover, sorted by path."""
        ignored = _folders(IGNORED)
        return cls({path: sha for path, sha in _covered(tree).items() if not _under(path, ignored)}, IGNORED)

    @classmethod
    def parse(cls, payload: bytes) -> Statement:
        """Return the statement that ``payload`` spells.

        Raises:
            BadSignature: ``json``, ``field-type``, ``field-missing``, ``field-unknown``, ``statement-type``,
                ``predicate-type``, ``subject-count``, ``subject-digest``, ``serialization-method``,
                ``hash-type``, ``ignore-path``, ``ignores-skill-md``, ``resource-algorithm``,
                ``resource-path``, ``resource-digest``, ``resource-twice``, ``covers-itself``,
                ``covers-ignored``.
        """
        statement = fields(document(payload), "statement", ("_type", "subject", "predicateType", "predicate"))
        expect("statement-type", "_type", statement["_type"], STATEMENT_TYPE)
        expect("predicate-type", "predicateType", statement["predicateType"], PREDICATE_TYPE)
        predicate = fields(statement["predicate"], "predicate", ("resources", "serialization"))
        ignored = _serialization(predicate["serialization"])
        files = _resources(predicate["resources"])
        uncovered = _folders((*IGNORED, *ignored))
        for path in files:
            if _under(path, uncovered):
                message = "a file that is both covered and ignored by the signature"
                raise BadSignature("covers-ignored", message, where=quote(path))
        found = Statement(files, ignored)
        _check_subject(statement["subject"], found.root_digest)
        return found

    @property
    def root_digest(self) -> str:
        """SHA-256 in hex over the digests of the files, raw and in their order (specification, 6.5.1)."""
        return sha256(bytes.fromhex("".join(self.files.values()))).hexdigest()

    def dump(self, name: str) -> bytes:
        """Return the JSON of the statement on the folder ``name``."""
        resources = [
            {"name": path, "algorithm": "sha256", "digest": digest} for path, digest in self.files.items()
        ]
        serialization = {
            "method": "files",
            "hash_type": "sha256",
            "allow_symlinks": False,
            "ignore_paths": self.ignored,
        }
        statement = {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": name, "digest": {"sha256": self.root_digest}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {"serialization": serialization, "resources": resources},
        }
        return json.dumps(statement, ensure_ascii=False, separators=(",", ":")).encode()

    def match(self, tree: Tree) -> Tree:
        """Return ``tree`` less the ignored files, every other file being as the statement says.

        Raises:
            BadSignature: ``missing-file``, ``extra-file`` or ``changed-file``.
        """
        found = _covered(tree)
        if found == self.files:
            return tree
        ignored = _folders(self.ignored)
        dropped = [path for path in found if _under(path, ignored)]
        for path in dropped:
            del found[path]
        if found == self.files:
            return tree.without(dropped)
        for path, digest in self.files.items():
            if path not in found:
                raise BadSignature(
                    "missing-file", "expected a file that is signed, found none", where=quote(path)
                )
            if found[path] != digest:
                message = f"expected the file with SHA-256 {digest}, found {found[path]}"
                raise BadSignature("changed-file", message, where=quote(path))
        extra = next(path for path in found if path not in self.files)
        raise BadSignature("extra-file", "a file that the signature does not cover", where=quote(extra))


def _serialization(value: object) -> tuple[str, ...]:
    required = ("method", "hash_type", "allow_symlinks")
    found = fields(value, "serialization", required, optional=("ignore_paths", "shard_size"))
    expect("serialization-method", "method", found["method"], "files")
    expect("hash-type", "hash_type", found["hash_type"], "sha256")
    if not isinstance(found["allow_symlinks"], bool):
        message = f"expected true or false as allow_symlinks, found {shown(found['allow_symlinks'])}"
        raise BadSignature("field-type", message, where=SIGNATURE)
    ignored = tuple(
        _path(item, "ignore-path") for item in items(found.get("ignore_paths", []), "ignore_paths")
    )
    if _under(SKILL_MD, _folders(ignored)):
        raise BadSignature("ignores-skill-md", f"expected {SKILL_MD} to be covered, found it ignored")
    return ignored


def _resources(value: object) -> dict[str, str]:
    files: dict[str, str] = {}
    for item in items(value, "resources"):
        # Resource descriptors may have fields of their own making (specification, 5.2.1).
        if not isinstance(item, dict):
            raise BadSignature("field-type", f"expected an object as resource, found {shown(item)}")
        path, digest = _path(item.get("name"), "resource-path"), item.get("digest")
        expect("resource-algorithm", "algorithm", item.get("algorithm"), "sha256")
        if not isinstance(digest, str) or not is_hex(digest):
            raise BadSignature(
                "resource-digest", f"expected SHA-256 in hex, found {shown(digest)}", where=quote(path)
            )
        if path in files:
            raise BadSignature("resource-twice", "a file that the signature lists twice", where=quote(path))
        files[path] = digest
    if SIGNATURE in files:
        raise BadSignature("covers-itself", "a signature that covers itself", where=SIGNATURE)
    return files


def _check_subject(value: object, expected: str) -> None:
    subjects = items(value, "subject")
    if len(subjects) != 1:
        raise BadSignature("subject-count", f"expected one subject, found {len(subjects)}", where=SIGNATURE)
    subject = subjects[0]
    if not isinstance(subject, dict) or not isinstance(subject.get("name"), str) or not subject["name"]:
        raise BadSignature("field-missing", "expected a name in the subject, found none", where=SIGNATURE)
    if subject.get("digest") != {"sha256": expected}:
        message = f"expected the SHA-256 {expected} of the listed files, found {shown(subject.get('digest'))}"
        raise BadSignature("subject-digest", message, where=SIGNATURE)


def _path(value: object, reason: str) -> str:
    """Return ``value`` if it is the one spelling of a path inside the folder; ``.`` would be all of it."""
    if not isinstance(value, str) or "\0" in value or not is_inner_path(value):
        raise BadSignature(reason, f"expected a path inside the skill, found {shown(value)}", where=SIGNATURE)
    return value


def _covered(tree: Tree) -> dict[str, str]:
    return {path: file.sha256 for path, file in tree.listing.items() if path != SIGNATURE}


def _folders(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(path + "/" for path in paths)


def _under(path: str, folders: tuple[str, ...]) -> bool:
    return (path + "/").startswith(folders)
