"""A clone with Python modules: none of them runs, however the program is started there."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.support.cli import REPO, SECONDS, Shell

# Modules that Python, pip, venv and skillhub import; a clone has each as a file, some as packages.
MODULES = [
    *("json", "tomllib", "yaml", "typing", "typer", "re", "os", "sys", "site"),
    *("io", "abc", "codecs", "encodings", "contextlib", "functools", "types", "warnings", "runpy"),
    *(
        "pkgutil",
        "importlib",
        "sitecustomize",
        "usercustomize",
        "venv",
        "pip",
        "ensurepip",
        "setuptools",
        "sysconfig",
    ),
    *("logging", "argparse", "subprocess", "shutil", "tempfile", "platformdirs", "cryptography", "tuf", "tomlkit"),
    *("urllib", "http", "ssl", "socket", "email", "hashlib", "dataclasses", "enum", "collections"),
    *("pathlib", "signal", "atexit", "gc", "struct", "random", "copy", "traceback", "string"),
    *("textwrap", "skillhub", "split"),
]
PACKAGES = ("skillhub", "skillhub.cli", "skillhub.model", "json", "encodings", "pip", "venv", "email", "tests")


@pytest.fixture
def clone(tmp_path):
    """A machine whose project is a hostile clone; any module of it that runs writes to ``ran``."""
    shell = Shell(tmp_path)
    del shell.environ["PYTHONPATH"]
    evil = f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__ + ' ' + __file__ + chr(10))\n"
    for name in MODULES:
        shell.write(f"project/{name}.py", evil)
    shell.write("project/evil.pth", f"import os; {evil}")
    shell.write("project/pyvenv.cfg", "home = .\n")
    shell.write("project/python311._pth", ".\nimport site\n")
    return shell


@pytest.fixture
def packages(clone):
    """The same clone with packages in place of modules."""
    evil = (clone.project / "json.py").read_text("utf-8")
    for name in PACKAGES:
        (clone.project / f"{name}.py").unlink(missing_ok=True)
        for file in ("__init__.py", "__main__.py"):
            clone.write(f"project/{name.replace('.', '/')}/{file}", evil)
    return clone


def started(shell, *words, **environ):
    return subprocess.run(
        words, cwd=shell.project, env=shell.having(environ), capture_output=True, text=True, check=False,
        timeout=SECONDS, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def ran(shell):
    path = shell.folder / "ran"
    return path.read_text("utf-8") if path.exists() else ""


def alias():
    """The words of the README's alias, as a shell in the clone of skillhub has them."""
    value = re.search(r"^alias skillhub=(\S.*?)  +#", (REPO / "README.md").read_text("utf-8"), re.MULTILINE)[1]
    script = f"cd {shlex.quote(str(REPO))}; printf %s {value}"
    quoted = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    words = shlex.split(quoted.stdout)
    return [sys.executable, *words[1:]]  # make may use another environment than the tests


PATHS = [None, "", ".", ":", "./", "..:.", "../project", ":/nowhere", "/nowhere:"]


# Each path is tried with modules; packages are found by the same search of it.
@pytest.mark.parametrize(
    ("kind", "path"), [*(("clone", path) for path in PATHS), ("packages", None), ("packages", ".")]
)
def test_attack_the_alias_imports_no_module_of_the_working_folder(kind, path, request):
    shell = request.getfixturevalue(kind)
    # A path affects the interpreter itself, before any code of skillhub.
    for words in {None: (["doctor"], ["verify", "--json"]), ".": (["list"],)}.get(path, (["--version"],)):
        done = started(shell, *alias(), *words, PYTHONPATH=path)
        assert "Traceback" not in done.stderr
        assert words not in (["list"], ["--version"]) or done.returncode == 0
    assert ran(shell) == ""


def test_attack_a_plain_start_in_a_hostile_folder_is_refused(tmp_path):
    """Before skillhub's first line Python imports none of these; no program can keep out the others."""
    shell = Shell(tmp_path)
    evil = f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)\n"
    for name in ("json", "tomllib", "typing", "typer", "yaml", "re", "dataclasses", "enum", "hashlib"):
        shell.write(f"project/{name}.py", evil)
    del shell.environ["PYTHONPATH"]
    for words in (["list", "--json"], ["--version"]):
        done = started(shell, sys.executable, "-m", "skillhub", *words)
        assert done.returncode == 2
        assert f"{shlex.quote(sys.executable)} -I -m skillhub" in done.stderr
        assert ran(shell) == ""
        assert "--json" not in words or json.loads(done.stdout)["error"]["code"] == "usage"


# Each path is tried with one way of starting, since the ways read a path alike.
@pytest.mark.parametrize(
    ("way", "path"),
    [
        *(("-m", path) for path in (".", ":/nowhere", "../project")),
        *(("-P -m", path) for path in ("./", "/nowhere:")),
        *(("script", path) for path in (":", "/nowhere::/other")),
    ],
)
def test_attack_a_relative_pythonpath_is_refused(tmp_path, way, path):
    shell = Shell(tmp_path)
    evil = f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)\n"
    for name in ("json", "tomllib", "typer", "yaml"):
        shell.write(f"project/{name}.py", evil)
    script = shell.write("bin/skillhub", "import sys\nfrom skillhub.cli.main import run\nsys.exit(run())\n")
    words = [script] if way == "script" else [*way.split(), "skillhub"]
    as_json = ["--json"] if path == "." else []
    done = started(shell, sys.executable, *words, "list", *as_json, PYTHONPATH=f"{REPO}{os.pathsep}{path}")
    assert done.returncode == 2
    if as_json:
        assert json.loads(done.stdout)["error"]["code"] == "usage"
    assert "[usage]" in done.stderr
    assert ran(shell) == ""


def test_a_path_from_an_installer_is_accepted():
    """Developers have the folder of skillhub on the path by a ``.pth`` file and start it there."""
    for words in (["-I", "-m", "skillhub"], ["-P", "-m", "skillhub"]):
        environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        done = subprocess.run(
            [sys.executable, *words, "--version"], cwd=REPO, env=environ, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_documented_commands_import_no_module_of_the_working_folder():
    """README, pages, hooks, the action, the Makefile and hints use the script, ``-P`` or ``-I``."""
    files = [*REPO.glob("*.md"), *REPO.glob("docs/**/*.md"), REPO / "Makefile", *REPO.glob("*.y*ml")]
    files += [
        *REPO.glob("tests/**/*.sh"),
        REPO / ".pre-commit-hooks.yaml",
        *REPO.glob("skillhub/**/*.py"),
        REPO / "docs" / "demo.py",
    ]
    for path in files:
        for line in path.read_text("utf-8").splitlines():
            if "without" in line:  # explains the refused form
                continue
            assert not re.search(r"(?<!-I )(?<!-P )-m (skillhub|venv|pip|pytest)\b", line), f"{path}: {line}"
