"""Plain uses of ``list``, ``verify``, ``sync`` and ``install``, without Typer: its import takes longer than they do.

At anything else (``--help``, a flag not named here, ``--``) Typer takes over, with the same functions behind it.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PLAIN = ("json", "user_scope", "yes", "offline", "quiet", "verbose")  # of the flags of every command
# What each calls the words that it takes, if it takes any.
_WORDS = {"list": "", "verify": "names", "sync": "", "install": "refs"}
_SWITCHES = {"--all": "every", "--allow-unsigned": "allow_unsigned"}  # of `install`
_WITH_A_NAME = {"--agent": "agent", "--skill": "skill", "--trust-source": "trust_source"}  # of `install`, too


def run(args: list[str]) -> int | None:
    """Run the command line if it is one of the plain ones, else return None."""
    if not args or args[0] not in _WORDS:
        return None
    from skillhub.cli.common import FLAGS, Common, perform
    from skillhub.cli.table import COMMANDS

    flags = {word: name for name in _PLAIN for word in FLAGS[name][0].split()}
    command, *rest = args
    common: dict[str, Any] = {}
    own: dict[str, Any] = {}
    words = iter(rest)
    for word in words:
        if word in flags:
            common[flags[word]] = True
        elif command == "install" and word in _SWITCHES:
            own[_SWITCHES[word]] = True
        elif command == "install" and word in _WITH_A_NAME:
            name = next(words, "-")
            if name.startswith("-"):
                return None
            own.setdefault(_WITH_A_NAME[word], []).append(name)
        elif word.startswith("-") or not _WORDS[command]:
            return None
        else:
            own.setdefault(_WORDS[command], []).append(word)
    module = import_module(f"skillhub.cli.{COMMANDS[command].module}")
    return perform(module.COMMANDS[command], Common(**common), **own)
