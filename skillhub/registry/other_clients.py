"""The shapes in which other clients install from a registry: static files that are built from its signed ones.

They are unsigned, and contain only the bytes of signed releases; `registry check` compares them.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha1, sha512
from itertools import chain
from typing import Any, Final

from skillhub.archive.limits import RESERVED
from skillhub.archive.unpack import unpack
from skillhub.errors import WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.document import ExtensibleDocument, Items, Sha256, json_bytes
from skillhub.formats.text import grouped
from skillhub.model.advisory import AdvisoryIndex, AdvisorySubject, Match
from skillhub.model.index import Release
from skillhub.model.tree import File, ListedFile, Listing, Tree
from skillhub.registry.git_objects import FOLDER, Objects, ids_of, packs, read_object, read_pack
from skillhub.trust.documents import best_release, bucket_of
from skillhub.trust.roles import OWN, SIGNED_FOLDERS

NPM: Final = f"{OWN}/npm"
DOCUMENTS: Final = f"{OWN}/clients"
REPOSITORY: Final = "skills.git"
BRANCH: Final = "refs/heads/main"
SEARCH: Final = "api/search"
MARKETPLACES: Final = ("marketplace.json", ".claude-plugin/marketplace.json")
OPENCODE: Final = "index.json"
LISTS: Final = f"{OWN}/lists"
_PLUGIN_SCHEMA: Final = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
FILE_CAP: Final = 128 << 20  # bytes; a skill has at most 64 MiB, and a pack exceeds its limit by at most one skill
# More than so many packs with fewer than so many objects are merged into one.
_PACKS_MAX, _FEW_OBJECTS = 24, 4096
# Folders in which some web servers run every file.
_PROGRAMS: Final = ("cgi-bin", "htbin")
# Folders of signed files, routes of `registry serve`, and top-level files without a dot: no folder of a skill.
_RESERVED_FOLDERS: Final = SIGNED_FOLDERS | {"api", "registry", "checkpoint", *_PROGRAMS}
# Suffixes, anywhere in a name, of files that a browser runs as a document, or a web server as a program.
_RUNS: Final = re.compile(
    r"(?i)\.(?:[sx]?html?|shtm|xht|svgz?|xml|xslt?|mht|mhtml|rss|atom|rdf|htc"
    r"|php[0-9]*|phtml|pht|phar|aspx?|ashx|asmx|cer|jspx?|cfm|f?cgi)(?=\.|/|$)"
)
_CONFIGURES: Final = re.compile(r"(?i)(?:^|/)(?:\.ht[^/]*|\.user\.ini|web\.config)$|(?:^|/)\.well-known(?:/|$)")
# For an unknown suffix, a server may let the browser guess the type; these bytes look like a page, also in UTF-16.
_LIKE_A_PAGE: Final = re.compile(rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\t\n\f\r \0]*<")
_NOT_IN_A_URL: Final = re.compile(r"[%?#]|^\.opencode-version$")
_NOT_IN_NPM: Final = frozenset({"npm"})  # npm asks the registry for this name to update itself


class ClientFile(ExtensibleDocument):
    """A file of a skill."""

    path: str
    sha256: str
    size: int
    executable: bool


class ClientDocument(ExtensibleDocument):
    """The facts about the one release of a skill that other clients get; ``-/clients/<name>.json``.

    Attributes:
        plugin: The id of its plugin's folder in the git repository.
        left_out: The reason why a shape lacks the skill, by shape.
    """

    CAP = FILE_CAP

    name: str
    version: str
    published: str
    publisher: str
    description: str
    tree: Sha256
    plugin: str
    left_out: dict[str, str]
    files: Items[ClientFile]


class ClientDocuments(ExtensibleDocument):
    """The documents of the skills of a bucket; ``-/lists/<bucket>.json``."""

    CAP = FILE_CAP

    skills: Items[ClientDocument]


@dataclass(frozen=True)
class OfferedSkill:
    """One skill: its releases, newest first, and their trees; each archive is verified when it is read.

    Attributes:
        artifact: Returns the archive of a release.
        advisories: The registry's advisories about known bad releases.
        root: The fingerprint of the registry.
    """

    name: str
    releases: tuple[Release, ...]
    artifact: Callable[[Release], bytes]
    advisories: AdvisoryIndex
    root: Digest
    _trees: dict[str, Tree | None] = field(default_factory=dict, repr=False)

    @property
    def best(self) -> Release:
        """The newest release that is neither yanked nor withdrawn; else the newest yanked one; else the newest."""
        return best_release(self.releases)

    def tree(self, release: Release) -> Tree | None:
        """Return the tree of a release; None for a withdrawn one, which is neither shown nor served.

        Raises:
            SecurityError: the archive does not match its signed digest.
            StateError, SourceError: the archive is missing.
        """
        if release.withdrawn is not None:
            return None
        if release.url not in self._trees:
            self._trees[release.url] = unpack(self.artifact(release), "zip", wrapper=False).tree
        return self._trees[release.url]

    def known_bad(self, release: Release) -> tuple[Match, ...]:
        """Return the registry's advisories that match a release by its version, its archive or its tree."""
        digests = {str(release.digest): "its artifact", str(release.tree): "its tree"}
        subject = AdvisorySubject(release.name, lambda: (release.version or "",), self.root, tuple, lambda: digests)
        return self.advisories.matches(subject)


