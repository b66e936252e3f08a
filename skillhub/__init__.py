"""Agent skills, found, verified and handed to agents.

What an agent needs is re-exported here and loaded on first use; installing (``skillhub.install``) is not,
because an agent must not load a network or a cryptography library to read a skill.
"""

from __future__ import annotations

__version__ = "0.1.0"

_HOMES = {"Digest": "skillhub.formats.digest", "Tree": "skillhub.model.tree", "SkillhubError": "skillhub.errors"}
TYPE_CHECKING = False  # as type checkers know it; `typing` itself would take a third of `skillhub --version`
__all__ = ["Digest", "SkillhubError", "Tree", "__version__"]

if TYPE_CHECKING:
    from skillhub.errors import SkillhubError
    from skillhub.formats.digest import Digest
    from skillhub.model.tree import Tree


def __getattr__(name: str) -> object:
    # PEP 562: importing everything at once would triple the start-up of `skillhub --version`.
    if name not in _HOMES:
        raise AttributeError(f"module 'skillhub' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_HOMES[name]), name)
