"""The picker alone, as a program: each word is a skill in JSON, its name, plugin and description."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from skillhub.cli.common import Common
from skillhub.cli.main import ready
from skillhub.cli.network import pick_releases
from skillhub.model.index import Release


def main(args: Sequence[str]) -> int:
    ready()
    if "WITHOUT_EXTRA" in os.environ:
        sys.modules["prompt_toolkit"] = None  # as for an import system that does not find it
    offered = [
        Release(name=n, plugin=p, path=f"x/{p}/{n}", description=d, url="u") for n, p, d in map(json.loads, args)
    ]
    print("picked", [offered.index(each) for each in pick_releases(Common(), offered)])
    return 0