def offered(skill: OfferedSkill) -> Release | None:
    """Return the newest release without yank, withdrawal or advisory, for clients that know none of these."""
    return next((release for release in skill.releases if not (release.taken_back or skill.known_bad(release))), None)


# The files of one skill: its document, its folder, its plugin, its packages.


def skill_files(
    skill: OfferedSkill, url: str | None, pack: Callable[[Release, Tree], bytes]
) -> Iterator[tuple[str, bytes]]:
    """Yield the files about one skill; none if it has no release for other clients.

    Args:
        skill: The skill.
        url: The URL of the site, or None if it is unknown.
        pack: Makes a package for npm.
    """
    release_and_tree = offered_tree(skill)
    if release_and_tree is None:
        return
    release, tree = release_and_tree
    document = document_of(release, tree)
    yield document_path(skill.name), document.dump()
    if skill.name not in _RESERVED_FOLDERS:
        yield from (
            (f"{skill.name}/{path}", file.data) for path, file in tree.items() if not _why_not(path, file.data)
        )
    if "npm" not in document.left_out:
        tarballs = {each: pack(each, content) for each, content in _packages(skill)}
        yield from ((f"{NPM}/{tarball_path(each.name, each.version)}", data) for each, data in tarballs.items())
        yield f"{NPM}/{skill.name}", json_bytes(packument(tarballs, url))


def offered_tree(skill: OfferedSkill) -> tuple[Release, Tree] | None:
    """Return the release for other clients, with its tree, or None."""
    # Windows cannot store files with reserved names, so a whole clone would fail there.
    release = None if RESERVED.match(skill.name) else offered(skill)
    tree = skill.tree(release) if release else None
    return (release, tree) if release and tree else None


def document_path(name: str) -> str:
    """Return the path of the document of a skill below the site."""
    return f"{DOCUMENTS}/{name}.json"


def list_path(name: str) -> str:
    """Return the path of the list with the documents of all skills in the same bucket."""
    return f"{LISTS}/{bucket_of(name)}.json"


def marks_of(name: str) -> tuple[str, str]:
    """Return two paths of which a site with shapes has at least one for each skill in them."""
    return document_path(name), f"{NPM}/{name}"


