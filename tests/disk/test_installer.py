"""The program that installed skillhub, recognized by its files, and the commands of that program."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.cli import REPO

ASK = """
import sys
from skillhub.disk.installer import extra_command, removal_command
print(extra_command(sys.argv[1]))
print(removal_command())
"""
METADATA = """Metadata-Version: 2.4
Name: skillhub
Version: 1
Requires-Dist: httpx<1
Requires-Dist: boto3<2,>=1.36; extra == "s3"
Requires-Dist: pytest; extra == "test"
Requires-Dist: mcp<3,>=2.3 ; extra=='server'
Requires-Dist: uvicorn<1 ; extra == 'server'
"""


class Environment:
    """A virtual environment with the files of an installer; ``python`` runs in it."""

    def __init__(self, made, folder, metadata=METADATA):
        self.folder = folder / "my venv"
        shutil.copytree(made, self.folder, symlinks=True)
        self.python = str(self.folder / "bin" / "python")
        self.packages = next((self.folder / "lib").iterdir()) / "site-packages"
        if metadata:
            (self.packages / "skillhub-1.dist-info").mkdir()
            (self.packages / "skillhub-1.dist-info" / "METADATA").write_text(metadata)
        # Without files that an installer may have left beside the package.
        self.source = folder / "source"
        self.source.mkdir()
        (self.source / "skillhub").symlink_to(REPO / "skillhub")
        self.uv = folder / "programs" / "uv"
        self.uv.parent.mkdir()
        self.uv.write_text("")
        self.uv.chmod(0o755)

    def asked(self, name="s3", path=None):
        done = subprocess.run(
            [self.python, "-P", "-c", ASK, name],
            env={"PYTHONPATH": str(path or self.source), "PATH": str(self.uv.parent)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    def receipt(self, **source):
        spelled = ", ".join(f"{key} = {json.dumps(value)}" for key, value in source.items())
        (self.folder / "uv-receipt.toml").write_text(f'[tool]\nrequirements = [{{ name = "skillhub", {spelled} }}]\n')


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A virtual environment, to be copied: it knows by its path alone where it is."""
    folder = tmp_path_factory.mktemp("made") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder


@pytest.fixture
def environment(made, tmp_path):
    return Environment(made, tmp_path)


def test_pipx_injects_and_removes_an_extra(environment):
    (environment.folder / "pipx_metadata.json").write_text("{}")
    assert environment.asked() == ["pipx inject 'my venv' 'boto3<2,>=1.36'", "pipx uninstall 'my venv'"]


def test_uv_tool_installs_again_with_the_present_extras(environment, tmp_path):
    rows = [
        ({"directory": str(tmp_path)}, f"{tmp_path}[s3]"),
        ({"extras": ["watch", "all"], "path": str(tmp_path)}, f"{tmp_path}[all,s3,watch]"),
        ({"editable": str(tmp_path)}, f"-e {tmp_path}[s3]"),
        ({"git": "https://a.example/b?rev=v1"}, "skillhub[s3] @ git+https://a.example/b@v1"),
        ({"git": "ssh://git@a.example/b"}, "skillhub[s3] @ git+ssh://git@a.example/b"),
    ]
    for source, words in rows:
        environment.receipt(**source)
        commands = environment.asked()
        assert commands[0].replace("'", "") == f"uv tool install --force {words}", source
        assert commands[1] == "uv tool uninstall skillhub"


@pytest.mark.parametrize(
    "receipt",
    [
        "",
        "[tool]\nrequirements = []\n",
        "[tool]\nrequirements = 1\n",
        "[tool]\nrequirements = ['skillhub']\n",
        "[tool]\nrequirements = [{ name = 'skillhub', path = 1, git = 1, extras = 1 }]\n",
        "[[tool]]\n",
        "[",
    ],
)
def test_an_unknown_form_of_receipt_names_no_source(environment, receipt):
    (environment.folder / "uv-receipt.toml").write_text(receipt)
    hint, removal = environment.asked()
    assert (hint[:15], hint[-16:], removal) == ("uv pip install ", "'boto3<2,>=1.36'", "uv tool uninstall skillhub")


