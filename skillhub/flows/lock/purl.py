"""Package URLs (purl) of locked skills: how bills of materials name what is from where."""

from __future__ import annotations

from packageurl import PackageURL

from skillhub.model.lock import Locked
from skillhub.model.ref import GitHub, parse_remote


def purl(name: str, entry: Locked) -> PackageURL | None:
    """Return the package URL of a skill; None of one that lies on a machine and so has no place for others.

    There is no type for skills; what is not from GitHub is of the type ``generic``, with its place as a qualifier.
    """
    if entry.local:
        return None
    if entry.git is None:
        given = {"download_url": entry.url, "checksum": entry.digest}
        return PackageURL("generic", None, name, entry.version, {k: v for k, v in given.items() if v})
    place = parse_remote(entry.place)
    if isinstance(place, GitHub):
        return PackageURL("github", place.owner, place.repo, entry.rev, None, entry.path)
    qualifiers = {"vcs_url": f"git+{entry.git}@{entry.rev}"}
    return PackageURL("generic", None, name, entry.version, qualifiers, entry.path)
