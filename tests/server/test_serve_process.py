"""``skillhub serve`` as a program: its first line, headers, streams, hostile clients, and its end."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

import pytest

pytest.importorskip("uvicorn")

from skillhub.disk.installer import extra_command
from skillhub.server import application
from tests.support.cli import REPO, Shell
from tests.support.http_api import TOKEN, Served, api
from tests.support.locked import agreed
from tests.support.mcp_wire import HELLO, VERSION, request


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    return agreed(tmp_path_factory.mktemp("process"))


@pytest.fixture(scope="module")
def served(machine):
    with Served(machine) as server:
        yield server


def is_alive(served):
    return served.get("/api/v1/skills").startswith(b"HTTP/1.1 200 ")


def body_of(answer):
    return answer.partition(b"\r\n\r\n")[2]


def test_first_line_is_the_url_and_a_signal_ends_the_server_cleanly(shell):
    for number in (signal.SIGINT, signal.SIGTERM):
        with Served(shell) as server:
            assert server.url == f"http://127.0.0.1:{server.port}"
            assert is_alive(server)
            status, err = server.stop(number)
            assert status == 0 and "Traceback" not in err and "Exception" not in err


def test_json_output_has_the_url(shell):
    with Served(shell, "--json") as server:
        answer = json.loads(server.url)
        assert set(answer) == {"schema", "url"} and answer["url"].startswith("http://127.0.0.1:")
        assert server.stop()[0] == 0


def test_attack_a_public_address_without_a_token_is_refused(shell):
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        done = shell.run("serve", "--host", host, "--port", "0", "--json")
        assert (done.status, done.error["code"]) == (2, "usage") and "--token-file" in done.error["hint"]


def test_used_port_and_unreadable_lock_are_errors_at_the_start(served, shell):
    done = shell.run("serve", "--port", str(served.port), "--json")
    assert (done.status, done.error["code"]) == (7, "state")
    done = shell.run("serve", "--port", "70000", "--json")
    assert done.status == 2
    shell.write("project/skillhub.lock", "{")
    done = shell.run("serve", "--port", "0", "--json")
    assert done.status == 4


def test_token_is_required_and_not_logged(shell):
    path = shell.folder / "token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    with Served(shell, "--token-file", path, "--host", "0.0.0.0") as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert server.get("/api/v1/skills").startswith(b"HTTP/1.1 401 ")
        assert server.get("/api/v1/skills", Authorization=f"Bearer {TOKEN}").startswith(b"HTTP/1.1 200 ")
        assert TOKEN not in server.stop()[1]


def test_real_answer_has_the_security_headers(served):
    head = served.get("/").partition(b"\r\n\r\n")[0].decode().lower()
    assert "content-security-policy: default-src 'none'" in head and "x-frame-options: deny" in head
    assert "\nserver:" not in head


OUT = [
    "../SKILL.md",
    "..%2fSKILL.md",
    "%2e%2e/demo/SKILL.md",
    "%2e%2e%2fdemo%2fSKILL.md",
    "%252e%252e%252fSKILL.md",
    "..%5cSKILL.md",
    "..\\SKILL.md",
    "%5c%5chost%5cshare",
    "SKILL.md%00",
    "SKILL.md%00.txt",
    "%00",
    "./SKILL.md",
    "references/../SKILL.md",
    "references//style.md",
    "/SKILL.md",
    "%2fetc%2fpasswd",
    "//etc/passwd",
    "C:%5cWindows",
    "..;/SKILL.md",
    "%c0%ae%c0%ae/SKILL.md",
    "%e2%80%ae",
    "%ff%fe",
    "..%c0%af..%c0%afetc/passwd",
    "....//....//etc/passwd",
    ".git/config",
    "SKILL.md/",
    "SKILL.md/x",
    "link",
]


@pytest.mark.parametrize("path", OUT)
def test_attack_a_path_outside_of_a_skill_is_refused(served, path):
    answer = served.get(f"/api/v1/skills/demo/files/{path}")
    assert answer.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 400 ")), answer[:200]
    assert b"Good." not in answer and b"root:" not in answer
    assert is_alive(served)


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", "demo%2f..", "..%2fdemo", "demo%00", "%00", ".", "demo%5c", "Demo", "%20demo"]
)
def test_attack_a_path_as_the_name_of_a_skill_is_refused(served, name):
    for path in (f"/api/v1/skills/{name}", f"/api/v1/skills/{name}/files/SKILL.md"):
        answer = served.get(path)
        assert answer.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 400 ")), answer[:200]
        assert b"Good." not in answer


def test_attack_a_skill_edited_between_list_and_read_is_refused(tmp_path, monkeypatch):
    machine = agreed(tmp_path)
    client = api(machine, monkeypatch)
    file, style = "/api/v1/skills/demo/files/SKILL.md", "/api/v1/skills/demo/files/references/style.md"
    assert [client.get(each).status_code for each in ("/api/v1/skills", file, style)] == [200, 200, 200]
    copy = machine.copy_of_demo

    def refused(*, edited=True):
        assert client.get(file).status_code in (403, 404, 409)
        assert client.get(style).status_code in (403, 404, 409)
        answers = [client.post("/api/v1/load", json={"name": "demo"})]
        call = {"host": "opencode", "name": "skill", "arguments": {"name": "demo"}}
        answers += [client.post("/api/v1/tools/call", json=call), client.get("/skill")]
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "skills.load", "params": {"name": "demo"}}
        answers += [client.post("/rpc", json=rpc), client.get("/api/v1/catalog"), client.get("/")]
        assert answers[0].status_code in (403, 404, 409) and answers[1].json()["is_error"]
        assert not any("EVIL" in each.text for each in answers)
        assert client.get("/api/v1/search?q=demo").json()["hits"] == []

    good = (copy / "SKILL.md").read_bytes()
    (copy / "SKILL.md").write_bytes(b"---\nname: demo\ndescription: EVIL\n---\nEVIL\n")
    refused()
    (copy / "SKILL.md").write_bytes(good)
    assert client.get(file).content == good
    (copy / "references/style.md").write_text("EVIL\n")
    refused()
    (copy / "references/style.md").write_text("Short.\n")
    (copy / "more.md").write_text("EVIL\n")
    refused()
    (copy / "more.md").unlink()
    (copy / "SKILL.md").chmod(0o755)
    refused()
    (copy / "SKILL.md").chmod(0o644)
    (copy / "references/style.md").unlink()
    (copy / "references/style.md").symlink_to(machine.project / "mine/demo/references/style.md")
    refused()
    assert machine.run("sync", "--yes").status == 0
    assert client.get(file).status_code == 200
    assert machine.run("disable", "demo").status == 0
    refused()


BROKEN = [
    b"nonsense\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET /api/v1/skills HTTP/1.1\r\n\r\n",
    b"GET /api/v1/skills HTTP/1.0\r\n\r\n",
    b"GET \x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST /rpc HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
]


def test_attack_broken_and_slow_clients_do_not_block_others(served):
    for broken in BROKEN:
        with served.connect() as wire:
            answer = b""
            with suppress(OSError):  # the server may have closed the connection
                wire.sendall(broken)
                wire.shutdown(socket.SHUT_WR)
                answer = wire.recv(1 << 16)
            assert not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 101")), broken[:40]
    head = f"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Type: application/json\r\n"
    slow = [b"", b"GET / HT", f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n".encode()]
    slow += [
        f"{head}Content-Length: 100\r\n\r\n{{".encode(),
        f"{head}Transfer-Encoding: chunked\r\n\r\n5\r\nab".encode(),
    ]
    open_wires = []
    for _ in range(8):
        for begun in slow:
            wire = served.connect()
            wire.sendall(begun)
            open_wires.append(wire)
    assert is_alive(served)
    for wire in open_wires:
        wire.close()
    assert is_alive(served)


def test_attack_an_endless_head_is_cut_off(machine, monkeypatch):
    """The server runs in this process, where the test can shorten its limit."""
    import threading

    client = api(machine, monkeypatch)
    monkeypatch.setattr(application, "STALLED", 0.2)
    access = client.app._access
    listener = application.Address.of("127.0.0.1", 0).listen()
    port = listener.getsockname()[1]
    server = application.server_of(client.workplace, access)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=300) as wire:
            for _ in range(10_000):
                try:
                    wire.sendall(b"G")
                    time.sleep(0.02)
                except OSError:
                    break
            else:
                pytest.fail("the server still reads")
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def sse(served, **headers):
    wire = served.connect()
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    wire.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n{lines}\r\n".encode())
    return wire


def until(wire, text):
    found, end = b"", time.monotonic() + 300
    while text not in found:
        assert time.monotonic() < end, found
        part = wire.recv(1 << 16)
        assert part, found
        found += part
    return found


def test_stream_sends_changes_and_ends_with_the_server(tmp_path):
    machine = agreed(tmp_path)
    with Served(machine) as server, sse(server) as wire:
        head = until(wire, b"id: 0")
        assert b"content-type: text/event-stream" in head.lower()
        machine.write("project/new/SKILL.md", "---\nname: new\ndescription: New.\n---\nText.\n")
        (machine.project / "new").rename(machine.project / ".agents/skills/new")  # at once: a look sees it whole
        event = until(wire, b"event: change\n").partition(b"event: change\n")[2]
        event = event if b"\n\n" in event else event + until(wire, b"\n\n")
        change = json.loads(event.partition(b"data: ")[2].partition(b"\n")[0])
        assert change["schema"] == 1 and change["removed"] == [] == change["changed"]
        assert [path.rpartition("/")[2] for path in change["added"]] == ["new"]
        with sse(server, **{"Last-Event-ID": "0"}) as late:
            assert b"id: 1" in until(late, b"data: ")
        status, err = server.stop()
        assert status == 0 and "Traceback" not in err
        while wire.recv(1 << 16):
            pass


def test_attack_the_number_of_streams_is_limited(machine):
    with Served(machine) as server:
        wires = [sse(server) for _ in range(application.STREAMS_MAX + 6)]
        answers = [wire.recv(12) for wire in wires]
        assert answers.count(b"HTTP/1.1 200") == application.STREAMS_MAX and answers.count(b"HTTP/1.1 503") == 6
        assert is_alive(server)
        for wire in wires:
            wire.close()
        for _ in range(1000):
            with sse(server) as again:
                if again.recv(12) == b"HTTP/1.1 200":
                    break
            time.sleep(0.1)
        else:
            pytest.fail("a closed stream still counts")
        assert server.stop()[0] == 0


def test_mcp_over_http_has_the_same_access_rules(machine):
    with Served(machine) as server:
        accept = "application/json, text/event-stream"
        head = f"POST /mcp HTTP/1.1\nHost: 127.0.0.1:{server.port}\nConnection: close\nAccept: {accept}"
        asked = json.dumps(request(1, "skills/list")).encode()
        more = f"Content-Type: application/json\nMCP-Protocol-Version: {VERSION}\nMCP-Method: skills/list"
        answer = server.raw(f"{head}\n{more}\nContent-Length: {len(asked)}", asked)
        assert answer.startswith(b"HTTP/1.1 200 ") and b'"demo"' in answer, answer
        assert b"x-content-type-options: nosniff" in answer.lower()
        hello = json.dumps(HELLO).encode()
        json_type = "Content-Type: application/json"
        answer = server.raw(f"{head}\n{json_type}\nContent-Length: {len(hello)}", hello)
        assert answer.startswith(b"HTTP/1.1 200 ") and b"serverInfo" in answer, answer
        for wrong in ("Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"):
            answer = server.raw(f"{head}\n{json_type}\n{wrong}\nContent-Length: {len(hello)}", hello)
            assert answer.startswith(b"HTTP/1.1 403 ")
        with server.connect() as wire:  # a stream of notices, open while the server ends
            lines = f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAccept: text/event-stream\r\n\r\n"
            wire.sendall(lines.encode())
            assert server.stop()[0] == 0


def test_servers_collect_garbage_as_often_as_python_does(shell):
    """Of a request, up to 30 kB are in cycles: a server with the limit of short commands grew to 400 MB."""
    code = """
