"""Whether what runs can be shown to stay offline; what cannot carries the capability ``network:?``.

Python and the shells of POSIX are read, each with a list of what is known to be harmless; other languages are not, so
that nothing is shown of them. What a program writes and something else runs later is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from skillhub.model.offline.python import is_offline_python
from skillhub.model.offline.shell import is_offline_shell
from skillhub.model.offline.words import names_network

__all__ = ["is_offline", "is_offline_shell", "names_network"]
# What is longer was not written to be read.
_PROGRAM_MAX = 1 << 18
_INTERPRETER = re.compile(
    rb"#![ \t]*/(?:usr/(?:local/)?)?bin/(?:env[ \t]+(?:-S[ \t]+)?)?(python[0-9.]*|(?:ba|da|k|z)?sh)"
    rb"(?:[ \t]+-[A-Za-z]{1,6})?[ \t]*\r?"
)
_SHELL = (".sh", ".bash", ".zsh", ".ksh")
_PYTHON = (".py", ".pyw")
# In a folder of scripts lies also what scripts read.
_READ = (
    ".md",
    ".txt",
    ".json",
    ".yaml",
    ".yml",
    ".toml",
    ".xml",
    ".xsd",
    ".csv",
    ".tsv",
    ".css",
    ".svg",
    ".png",
    ".jpg",
    ".ttf",
)


def is_offline(
    path: str, data: bytes, run: Mapping[str, bytes], *, is_told: bool, has_archives: bool
) -> bool:
    """Say whether it is shown that a file reaches no network when it runs.

    Args:
        path: Its path.
        data: Its bytes.
        run: All files of the skill that run, each of which is judged for itself.
        is_told: Whether it runs for another reason than the folder that it is in.
        has_archives: Whether the skill holds an archive.
    """
    folded, shebang = path.lower(), data.removeprefix(b"\xef\xbb\xbf").startswith(b"#!")
    if not is_told and not shebang and folded.endswith(_READ):
        return True
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    if len(data) > _PROGRAM_MAX or names_network(data):
        return False
    line = data.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
    found = _INTERPRETER.fullmatch(line)
    if shebang and not found:
        return False
    by_name = "python" if folded.endswith(_PYTHON) else "sh" if folded.endswith(_SHELL) else None
    by_line = None if found is None else "python" if found[1].startswith(b"python") else "sh"
    if by_name is not None and by_line not in (None, by_name):
        return False
    if (by_name or by_line) == "python":
        return is_offline_python(text, _modules(run), has_archives=has_archives)
    if (by_name or by_line) == "sh":
        return is_offline_shell(text, {each.rpartition("/")[2] for each in run})
    return not text.strip()


def _modules(run: Mapping[str, bytes]) -> set[str]:
    names = (part for path in run if path.lower().endswith(_PYTHON) for part in path.split("/"))
    return {name.removesuffix(".py") for name in names}
