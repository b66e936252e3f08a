"""The Makefile: set up once, in a clone of any name, even if the clone is renamed afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
# Stands in for Python: makes the files of an environment and records its arguments.
STAND_IN = """\
#!/bin/sh
if [ "$1 $2 $3" = "-I -m venv" ]; then
  case "$4" in /*) to="$4" ;; *) to="$PWD/$4" ;; esac
  case "$to" in *:*) exit 1 ;; esac  # as venv does
  mkdir -p "$to/bin" "$to/lib/python3.11/site-packages"
  cp "$0" "$to/bin/python"
fi
echo "$@" >> {notes}
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="takes make")
@pytest.mark.parametrize("name", ["plain", "we$ird 'n#ä\"me; x%", "$(shell false)", "a:b", "back\\slash"])
def test_a_clone_of_any_name_is_set_up_once(tmp_path, name):
    clone, notes, python = tmp_path / name, tmp_path / "notes", tmp_path / "python"
    clone.mkdir()
    for each in ("Makefile", "pyproject.toml"):
        shutil.copy(REPO / each, clone)
    python.write_text(STAND_IN.format(notes=notes))
    python.chmod(0o755)

    def run() -> list[str]:
        notes.write_text("")
        words = ["make", "--no-print-directory", "demo", f"PYTHON={python}"]
        subprocess.run(words, cwd=clone, check=True, capture_output=True, env={"PATH": os.environ["PATH"]})
        return [row for row in notes.read_text().splitlines() if row != "-V"]

    assert run()[-1] == "docs/demo.py"
    path = clone / ".venv/lib/python3.11/site-packages"
    assert (path / (path / "skillhub.pth").read_text().strip()).resolve() == clone.resolve()
    clone = clone.rename(tmp_path / f"{name} moved")
    assert run() == ["docs/demo.py"]


@pytest.mark.skipif(shutil.which("make") is None, reason="takes make")
def test_make_with_another_python_than_that_of_the_environment_makes_it_again(tmp_path):
    for name, version in ((".venv/bin/python", "3.11.1"), ("same", "3.11.1"), ("newer", "3.12.0")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\necho Python {version}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / ".venv/.ready").touch()
    for words, is_made in (([], False), (["PYTHON=./same"], False), (["PYTHON=./newer"], True)):
        made = subprocess.run(
            ["make", "-n", "-f", REPO / "Makefile", *words, "demo"],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ("-m venv" in made.stdout) == is_made, made.stdout


def test_make_runs_only_python_of_the_environment():
    text = (REPO / "Makefile").read_text()
    assert set(part.split()[0] for part in text.split("$(BIN)/")[1:]) == {"python"}


@pytest.mark.skipif(shutil.which("make") is None, reason="takes make")
def test_make_alone_lists_what_it_does_in_one_row_each():
    done = subprocess.run(["make", "--no-print-directory"], cwd=REPO, check=True, capture_output=True, text=True)
    assert [row for row in done.stdout.splitlines() if len(row) > 79 or row[16:18] != "  "] == []
