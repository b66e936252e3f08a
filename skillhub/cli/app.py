"""The command line. Simple ones are parsed here; the rest by Typer, whose import takes longer than a ``list``."""

from __future__ import annotations

import gc
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

from skillhub.cli.common import Arg, Common, Run
from skillhub.cli.table import COMMANDS
from skillhub.cli.terminal import Terminal, screen_size
from skillhub.errors import UsageError
from skillhub.formats.text import as_command, deferred, quote, spelled_like, typed_project
from skillhub.model.finding import rules

if TYPE_CHECKING:
    import typer

    from skillhub.disk.proved import IdleCommand

_COMPLETE = "_SKILLHUB_COMPLETE"
_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_OF_CHANGES = ("yes", "accept", "dry_run")  # common flags without effect on a command that only reads
_SERVERS = ("mcp", "serve", "registry_serve")  # they run for long
_TEXT = re.compile(r"\b(?:TEXT|WORDS|CMD)\b")  # arguments that may be empty
_PLAIN = frozenset(("audit", "install", "list", "mcp", "sync", "verify"))


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option or an argument of a command; ``takes`` is its type."""

    name: str
    takes: Any
    arg: Arg
    default: Any

    @property
    def flags(self) -> list[str]:
        """The names of an option, none of an argument: ``["--yes", "-y"]``."""
        return [word for word in self.arg.typed.split(" ") if word.startswith("-")]

    @property
    def metavar(self) -> str | None:
        """The placeholder of the value in help: ``FILE``; None for a switch."""
        return " ".join(word for word in self.arg.typed.split(" ") if not word.startswith("-")) or None


@cache
def parameters(of: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Return the parameters of a command, the common flags last, or those of a class of options."""
    hints, found = get_type_hints(of, include_extras=True), inspect.signature(of).parameters
    taken: tuple[Parameter, ...] = ()
    for name in sorted(found, key=lambda name: (is_dataclass(hints[name]), name == "common")):
        if is_dataclass(hints[name]):
            taken += parameters(hints[name])
        elif get_origin(hints[name]) is Annotated:
            taken += (Parameter(name, hints[name].__origin__, hints[name].__metadata__[0], found[name].default),)
    return taken


def commands_of(name: str) -> dict[str, Run]:
    """Return the function of a command, or of each command of a group, by the words that call it."""
    known = COMMANDS[name]
    module = vars(import_module(f"skillhub.cli.{known.module}"))
    alone = {} if known.verbs and not known.verbless else {name: module["list_" if name == "list" else name]}
    return alone | {f"{name} {verb}": module[f"{name}_{verb}"] for verb in known.verbs.split()}


def command_of(args: list[str]) -> tuple[str, frozenset[str]]:
    """Return the command that a command line names, such as ``source add``, and its flags; empty if it names none."""
    words = _behind_command(args)
    commands = commands_of(words[0]) if words and words[0] in COMMANDS else {}
    name = next((each for each in (" ".join(words[:1]), " ".join(words[:2])) if each in commands), "")
    return name, frozenset(flag for each in (parameters(commands[name]) if name else ()) for flag in each.flags)


def run(args: list[str], idle: IdleCommand | None = None) -> int:
    """Run a command line and return its exit status; ``idle`` remembers it if it has nothing to do."""
    if args[:1] == ["--show-completion"] and args[1:]:
        # Typer would guess the shell from the parent process, although the user named one.
        if args[1] not in _SHELLS:
            raise UsageError(f"expected one of {', '.join(_SHELLS)}, found {quote(args[1])}")
        os.environ[_COMPLETE] = f"source_{args[1]}"
        args = []
    args = _behind_command(args)
    status = run_plain(args, idle)
    return _run_by_typer(args) if status is None else status


def run_plain(args: list[str], idle: IdleCommand | None = None) -> int | None:
    """Run a command line of names, switches and options with a list of names; return None for any other."""
    if not args or args[0] not in _PLAIN:
        return None
    command = commands_of(args[0])[args[0]]
    options = {flag: each for each in parameters(command) for flag in each.flags}
    names = next((each.name for each in parameters(command) if not each.flags), None)
    values: dict[str, Any] = {}
    for word in (words := iter(args[1:])):
        option = options.get(word)
        if option is not None and option.takes is bool:
            values[option.name] = True
        elif option is not None and option.takes == list[str] | None:
            value = next(words, "-")
            if value.startswith("-"):
                return None
            values.setdefault(option.name, []).append(value)
        elif word.startswith("-") or names is None:
            return None
        else:
            values.setdefault(names, []).append(word)
    return _perform(command, values, idle)


