"""What can be seen in a skill without running it.

The patterns by which it is seen are loaded with the first skill that is looked at: an install with nothing to do
looks at none, and they take a quarter of its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillhub.model.finding import Finding
from skillhub.model.tree import Tree

if TYPE_CHECKING:
    from skillhub.model.manifest import Manifest

# Skills from which on other processes scan, too: even a copy of this one costs as much as the scan of about so many.
MANY: Final = 24


def scan(tree: Tree) -> tuple[Finding, ...]:
    """Return what the rules see in ``tree``: the worst first, then by path, line and rule.

    The same tree gives the same findings on every machine. Every file is searched to its end; of each rule at most
    ten lines of a file are named.
    """
    from skillhub.scan import scanner  # noqa: PLC0415

    return scanner.scan(tree)


def capabilities(tree: Tree, manifest: Manifest) -> tuple[str, ...]:
    """Return what the skill in ``tree`` can do, sorted, each once; ``skillhub/scan/capability.py`` says by what."""
    from skillhub.scan import capability  # noqa: PLC0415

    return capability.capabilities(tree, manifest)


def capabilities_and_findings(tree: Tree, manifest: Manifest) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Return the capabilities of the skill in ``tree`` and the findings; both together read each file once."""
    from skillhub.scan import capability, scanner, skill_files  # noqa: PLC0415

    sources = skill_files.SkillFiles(tree)
    return capability.capabilities(tree, manifest, sources), scanner.scan(tree, sources)


def load() -> None:
    """Load what scans: for whoever waits for something else meanwhile, as an install does for an index."""
    from skillhub.scan import capability, scanner, skill_files  # noqa: F401, PLC0415


def masked(line: bytes) -> bytes:
    """Return a line without the secrets in it; ``skillhub/scan/secrets.py`` says what those are."""
    from skillhub.scan import secrets  # noqa: PLC0415

    return secrets.masked(line)
