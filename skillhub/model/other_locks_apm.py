"""``apm.lock.yaml``: packages at commits, each of one skill or of several."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from skillhub.model.origin import Found, NoOrigin, at_path, at_site, folder_of, in_git, text
from skillhub.model.text import is_name, quote

_SKILL = "claude_skill"  # the type of a package that is a skill


def entries(document: Mapping[str, Any], folder: str) -> Iterator[Found]:
    """Yield each package that brings skills, and whatever else the lock names with the reason why it is left."""
    for package in _list(document.get("dependencies")):
        if isinstance(package, dict):
            yield _package(package, folder)
        else:
            yield NoOrigin(quote(package), "its entry is no package")
    for server in _list(document.get("mcp_servers")):
        name = text(server, "name") if isinstance(server, dict) else quote(server)
        yield NoOrigin(name, "it is an MCP server; skills ask for those that they need")


def _package(package: Mapping[str, Any], folder: str) -> Found:
    # repo_url is in lower case where the host does not care.
    repository = text(package, "materialization_repo_url") or text(package, "repo_url")
    path = folder_of(text(package, "virtual_path"))
    name, skills = text(package, "name") or repository, _skills(package)
    if text(package, "package_type") == _SKILL:
        name, skills = posixpath.basename(path) or next(iter(skills), name), ()
    elif not skills:
        return NoOrigin(name, "its lock names no skill that it brought")
    if local := text(package, "local_path"):
        return at_path(name, posixpath.join(local, path), folder, skills)
    if text(package, "is_insecure") == "true":
        return NoOrigin(name, "its repository is reached over plain http")
    if url := text(package, "resolved_url"):
        return at_site(name, url, skills)
    rev = text(package, "resolved_commit") or text(package, "resolved_ref")
    return in_git(name, _address(package, repository), rev, path, skills)


def _address(package: Mapping[str, Any], repository: str) -> str:
    host, port = text(package, "host") or "github.com", text(package, "port")
    if host == "dev.azure.com" and repository.count("/") == 2:
        owner, _, name = repository.rpartition("/")
        repository = f"{owner}/_git/{name}"  # as that host spells it
    return repository if "://" in repository else f"https://{host}{':' + port if port else ''}/{repository}"


def _skills(package: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the skills that were taken out of a package: those asked for, else those put into agents' folders."""
    wanted = _list(package.get("skill_subset"))
    files = [each for each in _list(package.get("deployed_files")) if isinstance(each, str)]
    folders = (folder_of(each) for each in files)  # older versions list the folder alone
    put = [
        posixpath.basename(each)
        for each in folders
        if posixpath.basename(posixpath.dirname(each)) == "skills"
    ]
    return tuple(dict.fromkeys(each for each in wanted or put if isinstance(each, str) and is_name(each)))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
