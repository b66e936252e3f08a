"""Skills for agents: find, list, mention, search, load and inject them.

The library uses no network and no cryptography, and runs no program. Each name is imported at its first use, so that
a host loads only the modules that it needs.
"""

from __future__ import annotations

from skillhub import homes_of, public


def __getattr__(name: str) -> object:
    # PEP 562: the import of YAML alone takes as long as the start of the interpreter.
    value = globals()[name] = public(__name__, name)
    return value


def __dir__() -> list[str]:
    # So that `help(skillhub.runtime)` shows the names that are not imported yet.
    return sorted({*globals(), *homes_of(__name__)})
