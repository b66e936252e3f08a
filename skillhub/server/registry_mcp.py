"""The skills of a registry over MCP; each file is verified against its digest when it is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from hashlib import sha256
from typing import Final

import anyio
import httpx
from anyio.from_thread import start_blocking_portal

from skillhub.disk import files
from skillhub.errors import NotFound
from skillhub.formats.digest import Digest
from skillhub.formats.json import members
from skillhub.formats.text import quote
from skillhub.model.skill import Skill
from skillhub.model.tree import SKILL_MD
from skillhub.registry.other_clients import ClientDocument
from skillhub.runtime.folder import Loaded
from skillhub.runtime.mention_resolver import Caller
from skillhub.server.content import FILE_MAX, ServedContent, ServedFile, ServedSkill, typed_front
from skillhub.server.mcp import INSTRUCTIONS, http_sessions
from skillhub.server.registry_api import RegistryApi

_SECONDS: Final = 60.0


class RegistryContent(ServedContent):
    """The skills of a registry, one release of each; without prompts, since no skill is installed."""

    title = "Skills of a registry"
    instructions = INSTRUCTIONS["registry"]

    def __init__(self, api: RegistryApi) -> None:
        self._api = api
        self._served: dict[Digest, ServedSkill] = {}

    def skills(self) -> tuple[ServedSkill, ...]:
        """Return every skill that the registry offers now, sorted by name."""
        documents = self._api.state().documents
        all_served = [self._of(documents[name]) for name in sorted(documents)]
        self._served = {served.tree: served for served in all_served}
        return tuple(all_served)

    def get(self, name: str) -> ServedSkill:
        """Return one skill that the registry offers now; raises NotFound if there is none."""
        return self._of(self._api.state().document(name))

    def load(self, name: str, caller: Caller, arguments: str = "") -> tuple[ServedSkill, Loaded]:
        """Raise NotFound, since only an installed skill can be loaded."""
        raise NotFound(f"{quote(name)} is offered, not installed", hint="read its resources, or install it")

    def read(self, name: str, path: str) -> tuple[ServedSkill, bytes]:
        """Return a skill and the bytes of one of its files; raises NotFound if either does not exist."""
        document = self._api.state().document(name)
        return self._of(document), self._bytes(document, path)

    def _of(self, document: ClientDocument) -> ServedSkill:
        remembered = self._served.get(document.tree)
        if remembered is not None and remembered.name == document.name:
            return remembered
        listed = tuple(ServedFile(file.path, Digest(f"sha256:{file.sha256}"), file.size) for file in document.files)
        facts = {**members(document, "name", "version", "tree", "description"), "user_invocable": False}
        skill = Skill(path=None, scope="project", state="enabled", source=document.publisher, managed=False, **facts)
        return ServedSkill(skill, document.tree, listed, typed_front(self._bytes(document, SKILL_MD)))

    def _bytes(self, document: ClientDocument, path: str) -> bytes:
        """Return a file from the site if it matches the digest, or else from the verified archive."""
        expected = next((file.sha256 for file in document.files if file.path == path), None)
        if expected is None:
            raise NotFound(f"{quote(document.name)} has no file {quote(path)}")
        state = self._api.state()
        data = files.read(os.path.join(self._api.registry.site, document.name, *path.split("/")), FILE_MAX)
        if data is None or sha256(data).hexdigest() != expected:
            data = state.offer.hub.tree(state.release(document.name, document.version))[path].data
        return data


AnswerRequest = Callable[[Iterable[tuple[str, str]], bytes], tuple[int, dict[str, str], bytes]]


@contextmanager
def mcp_requests(content: ServedContent) -> Iterator[AnswerRequest]:
    """Yield the MCP endpoint for a threaded server: one answer for each POST request, without streams.

    It takes headers and body of a request, and returns status, headers and body of the answer.
    """
    sessions = http_sessions(content, with_tools=False, is_stateless=True)
    transport = httpx.ASGITransport(sessions)

    async def ask(request: httpx.Request) -> tuple[int, dict[str, str], bytes]:
        with anyio.move_on_after(_SECONDS):
            response = await transport.handle_async_request(request)
            return response.status_code, dict(response.headers), await response.aread()
        return 504, {}, b""

    def answer(headers: Iterable[tuple[str, str]], body: bytes) -> tuple[int, dict[str, str], bytes]:
        raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return portal.call(ask, httpx.Request("POST", "http://localhost/mcp", headers=raw_headers, content=body))

    # The sessions end without the caller's error: their task group would wrap it.
    with start_blocking_portal() as portal, closing(ExitStack()) as running:
        running.enter_context(portal.wrap_async_context_manager(sessions.run()))
        yield answer
