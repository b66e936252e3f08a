"""Each clause of the conformance table names an existing test."""

import ast
import re
from functools import cache
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
PAGE = (REPO / "docs" / "formats" / "discovery.md").read_text("utf-8")
NAMED = re.compile(r"\[`([\w./-]+): (\w+)`\]\(([^)]+)\)")


@cache
def named_in(path):
    tree = ast.parse((REPO / path).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_row_names_an_existing_test():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "| tested in |" not in line]
    assert len(rows) > 30
    for row in rows:
        named = NAMED.findall(row)
        assert named, row
        for path, name, target in named:
            assert target == f"../../{path}"
            assert name in named_in(path), name
