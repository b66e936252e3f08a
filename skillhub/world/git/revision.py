"""Which commit a person means by a branch or a tag."""

from __future__ import annotations

import re
from collections.abc import Mapping

from skillhub.errors import NotFound, UsageError
from skillhub.model.ref import is_rev
from skillhub.model.text import quote

_SHORT = re.compile(r"[0-9a-f]{4,39}", re.ASCII)


def spellings(rev: str | None) -> list[str]:
    """Return the refs that ``rev`` may be short for; None is whatever the repository itself puts first.

    Raises:
        UsageError: it is no name.
    """
    if rev is None:
        return ["HEAD"]
    if not is_rev(rev):
        raise UsageError(f"expected a branch, a tag or a commit, found {quote(rev)}")
    refs = [f"refs/heads/{rev}", f"refs/tags/{rev}"]
    if rev.startswith(("heads/", "tags/")):
        refs.append(f"refs/{rev}")
    if rev.startswith(("refs/heads/", "refs/tags/")):
        refs.append(rev)
    return refs


def choose(commits: Mapping[str, str], rev: str | None, url: str) -> str:
    """Return the one commit that these refs are at.

    Git has a rule for which of a branch and a tag wins; whoever may push one could so take the other's place.

    Raises:
        NotFound: there are no refs.
        UsageError: they are at different commits.
    """
    if len(set(commits.values())) == 1:
        return next(iter(commits.values()))
    if commits:
        hint = "say which: " + ", ".join(f"@{ref}" for ref in commits)
        raise UsageError(f"{quote(rev)} is a branch and a tag, at different commits", where=url, hint=hint)
    if rev is None:
        raise NotFound("the repository has no commits on its first branch", where=url)
    short = "a commit is named by all of its 40 digits" if _SHORT.fullmatch(rev) else None
    raise NotFound(f"the repository has no branch and no tag {quote(rev)}", where=url, hint=short)