def document_of(release: Release, tree: Tree) -> ClientDocument:
    """Return the document of a release, with the shapes that lack it."""
    left_out = {}
    if release.name in _RESERVED_FOLDERS:
        left_out["opencode"] = "a folder of the registry has its name"
    elif why := next((why for path, file in tree.items() if (why := _why_not(path, file.data, url=True))), ""):
        left_out["opencode"] = why
    if release.name in _NOT_IN_NPM or "+" in (release.version or ""):
        left_out["npm"] = "npm has another meaning for its name or version"
    files = tuple(
        ClientFile(path=path, sha256=listed.sha256, size=len(tree[path].data), executable=listed.executable)
        for path, listed in tree.listing.items()
    )
    of_release = ("name", "version", "published", "publisher", "description")
    facts = {name: getattr(release, name) or "" for name in of_release}
    details = {"tree": tree.digest, "plugin": plugin_objects(release, tree)[1], "left_out": left_out, "files": files}
    return ClientDocument.model_validate({**facts, **details})


def _why_not(path: str, data: bytes, *, url: bool = False) -> str:
    """Return why a file is not served in the folder of its skill; empty if it is.

    With ``url``, also return why its path cannot be in a list of URLs.
    """
    if _RUNS.search(path) or _LIKE_A_PAGE.match(data):
        return f"{path} could run in a browser or on the server"
    if _CONFIGURES.search(path):
        return f"{path} could configure the server"
    return f"{path} cannot be a path of a URL" if url and _NOT_IN_A_URL.search(path) else ""


def plugin_objects(release: Release, tree: Tree) -> tuple[Objects, str]:
    """Return the folder of a plugin with one skill (Agent Plugins 1.0) as git objects, and its id."""
    objects = Objects()
    manifest = objects.put("blob", _manifest(release))
    files = {"plugin.json": ("100644", manifest), f"skills/{release.name}": (FOLDER, objects.put_files(tree))}
    return objects, objects.put_folder(files)


def package_files(release: Release, tree: Tree) -> Tree:
    """Return the files of the same plugin as an npm package."""
    manifests = {"package.json": File(json_bytes(_facts(release))), "plugin.json": File(_manifest(release))}
    skill_files = {f"skills/{release.name}/{path}": file for path, file in tree.items()}
    return Tree({f"package/{path}": file for path, file in {**manifests, **skill_files}.items()})


def _manifest(release: Release) -> bytes:
    extension = {"io.github.skillhub": {"tree": release.tree}}
    return json_bytes({"$schema": _PLUGIN_SCHEMA, **_facts(release), **_author(release), "extensions": extension})


def _facts(release: Release | ClientDocument) -> dict[str, Any]:
    return {"name": release.name, "version": release.version, "description": release.description}


def _author(release: Release | ClientDocument) -> dict[str, Any]:
    return {"author": {"name": release.publisher}}


def _packages(skill: OfferedSkill) -> Iterator[tuple[Release, Tree]]:
    for release in skill.releases:
        tree = skill.tree(release)
        if tree is not None and "+" not in (release.version or "") and not skill.known_bad(release):
            yield release, tree


def tarball_path(name: str, version: str | None) -> str:
    """Return the path of a package below the folder of packages; no skill has the name ``-``."""
    return f"-/{name}-{version}.tgz"


def packument(tarballs: Mapping[Release, bytes], url: str | None) -> dict[str, Any]:
    """Return npm's document of a package; its latest version is the newest that is neither yanked nor withdrawn.

    Args:
        tarballs: The package of each release, newest first.
        url: The URL of the site. With None, the URLs of packages are relative, and `registry serve` completes them.
    """
    latest = next(release for release in tarballs if not release.taken_back)
    rows = {}
    for release, data in tarballs.items():
        path = tarball_path(release.name, release.version)
        place = f"{url}/{NPM}/{path}" if url else path
        integrity = "sha512-" + b64encode(sha512(data).digest()).decode()
        shasum = sha1(data, usedforsecurity=False).hexdigest()
        row = {**_facts(release), "dist": {"tarball": place, "integrity": integrity, "shasum": shasum}}
        rows[release.version] = row | ({"deprecated": release.taken_back} if release.taken_back else {})
    times = {release.version: release.published for release in tarballs}
    facts = {"name": latest.name, "description": latest.description, "versions": rows, "time": times}
    return {**facts, "dist-tags": {"latest": latest.version}}


