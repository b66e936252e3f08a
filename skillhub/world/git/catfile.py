"""One ``git cat-file --batch`` that stays at work, for it takes longer to start than to answer."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from subprocess import Popen

from skillhub.archive.entry import unsafe
from skillhub.errors import FormatError
from skillhub.world.git.program import GitProgram, stop

# Ids to ask for at a time: fewer bytes than any system's pipe holds, so that neither side waits for the other.
AT_ONCE = 90


class GoneError(Exception):
    """The cache lacks an object or is damaged: it has to be filled again."""


class CatFile:
    """Reads objects out of a repository; used by one thread at a time.

    Args:
        git: Bound to the repository.
        largest: The bytes that an object may have at most; those that are asked for together four times as many.
    """

    def __init__(self, git: GitProgram, largest: int) -> None:
        self._process = git.start(("cat-file", "--batch"))
        self._largest = largest
        self.close = weakref.finalize(self, _end, self._process)

    def read(self, kind: str, ids: Sequence[str]) -> list[bytes]:
        """Return these objects, ``AT_ONCE`` at most, as they are stored; after an error only ``close`` may follow.

        Raises:
            GoneError: one is not here.
            FormatError: one is of another kind.
            UnsafeArchive: ``too-large``.
        """
        asked, answers = self._process.stdin, self._process.stdout
        if asked is None or answers is None:
            raise GoneError
        try:
            asked.write("".join(f"{id_}\n" for id_ in ids).encode())
            asked.flush()
        except BrokenPipeError as error:
            raise GoneError from error
        left = 4 * self._largest
        found = []
        for id_ in ids:
            words = answers.readline().split()
            if len(words) != 3 or words[0] != id_.encode():
                raise GoneError(id_)
            if words[1] != kind.encode():
                raise FormatError(f"expected {id_} to be a {kind}, found a {words[1].decode()}")
            size = int(words[2])
            left -= size
            if size > self._largest or left < 0:
                raise unsafe(
                    "too-large", f"expected at most {self._largest} bytes in one {kind}, found {size}"
                )
            data = answers.read(size + 1)
            if len(data) <= size:
                raise GoneError(id_)
            found.append(data[:-1])
        return found


def _end(process: Popen[bytes]) -> None:
    stop(process)
    if process.stdout is not None:
        process.stdout.close()
