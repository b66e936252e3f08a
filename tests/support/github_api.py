"""The documented part of GitHub's REST API that reads a commit, over a git repository.

Commits, trees and blobs are what the repository has; the archive of a commit is made by git, which obeys attributes.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from skillhub.sources.git_snapshot import date_of
from tests.support.gitrepos import Repo

_HEX = re.compile(r"[0-9a-f]{40}")


class GitHubServer:
    """Serves ``repo`` as ``acme/skills`` while entered.

    Attributes:
        token: Requests without it find nothing; None: public.
        remaining: Requests until the limit; None: no limit.
        most: The limit of entries in one answer about a tree; more are cut off.
        asked: Method, path and Authorization of every request.
        lies: Answers by path, instead of the true ones.
    """

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.token: str | None = None
        self.remaining: int | None = None
        self.most = 100_000
        self.asked: list[tuple[str, str | None]] = []
        self.lies: dict[str, bytes] = {}
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.hub = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> GitHubServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def paths(self) -> list[str]:
        return [path.removeprefix("/repos/acme/skills/") for path, _ in self.asked]

    def resolve(self, name: str) -> str | None:
        """Return the commit that a name is at, as GitHub resolves what follows ``commits/``."""
        if _HEX.fullmatch(name):
            return name
        refs = [(self.repo.path / "HEAD").read_text().split()[1]] if name == "HEAD" else []
        refs += [f"refs/{name}", f"refs/tags/{name}", f"refs/heads/{name}"]
        for ref in refs:
            if (self.repo.path / ref).is_file():
                id_ = (self.repo.path / ref).read_text().strip()
                while self.repo.get(id_)[0] == "tag":
                    id_ = self.repo.get(id_)[1].split()[1].decode()
                return id_
        return None

    def tree(self, id_: str, recursive: bool) -> dict[str, object]:
        rows = list(self._rows(id_, "", recursive))
        return {"sha": id_, "tree": rows[: self.most], "truncated": len(rows) > self.most}

    def _rows(self, id_, prefix, recursive):
        kind, data = self.repo.get(id_)
        if kind != "tree":
            raise KeyError(id_)
        while data:
            mode, _, rest = data.partition(b" ")
            name, _, rest = rest.partition(b"\0")
            sha, data = rest[:20].hex(), rest[20:]
            kind = {b"40000": "tree", b"160000": "commit"}.get(mode, "blob")
            path = prefix + name.decode("utf-8", "replace")
            row = {"path": path, "mode": mode.decode().zfill(6), "type": kind, "sha": sha, "url": "https://x"}
            yield row | ({"size": len(self.repo.get(sha)[1])} if kind == "blob" else {})
            if kind == "tree" and recursive:
                yield from self._rows(sha, path + "/", True)

    def archive(self, id_: str) -> bytes:
        words = ["git", "archive", "--format=tar.gz", f"--prefix=acme-skills-{id_[:7]}/", id_]
        return subprocess.run(words, cwd=self.repo.path, capture_output=True, check=True).stdout


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: GitHubServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # Head and body in one packet.
    server: _Server

    def do_GET(self) -> None:
        hub = self.server.hub
        sent = self.headers.get("Authorization")
        hub.asked.append((self.path, sent))
        path, _, query = self.path.partition("?")
        inner = (unquote(path) + "/").removeprefix("/repos/acme/skills/").rstrip("/")
        if sent is not None and sent != f"Bearer {hub.token}":
            return self._say(401, {"message": "Bad credentials"})
        if hub.remaining is not None:
            hub.remaining -= 1
            if hub.remaining < 0:
                limits = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000000"}
                return self._say(403, {"message": "API rate limit exceeded"}, limits)
        if inner == unquote(path) or (hub.token is not None and sent is None) or "User-Agent" not in self.headers:
            return self._say(404, {"message": "Not Found"})
        if inner in hub.lies:
            return self._send(200, hub.lies[inner])
        try:
            self._answer(inner, query)
        except KeyError:
            self._say(404, {"message": "Not Found"})

    def _answer(self, inner: str, query: str) -> None:
        hub, media = self.server.hub, self.headers["Accept"]
        if not inner:
            return self._say(200, {"full_name": "acme/skills"})
        if inner.startswith("commits/"):
            commit = hub.resolve(inner.removeprefix("commits/"))
            if commit is None:
                return self._say(422, {"message": "No commit found for SHA: …"})
            assert media == "application/vnd.github.sha"
            return self._send(200, commit.encode())
        verb, _, id_ = inner.rpartition("/")
        if verb == "git/commits":
            kind, data = hub.repo.get(id_)
            if kind != "commit":
                raise KeyError(id_)
            tree = {"sha": data.split()[1].decode(), "url": "…"}
            committer = {"name": "…", "date": date_of(data)}
            return self._say(200, {"sha": id_, "tree": tree, "message": "…", "committer": committer})
        if verb == "git/trees":
            return self._say(200, hub.tree(id_, query == "recursive=1"))
        if verb == "git/blobs":
            assert media == "application/vnd.github.raw"
            return self._send(200, hub.repo.get(id_)[1])
        if verb == "tarball":
            return self._send(302, b"", {"Location": f"{hub.url}/repos/acme/skills/codeload/{id_}?token=secret"})
        if verb == "codeload":
            return self._send(200, hub.archive(id_))
        raise KeyError(inner)

    def _say(self, status: int, answer: object, fields: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(answer).encode(), fields)

    def _send(self, status: int, body: bytes, fields: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (fields or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: what was asked is in ``asked``."""
