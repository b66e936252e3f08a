"""The static scan of a skill: its findings and its capabilities. No file of the skill is run.

The modules with the patterns are imported when the first skill is scanned: an install with nothing to do scans no
skill, and the import would take a quarter of its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillhub.errors import SkillhubError
from skillhub.model.finding import Finding
from skillhub.model.tree import Tree

if TYPE_CHECKING:
    from skillhub.model.manifest import Manifest

# From this number of skills on, other processes scan too: to fork this process costs as much as about so many scans.
MANY: Final = 24


def scan(tree: Tree) -> tuple[Finding, ...]:
    """Return the findings in ``tree``, the most severe first, then by path, line and rule.

    The same tree gives the same findings on every machine. The scan reports each rule on at most ten lines of a file,
    and a file that it does not read to its end.
    """
    from skillhub.scan import scanner  # noqa: PLC0415

    return scanner.scan(tree)


def capabilities(tree: Tree, manifest: Manifest) -> tuple[str, ...]:
    """Return the capabilities of the skill in ``tree``, sorted and unique (``skillhub/scan/capability.py``)."""
    from skillhub.scan import capability  # noqa: PLC0415

    return capability.capabilities(tree, manifest)


def capabilities_and_findings(tree: Tree, manifest: Manifest) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Return the capabilities of the skill in ``tree``, and its findings; each file is read once for both."""
    from skillhub.scan import capability, scanner, skill_files  # noqa: PLC0415

    sources = skill_files.SkillFiles(tree)
    return capability.capabilities(tree, manifest, sources), scanner.scan(tree, sources)


@dataclass(frozen=True, slots=True)
class ScannedSkill:
    """The result of scanning a skill.

    Attributes:
        findings: The findings, the most severe first.
        capabilities: The capabilities; None if the manifest cannot be read.
        fault: Why the manifest cannot be read; else empty.
        breaches: The violations of the specification that do not prevent an install.
    """

    findings: tuple[Finding, ...]
    capabilities: tuple[str, ...] | None
    fault: str = ""
    breaches: tuple[str, ...] = ()

    @classmethod
    def read(cls, tree: Tree) -> ScannedSkill:
        """Read the manifest of a tree, and scan the tree."""
        from skillhub.model.manifest import Manifest  # noqa: PLC0415

        try:
            manifest = Manifest.read(tree)
            capabilities, findings = capabilities_and_findings(tree, manifest)
            breaches = (f"{breach.message} [{breach.code}]" for breach in manifest.breaches)
            return cls(findings, capabilities, breaches=tuple(breaches))
        except SkillhubError as error:
            return cls(scan(tree), None, error.message)


def load() -> None:
    """Import the modules of the scan, for a caller that would otherwise wait idly, as an install for an index."""
    from skillhub.scan import capability, scanner, skill_files  # noqa: F401, PLC0415


def masked(line: bytes) -> bytes:
    """Return a line with its secrets masked (``skillhub/scan/secrets.py``)."""
    from skillhub.scan import secrets  # noqa: PLC0415

    return secrets.masked(line)