# The files about all skills: lists, and the git repository.


def is_proved(document: ClientDocument, release: Release) -> bool:
    """Return whether an unsigned document matches a signed release and the digest of its tree."""
    facts = ("name", "version", "published", "publisher", "description", "tree")
    listing = Listing((file.path, ListedFile(file.sha256, file.executable)) for file in document.files)
    is_same = all(getattr(document, fact) == (getattr(release, fact) or "") for fact in facts)
    return is_same and listing.digest == release.tree


def lists(documents: Sequence[ClientDocument], name: str, url: str | None) -> Iterator[tuple[str, bytes]]:
    """Yield the lists of all skills, one for each kind of client."""
    listed = (document for document in documents if "opencode" not in document.left_out)
    rows = [{**_facts(document), "files": [file.path for file in document.files]} for document in listed]
    yield OPENCODE, json_bytes({"skills": rows})
    yield SEARCH, json_bytes(found_by_search(documents, url))
    for path in MARKETPLACES:
        yield path, json_bytes(marketplace(documents, name, url))
    buckets = grouped((list_path(document.name), document.model_dump()) for document in documents)
    for path, part in sorted(buckets.items()):
        yield path, json.dumps({"skills": part}, separators=(",", ":")).encode()
    yield ".nojekyll", b""  # makes GitHub Pages serve names that begin with a dot


def found_by_search(documents: Iterable[ClientDocument], url: str | None) -> dict[str, Any]:
    """Return the answer for `npx skills find`."""
    # The program shows the source with `@` and the name after it, and a person types that text. Behind `#`, the name
    # is a fragment, so the URL still leads to the index of this skill, not to the index of all skills.
    rows = [
        {**_facts(skill), "id": skill.name, "source": f"{url}/{skill.name}#" if url else skill.name, "installs": 0}
        for skill in documents
    ]
    return {"skills": rows, "count": len(rows)}


def marketplace(documents: Iterable[ClientDocument], name: str, url: str | None) -> dict[str, Any]:
    """Return the marketplace of Claude Code with npm packages as plugins.

    Without the site's URL, the plugins are folders beside the file, so only a full copy of the site can serve them.
    """
    rows = []
    for document in documents:
        registry = f"{url}/{NPM}/"
        source: Any = {"source": "npm", "package": document.name, "version": document.version, "registry": registry}
        row = {**_facts(document), **_author(document), "source": source}
        if url is None:
            row |= {"source": f"./{document.name}", "strict": False, "skills": ["./"]}
        if ("npm" if url else "opencode") not in document.left_out:
            rows.append(row)
    return {**_catalog_facts(name), "plugins": rows}


def plugin_catalogs(documents: Sequence[ClientDocument], name: str) -> dict[str, bytes]:
    """Return the top-level files of the repository by path: the catalogs, and attributes that prevent conversion."""
    claude = [{**_facts(skill), **_author(skill), "source": f"./plugins/{skill.name}"} for skill in documents]
    policy = {"installation": "AVAILABLE", "authentication": "ON_INSTALL"}
    more = {"policy": policy, "category": "Productivity"}
    codex = [{"name": item["name"], "source": {"source": "local", "path": item["source"]}, **more} for item in claude]
    codex_catalog = {"name": name, "interface": {"displayName": name}, "plugins": codex}
    claude_catalog = {**_catalog_facts(name), "plugins": claude}
    catalogs = {MARKETPLACES[1]: claude_catalog, ".agents/plugins/marketplace.json": codex_catalog}
    return {**{path: json_bytes(catalog) for path, catalog in catalogs.items()}, ".gitattributes": b"* -text\n"}


def _catalog_facts(name: str) -> dict[str, Any]:
    return {"name": name, "owner": {"name": name}, "metadata": {"description": f"Skills of {name}"}}


