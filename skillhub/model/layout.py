"""Where installers look for skills in a repository or folder that holds many.

A skill at the top is the only one. Else they are where agents and authors keep them, in this order: right below
the top, in ``skills`` and its shelves (``.curated`` and the like), in the folder of any agent, in the plugins of
``plugins``. Only if none is there, anywhere else, not too deep. What lies in the folder of a skill is part of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache

from skillhub.errors import FormatError
from skillhub.model.hosts import hosts
from skillhub.model.text import NAME_MAX
from skillhub.model.tree import SKILL_MD

SKILLS_MAX = 4000
_SKILLS = "skills"
_PLUGINS = "plugins"
_SKIPPED = frozenset({"node_modules", ".git", "dist", "build", "__pycache__"})
_SHELVES = 3  # folders from where skills are kept down to one
_WALK = 5  # folders from the top down to one that is kept nowhere in particular
# Of agents that have moved to `.agents/skills` since.
_FORMER = (
    ".github/skills",
    ".codex/skills",
    ".cursor/skills",
    ".opencode/skills",
    ".cline/skills",
    ".pi/skills",
)
_NO_NAME = re.compile(r"[^a-z0-9]+")


def holders(paths: Iterable[str]) -> frozenset[str]:
    """Return the folders that hold a ``SKILL.md``, of all paths of a place, ``/`` between segments."""
    cut = len(SKILL_MD)
    return frozenset(
        path[:-cut].rstrip("/") for path in paths if path.endswith(SKILL_MD) and path[:-cut][-1:] in ("", "/")
    )


def skill_folders(holding: Collection[str], top: str = "", declared: Collection[str] = ()) -> tuple[str, ...]:
    """Return the folders of the skills below ``top``, in order of precedence.

    Args:
        holding: The ``holders`` of the place.
        top: The folder to look in; empty is all of it.
        declared: Folders that the author names as skills, which are ones wherever they lie.

    Raises:
        FormatError: more than ``SKILLS_MAX``.
    """
    holding = {folder for folder in holding if is_within(folder, top)}
    named = [folder for folder in dict.fromkeys(declared) if folder in holding]
    if top in holding:
        return (top, *(folder for folder in named if folder != top))
    ranks = {folder: _rank(below(folder, top)) for folder in holding}
    kept = sorted(((rank, folder) for folder, rank in ranks.items() if rank), key=_in_order)
    found = dict.fromkeys([folder for _, folder in kept] + named)
    if not found:
        walked = [below(folder, top) for folder in holding]
        found = dict.fromkeys(join(top, "/".join(parts)) for parts in sorted(walked) if _is_near(parts))
    if len(found) > SKILLS_MAX:
        raise FormatError(
            f"expected at most {SKILLS_MAX} skills in one place, found {len(found)}",
            hint="name a folder of it",
        )
    return tuple(folder for folder in found if folder in named or not _is_part(folder, found))


def plugin_folders(holding: Collection[str], root: str, places: Iterable[str]) -> tuple[str, ...]:
    """Return the folders of a plugin's skills: each place is a skill, or holds some; if none does, the plugin is one.

    Args:
        holding: The ``holders`` of the repository.
        root: The folder of the plugin.
        places: Folders relative to it.
    """
    holding = {folder for folder in holding if is_within(folder, root)}
    found: dict[str, None] = {}
    for place in places:
        at = join(root, place)
        inner = [folder for folder in holding if folder != at and is_within(folder, at)]
        shelved = [folder for folder in inner if len(below(folder, at)) <= _SHELVES]
        found |= dict.fromkeys([at] if at in holding else sorted(shelved))
    if not found and root in holding:
        return (root,)
    return tuple(folder for folder in found if not _is_part(folder, found))


def is_within(path: str, folder: str) -> bool:
    """Say whether ``path`` is ``folder`` or below it; the empty folder holds everything."""
    return not folder or path == folder or path.startswith(f"{folder}/")


def below(path: str, folder: str) -> list[str]:
    """Return the segments of ``path`` from ``folder``, which holds it, on."""
    rest = path[len(folder) :].strip("/")
    return rest.split("/") if rest else []


def join(folder: str, path: str) -> str:
    """Return ``path`` below ``folder``; either may be empty."""
    return f"{folder}/{path}" if folder and path else folder or path


def name_of_folder(folder: str) -> str:
    """Return the name of a skill that says none itself: its folder's, spelled as a name."""
    last = folder.rstrip("/").rpartition("/")[2].removesuffix(".git").lower()
    return _NO_NAME.sub("-", last).strip("-")[:NAME_MAX].strip("-") or "skill"


@cache
def _containers() -> Mapping[str, int]:
    """Return the folders that skills are kept in, by their rank."""
    of_agents = (folder for host in hosts().values() for folder in (host.project_dir, *host.other_dirs))
    own = (folder for folder in of_agents if folder and not folder.startswith("~"))
    kept = dict.fromkeys((_SKILLS, ".agents/skills", ".claude/skills", *own, *_FORMER))
    return {folder: rank for rank, folder in enumerate(kept, 1)}


def _rank(parts: list[str]) -> tuple[int, int] | None:
    """Return how early a folder comes: by where it is kept, then by how deep; None if it is kept nowhere."""
    if _SKIPPED.intersection(parts):
        return None
    if len(parts) == 1:
        return 0, 1
    for depth in range(1, min(_SHELVES, len(parts) - 1) + 1):
        rank = _containers().get("/".join(parts[:-depth]))
        if rank:
            return rank, depth
    if len(parts) == 4 and (parts[0], parts[2]) == (_PLUGINS, _SKILLS):
        return len(_containers()) + 1, 1
    return None


def _in_order(ranked: tuple[tuple[int, int] | None, str]) -> tuple[tuple[int, int], str]:
    return ranked[0] or (0, 0), ranked[1]


def _is_near(parts: list[str]) -> bool:
    return len(parts) <= _WALK and not _SKIPPED.intersection(parts)


def _is_part(folder: str, found: Collection[str]) -> bool:
    """Say whether the folder lies in another of those found."""
    return any(folder[:end] in found for end, char in enumerate(folder) if char == "/") or (
        bool(folder) and "" in found
    )
