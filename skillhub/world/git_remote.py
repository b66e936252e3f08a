"""What git is told of the repository that it is to fetch from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from skillhub.errors import UsageError
from skillhub.model.ref import Git, parse_ref
from skillhub.model.text import quote
from skillhub.world.git_program import Bounds, GitProgram
from skillhub.world.hop import Hop

# Not "origin", of which a person may have settings for all repositories.
REMOTE = "skillhub"
# Asked only once a server wants credentials and no helper of the person's own has any; the token is in no argument,
# where other users of the machine could read it.
_VARIABLE = "SKILLHUB_GIT_VARIABLE"
_HELPER = (
    f'!f() {{ test "$1" = get && printf "username=x-access-token\\npassword=%s\\n" "${_VARIABLE}"; }}; f'
)


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository somewhere, as git is told of it.

    Attributes:
        options: Settings, ``name=value``.
        variables: Of the environment.
    """

    url: str
    options: tuple[str, ...]
    variables: Mapping[str, str]


def remote(url: str, environ: Mapping[str, str], bounds: Bounds, token: str | None = None) -> Remote:
    """Return what git has to know to fetch from ``url``, which anybody may have written, or from its mirror.

    Args:
        url: https, ssh, file, or http on this machine.
        environ: The environment of this process.
        bounds: Names the mirrors.
        token: Lets one in where ``url`` is; offered when the server asks. A mirror never gets it.

    Raises:
        UsageError: it is no URL that skills are fetched from.
        SourceError: there is no git.
    """
    if parse_ref(f"git+{url}") != Git(url) or ".." in url.split("/"):
        raise UsageError(f"expected the URL of a git repository, found {quote(url)}")
    place = _mirror_of(url, bounds.mirrors)
    # ext:: runs commands; git:// proves nothing of who answers. A person's own `insteadOf` may lead to any of these.
    protocols = "https:ssh:file"
    if place.startswith("http:"):
        if place == url and not Hop.parse(url).loopback:
            raise UsageError(f"expected https, found {quote(url)}", hint="git+https://… proves who answers")
        protocols += ":http"
    variables = {"GIT_ALLOW_PROTOCOL": protocols}
    options = [f"remote.{REMOTE}.url={place}"]
    if place.startswith("ssh:") and not _has_ssh_command(environ):
        variables["GIT_SSH_COMMAND"] = "ssh -oBatchMode=yes"
    if token is not None and place == url and url.startswith(("https:", "http:")):
        origin = "/".join(url.split("/")[:3])
        options.append(f"credential.{origin}.helper={_HELPER}")
        variables[_VARIABLE] = token
    return Remote(url, tuple(options), variables)


def _mirror_of(url: str, mirrors: Mapping[str, str]) -> str:
    """Return where to fetch from instead, as the longest beginning of ``url`` says; else ``url``."""
    bases = [base for base in mirrors if url == base or url.startswith(base + "/")]
    if not bases:
        return url
    base = max(bases, key=len)
    return mirrors[base] + url[len(base) :]


def _has_ssh_command(environ: Mapping[str, str]) -> bool:
    """Say whether the person has an ssh of their own; without a terminal it cannot ask anything either."""
    if "GIT_SSH_COMMAND" in environ or "GIT_SSH" in environ:
        return True
    return GitProgram(os.curdir, environ, (), {}).is_set("core.sshCommand")
