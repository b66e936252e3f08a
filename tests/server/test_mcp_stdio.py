"""``skillhub mcp`` on stdin and stdout: only frames, for any input and any print."""

from __future__ import annotations

import io
import os
import subprocess

import pytest

pytest.importorskip("mcp")

import anyio

from skillhub.disk.installer import extra_command
from skillhub.server.mcp import Pipe, frames
from tests.support.cli import REPO
from tests.support.mcp_wire import HELLO, READY, Wire, encoded, request, talk

PING = request(9, "ping", modern=False)
BROKEN = [
    b"nonsense\n",
    b"{\n",
    b'{"jsonrpc": "2.0", "id": 1, "method": \n',
    b"\xff\xfe{}\n",
    b'"text"\n',
    b"[" * 100_000 + b"\n",
    b"[]\n",
    b"null\n",
    b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]\n',
    b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}\n',
    b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}\n',
    b'{"jsonrpc": "2.0", "id": 1, "method": 5}\n',
    b'{"jsonrpc": "2.0", "id": 1}\n',
    b'{"jsonrpc": "2.0", "id": true, "method": "ping"}\n',
    b'{"jsonrpc": "2.0", "id": null, "method": "ping"}\n',
    b'{"jsonrpc": "2.0", "id": 1, "method": "\x00"}\n',
    b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}\n',
    b'{"jsonrpc": "2.0", "id": 1, "method": "\\udfff"}\n',
    b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "\\ud800"}}\n',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": NaN}}\n',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}}\n",
    b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "ping"}\n',
    b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}\n',
    b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n',
    '{"jsonrpc": "2.0", "id": 1, "method": "ping"}'.encode("utf-16") + b"\n",
]


@pytest.mark.parametrize("frame", BROKEN, ids=lambda frame: repr(frame[:40]))
def test_attack_a_broken_frame_does_not_stop_the_server(shell, frame):
    answers, lines = talk(shell, HELLO, READY, frame, PING)
    assert answers[9]["result"] == {}
    errors = [line["error"]["code"] for line in lines if "error" in line]
    assert errors in ([-32700], [-32600])


@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc": "2.0", "id": 1, "id": 9, "method": "ping"}\n',
        b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "skill://a", "uri": "skill://b"}}\n',
    ],
)
def test_attack_a_key_that_occurs_twice_is_an_error_of_parsing(shell, frame):
    _, lines = talk(shell, HELLO, READY, frame)
    (error,) = [line for line in lines if "error" in line]
    assert (error["id"], error["error"]["code"]) == (None, -32700)
    assert "occurs twice" in error["error"]["message"]


def test_attack_a_huge_request_does_not_stop_the_server(shell):
    huge = b'{"jsonrpc": "2.0", "id": 3, "method": "ping", "params": {"x": "' + b"x" * (9 << 20) + b'"}}\n'
    answers, lines = talk(shell, HELLO, READY, huge, PING)
    assert answers[9]["result"] == {}
    assert [line["error"]["code"] for line in lines if "error" in line] == [-32600]


def test_empty_lines_and_a_missing_last_line_feed_are_accepted(shell):
    answers, _ = talk(shell, HELLO, READY, b"\n  \n", b'{"jsonrpc": "2.0", "id": 9, "method": "ping"}')
    assert answers[9]["result"] == {}


def test_empty_input_gives_no_output(shell):
    assert talk(shell) == ({}, [])


NOISE = """
import os, subprocess, sys, threading, time, warnings
def noise():
    while True:
        print("stray")
        sys.stdout.write("stray\\n")
        sys.__stdout__.write("stray\\n")
        sys.stdout.flush()
        os.write(1, b"stray\\n")
        warnings.warn("stray", stacklevel=1)
        subprocess.run(["echo", "stray"], check=False)
        time.sleep(0.01)
threading.Thread(target=noise, daemon=True).start()
"""


def test_attack_prints_of_libraries_and_programs_do_not_reach_the_frames(shell):
    # Like a library that prints once the server answers, and starts a program that prints.
    shell.write("noise/typer/__init__.py", "")
    shell.write("noise/yaml_noise.py", NOISE)
    shell.write("noise/sitecustomize.py", LATER)
    with Wire(shell, PYTHONPATH=f"{shell.folder}/noise:{REPO}") as wire:
        for number in range(20):
            assert wire.ask(number, "skills/list")["result"]["skills"] == []


LATER = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "skillhub.server.content":  # the descriptors are taken by then
            exec(open(__file__.replace("sitecustomize", "yaml_noise")).read(), {})
        return None
sys.meta_path.insert(0, Finder())
"""


def test_all_frames_of_stdin_are_answered(shell):
    answers, lines = talk(shell, HELLO, READY, *(request(number, "ping", modern=False) for number in range(50)))
    assert len(answers) == len(lines) == 51


def test_server_ends_after_its_client(shell):
    wire = Wire(shell)
    wire.send(HELLO)
    wire.receive()
    wire.process.stdout.close()
    wire.send(*(request(number, "ping", modern=False) for number in range(5)))
    wire.process.stdin.close()
    assert wire.process.wait(300) in (0, 141)


def test_input_of_a_cancelled_request_ends_at_once():
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    sent = encoded([request(1, "ping"), *({**cancel, "params": {"requestId": number}} for number in ([2], 1))])

    async def methods():
        with anyio.fail_after(20):  # it waited 30 seconds for an answer
            async with frames(Pipe(io.BytesIO(sent), io.BytesIO())) as (received, answers), received, answers:
                return [each.message.method async for each in received]

    assert anyio.run(methods) == ["ping", "notifications/cancelled", "notifications/cancelled"]


def test_missing_extra_is_reported_with_the_command_that_installs_it(shell):
    shell.write("bare/mcp/__init__.py", "raise ModuleNotFoundError(\"No module named 'mcp'\", name='mcp')\n")
    done = shell.run("mcp", PYTHONPATH=f"{shell.folder}/bare:{REPO}")
    assert (done.status, done.out) == (2, "")
    assert "the extra server, which is not installed" in done.err
    assert extra_command("server") in done.err
    ours, theirs = os.openpty()
    environ = shell.having({"PYTHONPATH": f"{shell.folder}/bare:{REPO}"})
    typed = subprocess.run(
        shell.words_anew("mcp"), cwd=shell.project, env=environ, stdin=theirs, capture_output=True, timeout=60
    )
    os.close(ours)
    os.close(theirs)
    assert (typed.returncode, b"is not installed" in typed.stderr, b"waiting for" in typed.stderr) == (2, True, False)
