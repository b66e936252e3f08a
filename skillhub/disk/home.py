"""The folders of skillhub on this machine, and the folder of a project."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from skillhub.disk.files import disk_error, keeps_modes
from skillhub.errors import StateError
from skillhub.formats.text import as_command, is_path, quote

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

LOCK, INTENT, CONFIG = "skillhub.lock", "skillhub.toml", "config.toml"
EDITS = "skillhub-edits"  # the folder of a project with patches of skills, and with edits that were saved
_OTHER_HOME = "this disk keeps no access rights; let SKILLHUB_HOME name a folder on another one"
# The base directories of freedesktop.org: the variable, and the default below the home folder.
_XDG = (
    ("XDG_CONFIG_HOME", (".config",)),
    ("XDG_DATA_HOME", (".local", "share")),
    ("XDG_CACHE_HOME", (".cache",)),
    ("XDG_STATE_HOME", (".local", "state")),
)


@dataclass(frozen=True, slots=True)
class Home:
    """Four folders: ``config``, ``data``, ``cache`` and ``state``.

    The user edits ``config``; ``data`` has the store; ``cache`` may be deleted.
    """

    config: str
    data: str
    cache: str
    state: str

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Home:
        """Return the home that ``SKILLHUB_HOME`` names, else the platform's own folders.

        Raises:
            StateError: another user owns or may write a folder, and could change whom this user trusts; or the user's
                home folder is unknown; or ``SKILLHUB_HOME`` depends on the working folder.
        """
        root = environ.get("SKILLHUB_HOME", "")
        _refuse_no_path(root)
        if not root or root.startswith("~"):
            user_home()
        if root:
            top = os.path.normpath(os.path.expanduser(root))
            if not os.path.isabs(top):  # each project would bring its own state
                message = f"expected the absolute path of a folder for skillhub's data, found {quote(root)}"
                raise StateError(message, where="SKILLHUB_HOME", hint="set it to a folder outside of your projects")
            _refuse_others(top)
            return cls._of_user(os.path.join(top, part) for part in ("config", "data", "cache", "state"))
        return cls._of_user(_platforms(os.environ, os.path.expanduser("~")))

    @classmethod
    def _of_user(cls, folders: Iterable[str]) -> Home:
        home = cls(*folders)
        # Files of the store and the cache are checked against digests at each use.
        _refuse_others(home.config)
        _refuse_others(home.state)
        return home

    @property
    def registries(self) -> str:
        """The folder with the last documents of each registry, by its first root."""
        return os.path.join(self.state, "tuf")

    @property
    def is_configured(self) -> bool:
        """Whether there is a ``config.toml``; True if an error leaves that unknown."""
        try:
            os.lstat(os.path.join(self.config, CONFIG))
        except FileNotFoundError:
            return os.path.islink(self.config) and not os.path.exists(self.config)
        except OSError:
            pass
        return True

    @classmethod
    def around(cls, environ: Mapping[str, str], user_home: str) -> Home:
        """Return the home for these variables and this home folder, which need not be those of this process.

        Raises:
            StateError: as ``of`` raises it.
        """
        root = environ.get("SKILLHUB_HOME", "")
        if root:
            if root == "~" or root.startswith(("~/", f"~{os.sep}")):
                root = user_home + root[1:]
            return cls.of({"SKILLHUB_HOME": root})
        return cls._of_user(_platforms(environ, user_home))


def _platforms(environ: Mapping[str, str], home: str) -> Iterator[str]:
    if sys.platform in ("win32", "darwin"):
        from platformdirs import PlatformDirs  # noqa: PLC0415 - it takes 20 ms

        place, own = PlatformDirs("skillhub", appauthor=False), os.path.expanduser("~")
        for each in (place.user_config_dir, place.user_data_dir, place.user_cache_dir, place.user_state_dir):
            yield home + each[len(own) :] if each.startswith(own + os.sep) else each
        return
    for variable, below in _XDG:
        folder = environ.get(variable, "")
        # The specification ignores a relative path, with which each project would bring its own state.
        yield os.path.join(folder if os.path.isabs(folder) else os.path.join(home, *below), "skillhub")


def about_home(scope: str, folder: str, home: str) -> str | None:
    """Return a line about a project in the user's home folder, under whatever path; None about any other."""
    if scope != "project" or os.path.realpath(folder) != os.path.realpath(home):
        return None
    return f"the project is your home folder, {folder}: agents read its skills in every project"


