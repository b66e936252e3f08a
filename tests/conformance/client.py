"""The client that ``tuf-conformance`` tests: our registry client and our fetcher behind the suite's command line.

The root given to ``init`` is what a person pinned. Targets are kept under the quoted path.
"""

from __future__ import annotations

import argparse
import os
import sys
from urllib.parse import quote

from skillhub.disk.files import read, write_atomic
from skillhub.errors import NotFound, SkillhubError
from skillhub.net.client import Http
from skillhub.sources.configured import ROOT_CAP
from skillhub.sources.registry_client import TufRegistry

PINNED = "pinned"  # Not `*.json`: the suite takes every such file for a role.


def init(folder: str, root: str) -> None:
    data = read(root, ROOT_CAP) or b""
    for name in (PINNED, "root.json"):
        write_atomic(os.path.join(folder, name), data)


def refresh(folder: str, url: str, fetcher: Http) -> TufRegistry:
    base = url.rstrip("/").removesuffix("/metadata")
    root = read(os.path.join(folder, PINNED), ROOT_CAP) or b""
    return TufRegistry.open(base, root, fetcher, folder)


def download(registry: TufRegistry, path: str, folder: str) -> None:
    data = registry.document(path, lambda data, where: data)
    if data is None:
        raise NotFound("there is no such target", where=path)
    place = os.path.join(folder, quote(path, ""))
    if read(place, len(data)) != data:
        write_atomic(place, data)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metadata-dir", required=True)
    parser.add_argument("--metadata-url")
    parser.add_argument("--target-name", action="append", default=[])
    parser.add_argument("--target-base-url")
    parser.add_argument("--target-dir")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("init").add_argument("root")
    verbs.add_parser("refresh")
    verbs.add_parser("download")
    return parser.parse_args()


def main() -> int:
    given = options()
    try:
        if given.verb == "init":
            init(given.metadata_dir, given.root)
            return 0
        with Http() as fetcher:
            registry = refresh(given.metadata_dir, given.metadata_url, fetcher)
            for path in given.target_name if given.verb == "download" else ():
                download(registry, path, given.target_dir)
    except SkillhubError as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
