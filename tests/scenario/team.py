"""Two users with a clone each of one bare repository, one registry, and a record of their output."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.cli import Done
from tests.support.here import Here
from tests.support.served import Served

_GIT = {f"GIT_{who}_{what}": "team@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
_DIGEST = re.compile(r"\b(?:sha256:)?[0-9a-f]{64}\b|\bsha256:[0-9a-f]{12}(?=…)")
_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")
_TIME = re.compile(r"\b20\d\d-\d\d-\d\dT[0-9:.]+(?:Z|\+00:00)?")
_STORED = re.compile(r"/store/[0-9a-f]{2}/")
_SIZE = re.compile(r"\b\d+ bytes")  # the length of an ECDSA signature varies by a byte


class Team:
    """The clones and the registry, and the output since the last call of ``output``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: list[str] = []
        self._digests: dict[str, int] = {}
        self.url = ""
        self.registry = Served(folder)
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", folder / "team.git"], check=True)
        self.ann, self.ben = Mate("ann", self), Mate("ben", self)

    def see(self, text: str) -> None:
        self._seen.append(text)

    def output(self) -> str:
        """Return the new output, with stable names for paths, digests and times."""
        text, self._seen = "".join(self._seen), []
        text = text.replace(os.path.realpath(self.folder), "").replace(str(self.folder), "")
        text = text.replace(self.url, "https://acme.example")
        text = _SIZE.sub("<n> bytes", _STORED.sub("/store/<xx>/", text))
        text = _DIGEST.sub(self._numbered, text)
        return _TIME.sub("<time>", _COMMIT.sub("<commit>", text))

    def _numbered(self, found: re.Match[str]) -> str:
        digest = found[0].removeprefix("sha256:")[:12]
        return f"<digest {self._digests.setdefault(digest, len(self._digests) + 1)}>"


class Mate(Here):
    """A member of the team, whose commands and output are recorded."""

    def __init__(self, name: str, team: Team) -> None:
        super().__init__(team.folder / name)
        self.name, self._team = name, team
        self.environ |= _GIT
        self.write("home/.gitconfig", "[pull]\n\trebase = false\n[advice]\n\tdetachedHead = false\n")
        self.git("clone", "-q", str(team.folder / "team.git"), ".")

    def skillhub(self, *words: object) -> Done:
        """Run a command of skillhub without a terminal."""
        return self._shown(words, self.run(*words))

    def answers(self, *words: object, say: Sequence[str]) -> Done:
        """Run a command at a terminal, with these answers to its questions."""
        asked = [("[N]o: ", f"{answer}\n") for answer in say]
        done = self.at_terminal(*words, say=asked, columns=2000, TERM="dumb")
        return self._shown(words, Done(done.status, done.raw.replace(b"\r\n", b"\n"), b""))

    def git(self, *words: str) -> str:
        """Run git and return its output, which is not recorded: the messages of git differ between versions."""
        done = subprocess.run(
            ["git", *words], cwd=self.project, env=self.environ, capture_output=True, text=True, check=False
        )
        return f"{done.stdout}{done.stderr}"

    def shows(self, *words: str) -> None:
        """Record the output of a git command in a form for programs."""
        self._team.see(f"{self.name}$ git {' '.join(words)}\n{self.git(*words)}")

    def commit(self, message: str) -> None:
        """Commit everything."""
        self.git("add", "-A")
        assert self.git("commit", "-qm", message) == ""

    def push(self) -> None:
        """Push the commits."""
        assert self.git("push", "-q", "origin", "HEAD") == ""

    def pull(self) -> None:
        """Pull and merge the commits of the other member."""
        self.git("pull", "-q", "--no-edit", "origin", "main")

    def copy_of(self, name: str, agent: str = ".agents") -> Path:
        return self.project / agent / "skills" / name

    def _shown(self, words: Sequence[object], done: Done) -> Done:
        typed = " ".join(map(str, words))
        err = "".join(f"2> {line}\n" for line in done.err.splitlines())
        self._team.see(f"{self.name}$ skillhub {typed}\n{done.out}{err}= {done.status}\n")
        return done
