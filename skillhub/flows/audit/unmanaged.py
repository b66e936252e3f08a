"""Audit of skills that are in no lock: in agents' folders, and at paths that a person names."""

from __future__ import annotations

import os
from collections.abc import Iterator

from skillhub.errors import SkillhubError, UnsafeArchive
from skillhub.flows.audit.locations import Locations
from skillhub.flows.audit.rules import RULES, note, seen
from skillhub.flows.author import Signature, signature_of, validate
from skillhub.flows.ports import Ports
from skillhub.model.finding import Finding, Issue
from skillhub.model.manifest import Manifest
from skillhub.model.tree import SIGNATURE, Tree
from skillhub.scan import scan
from skillhub.world.local import read_local


def unmanaged(folder: str, locations: Locations, ports: Ports) -> Iterator[Finding]:
    """Look at a skill that lies in an agent's folder and that no lock knows."""
    name, shown = os.path.basename(folder), locations.shown(folder)
    yield note("unmanaged", "an agent reads it, and no lock knows it", name, (shown, 0))
    try:
        tree = read_local(folder)[0].tree
        Manifest.read(tree)
    except SkillhubError as error:
        rule = "unsafe-archive" if isinstance(error, UnsafeArchive) else "malformed"
        yield note(rule, error.message, name, (shown, 0))
        return
    signature = signature_of(tree, ports.publishers, ports.clock())[1]
    yield from _content(tree, signature, name, shown)


def at_path(path: str, locations: Locations, ports: Ports) -> Iterator[Finding]:
    """Look at a folder or an archive as ``validate`` does, and scan it.

    Raises:
        NotFound: nothing is there.
        UsageError: a file that is no archive.
        StateError: it cannot be read.
    """
    found = validate(path, ports.publishers, ports.clock())
    shown = locations.shown(os.path.abspath(os.path.expanduser(path)))
    name = found.name or os.path.basename(shown)
    for issue in found.errors:
        yield _issue(issue, issue.code if issue.code in RULES else "malformed", name, shown)
    for issue in found.warnings:
        yield _issue(issue, "form", name, shown)
    if found.content is not None and found.signature is not None:
        if found.signature.status == "unsigned":
            yield note("unsigned", "nobody signed it", name, (shown, 0))
        yield from _content(found.content, found.signature, name, shown)


def _content(tree: Tree, signature: Signature, name: str, shown: str) -> Iterator[Finding]:
    if signature.status == "invalid":
        rule = "revoked" if signature.code == "revoked" else "signature"
        yield note(rule, signature.message, name, (f"{shown}/{SIGNATURE}", 0))
    for found in scan(tree):
        yield seen(found, name, shown)


def _issue(issue: Issue, rule: str, name: str, shown: str) -> Finding:
    return note(rule, f"{issue.message} [{issue.code}]", name, (shown, 0))
