"""``registry``: makes, fills, checks and serves a registry."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from skillhub.cli.common import Common, Run
from skillhub.cli.epoch import signing_time
from skillhub.cli.options import argument, option
from skillhub.cli.passphrase import new_passphrase
from skillhub.cli.registry_operate import Dir, KeysDir, delegate, refresh, rotate, signed, withdraw, yank
from skillhub.cli.registry_push import push
from skillhub.cli.terminal import members
from skillhub.errors import UsageError

if TYPE_CHECKING:
    from skillhub.model.release import Release


def init(
    common: Common,
    folder: Dir,
    publisher: Annotated[
        str, option("--publisher NAME", "The name that the registry's own skills are signed by.")
    ] = "own",
    keys: KeysDir = None,
) -> int:
    """Make a registry that offers nothing yet. DIR/site is to be served, DIR/keys to be guarded.

    A passphrase for the keys is asked for on a terminal, or taken from SKILLHUB_PASSPHRASE.

    Example: skillhub registry init ./registry --publisher acme
    """
    from skillhub.flows.registry.build import Setup
    from skillhub.flows.registry.build import init as flow
    from skillhub.world.registry_dir import RegistryDir, RegistrySettings

    path, fingerprint = os.path.abspath(folder), None
    if not common.dry_run:
        passphrase = new_passphrase("the registry's keys", common)
        setup = Setup(settings=RegistrySettings(publisher), passphrase=passphrase, keys=keys)
        fingerprint = flow(folder, setup, signing_time()).fingerprint
    elif RegistryDir(folder).exists:
        raise UsageError("there is a registry already", where=folder)
    if common.json:
        return common.result(
            "registry init", {"path": path, "site": _site(folder), "fingerprint": fingerprint}
        )
    if common.dry_run:
        common.terminal.did(f"{path}: would be a registry")
        return 0
    common.terminal.did(f"{path}: a registry, root {fingerprint}", "green")
    common.terminal.did(f"  serve {_site(folder)} with any web server; it holds nothing secret")
    offline = keys or os.path.join(path, "keys", "offline")
    common.terminal.did(f"  guard {os.path.join(path, 'keys')}")
    common.terminal.did(f"  keep {offline} where no network reaches; --keys DIR brings it back")
    return 0


def add(
    common: Common,
    folder: Dir,
    skills: Annotated[list[str], argument("SKILL...", "Folders or archives.")],
    keys: KeysDir = None,
) -> int:
    """Publish skills, all or none. Each is signed by a publisher that is admitted, or else by the registry's own.

    A name that is new takes the offline keys.

    Example: skillhub registry add ./registry ./my-skill
    """
    from skillhub.flows.registry.build import add as flow

    added = signed(common, keys, lambda signing: flow(folder, skills, signing, common.publishers))
    if common.json:
        return common.result(
            "registry add",
            {"added": [_row(r) for r in added.releases], "unchanged": [_row(r) for r in added.unchanged]},
        )
    done = "would publish" if common.dry_run else "published"
    for release in added.releases:
        text = f"{done} {release.name} {release.version}, signed by {release.publisher}"
        common.terminal.did(text, "green")
    for release in added.unchanged:
        common.terminal.did(f"{release.name} {release.version} was published before, with the same content")
    return 0


def check(
    common: Common,
    place: Annotated[str, argument("DIR|URL", "The registry's folder, or its URL.")],
) -> int:
    """Verify a registry as a client would. All metadata, every release of every skill; exits 1 if something is wrong.

    What is about to expire is a warning.

    Example: skillhub registry check ./registry
    """
    from skillhub.flows.registry.check import check as flow

    time = common.time()
    found = flow(place, time.now(), time)
    if common.json:
        common.terminal.answer("registry check", {"ok": not found.problems, **asdict(found)})
    else:
        for issue in found.warnings:
            common.terminal.warn(f"warning: {issue} [{issue.code}]")
        for issue in found.problems:
            common.terminal.out(f"{issue} [{issue.code}]", "red")
        if not found.problems:
            common.terminal.did(f"{place}: sound", "green")
    return 1 if found.problems else 0


def serve(
    common: Common,
    folder: Dir,
    host: Annotated[str, option("--host ADDRESS", "The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("--port N", "The port; 0 takes a free one.")] = 8000,
) -> int:
    """Serve a registry's site, read-only. For trying out and for small teams; any web server does as well.

    Example: skillhub registry serve ./registry --port 8000
    """
    from skillhub.server.site import site_server

    server = site_server(_site(folder), host, port)
    url = f"http://{host}:{server.server_port}"
    if common.json:
        common.terminal.answer("registry serve", {"url": url})
    else:
        common.terminal.out(f"serving {_site(folder)} at {url} (stop with Ctrl-C)")
    sys.stdout.flush()  # whoever reads a pipe waits for the address
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        common.terminal.say("stopped")
    finally:
        server.server_close()
    return 0


def _site(folder: str) -> str:
    from skillhub.world.registry_dir import RegistryDir

    return RegistryDir(folder).site


def _row(release: Release) -> dict[str, str | None]:
    return members(release, "name", "version", "digest", "tree")


VERBS: dict[str, Run] = {
    "init": init,
    "add": add,
    "yank": yank,
    "withdraw": withdraw,
    "delegate": delegate,
    "rotate": rotate,
    "refresh": refresh,
    "check": check,
    "push": push,
    "serve": serve,
}
