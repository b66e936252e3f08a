"""Completion: answers a shell when the user presses Tab. Loads no command, and so no library.

``completion.json``, which ``docs/build.py`` writes, lists the parameters of each command. Names in a lock and in the
user's state are read as plain JSON, and offered only if they are valid names of skills or sources: some shells
evaluate the answer.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

from skillhub.disk import files
from skillhub.disk.home import INTENT, LOCK, Home, project_folder
from skillhub.errors import SkillhubError
from skillhub.formats.text import is_name

VARIABLE = "_SKILLHUB_COMPLETE"
_HERE = os.path.dirname(__file__)
_CAP = 64 << 20
_UNSAID = re.compile(r"[^\w ,.-]", re.ASCII)  # characters of help texts that a shell may interpret
_FILES = {"agent": ("agents.json", "agents"), "host": ("profiles.json", "profiles")}


def answer(environ: Mapping[str, str]) -> tuple[str, int]:
    """Return the text that a shell's script (``--show-completion``) expects on stdout, and the exit status."""
    shell = environ[VARIABLE].removeprefix("complete_")
    found: dict[str, str] = {}
    with suppress(SkillhubError, OSError, ValueError, LookupError, RecursionError, TypeError):
        args, begun, kept = _typed(shell, environ)
        offered = _offered(args, begun, environ).items()
        found = {each[kept:]: _UNSAID.sub("", text) for each, text in offered if each.startswith(begun)}
    if shell == "bash":
        return "\n".join(found), 0
    if shell == "zsh":
        names = ((each.replace(":", "\\\\:"), text) for each, text in found.items())
        rows = " ".join(f'"{each}":"{text}"' if text else f'"{each}"' for each, text in names)
        return (f"_arguments '*: :(({rows}))'" if found else "_files"), 0
    if environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return "", not found
    between = "\t" if shell == "fish" else ":::"
    return "\n".join(f"{each}{between}{text or ' '}" for each, text in found.items()), 0


def _typed(shell: str, environ: Mapping[str, str]) -> tuple[list[str], str, int]:
    """Return the words between the program's name and the cursor, the begun word there, and how much of it is kept.

    Bash takes ``:`` for a word of its own, and replaces only what follows it.
    """
    if shell == "bash":
        typed, at = environ["COMP_WORDS"], int(environ["COMP_CWORD"])
        words = typed.split("\n" if "\n" in typed else " ")
        args = [each for each in words[1:at] if each != "="]
        begun = "".join(words[at : at + 1]).removeprefix("=")
        if begun == ":":
            args, begun = [*args, ":"], ""
        if args[-1:] == [":"]:
            *args, alias, _ = args
            return args, f"{alias}:{begun.removeprefix(':')}", len(f"{alias}:")
        return args, begun, 0
    line = environ.get("_TYPER_COMPLETE_ARGS", "")
    words = line.split()[1:]
    if shell in ("powershell", "pwsh"):
        begun = environ.get("_TYPER_COMPLETE_WORD_TO_COMPLETE", "")
        return words[: len(words) - bool(begun)], begun, 0
    return (words, "", 0) if not words or line[-1:].isspace() else (words[:-1], words[-1], 0)


def _offered(args: list[str], begun: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the words that fit at the cursor, each with its line of help."""
    table = _read(os.path.join(_HERE, "completion.json"))
    commands: dict[str, Any] = table["commands"]
    name, value_of, options = "", None, dict[str, str]()
    for word in args:
        flags = {**table["common"], **commands[name]["flags"]}
        if value_of is not None:
            options[value_of], value_of = word, None
        elif word in flags:
            options[word] = ""
            value_of = word if flags[word][0] is not None else None
        elif f"{name} {word}".strip() in commands:
            name = f"{name} {word}".strip()
        elif not name:
            return {}
    known, flags = commands[name], {**table["common"], **commands[name]["flags"]}
    if value_of is not None:
        return _names(flags[value_of][0], options, environ)
    if begun.startswith("-"):
        return {flag: text for flag, (_, text) in flags.items()}
    takes = known["takes"].split()
    if ":" in begun and "ref" in takes:
        return _refs(begun.partition(":")[0], environ)
    below = {each: rest["help"] for each, rest in commands.items() if each and each.rpartition(" ")[0] == name}
    subcommands = {each.rpartition(" ")[2]: text for each, text in below.items()}
    return subcommands or _names("".join(takes[-1:]), options, environ)


def _names(kind: str | list[str], options: Mapping[str, str], environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the names of a kind, each with a text: skills or profiles of the scope, sources, agents, or hosts."""
    if isinstance(kind, list):
        return dict.fromkeys(kind, "")
    if kind in _FILES:
        ours = _read(os.path.join(_HERE, os.pardir, "model", _FILES[kind][0]))
        return {each["id"]: each["name"] for each in ours[_FILES[kind][1]]}
    home = Home.of(environ)
    is_user = not options.keys().isdisjoint(("-g", "--global"))
    base = os.path.expanduser("~") if is_user else _with_lock(project_folder(options.get("--project", "")))
    if kind == "profile":
        rows = _read(os.path.join(home.state, "profiles.json"))["profiles"]
        here = [each["name"] for each in rows if os.path.realpath(each["project"]) == os.path.realpath(base)]
        return dict.fromkeys(filter(is_name, here), "")
    lock = _read(os.path.join(home.state if is_user else base, LOCK))
    if kind == "skill":
        return _keys(lock, "skills")
    mine = os.path.join(home.state, "sources.json")
    of_user = _keys(_read(mine), "sources") if os.path.exists(mine) else {"github": ""}
    return {**of_user, **_keys(lock, "sources")} if kind == "source" else {}


def _refs(alias: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``alias:name`` for each skill in the listing of a source that this machine has."""
    home = Home.of(environ)
    mine = os.path.join(home.state, "sources.json")
    source = _read(mine)["sources"][alias] if os.path.exists(mine) else {"url": "embedded:"}
    listing = os.path.join(home.state, "listings", f"{sha256(source['url'].encode()).hexdigest()}.json")
    if source["url"] == "embedded:":
        listing = os.path.join(_HERE, os.pardir, "embedded", ".well-known", "agent-skills", "index.json")
    elif "root" in source:
        listing = os.path.join(home.state, "tuf", source["root"].removeprefix("sha256:"), "targets", "index.json")
    names = (each["name"] for each in _read(listing)["skills"])
    return {f"{alias}:{name}": "" for name in names if is_name(alias) and is_name(name)}


def _with_lock(folder: str) -> str:
    """Return the root of the workspace around a folder that has no lock; else the folder."""
    above = folder
    while not {LOCK, ".git"} & {*os.listdir(above)} and above != os.path.dirname(above):
        above = os.path.dirname(above)
    return above if b"[workspace" in (files.read(os.path.join(above, INTENT), _CAP) or b"") else folder


def _read(path: str) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one without a file."""
    found = json.loads(files.read(path, _CAP) or b"{}")
    return found if isinstance(found, dict) else {}


def _keys(document: Mapping[str, Any], member: str) -> dict[str, str]:
    rows = document.get(member)
    return dict.fromkeys(filter(is_name, rows), "") if isinstance(rows, dict) else {}
