"""Lists every command with its module and its line of help; ``--help`` needs no other import."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One command, or a group of them by its verbs: what runs is ``list_`` of the module, or ``source_add``."""

    module: str
    help: str
    section: str
    verbs: str = ""


_USE, _TRUST, _WRITE, _RUN = "Use skills", "Decide whom to trust", "Write skills", "Run a registry"
_SEE = "See what agents see"

COMMANDS: dict[str, Command] = {
    "install": Command("install", "Install skills: verify, ask, store, lock, enable.", _USE),
    "list": Command("installed", "List installed skills.", _USE),
    "show": Command("show", "Show a skill: installed, or offered by a source.", _USE),
    "pick": Command("install", "Pick among what all sources list, and install it.", _USE),
    "search": Command("show", "Search what sources list and what is here.", _USE),
    "enable": Command("installed", "Enable installed skills, once their needs are met.", _USE),
    "disable": Command("installed", "Take skills out of the agents' folders.", _USE),
    "update": Command("install", "Bring skills to the newest version that is allowed.", _USE),
    "diff": Command("changes", "Show your edits, and what an update would change.", _USE),
    "remove": Command("installed", "Remove skills from the agents' folders and from this project.", _USE),
    "sync": Command("installed", "Put back what is not as locked, and finish what was cut off.", _USE),
    "verify": Command("installed", "Check every byte of what is installed, offline.", _USE),
    "patch": Command("changes", "Keep edits of a skill as a patch that the project agrees to.", _USE),
    "adopt": Command("changes", "Bring skills that lie in agents' folders under the lock.", _USE),
    "lock": Command("changes", "Import, export, mend and merge locks.", _USE, "import export fix merge"),
    "env": Command("env", "Values that skills need, kept in the system's keyring.", _USE, "list set unset exec"),
    "audit": Command("audit", "Check what is installed, and where it came from.", _USE),
    "doctor": Command("audit", "Check this machine and this project.", _USE),
    "cache": Command("audit", "Show what is kept on this disk, and remove what nobody needs.", _USE, "info gc"),
    "schema": Command("show", "Show the JSON Schema of a document or of an answer.", _USE),
    "catalog": Command("show", "Show the list of skills that an agent's model sees.", _SEE),
    "resolve": Command("show", "Show which skills a message means.", _SEE),
    "load": Command("show", "Show what an agent gets of a skill.", _SEE),
    "source": Command("trust", "Registries and sites that skills come from.", _TRUST, "add list show remove trust"),
    "publisher": Command("trust", "Who may sign skills.", _TRUST, "list trust remove"),
    "new": Command("author", "Begin a skill.", _WRITE),
    "validate": Command("author", "Check skills as install and registries do.", _WRITE),
    "pack": Command("author", "Pack a skill into an archive.", _WRITE),
    "sign": Command("author", "Sign a skill.", _WRITE),
    "key": Command("author", "Keys to sign with.", _WRITE, "new list show import"),
    "registry": Command(
        "registry",
        "Make, fill, check and serve a registry.",
        _RUN,
        "init add yank withdraw delegate rotate refresh check push serve",
    ),
}


def top_help(columns: int | None = None) -> str:
    """Return what ``skillhub --help`` prints; written here, for Typer's own takes six times as long.

    Args:
        columns: The width of the terminal; without one, each line stays whole.
    """
    lines = [
        "Usage: skillhub [OPTIONS] COMMAND [ARGS]...",
        "",
        "  The secure registry and installer for agent skills.",
        "",
        "  Example: skillhub install github:gh-fix-ci",
    ]
    section = None
    for name, command in COMMANDS.items():
        if command.section != section:
            section = command.section
            lines += ["", f"{section}:"]
        lines.append(f"  {name:<11}{command.help}")
    lines += [
        "",
        "Options:",
        "  --version, -V         Show the version and exit.",
        "  --install-completion  Install completion for the current shell.",
        "  --show-completion     Show completion for this shell, or the one you name.",
        "  --help, -h            Show this message and exit.",
        "",
        "skillhub COMMAND --help tells more; docs: https://github.com/skillhub/skillhub",
    ]
    return "\n".join(part for line in lines for part in _wrapped(line, columns)) + "\n"


def _wrapped(line: str, columns: int | None) -> list[str]:
    """Break a line between words if it is too long; what goes on stands below its second column."""
    if columns is None or len(line) <= columns:
        return [line]
    from textwrap import wrap

    second = max(2, line.rfind("  ") + 2)
    return wrap(line, columns, subsequent_indent=" " * second, break_long_words=False, break_on_hyphens=False)
