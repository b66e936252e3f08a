"""``registry push``: publishes a registry's site to a folder, an S3 bucket or an OCI registry."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from skillhub.cli.common import Common, now
from skillhub.cli.extras import optional
from skillhub.cli.options import argument
from skillhub.errors import SourceError, UsageError
from skillhub.model.text import quote
from skillhub.model.url import holds_secret

if TYPE_CHECKING:
    from skillhub.world.push.target import Target

_MODULES = {"": "folder", "s3": "s3", "oci": "oci"}


def push(
    common: Common,
    folder: Annotated[str, argument("DIR", "The registry's folder.")],
    target: Annotated[
        str, argument("TARGET", "A folder, s3://BUCKET/PREFIX, or oci://REGISTRY/REPOSITORY:TAG.")
    ],
) -> int:
    """Publish a registry's site. Immutable files first, the timestamp last; nothing newer is ever overwritten.

    S3 and its credentials are found by the usual AWS variables (AWS_ENDPOINT_URL_S3 for other stores), those of an
    OCI registry as docker login keeps them, or by SKILLHUB_OCI_USERNAME and SKILLHUB_OCI_PASSWORD.

    Example: skillhub registry push ./registry s3://skills-bucket
    """
    from skillhub.flows.registry.push import push as flow

    if "://" in target and holds_secret(target):
        hint = "docker login, SKILLHUB_OCI_USERNAME and SKILLHUB_OCI_PASSWORD, or the usual AWS variables"
        raise UsageError("expected a target without password or another credential", hint=hint)

    def connect(address: str) -> Target:
        if common.offline and "://" in address:
            raise SourceError("--offline keeps this command from the network", where=address)
        return _open(address)

    done = flow(folder, target, connect, now=now(), dry_run=common.dry_run)
    if common.json:
        return common.result("registry push", {"target": target, **asdict(done)})
    if common.verbose:
        for path in done.written:
            common.terminal.say(path)
    if done.written:
        verb = "would write" if common.dry_run else "published"
        common.terminal.did(
            f"{target}: {verb} {len(done.written)} files, {done.unchanged} were there", "green"
        )
    else:
        common.terminal.did(f"{target}: nothing to do, all {done.unchanged} files are there")
    return 0


def _open(address: str) -> Target:
    """Return the target of an address.

    Raises:
        UsageError: nobody knows its scheme, or an extra is not installed.
    """
    scheme, separator, _ = address.partition("://")
    name = _MODULES.get(scheme if separator else "")
    if name is None:
        raise UsageError(f"expected a folder, s3://… or oci://…, found {quote(address)}")
    module = optional(f"skillhub.world.push.{name}", scheme, f"{scheme}:// takes")
    target: Target = module.open_target(address)
    return target
