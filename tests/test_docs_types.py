"""A type checker accepts the examples for hosts, as a host that copies them would have it."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is a tool for developers")
def test_examples_pass_a_strict_type_checker(tmp_path):
    files = [*(REPO / "docs/examples").glob("*.py")]
    for page, before in (("runtime", ""), ("api", "FOLDER = '.'\n")):
        text = (REPO / "docs" / f"{page}.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        files.append(tmp_path / f"{page}_page.py")
        files[-1].write_text(before + "\n".join(blocks), encoding="utf-8")
    checker = [sys.executable, "-P", "-m", "mypy", "--strict", "--cache-dir", str(REPO / ".mypy_cache")]
    done = subprocess.run([*checker, *map(str, files)], capture_output=True, text=True, check=False, cwd=REPO)
    assert (done.stdout.splitlines()[-1:], done.stderr) == (
        [f"Success: no issues found in {len(files)} source files"],
        "",
    )
