"""Finds, verifies and installs agent skills, and loads them for agents.

``open_project`` opens a project, in which skills are installed, listed, verified and audited. ``skillhub.runtime`` is
the library with which an agent loads skills. Each name is imported at its first use, so that an agent that loads a
skill imports no network and no cryptography library.
"""

from __future__ import annotations

__version__ = "0.1.0"


def homes_of(package: str) -> dict[str, str]:
    """Return the module of each public name of a package, by the lines ``from MODULE import NAME …`` of its stub."""
    import os  # noqa: PLC0415

    stub = os.path.join(os.path.dirname(__file__), *package.split(".")[1:], "__init__.pyi")
    with open(stub, encoding="utf-8") as file:
        return {words[3]: words[1] for words in map(str.split, file) if words[:1] == ["from"]}


def public(package: str, name: str) -> object:
    """Return a public name of a package, or the list of all.

    Raises:
        AttributeError: the package has no such name.
    """
    from importlib import import_module  # noqa: PLC0415

    homes = homes_of(package)
    if name == "__all__":
        return sorted([*homes, *(["__version__"] if package == "skillhub" else [])])
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)


def __getattr__(name: str) -> object:
    # PEP 562: the import of all modules at once would triple the start-up of `skillhub --version`.
    value = globals()[name] = public(__name__, name)
    return value


def __dir__() -> list[str]:
    # So that `help(skillhub)` shows the names that are not imported yet.
    return sorted({*globals(), *homes_of(__name__)})
