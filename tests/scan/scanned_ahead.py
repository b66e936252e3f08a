"""A skill, and the begin of its scan in another process."""

from __future__ import annotations

from skillhub.model.tree import File, Tree

NAME = "skäll-\U0001f600"


def skill(number=0, script="print('hello')\n"):
    text = f"---\nname: skill-{number}\ndescription: One of many.\n---\nRun scripts/run.py\n"
    return Tree(
        {
            "SKILL.md": File(text.encode()),
            "scripts/run.py": File(script.encode(), executable=True),
            f"notes/{NAME}.txt": File(bytes(range(256)) * 9),
        }
    )


def begun(scans, result):
    """Begin a scan; return the function that gives its result, once the scan has begun."""
    seen = scans.begin(result)
    scans._pool.submit(int).result()  # earlier work has begun
    return seen
