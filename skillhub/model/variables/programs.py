"""Which environment variables programs read, where they name them; names that are put together are not seen."""

from __future__ import annotations

from collections.abc import Iterable

from skillhub.model.matching import Budget, TooMany
from skillhub.model.variables.direct import direct
from skillhub.model.variables.renamed import renamed
from skillhub.model.variables.shell import expanded, is_shell

# More names than anybody reads are one `*`.
NAMES_MAX = 200
_BYTES_MAX = 4 * 1024 * 1024  # a second, if they were written for it; no honest programs are as large
_HARMLESS = frozenset(
    b"_ PATH HOME PWD USER LANG LANGUAGE TERM SHELL TMPDIR IFS OLDPWD HOSTNAME LOGNAME"
    b" ENV LINENO RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME UID EUID PPID GROUPS REPLY SHLVL"
    b" OPTARG OPTIND OPTERR FUNCNAME PIPESTATUS DIRSTACK COLUMNS LINES OSTYPE HOSTTYPE MACHTYPE SHELLOPTS"
    b" MAPFILE COPROC PS1 PS2 PS3 PS4"
    b" NF NR FNR FS OFS RS ORS FILENAME"  # awk, between single quotes
    b" ID ID_LIKE VERSION_ID VERSION_CODENAME UBUNTU_CODENAME PRETTY_NAME".split()  # /etc/os-release
)
_HARMLESS_PREFIXES = (b"LC_", b"BASH")


def variables(files: Iterable[tuple[str, bytes]]) -> frozenset[str]:
    """Return the variables that these programs read, by path and content; ``*`` alone where they are too many.

    What every process has (``PATH``, ``HOME``) and what shells set themselves is left out. In shell only names of
    capital letters count, and none that the same file sets in a command of its own, at the start of a line, before it
    reads it. Whether that command is ever run is not known: so a name that looks like a secret (``…_TOKEN``) counts
    even then.

    ``*`` is one of them where a program takes the whole environment as a value (``os.environ.copy()``, ``env |``).
    Most only hand it on; that they do not send it is nothing that can be seen, and few do it.
    """
    budget = Budget()
    found: set[bytes] = set()
    left = _BYTES_MAX
    try:
        for path, data in files:
            left -= len(data)
            if left < 0:
                return frozenset("*")
            found |= direct(data, budget) | renamed(data, budget)
            if is_shell(path, data):
                found |= expanded(data, budget)
            found = {
                name for name in found if name not in _HARMLESS and not name.startswith(_HARMLESS_PREFIXES)
            }
            if len(found) > NAMES_MAX:
                return frozenset("*")
    except TooMany:
        return frozenset("*")
    return frozenset(name.decode("ascii") for name in found)
