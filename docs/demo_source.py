"""The repository of the demo, made like public ones that many take skills from: two commits, the same each time."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

URL = "https://github.com/acme/agent-skills"
SKILL_MD = "---\nname: {name}\ndescription: {about}\nlicense: Apache-2.0\n---\n\n# {name}\n\n{body}\n"
ABOUT = {
    "pdf": "Merges, splits and fills in PDF files. Use it when somebody hands you one.",
    "spreadsheet": "Reads and writes spreadsheets with formulas. Use it for .xlsx and .csv.",
    "changelog": "Writes an entry of the changelog from merged pull requests.",
    "incident": "Leads through an incident: what broke, since when, who has to know.",
}
MERGE = (
    '#!/usr/bin/env python3\n"""Merge PDF files: merge.py OUT IN..."""\n\nimport sys\n\nfrom pypdf import PdfWriter\n'
)
FORMS = "# Forms\n\nList the fields first, and ask about each that the task does not answer.\n"
FIRST = {
    "README.md": "# Agent skills\n\nThe skills of the Acme company.\n",
    "LICENSE": "Apache-2.0\n",
    **{
        f"skills/{name}/SKILL.md": SKILL_MD.format(name=name, about=about, body="Look at what is there, then begin.")
        for name, about in ABOUT.items()
    },
    "skills/pdf/scripts/merge.py": MERGE,
}
SECOND = {
    "skills/pdf/SKILL.md": FIRST["skills/pdf/SKILL.md"]
    + "Read [references/forms.md](references/forms.md) for forms.\n",
    "skills/pdf/references/forms.md": FORMS,
}


def program() -> str:
    """Return the path of git, without which there is no repository."""
    found = shutil.which("git")
    if found is None:
        raise FileNotFoundError("the demo needs git")
    return found


def commit(folder: Path, files: Mapping[str, str], day: int) -> None:
    """Add a commit of these files to the repository in ``folder``, which is made if it is not there."""
    environ = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "acme@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        **{f"GIT_{who}_DATE": f"2026-01-{day:02}T00:00:00Z" for who in ("AUTHOR", "COMMITTER")},
    }

    def git(*words: str) -> None:
        subprocess.run([program(), *words], cwd=folder, env=environ, check=True, stdin=subprocess.DEVNULL)

    if not folder.exists():
        folder.mkdir(parents=True)
        git("init", "--quiet", "--initial-branch=main", "--object-format=sha1")
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
        if path.endswith(".py"):
            file.chmod(0o755)
    git("-c", "core.autocrlf=false", "-c", "core.fileMode=true", "add", "--all")
    git("commit", "--quiet", "--message", f"Day {day}")
