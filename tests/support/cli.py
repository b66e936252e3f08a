"""The program on a separate machine: a home, a project and, on demand, a terminal."""

from __future__ import annotations

import gc
import io
import json
import os
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

from skillhub.answers.setup import ErrorAnswer
from skillhub.cli.main import main
from tests.support import forked
from tests.support.forked import REPO

if sys.platform != "win32":
    import fcntl
    import termios

SKILLS = REPO / "fixtures" / "skills"
SECONDS = 300  # in which a program ends, however busy the machine is


@dataclass(frozen=True)
class Done:
    """Result of a command line."""

    status: int
    raw: bytes
    raw_err: bytes

    @property
    def out(self) -> str:
        return self.raw.decode("utf-8", "replace")

    @property
    def err(self) -> str:
        return self.raw_err.decode("utf-8", "replace")

    @property
    def json(self):
        """The one JSON value on stdout; anything beside it fails."""
        return json.loads(self.out)

    @property
    def error(self):
        assert set(self.json) - {"refused"} == {"schema", "error", "questions"}, self.json
        ErrorAnswer.model_validate(self.json)
        fields = {key: value for key, value in self.json["error"].items() if key != "skills"}
        assert set(fields) - {"reason"} == {"code", "message", "where", "hint"}
        assert all(value is None or isinstance(value, str) for value in fields.values())
        return self.json["error"]


