"""Skills with the size of real ones: about 30 KB in five files, with text that compresses by half."""

from __future__ import annotations

import os
import random
from pathlib import Path

WORDS = (
    *("the", "a", "of", "to", "and", "in", "is", "that", "for", "with", "as", "on", "be", "this", "are", "by"),
    *("from", "or", "it", "when", "if", "which", "not", "can", "use", "file", "run", "step", "check", "value"),
    *("result", "change", "report", "project", "test", "build", "server", "request", "page", "table", "list"),
    *("name", "error", "function", "class", "return", "import", "open", "read", "write", "data", "path"),
)


def name_of(number: int) -> str:
    return f"skill-{number:05d}"


def write_corpus(folder: Path, count: int) -> None:
    """Write ``count`` skills below ``folder``, the same ones for the same count."""
    for number in range(count):
        name = name_of(number)
        for path, data in _files(name, random.Random(number)).items():
            full = folder / name / path
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(data)
            if path.endswith(".py"):
                os.chmod(full, 0o755)


def write_heads(folder: Path, count: int) -> None:
    """Write ``count`` skills like ``write_corpus``, with empty other files and short instructions."""
    for number in range(count):
        name = name_of(number)
        for path, data in _files(name, random.Random(number), small=True).items():
            full = folder / name / path
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(data if path == "SKILL.md" else b"")


def _files(name: str, rng: random.Random, small: bool = False) -> dict[str, bytes]:
    description = _prose(rng, rng.randint(100, 400)).replace("\n", " ").strip()
    head = f'---\nname: {name}\ndescription: "{description}"\nmetadata:\n  version: "1.0.0"\n---\n'
    files = {
        "SKILL.md": (head + f"\n# {name}\n\n" + _prose(rng, 500 if small else rng.randint(3_000, 14_000))).encode()
    }
    for number in range(rng.randint(1, 7)):
        size = 1 if small else min(100_000, int(rng.lognormvariate(8.4, 1.0)))
        kind = rng.choice(("scripts", "references", "assets"))
        if kind == "scripts":
            files[f"scripts/tool_{number}.py"] = b"#!/usr/bin/env python3\n" + _code(rng, size).encode()
        elif kind == "references":
            files[f"references/page-{number}.md"] = _prose(rng, size).encode()
        else:
            files[f"assets/blob-{number}.bin"] = rng.randbytes(size)
    return files


def _prose(rng: random.Random, size: int) -> str:
    lines, length = [], 0
    while length < size:
        lines.append(" ".join(rng.choices(WORDS, k=rng.randint(6, 16))).capitalize() + ".")
        length += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def _code(rng: random.Random, size: int) -> str:
    lines, length = [], 0
    while length < size:
        one, two, three = rng.choices(WORDS, k=3)
        lines.append(f"def {one}_{rng.randint(0, 999)}({two}_: str) -> str:\n    return {two}_ + {three!r}\n")
        length += len(lines[-1]) + 1
    return "\n".join(lines)