@cache
def build(one: str = "") -> Any:  # noqa: ANN401 - a command of the Click that is within Typer
    """Return Typer's parser of the command ``one``; without it, of all commands."""
    import typer

    # No Rich: it would interpret untrusted text as markup, and its import takes 50 ms.
    app = typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["--help", "-h"]},  # subcommands inherit them
    )

    app.callback(help="The secure registry and installer for agent skills.")(lambda: None)
    for name in [one] if one else COMMANDS:
        commands = commands_of(name)
        alone = commands.pop(name, None)
        if alone is not None and not commands:
            app.command(name)(_for_typer(alone, name))
            continue
        shown = alone or next(run for words, run in commands.items() if not words.endswith((" list", " info")))
        _, has_example, example = (inspect.getdoc(shown) or "").partition("Example: ")
        group = typer.Typer(
            help=f"{COMMANDS[name].help}\n\n{has_example}{example}",
            no_args_is_help=alone is None,
            invoke_without_command=alone is not None,
            rich_markup_mode=None,
        )
        if alone is not None:
            group.callback()(_for_typer(alone, name))
        for words, command in commands.items():
            # Options after the program belong to the program.
            settings = {"allow_interspersed_args": words != "env exec"}
            first = (inspect.getdoc(command) or "").replace(".\n", ". ").partition(". ")[0].rstrip(".")
            # As a text of its own it wraps in a narrow terminal; Typer would cut it.
            verb = group.command(words.split()[1], short_help=f"{first}.", context_settings=settings)
            verb(_for_typer(command, words))
        app.add_typer(group, name=name)
    return typer.main.get_command(app)


def _behind_command(args: list[str]) -> list[str]:
    """Return ``args`` with the common flags before a command moved behind the command and its verb.

    Without a command they are dropped, so that the parser's error is about the word in the place of the command.
    """
    common = {flag: each for each in parameters(Common) for flag in each.flags}
    at = 0
    while at < len(args) and args[at].partition("=")[0] in common:
        has_value_behind = args[at] in common and common[args[at]].takes is not bool
        at += 2 if has_value_behind else 1
    if at > len(args):
        wanted = common[args[-1]].metavar or ""
        raise UsageError(f"{args[-1]} expects {wanted}", hint=as_command("skillhub", "COMMAND", args[-1], wanted))
    behind = at
    while behind < min(at + 2, len(args)) and not args[behind].startswith("-"):
        behind += 1
    return [*args[at:behind], *(args[:at] if behind > at else ()), *args[behind:]] if at else args


def _run_by_typer(args: list[str]) -> int:
    try:
        one = args[0] if args and args[0] in COMMANDS and _COMPLETE not in os.environ else ""
        columns = screen_size().columns
        width = max(1, columns - 2) if columns < 52 else None  # Typer's least width is wider than such a screen
        result = build(one).main(args, prog_name="skillhub", standalone_mode=False, terminal_width=width)
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # Typer turns it into exit status 1
            raise stop.__context__ from None
        raise
    except OSError as error:
        if "--install-completion" not in args:
            raise
        from skillhub.disk.files import disk_error

        raise disk_error(error, error.filename or "") from error
    if result == 130:  # Typer turns Ctrl-C into this status and prints nothing
        raise KeyboardInterrupt
    return result if isinstance(result, int) else 0


def _for_typer(command: Run, words: str) -> Run:
    """Return a function with the parameters of the command that ``words`` call, declared for Typer.

    The command of a group runs if no verb follows, and refuses options before a verb.
    """
    import typer

    name, *verb = words.split()
    is_reading, kind = (verb or [name])[0] in COMMANDS[name].reads.split(), inspect.Parameter.KEYWORD_ONLY

    def declared(each: Parameter) -> inspect.Parameter:
        arg, metavar = each.arg, each.metavar
        info = typer.Argument(metavar=metavar, help=arg.help)
        if each.flags:
            is_idle = is_reading and each.name in _OF_CHANGES
            info = typer.Option(
                *each.flags, metavar=metavar, help=arg.help, envvar=arg.envvar, min=arg.min, hidden=is_idle
            )
        return inspect.Parameter(each.name, kind, default=each.default, annotation=Annotated[each.takes, info])

    def wrapped(ctx: typer.Context, **values: Any) -> int:  # noqa: ANN401 - whatever Typer parsed
        if ctx.invoked_subcommand is None:
            return _perform(command, values)
        if any(ctx.get_parameter_source(name).name == "COMMANDLINE" for name in values):  # type: ignore[union-attr]
            raise UsageError(f"expected options after {ctx.invoked_subcommand}, found some before it")
        return 0

    found = [inspect.Parameter("ctx", kind, annotation=typer.Context), *map(declared, parameters(command))]
    wrapped.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {each.name: each.annotation for each in found}
    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    return wrapped


def _refuse_empty(parameter: Parameter, value: object) -> None:
    """Refuse an empty argument, which would be the working folder; only a text may be empty."""
    empty = "" in value if isinstance(value, list) else value == ""
    if empty and value != parameter.default and _TEXT.search(parameter.arg.typed) is None:
        wanted = re.sub(r"^\[(.*)\]$", r"\1", (parameter.metavar or "").removesuffix("..."))
        option = f" after {parameter.flags[0]}" if parameter.flags else ""
        hint = "a shell writes one for a variable without a value"
        raise UsageError(f"expected {wanted}{option}, found an empty argument", hint=hint)


