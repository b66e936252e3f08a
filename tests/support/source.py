"""The source of skillhub, read once by each process of the tests."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
MODULES = sorted((REPO / "skillhub").rglob("*.py"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return all nodes of a file's syntax tree, the module first."""
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))