def top_objects(documents: Iterable[ClientDocument], catalogs: Mapping[str, bytes]) -> tuple[Objects, str]:
    """Return the folder of a commit, without the contents of its plugins, as git objects, and its id."""
    top = Objects()
    entries = {path: ("100644", top.put("blob", data)) for path, data in catalogs.items()}
    return top, top.put_folder(entries | {f"plugins/{skill.name}": (FOLDER, skill.plugin) for skill in documents})


class StaticRepository:
    """The present git repository of a site; if there is none, it is empty.

    Args:
        read: Returns a file of the repository, or None.
    """

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._read = read
        listed = re.findall(rb"^P pack-([0-9a-f]{40})\.pack$", read("objects/info/packs") or b"", re.MULTILINE)
        names = [name.decode() for name in listed]
        self.indexes = {name: read(f"objects/pack/pack-{name}.idx") or b"" for name in names}
        self.ids = {id_ for index in self.indexes.values() for id_ in ids_of(index)}
        tip = (read(BRANCH) or b"").decode("ascii", "replace").strip()
        self.tip = tip if tip in self.ids else None

    def root(self) -> str | None:
        """Return the id of the newest commit's folder, or None if there is no commit."""
        for name, index in self.indexes.items():
            if self.tip and self.tip in ids_of(index):
                commit = read_object(self.pack(name), index, self.tip)
                return commit[len("tree ") : 45].decode("ascii", "replace")
        return None

    def pack(self, name: str) -> bytes:
        """Return a pack; raises WrongBytes if it is missing."""
        data = self._read(f"objects/pack/pack-{name}.pack")
        if data is None:
            raise WrongBytes("expected a pack of git", where=name)
        return data

    def revised(
        self,
        documents: Sequence[ClientDocument],
        catalogs: Mapping[str, bytes],
        objects: Callable[[ClientDocument], Objects],
        settings: tuple[int, int],
    ) -> Iterator[tuple[str, bytes | None]]:
        """Yield the files of the repository, with a new commit if anything changed; unchanged files have no bytes.

        Args:
            documents: The documents of all skills.
            catalogs: The top-level files.
            objects: Returns the git objects of a skill's plugin.
            settings: The time of the commit, and the level of zlib.
        """
        when, level = settings
        top, root = top_objects(documents, catalogs)
        tip, small = self.tip, [name for name, index in self.indexes.items() if len(ids_of(index)) < _FEW_OBJECTS]
        merged = small if len(small) > _PACKS_MAX else []
        kept_names = [name for name, index in self.indexes.items() if name not in merged and ids_of(index)]
        fresh: Iterable[Objects] = (read_pack(self.pack(name), name)[0] for name in merged)
        if self.root() != root:
            identity = f"skillhub <> {when} +0000"
            parent = f"parent {tip}\n" if tip else ""
            text = f"tree {root}\n{parent}author {identity}\ncommitter {identity}\n\nThe skills of the registry\n"
            tip = top.put("commit", text.encode())
            fresh = chain(fresh, (objects(skill) for skill in documents if skill.plugin not in self.ids), [top])
        kept_ids = {id_ for name in kept_names for id_ in ids_of(self.indexes[name])}
        for name in kept_names:
            yield from ((f"objects/pack/pack-{name}.{kind}", None) for kind in ("pack", "idx"))
        for pack in packs((group.without(kept_ids) for group in fresh), level):
            kept_names.append(pack.name)
            yield f"objects/pack/pack-{pack.name}.pack", pack.data
            yield f"objects/pack/pack-{pack.name}.idx", pack.index
        yield "objects/info/packs", "".join(f"P pack-{name}.pack\n" for name in kept_names).encode() + b"\n"
        yield from pointers(tip)


def pointers(tip: str | None) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a repository that name its newest commit."""
    yield "HEAD", f"ref: {BRANCH}\n".encode()
    yield BRANCH, f"{tip}\n".encode()
    yield "info/refs", f"{tip}\t{BRANCH}\n".encode()