def _perform(command: Run, values: Mapping[str, Any], idle: IdleCommand | None = None) -> int:
    """Run a command with the values that the user typed, then close everything that it opened."""
    for each in parameters(command):
        _refuse_empty(each, values.get(each.name))
    arguments = dict(values)
    for name, kind in get_type_hints(command).items():
        if is_dataclass(kind):
            typed = [each.name for each in parameters(kind) if each.name in arguments]  # type: ignore[arg-type]
            arguments[name] = kind(**{each: arguments.pop(each) for each in typed})  # type: ignore[operator]
    arguments["common"] = replace(arguments["common"].in_scope(), idle=idle)
    Terminal.written = [] if idle else None
    # Most objects live to the end, and few are in cycles: collections of garbage took 6 % of an install.
    gc.freeze()
    if command.__name__ not in _SERVERS:
        gc.set_threshold(400_000, 50)
    gc.enable()
    with typed_project(arguments["common"].project), arguments["common"].undo:
        return command(**arguments) or 0


# The errors of the parser.

# The parser's messages about a value that is no number, or too small.
_NO_NUMBER = deferred(r"Invalid value for '([^']+)': (.*) is not a valid (int|float)(?:eger)?(?: range)?", re.DOTALL)
_TOO_SMALL = deferred(r"Invalid value for '([^']+)': (\S+) is not in the range x>=(\S+)")
_TOO_MANY = deferred(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", re.DOTALL)
_NUMBERS = {"int": "a whole number", "float": "a number"}
_UNKNOWN = deferred(
    r"(No such (?:command '?|option: )(.*?)'?)(?:\. Did you mean '([^']*)'.*| \(Possible options: .*)?", re.DOTALL
)
# Commands of other installers: by spelling alone, `uninstall` would be taken for `install`.
_SPELLED = [(name, *word.partition("=")) for name, each in COMMANDS.items() for word in each.elsewhere.split()]
_ELSEWHERE = {"version": "--version", "completion": "--install-completion"} | {
    word: f"{name} {rest}".rstrip() for name, word, _, rest in _SPELLED
}


def usage_of_typer(error: Exception, args: list[str]) -> UsageError | None:
    """Return an error of the parser as a ``UsageError``; None for other errors. The terminal cleans quoted words."""
    if not callable(getattr(error, "format_message", None)):
        return None
    context = getattr(error, "ctx", None)
    # The error of an option without its value has no context.
    named = command_of(args)[0] if context is None else ""
    program = context.command_path if context else " ".join(filter(None, ("skillhub", named)))
    if type(error).__name__ == "NoArgsIsHelpError":
        return UsageError(f"expected a command after {program}", hint=f"{program} --help lists them")
    message = str(error.format_message()).strip().rstrip(".")  # type: ignore[attr-defined]
    hint = f"{program} --help shows its usage"
    if found := _UNKNOWN.fullmatch(message):
        message, hint = found[1], f"{program} --help lists them"
        near = getattr(error, "possibilities", None) or ()
        if found[2].startswith("-"):
            meant = _option_like(found[2], [*near, "--version"] if program == "skillhub" else near)
        else:
            # The parser's first possibility is the nearest.
            meant = _of_other_installer(found[2], program, args) or next(iter(near), found[3])
        if meant:
            hint = f"did you mean: {program} {meant}"
        elif program == "skillhub" and found[2].startswith("-"):
            hint = "options of a command follow it: skillhub COMMAND --help shows them"
    elif found := _NO_NUMBER.fullmatch(message):
        message = f"expected {_NUMBERS[found[3]]} for {found[1]}, found {found[2]}"
    elif found := _TOO_SMALL.fullmatch(message):
        message = f"expected {found[3]} or more for {found[1]}, found {found[2]}"
    elif found := _TOO_MANY.fullmatch(message):
        message = f"expected no more words, found {quote(found[1])}"
    return UsageError(message[:1].lower() + message[1:], hint=hint)


def _option_like(typed: str, options: Sequence[str]) -> str | None:
    like = spelled_like(typed.lstrip("-"), [each.lstrip("-") for each in options])  # dashes are no common letters
    return next((each for each in options if each.lstrip("-") in like), None)


def _of_other_installer(typed: str, program: str, args: Sequence[str]) -> str:
    """Return the command, or behind a command the verb, that other installers call ``typed``; empty if none."""
    meant = _ELSEWHERE.get(typed, "")
    if program != "skillhub":
        verb, group = meant.rpartition(" ")[2], COMMANDS.get(program.rpartition(" ")[2])
        return verb if group and verb in group.verbs.split() else ""
    rule = next((each for each in args if each.upper() in rules()), "all")
    return f"{meant} {rule}" if meant.endswith(" --explain") else meant
