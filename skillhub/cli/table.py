"""Lists every command with its module and its line of help; ``--help`` needs no other import."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One command, or a group of them by its verbs: what runs is ``list_`` of the module, or ``source_add``.

    Attributes:
        verbless: Of a group, whether its name without a verb is a command, too.
    """

    module: str
    help: str
    section: str
    verbs: str = ""
    verbless: bool = False


_USE, _TRUST, _WRITE, _RUN = "Use skills", "Manage trust", "Write skills", "Run a registry"
_SEE = "Inspect what agents see"

COMMANDS: dict[str, Command] = {
    "install": Command("install", "Install skills: verify, ask, store, lock, enable.", _USE),
    "list": Command("installed", "List installed skills.", _USE),
    "show": Command("show", "Show a skill: installed, or offered by a source.", _USE),
    "use": Command("show", "Print one skill for one use; nothing is installed.", _USE),
    "pick": Command("install", "Choose from a list of all skills, and install them.", _USE),
    "search": Command("show", "Search the sources and the skills found here.", _USE),
    "enable": Command("installed", "Enable installed skills, once their needs are met.", _USE),
    "disable": Command("installed", "Remove skills from the agents' folders; they stay installed.", _USE),
    "update": Command("install", "Update skills to the newest allowed version.", _USE),
    "diff": Command("changes", "Show local edits, and what an update would change.", _USE),
    "remove": Command("installed", "Remove skills from the agents' folders and from this project.", _USE),
    "sync": Command("installed", "Restore files that differ from the lock; finish interrupted work.", _USE),
    "verify": Command("installed", "Check every byte of the installed skills, offline.", _USE),
    "patch": Command("changes", "Keep local edits of a skill as a patch in the project.", _USE),
    "adopt": Command("changes", "Lock skills that are already in agents' folders.", _USE),
    "lock": Command("changes", "Import, export, fix and merge locks.", _USE, "import export fix merge"),
    "profile": Command("installed", "Save and use named sets of enabled skills.", _USE, "list save use remove"),
    "bundle": Command("install", "Pack all that the lock needs into one file.", _USE, "export"),
    "env": Command("env", "Manage variables for skills in the system's keyring.", _USE, "list set unset exec"),
    "audit": Command("audit", "Audit installed skills and their sources.", _USE),
    "doctor": Command("audit", "Check this machine and this project.", _USE),
    "agents": Command("audit", "List the agents that skills can be enabled for.", _USE),
    "self": Command("env", "Take skillhub off this machine.", _USE, "uninstall"),
    "cache": Command("audit", "Show disk usage; remove unused data.", _USE, "info gc"),
    "schema": Command("show", "Show the JSON Schema of a document or of an answer.", _USE),
    "catalog": Command("show", "Show the list of skills that an agent's model sees.", _SEE),
    "resolve": Command("show", "Show the skills that a message names.", _SEE),
    "load": Command("show", "Show the text that an agent gets for a skill.", _SEE),
    "mcp": Command(
        "server", "Serve the skills of this project to agents over MCP.", _SEE, "install remove check", verbless=True
    ),
    "serve": Command("server", "Serve the skills of this project over HTTP: a page and an API.", _SEE),
    "source": Command(
        "trust", "Manage the sources that skills come from.", _TRUST, "add list show refresh remove trust"
    ),
    "publisher": Command("trust", "Manage trusted publishers.", _TRUST, "list trust remove"),
    "new": Command("author", "Create a skill.", _WRITE),
    "validate": Command("author", "Validate skills: folders and archives.", _WRITE),
    "pack": Command("author", "Pack a skill into an archive.", _WRITE),
    "sign": Command("author", "Sign a skill.", _WRITE),
    "publish": Command("registry", "Publish a skill in one step: validate, sign, pack, add, push.", _WRITE),
    "key": Command("author", "Manage signing keys.", _WRITE, "new list show import"),
    "registry": Command(
        "registry",
        "Create, publish, check and serve a registry.",
        _RUN,
        "init add build yank withdraw advise delegate rotate refresh check watch cosign push serve",
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
        "  --man                 Print the manual page, for: skillhub --man | man -l -",
        "  --show-completion     Show completion for this shell, or the one you name.",
        "  --help, -h            Show this message and exit.",
        "",
        "skillhub COMMAND --help shows more; docs: https://github.com/skillhub/skillhub",
    ]
    return "\n".join(part for line in lines for part in _wrapped(line, columns)) + "\n"


def _wrapped(line: str, columns: int | None) -> list[str]:
    """Break a line between words if it is too long; what goes on stands below its second column."""
    if columns is None or len(line) <= columns:
        return [line]
    from textwrap import wrap

    second = max(2, line.rfind("  ") + 2)
    return wrap(line, columns, subsequent_indent=" " * second, break_long_words=False, break_on_hyphens=False)
