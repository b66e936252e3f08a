"""``apm.lock.yaml``: packages at commits, each of one skill or of several."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from skillhub.model.origin import (
    Absent,
    Found,
    NoOrigin,
    OtherEntry,
    at_path,
    at_site,
    folder_of,
    in_git,
    text,
)
from skillhub.model.text import is_name, quote

_SKILL = "claude_skill"  # the type of a package that is a skill


def _false_if_empty(value: object) -> object:
    return False if value in (None, "", "~", "null") else value


class _Package(OtherEntry):
    BINDING: ClassVar = frozenset(
        {
            *(
                "materialization_repo_url",
                "repo_url",
                "virtual_path",
                "package_type",
                "local_path",
                "is_insecure",
            ),
            *("resolved_url", "resolved_commit", "resolved_ref", "host", "port"),
        }
    )

    name: Absent = ""
    materialization_repo_url: Absent = ""
    repo_url: Absent = ""
    virtual_path: Absent = ""
    package_type: Absent = ""
    local_path: Absent = ""
    is_insecure: Annotated[bool, BeforeValidator(_false_if_empty)] = False
    resolved_url: Absent = ""
    resolved_commit: Absent = ""
    resolved_ref: Absent = ""
    host: Absent = ""
    port: Absent = ""
    skill_subset: tuple[object, ...] = ()
    deployed_files: tuple[object, ...] = ()

    def found(self, name: str, folder: str) -> Found:
        """Return where it is to be had."""
        # repo_url is in lower case where the host does not care.
        repository = self.materialization_repo_url or self.repo_url
        path = folder_of(self.virtual_path)
        name, skills = self.name or repository, self._skills()
        if self.package_type == _SKILL:
            name, skills = posixpath.basename(path) or next(iter(skills), name), ()
        elif not skills:
            return NoOrigin(name, "its lock names no skill that it brought")
        if self.local_path:
            return at_path(name, posixpath.join(self.local_path, path), folder, skills)
        if self.is_insecure:
            return NoOrigin(name, "its repository is reached over plain http")
        if self.resolved_url:
            return at_site(name, self.resolved_url, skills)
        return in_git(
            name, self._address(repository), self.resolved_commit or self.resolved_ref, path, skills
        )

    def _address(self, repository: str) -> str:
        host = self.host or "github.com"
        if host == "dev.azure.com" and repository.count("/") == 2:
            owner, _, name = repository.rpartition("/")
            repository = f"{owner}/_git/{name}"  # as that host spells it
        port = f":{self.port}" if self.port else ""
        return repository if "://" in repository else f"https://{host}{port}/{repository}"

    def _skills(self) -> tuple[str, ...]:
        """Return the skills that were taken out: those asked for, else those put into agents' folders."""
        # Older versions list the folder alone.
        folders = (folder_of(each) for each in self.deployed_files if isinstance(each, str))
        put = [
            posixpath.basename(each)
            for each in folders
            if posixpath.basename(posixpath.dirname(each)) == "skills"
        ]
        wanted = self.skill_subset or put
        return tuple(dict.fromkeys(each for each in wanted if isinstance(each, str) and is_name(each)))


def entries(document: Mapping[str, Any], folder: str) -> Iterator[Found]:
    """Yield each package that brings skills, and whatever else the lock names with the reason why it is left."""
    for package in _list(document.get("dependencies")):
        if isinstance(package, dict):
            yield _Package.origin(text(package, "name") or text(package, "repo_url"), package, folder)
        else:
            yield NoOrigin(quote(package), "its entry is no package")
    for server in _list(document.get("mcp_servers")):
        name = text(server, "name") if isinstance(server, dict) else quote(server)
        yield NoOrigin(name, "it is an MCP server; skills ask for those that they need")


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