def run_forked(program: forked.Program, stdin: bytes = b"") -> Done:
    """Run a program as a fork, without a terminal."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        status = forked.Process(program, [each.fileno() for each in (given, out, err)]).wait()
        out.seek(0)
        err.seek(0)
        return Done(status, out.read(), err.read())


def run_code(code: str, *words: object, cwd: object = REPO, environ: Mapping[str, str] = os.environ) -> Done:
    """Run code as a fork in which all of skillhub is loaded, at a tenth of the cost of ``python -c``.

    It ends once all processes that have its output have ended.
    """
    done = subprocess.run(
        [*forked.words("tests.support.code", SECONDS), code, *map(str, words)],
        cwd=cwd,
        env={**environ},
        capture_output=True,
        timeout=SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _keep() -> None:
    """Replace ``gc.freeze`` by no action."""


def _change_environ(old: dict[str, str], new: dict[str, str]) -> None:
    """Change the environment from ``old`` to ``new``; only the variables that differ are set."""
    for name in old.keys() - new.keys():
        del os.environ[name]
    for name, value in new.items():
        if old.get(name) != value:
            os.environ[name] = value


class Shell:
    """A user's machine in a folder: ``home``, skillhub's own folder, and a project to work in.

    ``entry`` is the module whose ``main`` is the program.
    """

    entry = "skillhub.cli.main"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home, self.hub, self.project = folder / "home", folder / "hub", folder / "project"
        temporary = folder / "temporary"  # what killed commands of others left is not for this machine's `cache gc`
        for each in (self.home, self.hub, self.project, temporary):
            each.mkdir(parents=True, exist_ok=True)
        # Only what a program needs to start, so that nothing of the machine that runs the tests gets in.
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SKILLHUB_HOME": str(self.hub),
            "TMPDIR": str(temporary),
            "PYTHONPATH": str(REPO),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(folder),
        }

    def copy(self, folder: Path) -> Shell:
        """Return a twin of this machine in another folder."""
        shutil.copytree(self.folder, folder, symlinks=True, dirs_exist_ok=True)
        return Shell(folder)

    def words(self, *args: object) -> list[str]:
        """Return a command line that runs the program, as a fork: see ``forked.words``."""
        return [*forked.words(self.entry, SECONDS), *map(str, args)]

    def words_anew(self, *args: object) -> list[str]:
        """Return a command line that runs the program in a new interpreter."""
        return [sys.executable, "-P", "-m", "skillhub", *map(str, args)]

    def words_within(self, environ: dict[str, str], *args: object) -> list[str]:
        """Return a command line that runs the program in this environment, in a new interpreter if that heeds it."""
        return self.words_anew(*args) if self._is_of_the_interpreter(environ) else self.words(*args)

    def on_path(self) -> Path:
        """Put ``skillhub`` on this machine's PATH, and a ``python`` that runs it, too; return their folder."""
        program = shlex.join(self.words())
        python = f'case "$1 $2 $3" in "-I -m skillhub"|"-P -m skillhub") shift 3; exec {program} "$@";; esac\n'
        for name, lines in (("skillhub", ""), ("python", python)):
            last = program if name == "skillhub" else shlex.quote(sys.executable)
            self.write(f"bin/{name}", f'#!/bin/sh\n{lines}exec {last} "$@"\n').chmod(0o755)
        folder = self.folder / "bin"
        self.environ["PATH"] = f"{folder}{os.pathsep}{self.environ['PATH']}"
        return folder

    def run(self, *args: object, cwd: object = None, stdin: bytes | None = None, **environ: str) -> Done:
        """Run the program without a terminal; a value of None in ``environ`` takes the variable away.

        It runs in the process of the tests, at a third of the cost of a fork, if nothing is on its standard input,
        and it does not put another program in its place.
        """
        given = self.having(environ)
        if stdin is None and self._is_of_the_interpreter(given):
            return self.run_anew(*args, cwd=cwd, **environ)
        if stdin is None and self.entry == Shell.entry and "exec" not in args:
            return self._run_here(args, cwd or self.project, given)
        return run_forked(self._program(args, cwd or self.project, given), stdin or b"")

    def _run_here(self, args: Sequence[object], folder: object, environ: dict[str, str]) -> Done:
        before, stdin, temporary = dict(os.environ), sys.stdin, tempfile.tempdir
        freeze, threshold = gc.freeze, gc.get_threshold()
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        try:
            gc.freeze = _keep  # this process goes on, and finds what a command left
            sys.stdin, tempfile.tempdir = io.TextIOWrapper(io.BytesIO()), None
            _change_environ(before, environ)
            with chdir(folder), redirect_stdout(out), redirect_stderr(err):
                status = main([str(each) for each in args])
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        finally:
            sys.stdin, tempfile.tempdir = stdin, temporary
            _change_environ(dict(os.environ), before)
            gc.freeze = freeze
            gc.set_threshold(*threshold)
            gc.enable()
        return Done(status, out.buffer.getvalue(), err.buffer.getvalue())

    def run_anew(self, *args: object, cwd: object = None, **environ: str) -> Done:
        """Run the program in a new interpreter, for tests of its start."""
        done = subprocess.run(
            self.words_anew(*args),
            cwd=cwd or self.project,
            env=self.having(environ),
            capture_output=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *args: object, cwd: object = None, **environ: str) -> subprocess.Popen[bytes]:
        """Start the program and leave it running; signals to end reach it."""
        given = self.having(environ)
        return subprocess.Popen(
            self.words_within(given, *args),
            cwd=cwd or self.project,
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def serve(self, registry: Path) -> tuple[subprocess.Popen[bytes], str]:
        """Serve a registry; return the process and its URL once the server prints the URL."""
        process = self.start("registry", "serve", registry, "--json", "--port", "0")
        answer = b""
        while not answer.rstrip().endswith(b"}"):
            line = process.stdout.readline()
            assert line, process.communicate()
            answer += line
        return process, json.loads(answer)["url"]

    def at_terminal(
        self,
        *args: object,
        say: Sequence[tuple[str, str | Callable[[], str]]] = (),
        columns: int = 80,
        **environ: str,
    ) -> Done:
        """Run the program on a terminal and answer it as a person would.

        What is erased again, as progress is that only a slow machine shows, is not in what this returns.

        Args:
            args: Its words.
            say: What to wait for on the screen, and what to type then, or a function that returns it; ``\\x03`` is
                Ctrl-C.

            columns: The width of the terminal.
            environ: More variables.
        """
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environ = self.having({"TERM": "xterm", **environ})
        program = self._program(args, self.project, environ, is_on_terminal=True)
        child = forked.Process(program, [theirs] * 3)
        os.close(theirs)
        try:
            screen = _converse(ours, list(say))
        except BaseException:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            child.wait()
            raise
        finally:
            os.close(ours)
        return Done(child.wait(), ERASED.sub(b"", screen), b"")

    def _program(
        self, args: Sequence[object], folder: object, environ: dict[str, str], **how: bool
    ) -> forked.Program:
        return forked.Program(self.entry, [str(each) for each in args], str(folder), environ, SECONDS, **how)

    def having(self, environ: dict[str, str]) -> dict[str, str]:
        merged = {**self.environ, **environ}
        return {name: str(value) for name, value in merged.items() if value is not None}

    def _is_of_the_interpreter(self, environ: dict[str, str]) -> bool:
        """Return whether this environment has variables that a new interpreter reads."""
        usual = {"PYTHONPATH": str(REPO), "LANG": "C.UTF-8"}
        heeded = {name: value for name, value in environ.items() if name.startswith(("PYTHON", "LC_", "LANG"))}
        return heeded != usual

    def files(self) -> dict[str, bytes]:
        """Return everything on this machine, so that two moments can be compared.

        Without the index of what was hashed: it leaves out what changed in the last two seconds, so it tells how fast
        the machine is.
        """
        found = {}
        for top, folders, names in os.walk(self.folder):
            folders[:] = [name for name in folders if name != "proved"]
            for name in (*folders, *names):
                path = os.path.join(top, name)
                if os.path.islink(path):
                    found[path] = os.fsencode(os.readlink(path))
                elif os.path.isdir(path):
                    found[path] = b"folder"
                else:
                    found[path] = Path(path).read_bytes()
        return found

    def lock(self):
        return json.loads((self.project / "skillhub.lock").read_bytes())

    def write(self, path: str, text: str | bytes) -> Path:
        """Write a file below this machine's folder."""
        full = self.folder / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(text.encode() if isinstance(text, str) else text)
        return full

    def skill(self, path: str, name: str | None = None, head: str = "", **files: str) -> Path:
        """Write a skill below this machine's folder; ``head`` is more of its frontmatter."""
        name = name or path.rsplit("/", 1)[-1]
        text = f"---\nname: {name}\ndescription: Does what {name} does.\n{head}---\n\n# {name}\n"
        for file, content in {"SKILL.md": text, **files}.items():
            self.write(f"{path}/{file}", content)
        return self.folder / path


def _converse(terminal: int, say: list[tuple[str, str | Callable[[], str]]]) -> bytes:
    """Read the screen to its end, typing each answer once its prompt stands there."""
    screen, seen, until, idle = b"", 0, time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 0.2)[0]:
            idle += 1
            # A signal between the prompt and the read waits for the next key: a person presses again.
            if idle % 50 == 0 and not say and screen.endswith(b"^C"):
                os.write(terminal, b"\x03")
            continue
        idle = 0
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux says so when the last process has closed the other side
            break
        if not data:
            break
        screen += data
        while say and (at := screen.find(say[0][0].encode(), seen)) >= 0:
            seen = at + len(say[0][0].encode())
            _, typed = say.pop(0)
            os.write(terminal, (typed if isinstance(typed, str) else typed()).encode())
    else:
        raise AssertionError(f"the program never ended: {screen.decode('utf-8', 'replace')}")
    assert not say, f"never asked {say[0][0]!r}: {screen.decode('utf-8', 'replace')}"
    return screen


ERASED = re.compile(rb"[^\n]*\r\x1b\[K")
COLOURS = tuple(f"\x1b[{code}m" for code in ("0", "1", "2", "31", "32", "33"))


def hidden_in(raw: bytes, *, on_terminal: bool = False) -> list[str]:
    """Return the control and invisible characters of an output."""
    text = raw.decode("utf-8", "surrogateescape")
    if on_terminal:
        for code in COLOURS:
            text = text.replace(code, "")
        text = text.replace("\r\n", "\n")
    return [hex(ord(c)) for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
