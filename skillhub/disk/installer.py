"""The commands that add an extra to this program or remove it, for the installer that installed it."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

from skillhub.formats.text import as_command

_NAME = "skillhub"
_CLONE = Path(__file__).parents[2]
_PIPX, _UV_TOOL = "pipx_metadata.json", "uv-receipt.toml"
_EXTRA = re.compile(r"""([^;]+?)\s*;\s*extra\s*==\s*["']([\w-]+)["']\s*""")


def extra_command(name: str) -> str:
    """Return the command that installs an extra, whether or not the clone of skillhub still exists.

    It never names skillhub alone: on an index, the name may belong to a stranger.
    """
    if source := _uv_words(name):
        return as_command("uv", "tool", "install", "--force", *source)
    needs = _needs(name)
    if needs and _has(_PIPX):
        return as_command("pipx", "inject", os.path.basename(sys.prefix), *needs)
    return _pip("install", *needs) if needs else f"install the extra {name}"


def removal_command() -> str:
    """Return the command that removes this program; for a clone that was not installed, a sentence."""
    if _installed() is None:
        return f"delete the clone {_CLONE}"
    if _has(_PIPX):
        return as_command("pipx", "uninstall", os.path.basename(sys.prefix))
    return as_command("uv", "tool", "uninstall", _NAME) if _has(_UV_TOOL) else _pip("uninstall", _NAME)


def _pip(verb: str, *packages: str) -> str:
    """Return the command that changes packages here; it ignores modules and the uv.toml of the working folder.

    Environments of uv, PDM and Poetry may have no pip; Python brings one to install, for a user who has no uv.
    """
    has_pip = find_spec("pip") is not None
    if not has_pip and (which("uv") or find_spec("ensurepip") is None):
        return as_command("uv", "pip", verb, "--directory", sys.prefix, "--python", sys.executable, *packages)
    pip = as_command(sys.executable, "-P", "-m", "pip", verb, *packages)
    return pip if has_pip else f"{as_command(sys.executable, '-P', '-m', 'ensurepip')} && {pip}"


def _uv_words(name: str) -> list[str]:
    """Return the words with which uv installs this tool again with an extra; nothing if it cannot.

    uv removes from a tool's environment all packages that its receipt does not name, extras added otherwise included.
    """
    text = Path(sys.prefix, _UV_TOOL).read_text("utf-8", "replace") if _has(_UV_TOOL) else ""
    row = _own_row(text)
    own = {key: value for key, value in row.items() if isinstance(value, str)}
    extras = f"[{','.join(sorted({name, *_strings(row.get('extras'))}))}]"
    for key in ("editable", "directory", "path"):
        if os.path.exists(own.get(key, "")):
            return [*(["-e"] if key == "editable" else []), f"{own[key]}{extras}"]
    url, _, revision = own.get("git", "").partition("?rev=")
    return [f"{_NAME}{extras} @ git+{url}{'@' if revision else ''}{revision}"] if url else []


def _own_row(receipt: str) -> dict[str, Any]:
    """Return the row of skillhub in a receipt of uv; empty if the receipt has another shape."""
    with suppress(tomllib.TOMLDecodeError):
        match tomllib.loads(receipt):
            case {"tool": {"requirements": list(rows)}}:
                return next((each for each in rows if isinstance(each, dict) and each.get("name") == _NAME), {})
    return {}


def _strings(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _needs(name: str) -> list[str]:
    """Return the requirements of an extra from the package's metadata, or from the project file of a clone."""
    if (found := _installed()) is not None:
        each = map(_EXTRA.fullmatch, found.requires or ())
        return [match[1] for match in each if match is not None and match[2] == name]
    file = _CLONE / "pyproject.toml"
    project = tomllib.loads(file.read_text("utf-8"))["project"] if file.is_file() else {}
    return [*project.get("optional-dependencies", {}).get(name, ())]


def _installed() -> Distribution | None:
    try:
        return distribution(_NAME)
    except PackageNotFoundError:
        return None


def _has(name: str) -> bool:
    """Return whether the present environment has this file of an installer."""
    return os.path.isfile(os.path.join(sys.prefix, name))
