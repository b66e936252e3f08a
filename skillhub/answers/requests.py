"""What the HTTP API takes: a class for what stands in the URL or body of each route, and for each method of RPC."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from skillhub.model.hosts import profiles
from skillhub.runtime.ranking import LIMIT, LIMIT_MAX

_PAGE = 100
_PAGE_MAX = 500
_TEXT_MAX = 100_000


def _known(host: str) -> str:
    if host not in profiles():
        raise ValueError(f"expected one of {', '.join(profiles())}")
    return host


_Host = Annotated[
    str,
    AfterValidator(_known),
    Field(
        description="The agent whose folders, rules and texts are used.", json_schema_extra={"enum": [*profiles()]}
    ),
]
_Name = Annotated[str, Field(min_length=1, max_length=200, description="The name of a skill.")]


class Takes(BaseModel):
    """What a route takes: fields of its path and its query, or of its body; nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NothingTaken(Takes):
    """Of a route that takes nothing."""


class PageTaken(Takes):
    """Which page of the skills."""

    limit: int = Field(_PAGE, ge=1, le=_PAGE_MAX, description="How many skills the page has at most.")
    cursor: str | None = Field(None, max_length=400, description="``next`` of the page before.")


class OneTaken(Takes):
    """Which skill."""

    name: _Name


class FileTaken(OneTaken):
    """Which file of a skill."""

    path: str = Field(min_length=1, max_length=1024, description="The file, with / between segments.")


class SearchTaken(Takes):
    """What to search for."""

    q: str = Field(min_length=1, max_length=1000, description="A name, its beginning, words of the text, or a path.")
    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX, description="How many hits to return at most.")
    host: _Host = "agents"


class CatalogTaken(Takes):
    """For which host."""

    host: _Host = "agents"
    window: int | None = Field(None, ge=1, le=100_000_000, description="The size of the model's context, in tokens.")


class CallTaken(Takes):
    """Which tool a model calls, and with what."""

    host: _Host = "agents"
    name: str = Field(min_length=1, max_length=200, description="The name of the tool.")
    arguments: dict[str, Any] = Field(default={}, description="As the model gave them.")
    session: str = Field("", max_length=200, description="The id of the conversation.")


class ResolveTaken(Takes):
    """A user's message."""

    text: str = Field(max_length=_TEXT_MAX, description="A user's message to an agent.")
    host: _Host = "agents"


class LoadTaken(Takes):
    """Which skill a user loads, and with what."""

    name: _Name
    path: str | None = Field(None, max_length=4096, description="Its folder, if several skills have the name.")
    arguments: str = Field("", max_length=_TEXT_MAX, description="What is inserted into its instructions.")
    session: str = Field("", max_length=200, description="The id of the conversation, inserted likewise.")
    host: _Host = "agents"


class OpenCodeTaken(Takes):
    """For which folder of the project."""

    directory: str | None = Field(None, max_length=4096, description="A folder of the project, absolute.")


class Params(BaseModel):
    """What a method takes; nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ListParams(Params):
    """Of ``skills.list``."""

    cwd: str | None = Field(None, max_length=4096)
    force_reload: bool = False


class SearchParams(Params):
    """Of ``skills.search``."""

    query: str = Field(min_length=1, max_length=1000)
    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX)
    scope: Literal["repo", "user"] | None = None


class LoadParams(Params):
    """Of ``skills.load``; one of name and path is needed."""

    name: str | None = Field(None, min_length=1, max_length=200)
    path: str | None = Field(None, min_length=1, max_length=4096)
    arguments: str = Field("", max_length=100_000)
    session: str = Field("", max_length=200)


class InspectParams(Params):
    """Of ``context.inspect``."""

    include_skills: bool = False


class CodexParams(Params):
    """Of Codex's ``skills/list``."""

    cwds: list[str] = Field(default=[], max_length=16)
    thread_id: None = Field(None, alias="threadId")
    force_reload: bool = Field(False, alias="forceReload")