def user_home() -> str:
    """Return the user's home folder.

    Raises:
        StateError: it is unknown, or a relative path.
    """
    home = os.path.expanduser("~")
    if os.environ.get("HOME") == "" or not os.path.isabs(home):
        raise StateError("expected the absolute path of your home folder", where="HOME", hint="set HOME to it")
    return home


def _refuse_no_path(folder: str) -> None:
    if not is_path(folder):
        raise StateError(f"expected a folder for skillhub's data, found {quote(folder)}", where="SKILLHUB_HOME")


def _refuse_others(folder: str) -> None:
    _refuse_no_path(folder)
    if not hasattr(os, "geteuid"):
        return
    try:
        status = os.stat(folder)
    except FileNotFoundError:
        _refuse_open_to_all(folder)
        return
    except OSError as error:
        raise disk_error(error, folder) from error
    if not stat.S_ISDIR(status.st_mode):
        raise StateError("expected a folder for skillhub's data", where=folder, hint="SKILLHUB_HOME names it")
    if status.st_uid not in (os.geteuid(), 0):  # root can change everything anyway
        hint = "chown it if you trust its content, or set SKILLHUB_HOME to a folder of yours"
        raise StateError("it belongs to another user, who could change whom you trust", where=folder, hint=hint)
    # A umask of 002 permits the group to write, which is harmless if each user has a private group.
    is_private = status.st_gid == status.st_uid == os.getegid()
    if status.st_mode & (stat.S_IWOTH if is_private else stat.S_IWOTH | stat.S_IWGRP):
        hint = f"check its content, then: {as_command('chmod', 'go-w', folder)}"
        raise _open_to_others(folder, hint if keeps_modes(folder) else _OTHER_HOME)


def _refuse_open_to_all(folder: str) -> None:
    """Refuse a folder that does not exist yet, where every new folder may be written by all users."""
    above = next(filter(os.path.exists, upwards(folder)), folder)
    with suppress(OSError):
        if os.stat(above).st_mode & stat.S_IWOTH and not keeps_modes(above):
            raise _open_to_others(folder, _OTHER_HOME)


def _open_to_others(folder: str, hint: str) -> StateError:
    return StateError("other users may write it, and so change whom you trust", where=folder, hint=hint)


def throwaway() -> TemporaryDirectory[str]:
    """Return a new temporary folder.

    Raises:
        StateError: the disk refuses, or the system has no temporary folder.
    """
    from tempfile import TemporaryDirectory  # noqa: PLC0415 - it imports three compression modules, for few commands

    try:
        return TemporaryDirectory(prefix="skillhub-", ignore_cleanup_errors=True)
    except OSError as error:
        raise StateError(f"no temporary folder: {error.strerror}", hint="set TMPDIR to a folder of yours") from error


# The project around a folder.


def upwards(folder: str) -> Iterator[str]:
    """Yield the folder and each of its parents, nearest first."""
    folder = os.path.normpath(folder)
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def first_there(path: str) -> str:
    """Return the nearest path at which something exists, from this one upwards; it may be no folder."""
    return next(filter(os.path.lexists, upwards(path)), path)


def has_lock_or_intent(folder: str) -> bool:
    """Return whether a folder has a lock or an intent, which makes it a project."""
    return any(os.path.lexists(os.path.join(folder, name)) for name in (LOCK, INTENT))


def is_project(folder: str) -> bool:
    """Return whether a folder is that of a project, or of a repository of git."""
    return has_lock_or_intent(folder) or os.path.lexists(os.path.join(folder, ".git"))


def project_folder(start: str, is_project: Callable[[str], bool] = is_project) -> str:
    """Return the folder of the project that ``start`` lies in, whoever owns it; see ``Project.find``."""
    start = os.path.abspath(start)
    return next(filter(is_project, upwards(start)), start)


def project_folders() -> Callable[[str], str]:
    """Return ``project_folder`` that looks at each folder once, for many folders that lie together."""
    return partial(project_folder, is_project=cache(is_project))


def marks_above(folder: str) -> Iterator[str]:
    """Yield this folder and those above it, and what may make one a project, a workspace or a repository."""
    for each in upwards(folder):
        yield from (each, *(os.path.join(each, name) for name in (".git", LOCK, INTENT)))


def is_own(status: os.stat_result) -> bool:
    """Return whether a file or folder belongs to this user."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