import gc, json
from contextlib import suppress
from skillhub.cli import app
seen = [gc.get_threshold()]
servers = ["mcp", "--print-config", "codex"], ["serve", "--port", "70000"], ["registry", "serve", "none"]
for words in (*servers, ["list"]):
    with suppress(Exception):
        app.run([*words, "--json"])
    seen.append(gc.get_threshold())
print(json.dumps(seen))
"""
    words = (sys.executable, "-P", "-c", code)
    done = subprocess.run(words, cwd=shell.project, env=shell.having({}), capture_output=True, check=True, text=True)
    default, *servers, command = json.loads(done.stdout.splitlines()[-1])
    assert servers == [default] * 3 and command > default


def test_missing_extra_is_reported_with_the_command_that_installs_it(tmp_path):
    shell = Shell(tmp_path)
    shell.write("no/uvicorn/__init__.py", "raise ModuleNotFoundError('no', name='uvicorn')\n")
    done = shell.run("serve", "--json", PYTHONPATH=f"{tmp_path / 'no'}:{shell.environ['PYTHONPATH']}")
    assert (done.status, done.error["code"]) == (2, "usage") and done.error["hint"] == extra_command("server")


def test_every_example_of_the_page_works(tmp_path):
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("there is no curl")
    shell = Shell(tmp_path)
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    page = (REPO / "docs" / "serve.md").read_text("utf-8")
    lines = [line for line in page.splitlines() if line.startswith("curl ")]
    assert len(lines) > 8
    token = shell.folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with Served(shell) as server, Served(shell, "--token-file", token) as guarded:
        for line in lines:
            there = guarded if "$(cat token)" in line else server
            more = "--max-time 2" if "/events" in line else "--fail"
            words = (
                f"{line.replace('curl', 'curl -sS ' + more, 1).replace('127.0.0.1:8580', f'127.0.0.1:{there.port}')}"
            )
            done = subprocess.run(["sh", "-c", words], cwd=shell.folder, capture_output=True, check=False)
            assert done.returncode == (28 if "/events" in line else 0) and done.stdout, (line, done.stderr)
