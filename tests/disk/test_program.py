"""Programs are looked for in PATH alone, never in the working folder."""

from __future__ import annotations

import ntpath
import os
from types import SimpleNamespace

import pytest

from skillhub.disk import files
from skillhub.errors import SourceError
from skillhub.sources.git_program import GitLimits, GitProgram

INSTALLED = {r"C:\Git\cmd\git.exe", r"\\host\share\git.exe", r"C:\hostile\git.exe", r"C:\hostile\git.cmd", "git.exe"}


@pytest.fixture
def windows(monkeypatch):
    """Look for programs as on Windows, in the working folder ``C:\\hostile``."""
    path = SimpleNamespace(**{**vars(ntpath), "isfile": lambda each: ntpath.join(r"C:\hostile", each) in INSTALLED})
    has = {"path": path, "name": "nt", "pathsep": ";", "defpath": r".;C:\bin", "access": lambda *_: True}
    monkeypatch.setattr(files, "os", SimpleNamespace(**{**vars(os), **has}))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (r"C:\Git\cmd", r"C:\Git\cmd\git.exe"),
        (r";.;bin;C:;C:bin;C:\Git\cmd", r"C:\Git\cmd\git.exe"),
        (r"\\host\share;C:\Git\cmd", r"\\host\share\git.exe"),
        (";.;", None),
        ("", None),
        (None, None),
    ],
)
def test_attack_windows_starts_no_git_of_the_working_folder(windows, path, found):
    assert files.program("git", {} if path is None else {"PATH": path}) == found
    assert files.program("GIT.EXE", {} if path is None else {"PATH": path}) == found


def test_attack_git_is_started_by_its_whole_path(tmp_path):
    """By its name alone, Windows would first look for it in the working folder."""
    environ = {"PATH": os.environ["PATH"]}
    process = GitProgram(str(tmp_path), environ, (), {}).start(("version",))
    process.communicate()
    assert process.args[0] == files.program("git", environ)
    assert os.path.isabs(process.args[0])


def test_a_program_without_execute_bit_is_none(tmp_path):
    (tmp_path / "git").write_bytes(b"")
    assert files.program("git", {"PATH": str(tmp_path)}) is None
    (tmp_path / "git").chmod(0o755)
    assert files.program("git", {"PATH": f".:{tmp_path}"}) == str(tmp_path / "git")


def test_a_missing_git_is_an_error_with_a_hint(tmp_path):
    with pytest.raises(SourceError) as caught:
        GitProgram(str(tmp_path), {"PATH": str(tmp_path)}, (), {}).run(("version",), GitLimits())
    assert caught.value.hint == "install git"
