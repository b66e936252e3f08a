"""Run the tour of the README in a new folder: for systems without support for the tests, such as Windows.

python tests/tour.py    exits 1 at the first command that does not exit 0
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def commands() -> list[str]:
    """Return the commands of the tour."""
    tour = README.read_text(encoding="utf-8").partition("## A tour")[2].partition("\n## ")[0]
    return re.findall(r"^skillhub (.+)$", tour, re.MULTILINE)


def main() -> int:
    """Run them; the program itself names what is missing on this machine."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        project = Path(folder, "project")
        project.mkdir()
        environ = {**os.environ, "SKILLHUB_HOME": str(Path(folder, "home")), "PYTHONUTF8": "1"}
        for line in commands():
            print(f"$ skillhub {line}", flush=True)
            words = [sys.executable, "-I", "-m", "skillhub", *shlex.split(line)]
            done = subprocess.run(words, cwd=project, env=environ, stdin=subprocess.DEVNULL, check=False)
            if done.returncode:
                print(f"exit status {done.returncode}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