def test_skillhub_need_not_be_first_in_the_receipt(environment, tmp_path):
    rows = f'{{ name = "other", path = "/" }}, {{ name = "skillhub", path = "{tmp_path}" }}'
    (environment.folder / "uv-receipt.toml").write_text(f"[tool]\nrequirements = [{rows}]\n")
    assert environment.asked()[0] == f"uv tool install --force '{tmp_path}[s3]'"


def test_attack_a_hint_names_no_skillhub_of_an_index(environment, tmp_path):
    # The clone is gone, or an index was used that the hint cannot know.
    for source in ({"directory": str(tmp_path / "gone")}, {"specifier": "==1"}, {"editable": ""}):
        environment.receipt(**source)
        hint = environment.asked()[0]
        assert hint.startswith("uv pip install ") and "boto3" in hint and "skillhub" not in hint, source


def test_attack_the_command_reads_nothing_of_the_working_folder(environment, tmp_path):
    uv = f"uv pip install --directory '{environment.folder}' --python '{environment.python}' 'boto3<2,>=1.36'"
    assert environment.asked()[0] == uv  # a uv.toml there could name another index
    environment.uv.unlink()
    pip = f"'{environment.python}' -P -m pip"  # a pip.py there would run
    assert environment.asked()[0] == f"'{environment.python}' -P -m ensurepip && {pip} install 'boto3<2,>=1.36'"
    (environment.packages / "pip").mkdir()
    (environment.packages / "pip" / "__init__.py").touch()
    assert environment.asked() == [f"{pip} install 'boto3<2,>=1.36'", f"{pip} uninstall skillhub"]
    assert environment.asked("server")[0].endswith("install 'mcp<3,>=2.3' 'uvicorn<1'")


def test_a_clone_without_an_installer_and_without_metadata(made, tmp_path):
    bare, clone = Environment(made, tmp_path, ""), tmp_path / "clone"
    shutil.copytree(REPO / "skillhub" / "disk", clone / "skillhub" / "disk")
    shutil.copytree(REPO / "skillhub" / "formats", clone / "skillhub" / "formats")
    for name in ("__init__.py", "errors.py"):
        shutil.copy(REPO / "skillhub" / name, clone / "skillhub" / name)
    assert bare.asked(path=clone) == ["install the extra s3", f"delete the clone {clone}"]
    shutil.copy(REPO / "pyproject.toml", clone)
    hint, removal = bare.asked(path=clone)
    assert hint.endswith(" 'boto3>=1.36,<2'") and removal == f"delete the clone {clone}"


@pytest.mark.interop
@pytest.mark.parametrize("program", ["pipx", "uv"])
def test_the_hint_works_when_typed(program, tmp_path):
    programs = os.environ.get("SKILLHUB_INSTALLERS") or pytest.skip("SKILLHUB_INSTALLERS names no folder of programs")
    environ = os.environ | {
        **{name: str(tmp_path / "bin") for name in ("PIPX_BIN_DIR", "UV_TOOL_BIN_DIR")},
        **{name: str(tmp_path / "tools") for name in ("PIPX_HOME", "UV_TOOL_DIR", "SKILLHUB_HOME")},
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    clone = tmp_path / "a clone"
    shutil.copytree(REPO / "skillhub", clone / "skillhub", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPO / name, clone)
    kept = {"cwd": tmp_path, "env": environ, "capture_output": True, "text": True}
    subprocess.run([program, *(["tool"] if program == "uv" else []), "install", clone], check=True, **kept)
    skillhub, bill = tmp_path / "bin" / "skillhub", ["lock", "export", "--format", "spdx"]
    for words in (bill, ["env", "set", "TOKEN"]):
        result = subprocess.run([skillhub, *words, "--json"], check=False, **kept)
        subprocess.run(json.loads(result.stdout)["error"]["hint"], shell=True, check=True, **kept)
    subprocess.run([skillhub, *bill], check=True, **kept)  # the second extra did not remove the first
    result = subprocess.run([skillhub, "env", "set", "TOKEN", "--json"], check=False, **kept)
    assert "the extra keyring" not in result.stdout
