"""Write docs/cli.md, docs/json.md and docs/rules.md from the program itself, its table of errors, and JSON Schemas.

Also what completion offers, and the manual page.

python docs/build.py           write it
python docs/build.py --check   exit 1 if it is not what the program says
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import typer

import skillhub
from skillhub.answers.skills import JsonAnswer
from skillhub.answers.table import ANSWERS, schema_of
from skillhub.cli.app import build, parameters
from skillhub.cli.common import Common
from skillhub.cli.table import COMMANDS
from skillhub.errors import SkillhubError
from skillhub.model.finding import CATEGORIES, Rule, rules

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- errors: begin (written by docs/build.py) -->\n", "<!-- errors: end -->"
COMMON = (*(each.name for each in parameters(Common)), "help")
HEAD = """\
# Commands

`python docs/build.py` writes this page from the program; a test compares both. [Architecture](architecture.md#errors)
lists the exit statuses.

"""


RULES_HEAD = """\
# Rules

`python docs/build.py` writes this page from `skillhub/model/rules.json`; a test compares both. An id is never reused
for another rule. Other commands use it as the `code` of the same problem. Rules about the content of a skill begin
with `SH`; [formats/scan-rules.md](formats/scan-rules.md) describes how they read a skill, [audit.md](audit.md) the
others. Confidence says how likely it is that a finding is what its title says.

"""
FAMILIES = {
    "Hidden text": "SH0",
    "Code from elsewhere": "SH1",
    "Secrets": "SH2",
    "Instructions": "SH3",
    "Commands that steal, destroy or persist": "SH4",
    "Files": "SH5",
    "Code": "SH6",
    "Checks of the audit": "",
}


JSON_HEAD = """\
# JSON answers

`python docs/build.py` writes this page from the classes in `skillhub/answers/`; a test compares both. With `--json` a
command prints exactly one of these values on stdout, and nothing else there; what is for a person goes to stderr.
Every answer has `schema`, the version of its form: a key that is listed here keeps its name and its meaning while
that number is the same, and keys may be added. `skillhub schema list` prints the JSON Schema of the answer of `list`.
If nothing was done because of an error, the value is the answer `error`, and the exit status is not 0.

Four commands have no answer of their own: `pick` has that of `install`; `schema` with a name prints a JSON Schema,
`lock export` a bill of materials in its own format; `env exec` runs a program and refuses `--json`.
"""
_TYPES = {"string": "text", "integer": "an integer", "number": "a number", "boolean": "true or false", "null": "null"}

# The documents of pages in `formats/`; the lock's schema stands beside the files that test it.
DESCRIBED = (
    "config",
    "discovery",
    "index",
    "intent",
    "namespaces",
    "part",
    "policy",
    "publisher",
    "releases",
    "skill",
)


def pages() -> dict[Path, str]:
    """Return every page with what is to be in it."""
    architecture = HERE / "architecture.md"
    before, _, rest = architecture.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    schemas = {HERE / "formats" / "schemas" / f"{name}.schema.json": name for name in DESCRIBED}
    schemas[HERE.parent / "lockfiles" / "skillhub.lock.schema.json"] = "lock"
    return {
        HERE / "cli.md": commands(),
        HERE.parent / "skillhub" / "cli" / "completion.json": completion(),
        HERE.parent / "skillhub" / "cli" / "skillhub.1": manual(),
        HERE / "json.md": answers(),
        HERE / "rules.md": rules_page(),
        architecture: f"{before}{BEGIN}{errors()}{END}{after}",
        **{path: json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n" for path, name in schemas.items()},
    }


def errors() -> str:
    """Return the table of all classes of errors, by exit status."""
    rows = ["| exit | class | code | means |\n|---|---|---|---|\n"]
    for kind in sorted(kinds(SkillhubError), key=lambda kind: kind.exit_code):
        said = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
        rows.append(f"| {kind.exit_code} | `{kind.__name__}` | `{kind.code}` | {said} |\n")
    return "".join(rows)


def answers() -> str:
    """Return the page of all JSON answers, then of the parts that they share."""
    parts, shared = [JSON_HEAD], {}
    by_class: dict[type[JsonAnswer], list[str]] = {}
    for name, kind in ANSWERS.items():
        by_class.setdefault(kind, []).append(name)
    for kind, names in by_class.items():
        schema = kind.model_json_schema()
        shared |= schema.get("$defs", {})
        parts.append(f"\n## {', '.join(f'`{each}`' for each in names)}\n\n{schema['description']}\n\n")
        parts += _keys(schema)
    parts.append("\n# Parts\n")
    for name, schema in sorted(shared.items()):
        parts.append(f"\n## {name}\n\n{schema['description']}\n\n")
        parts += _keys(schema)
    return "".join(parts)


def _keys(schema: dict[str, Any]) -> Iterator[str]:
    yield "| key | value |\n|---|---|\n"
    for key, value in schema["properties"].items():
        absent = "" if key in schema.get("required", ()) else "; may be absent"
        yield f"| `{key}` | {_value(value)}{absent} |\n"


def _value(value: dict[str, Any]) -> str:
    """Return what a JSON Schema permits, in words."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in value or "enum" in value:
        return ", ".join(f"`{json.dumps(each)}`" for each in value.get("enum", [value.get("const")]))
    if "anyOf" in value:
        return " or ".join(map(_value, value["anyOf"]))
    if value.get("type") == "array":
        return f"a list of {_value(value.get('items', {}))}"
    if value.get("type") == "object":
        within = value.get("additionalProperties")
        return f"an object of {_value(within)}" if isinstance(within, dict) and within else "an object"
    return _TYPES.get(value.get("type", ""), "any JSON value")


def rules_page() -> str:
    """Return the page of all rules: those of the scan by their families, then those of the audit."""
    parts = [RULES_HEAD, "| class | of the OWASP Agentic Skills Top 10 |\n|---|---|\n"]
    parts += [f"| {key} | {title} |\n" for key, title in CATEGORIES.items()]
    for title, begins in FAMILIES.items():
        chosen = [rule for rule in rules().values() if rule.id.startswith(begins) and rule.is_content == bool(begins)]
        if not chosen:
            continue
        parts += [f"\n## {title}\n\n| rule | severity | confidence | class | what is found | why | what to do |\n"]
        parts += ["|---|---|---|---|---|---|---|\n", *map(_rule, chosen)]
    return "".join(parts)


def _rule(rule: Rule) -> str:
    cells = (f"`{rule.id}`", rule.severity, rule.confidence, rule.category, rule.title, rule.why, rule.hint)
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |\n"


def kinds(kind: type[SkillhubError]) -> Iterator[type[SkillhubError]]:
    """Yield every class below ``kind`` that is raised as itself, in the order of the source."""
    for each in kind.__subclasses__():
        if "code" in vars(each) and each.__module__.startswith("skillhub."):
            yield each
        yield from kinds(each)


def commands() -> str:
    """Return the page of all commands."""
    top = build()
    context = typer.Context(top, info_name="skillhub", **top.context_settings)
    parts = [HEAD, *_common(top, context)]
    section = ""
    for name, known in COMMANDS.items():
        if known.section != section:
            section = known.section
            parts.append(f"\n## {section}\n")
        for path, command in _leaves(name, top.commands[name]):  # type: ignore[attr-defined]
            parts += _section(path, typer.Context(command, info_name=path, parent=context))
    return "".join(parts)


# What completion offers where a name is to stand.
NAMES_OF = {
    "ref": "install show use",
    "skill": "audit diff disable enable load patch remove show update use verify",
    "profile": "profile use,profile remove,profile save",
    "source": "source show,source remove,source trust,source refresh",
}
VALUES_OF = {"--agent": "agent", "--host": "host", "--source": "source"}
TOP = (
    ("--help -h", "Show this message and exit."),
    ("--install-completion", "Install completion for the current shell."),
    ("--man", "Print the manual page."),
    ("--show-completion", "Show completion for this shell, or the one you name."),
    ("--version -V", "Show the version and exit."),
)


def completion() -> str:
    """Return what completion offers: each command with its flags, what their values are, and what it takes."""
    top = build()
    context = typer.Context(top, info_name="skillhub", **top.context_settings)
    common: dict[str, Any] = {}
    of_top = {flag: [None, text] for flags, text in TOP for flag in flags.split()}
    found: dict[str, Any] = {"": {"help": "", "takes": "", "flags": of_top}}
    for name, known in COMMANDS.items():
        found[name] = {"help": known.help, "takes": "", "flags": {}}
        for path, command in _leaves(name, top.commands[name]):  # type: ignore[attr-defined]
            options = [each for each in command.get_params(context) if not _is_argument(each)]
            said = known.help if path == name else (command.help or "").partition("\n")[0].partition(". ")[0]
            takes = [kind for kind, of in NAMES_OF.items() if path in of.split("," if "," in of else None)]
            rows = {each.name: {flag: [_value_of(each), _about(each)] for flag in each.opts} for each in options}
            common |= {flag: row for name in COMMON for flag, row in rows.pop(name, {}).items()}
            flags = {flag: row for each in rows.values() for flag, row in each.items()}
            found[path] = {"help": said, "takes": " ".join(takes), "flags": flags}
    missing = {each for of in NAMES_OF.values() for each in of.split("," if "," in of else None)} - found.keys()
    if missing:
        raise SystemExit(f"no such command: {', '.join(sorted(missing))}")
    return json.dumps({"commands": found, "common": common}, indent=1, sort_keys=True) + "\n"


def _value_of(option: Any) -> list[str] | str | None:  # noqa: ANN401 - an option
    if option.is_flag:
        return None
    choices = getattr(option.type, "choices", None)
    return list(choices) if choices else next((VALUES_OF[flag] for flag in option.opts if flag in VALUES_OF), "")


MANUAL_HEAD = """\
.\\" Written by docs/build.py from the program; a test holds it to that.
.TH SKILLHUB 1 "" "skillhub {version}" "User Commands"
.SH NAME
skillhub \\- the secure registry and installer for agent skills
.SH SYNOPSIS
.B skillhub
.RI [ OPTIONS ]
.I COMMAND
.RI [ ARGS ]
"""
MANUAL_END = """\
.SH EXIT STATUS
.TP
.B 0
Done, or nothing to do.
.TP
.B 1
A check found something.
.TP
.B 2
Wrong usage.
.TP
.B 3
Not found, or not reachable.
.TP
.B 4
Malformed input.
.TP
.B 5
Evidence of tampering; nothing was changed.
.TP
.B 6
A question without a yes, a policy, or an open need.
.TP
.B 7
A problem on the local disk.
.TP
.B 70
A bug in skillhub.
.TP
.B 130
Interrupted with Ctrl-C.
.SH ENVIRONMENT
.TP
.B SKILLHUB_HOME
The absolute path of a folder for all of skillhub's own data, instead of the platform's folders.
.TP
.B SKILLHUB_PICKER
Set to
.BR list ,
the picker is a numbered list, for screen readers.
.TP
.BR NO_COLOR ", " CI ", " TERM
No colours; nobody is asked; with
.B dumb
nothing is drawn.
.SH FILES
.TP
.B skillhub.toml
What a project wants.
.TP
.B skillhub.lock
What was agreed to. Commit both.
.SH SEE ALSO
https://github.com/skillhub/skillhub/tree/main/docs
"""


def manual() -> str:
    """Return the manual page, in the macros of man(7)."""
    top = build()
    context = typer.Context(top, info_name="skillhub", **top.context_settings)
    common = [each for each in top.commands["list"].get_params(context) if each.name in COMMON]  # type: ignore[attr-defined]
    parts = [MANUAL_HEAD.format(version=skillhub.__version__), ".SH OPTIONS\nEvery command takes these:\n"]
    parts += [_entry(each, context) for each in common]
    section = ""
    for name, known in COMMANDS.items():
        parts += [] if known.section == section else [f'.SH "{_roff(known.section).upper()}"\n']
        section = known.section
        for path, command in _leaves(name, top.commands[name]):  # type: ignore[attr-defined]
            own = [each for each in command.get_params(context) if each.name not in COMMON]
            words = " ".join(["[OPTIONS]", *(_spelled(each, context) for each in own if _is_argument(each))])
            text, _, example = inspect.cleandoc(command.help or "").partition("Example: ")
            parts += [
                f'.SS "skillhub {_roff(path)}"\n.B skillhub {_roff(path)}\n{_roff(words)}\n.PP\n{_paragraphs(text)}'
            ]
            parts += [_entry(each, context) for each in own if _about(each)]
            parts.append(f".PP\nFor example:\n.PP\n.RS\n{_roff(example.strip())}\n.RE\n")
    return "".join([*parts, MANUAL_END])


def _entry(parameter: Any, context: typer.Context) -> str:  # noqa: ANN401 - an argument or an option
    label, _, about = _row(parameter, context).removeprefix("- ").partition(": ")
    return f".TP\n.B {_roff(label.replace('`', ''))}\n{_paragraphs(about)}"


def _paragraphs(text: str) -> str:
    parts = [" ".join(each.split()) for each in text.strip().split("\n\n")]
    return "\n.PP\n".join(map(_roff, parts)) + "\n"


def _roff(text: str) -> str:
    """Return a text that no macro processor takes for more than text."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    plain = "".join(each if each.isascii() else f"\\[u{ord(each):04X}]" for each in plain)
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


def _leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - a command, or a group of them
    if hasattr(command, "commands"):
        if command.invoke_without_command:
            yield path, command
        for name, each in command.commands.items():
            yield from _leaves(f"{path} {name}", each)
    else:
        yield path, command


def _common(top: Any, context: typer.Context) -> Iterator[str]:  # noqa: ANN401 - the group of all commands
    yield "Every command takes these:\n\n"
    for option in top.commands["list"].get_params(context):
        if option.name in COMMON:
            yield _row(option, context)


def _section(path: str, context: typer.Context) -> Iterator[str]:
    text, _, example = inspect.cleandoc(context.command.help or "").partition("Example: ")
    own = [each for each in context.command.get_params(context) if each.name not in COMMON]
    words = ["[OPTIONS]"] + [_spelled(each, context) for each in own if _is_argument(each)]
    rows = "".join(_row(each, context) for each in own if _about(each))
    yield f"\n### `skillhub {path}`\n\n{text.rstrip()}\n\n    skillhub {path} {' '.join(words)}\n"
    yield f"\n{rows}" if rows else ""
    yield f"\nFor example:\n\n    {example.strip()}\n"


def _row(parameter: Any, context: typer.Context) -> str:  # noqa: ANN401 - an argument or an option
    if _is_argument(parameter):
        return f"- `{_spelled(parameter, context)}`: {_about(parameter)}\n"
    names = ", ".join(f"`{name}`" for name in sorted(parameter.opts, key=len, reverse=True))
    value = ""
    if not parameter.is_flag:
        choices = getattr(parameter.type, "choices", None)
        word = parameter.metavar or parameter.type.name.upper()
        value = f" `{','.join(choices) if choices else word}`"
    return f"- {names}{value}: {_about(parameter)}\n"


def _is_argument(parameter: Any) -> bool:  # noqa: ANN401 - an argument or an option
    return bool(parameter.param_type_name == "argument")


def _spelled(argument: Any, context: typer.Context) -> str:  # noqa: ANN401 - an argument
    return str(argument.make_metavar(context)).strip("{}")


def _about(parameter: Any) -> str:  # noqa: ANN401 - an argument or an option
    return getattr(parameter, "help", None) or ""


def main() -> int:
    """Write the pages, or compare them."""
    load_all()
    wanted = pages()
    if "--check" in sys.argv:
        return int(any(path.read_text(encoding="utf-8") != text for path, text in wanted.items()))
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
    return 0


def load_all() -> None:
    """Import every module, so that every class of errors is known wherever it stands; extras may be absent."""
    for module in walk_packages(skillhub.__path__, "skillhub."):
        if not module.name.endswith("__main__"):
            try:
                import_module(module.name)
            except ModuleNotFoundError as error:
                if (error.name or "skillhub").startswith("skillhub"):
                    raise


if __name__ == "__main__":
    sys.exit(main())
