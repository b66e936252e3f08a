"""Two people with a clone each of one bare repository, one registry, and a record of all that they see."""

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
_SIZE = re.compile(r"\b\d+ bytes")  # a signature of ECDSA is a byte longer or shorter each time


class Team:
    """What the two work on, and what was seen since ``told`` was last called."""

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

    def told(self) -> str:
        """Return what was seen: paths, digests and times under names that are the same each time."""
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
    """One of the team; what they type and what comes of it is seen."""

    def __init__(self, name: str, team: Team) -> None:
        super().__init__(team.folder / name)
        self.name, self._team = name, team
        self.environ |= _GIT
        self.write("home/.gitconfig", "[pull]\n\trebase = false\n[advice]\n\tdetachedHead = false\n")
        self.git("clone", "-q", str(team.folder / "team.git"), ".")

    def skillhub(self, *words: object) -> Done:
        """Type a command of skillhub with nobody there to answer."""
        return self._shown(words, self.run(*words))

    def answers(self, *words: object, say: Sequence[str]) -> Done:
        """Type a command at a terminal, and these answers to what is asked."""
        asked = [("[N]o: ", f"{answer}\n") for answer in say]
        done = self.at_terminal(*words, say=asked, columns=2000, TERM="dumb")
        return self._shown(words, Done(done.status, done.raw.replace(b"\r\n", b"\n"), b""))

    def git(self, *words: str) -> str:
        """Run git; return what it said. Only what ``shows`` is told is seen: the words of git are its own."""
        done = subprocess.run(
            ["git", *words], cwd=self.project, env=self.environ, capture_output=True, text=True, check=False
        )
        return f"{done.stdout}{done.stderr}"

    def shows(self, *words: str) -> None:
        """Show what git says of the clone, in a form that is made for programs."""
        self._team.see(f"{self.name}$ git {' '.join(words)}\n{self.git(*words)}")

    def commit(self, message: str) -> None:
        """Commit everything."""
        self.git("add", "-A")
        assert self.git("commit", "-qm", message) == ""

    def push(self) -> None:
        """Push what is committed."""
        assert self.git("push", "-q", "origin", "HEAD") == ""

    def pull(self) -> None:
        """Pull what the other one pushed, and merge it."""
        self.git("pull", "-q", "--no-edit", "origin", "main")

    def copy_of(self, name: str, agent: str = ".agents") -> Path:
        return self.project / agent / "skills" / name

    def _shown(self, words: Sequence[object], done: Done) -> Done:
        typed = " ".join(map(str, words))
        err = "".join(f"2> {line}\n" for line in done.err.splitlines())
        self._team.see(f"{self.name}$ skillhub {typed}\n{done.out}{err}= {done.status}\n")
        return done
