"""Where git fetches a repository from, and with which settings and variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from skillhub.errors import SourceError, UnsafeTransfer, UsageError
from skillhub.model.ref import Git, parse_ref
from skillhub.model.text import as_command, quote
from skillhub.model.url import base_of
from skillhub.world.git.program import Bounds, GitProgram
from skillhub.world.hop import RequestTarget, judged, proxy_for
from skillhub.world.requester import RULES, Who

# Not "origin", of which a person may have settings for all repositories.
REMOTE = "skillhub"
# Asked only once a server wants credentials and no helper of the person's own has any; the token is in no argument,
# where other users of the machine could read it.
_VARIABLE = "SKILLHUB_GIT_VARIABLE"
_HELPER = (
    f'!f() {{ test "$1" = get && printf "username=x-access-token\\npassword=%s\\n" "${_VARIABLE}"; }}; f'
)
# A person's settings of git may hold secrets, or lead elsewhere; curl looks for a netrc in the home folder.
_NOBODY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": os.devnull,
    "XDG_CONFIG_HOME": os.devnull,
}


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository somewhere, as git is told of it.

    Attributes:
        url: Which one.
        place: Where it is fetched from: there, or from its mirror.
        named_by: As ``Bounds`` has it; whoever configured a mirror has named it.
        options: Settings, ``name=value``.
        variables: Of the environment.
        token: Lets one in at ``place``, and is among these.
    """

    url: str
    place: str
    named_by: Who
    options: tuple[str, ...]
    variables: Mapping[str, str] = field(repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def hint(self) -> str | None:
        """What to do if it is reached with care and that is not enough."""
        if self.named_by == "person":
            return None
        who = "this repository" if self.named_by == "repository" else f"a {self.named_by}"
        url = self.place if self.named_by == "redirect" else self.url
        return f"only {who} names it; if it is meant: {as_command('skillhub', 'install', f'git+{url}')}"

    def way(self) -> tuple[str, ...]:
        """Return the words that hold git to addresses that were judged; to be called before git goes there.

        Raises:
            UnsafeTransfer: no person has named it, and it is not on the public internet.
            SourceError: its host has no address.
        """
        scheme, _, rest = self.place.partition("://")
        rule = RULES[self.named_by]
        if rule.anywhere:
            return ()
        # Two slashes, which git decodes, lead to a server on Windows.
        if scheme == "file" and unquote(rest)[1:2] not in ("/", "\\", "?"):
            return ()  # a `path` reads this disk as well, and what is there goes nowhere
        if scheme not in rule.schemes:
            raise UnsafeTransfer("expected a repository at an https URL", where=self.url, hint=self.hint)
        authority = rest.partition("/")[0].rpartition("@")[2]
        target = RequestTarget.parse(f"https://{authority}/", public_only=True)
        proxy = proxy_for(target)
        try:
            addresses = [address for address, _ in judged(target, is_proxied=proxy is not None)]
        except UnsafeTransfer as error:
            raise UnsafeTransfer(error.message, where=self.url, hint=self.hint) from error
        except OSError as error:
            raise SourceError("its host has no address", where=self.url) from error
        if proxy is not None or scheme == "ssh" or ":" in target.host:
            return ()
        # A second look-up could give another answer. Git before 2.37 does not know the setting.
        return "-c", f"http.curloptResolve={target.host}:{target.port}:{','.join(addresses)}"


def remote(url: str, environ: Mapping[str, str], bounds: Bounds, token: str | None = None) -> Remote:
    """Return what git is told to fetch from ``url``, which anybody may have written, or from its mirror.

    Args:
        url: https, ssh, file, or http on this machine.
        environ: The environment of this process.
        bounds: Names the mirrors, and says who named ``url``.
        token: Lets one in where ``url`` is; offered when the server asks. A mirror never gets it, nor a repository
            that no person has named.

    Raises:
        UsageError: it is no URL that skills are fetched from.
        SourceError: there is no git.
    """
    check(url)
    place = _mirror_of(url, bounds.mirrors)
    if place.startswith("http:") and place == url and not RequestTarget.parse(url).loopback:
        raise UsageError(f"expected https, found {quote(url)}", hint="git+https://… proves who answers")
    named_by = bounds.named_by if place == url else "person"
    return told(url, place, named_by, environ, token if place == url else None)


def told(url: str, place: str, named_by: Who, environ: Mapping[str, str], token: str | None = None) -> Remote:
    """Return what git is told of the repository at ``url`` that is fetched from ``place``; see ``remote``.

    Raises:
        SourceError: there is no git.
    """
    # ext:: runs commands; git:// proves nothing of who answers. A person's own `insteadOf` may lead to any of these.
    protocols = "https:ssh:file"
    if place.startswith("http:"):
        protocols += ":http"
    # Git does not judge where a redirect leads; ``git_redirect`` does.
    options = [f"remote.{REMOTE}.url={place}", "http.followRedirects=false"]
    if place.startswith("file:"):
        # Git before 2.45.1 has it fetch what it lacks, with whatever program it names (CVE-2024-32465).
        options.append(f"remote.{REMOTE}.uploadpack=GIT_ALLOW_PROTOCOL=none git-upload-pack")
    if not RULES[named_by].settings:
        protocol = "file" if place.startswith("file:") else "https"
        return Remote(url, place, named_by, tuple(options), {"GIT_ALLOW_PROTOCOL": protocol, **_NOBODY})
    variables = {"GIT_ALLOW_PROTOCOL": protocols}
    if place.startswith("ssh:") and not _has_ssh_command(environ):
        variables["GIT_SSH_COMMAND"] = "ssh -oBatchMode=yes"
    if not RULES[named_by].sends_credentials or not place.startswith(("https:", "http:")):
        token = None
    if token is not None:
        origin = "/".join(place.split("/")[:3])
        options.append(f"credential.{origin}.helper={_HELPER}")
        variables[_VARIABLE] = token
    return Remote(url, place, named_by, tuple(options), variables, token)


def check(url: str) -> None:
    """Return if that is the URL of a repository, whoever wrote it.

    Raises:
        UsageError: it is none.
    """
    if parse_ref(f"git+{url}") != Git(url) or ".." in url.split("/"):
        raise UsageError(f"expected the URL of a git repository, found {quote(url)}")


def _mirror_of(url: str, mirrors: Mapping[str, str]) -> str:
    """Return where to fetch from instead, as the longest beginning of ``url`` says; else ``url``."""
    base = base_of(url, mirrors)
    return url if base is None else mirrors[base] + url[len(base) :]


def _has_ssh_command(environ: Mapping[str, str]) -> bool:
    """Say whether the person has an ssh of their own; without a terminal it cannot ask anything either."""
    if "GIT_SSH_COMMAND" in environ or "GIT_SSH" in environ:
        return True
    return GitProgram(os.curdir, environ, (), {}).is_set("core.sshCommand")
