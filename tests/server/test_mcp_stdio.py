"""``skillhub mcp`` on stdin and stdout: frames alone, whatever comes in and whatever is printed."""

from __future__ import annotations

import pytest

pytest.importorskip("mcp")

from tests.support.mcp_wire import HELLO, READY, request, talk

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
    b'{"jsonrpc": "2.0", "id": 1, "method": "\x00"}\n',
]


@pytest.mark.parametrize("frame", BROKEN, ids=lambda frame: repr(frame[:40]))
def test_a_broken_frame_is_answered_with_an_error_and_the_server_lives_on(shell, frame):
    answers, lines = talk(shell, HELLO, READY, frame, PING)
    assert answers[9]["result"] == {}
    errors = [line["error"]["code"] for line in lines if "error" in line]
    assert errors in ([-32700], [-32600])


def test_a_huge_request_is_answered_with_an_error_and_the_server_lives_on(shell):
    huge = b'{"jsonrpc": "2.0", "id": 3, "method": "ping", "params": {"x": "' + b"x" * (9 << 20) + b'"}}\n'
    answers, lines = talk(shell, HELLO, READY, huge, PING)
    assert answers[9]["result"] == {}
    assert [line["error"]["code"] for line in lines if "error" in line] == [-32600]


def test_an_empty_line_and_an_end_without_a_line_feed_are_fine(shell):
    answers, _ = talk(shell, HELLO, READY, b"\n  \n", b'{"jsonrpc": "2.0", "id": 9, "method": "ping"}')
    assert answers[9]["result"] == {}


def test_nothing_is_said_where_nothing_is_asked(shell):
    assert talk(shell) == ({}, [])
