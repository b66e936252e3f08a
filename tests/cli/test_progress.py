"""The progress line of a terminal, with a clock that the test moves."""

from __future__ import annotations

import io
import re
import threading
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import wraps
from itertools import product

import pytest

from skillhub.cli.terminal import Terminal, cells_of, size_of
from skillhub.errors import SkillhubError
from skillhub.net.client import Http, Patience
from tests.support.web import Web, answer, hang_up, raw

CLEARED = "\r\x1b[K"


class Screen(io.StringIO):
    """A terminal that records its output."""

    def isatty(self):
        return True

    @property
    def drawn(self):
        return self.getvalue().split(CLEARED)[1:]


class Ticking(Terminal):
    """A terminal whose clock only ``pass_time`` moves."""

    now = 1_000.0

    def __init__(self, **flags):
        self._clock = lambda: self.now
        super().__init__(**flags)

    def pass_time(self, seconds):
        self.now += seconds


@pytest.fixture
def screen(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return Screen()


def shown(test):
    """Make the test's stderr the screen; pytest replaces stderr between a fixture and the test."""

    @wraps(test)
    def on_screen(screen, **others):
        with redirect_stderr(screen):
            test(screen, **others)
            Terminal().clear()

    return on_screen


@shown
def test_after_a_second_one_line_shows_files_bytes_and_rate(screen):
    terminal = Ticking()
    terminal.progress("fetching", 0, 100)
    terminal.arrived(4096)
    assert screen.getvalue() == ""
    terminal.pass_time(1.0)
    terminal.progress("fetching", 1, 100)
    terminal.arrived(4096)  # too early for another drawing
    for done in range(2, 100):
        terminal.pass_time(0.5)
        terminal.arrived(51_200)
        terminal.progress("fetching", done, 100)
    assert screen.drawn[:3] == [
        "fetching 1/100, 4.0 KiB",
        "fetching 1/100, 58.0 KiB, 108.0 KiB/s",
        "fetching 2/100, 108.0 KiB, 104.0 KiB/s",
    ]
    assert screen.drawn[-1] == "fetching 98/100, 4.8 MiB, 100.0 KiB/s"
    terminal.progress("storing", 0, 100)
    terminal.pass_time(0.5)
    terminal.progress("storing", 9, 100)
    assert screen.drawn[-2:] == ["storing 0/100", "storing 9/100"]
    assert "\n" not in screen.getvalue()


@shown
def test_bytes_fetched_before_the_total_is_known_are_counted(screen):
    terminal = Ticking()
    terminal.pass_time(2)
    terminal.arrived(300)
    terminal.pass_time(1)
    terminal.arrived(0)
    terminal.pass_time(1)
    terminal.progress("fetching", 0, 2)
    assert screen.drawn == ["fetching 300 B", "fetching 300 B, 0 B/s", "fetching 0/2, 300 B, 0 B/s"]


@pytest.mark.parametrize("end", ["out", "say", "warn", "json", "clear"])
@shown
def test_the_line_is_cleared_before_other_output(screen, end):
    terminal = Ticking()
    terminal.pass_time(2)
    terminal.progress("fetching", 1, 2)
    with redirect_stdout(screen):
        getattr(terminal, end)(*([] if end == "clear" else ["x"]))
    before, after = screen.getvalue().split("fetching 1/2")
    assert before == CLEARED and after.startswith(CLEARED) and after.count(CLEARED) == 1
    terminal.clear()
    assert screen.getvalue().count(CLEARED) == 2  # a cleared line is not cleared again


@shown
def test_the_line_is_cleared_before_the_pager_writes(screen):
    terminal = Ticking()
    terminal.pass_time(2)
    terminal.progress("fetching", 1, 2)
    with redirect_stdout(screen):
        terminal.page([("hello: changed", "plain")] * 100)
    before, after = screen.getvalue().split("fetching 1/2")
    assert before == CLEARED and after.startswith(f"{CLEARED}hello: changed\n")


@pytest.mark.parametrize("why", ["quiet", "CI", "dumb", "no terminal"])
@shown
def test_nothing_is_drawn_in_quiet_mode_in_ci_or_without_a_terminal(screen, why, monkeypatch):
    monkeypatch.setenv("CI", "true" if why == "CI" else "")
    monkeypatch.setenv("TERM", "dumb" if why == "dumb" else "xterm")
    elsewhere = io.StringIO() if why == "no terminal" else screen
    with redirect_stderr(elsewhere):
        terminal = Ticking(quiet=why == "quiet")
        for _ in range(3):
            terminal.pass_time(2)
            terminal.arrived(1 << 20)
            terminal.progress("fetching", 1, 2)
        terminal.clear()
    assert elsewhere.getvalue() == ""


@shown
def test_bytes_of_all_threads_are_counted_and_only_one_thread_draws(screen):
    terminal = Ticking()
    terminal.pass_time(2)
    threads = [
        threading.Thread(target=lambda: [terminal.arrived(1) for _ in range(1_000)], daemon=True) for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert screen.getvalue() == ""
    terminal.progress("fetching", 3, 8)
    assert screen.drawn == [f"fetching 3/8, {size_of(8_000)}"]


@pytest.mark.parametrize("columns", [1, 9, 20, 50, 80])
@shown
def test_attack_the_line_fits_the_screen_and_steers_nothing(screen, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    hostile = ("fetching", "漢" * 60, "a\x1b[2Jb\r\n\u202e\x9b1A", "x" * 300)
    for doing, size in product(hostile, (0, -5, 1, 1023, 10**6, 10**12, 10**18, 2**200)):
        terminal = Ticking()
        for _ in range(3):
            terminal.pass_time(1)
            terminal.progress(doing, 10**9, 10**9)
            terminal.arrived(size)
    assert len(screen.drawn) >= 2 * 4 * 8
    for line in screen.drawn:
        assert cells_of(line) < max(columns, 2)
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", line)


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (answer(b"x" * 1_000), 1_000),
        (answer(b"x" * 1_000, length=10**15), 0),
        (answer(b"x" * 1_000, length=2_000), None),
        (answer(b"x" * 1_000, length=10), 10),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), 5),
        (hang_up(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel"), None),
        (answer(b"gone", status="404 Not Found"), 4),
        (answer(b"", "Location: /x\x1b[2J", status="302 Found"), None),
    ],
)
def test_attack_received_bytes_are_counted_and_not_the_announced_ones(act, expected):
    counted = []
    with Web() as web, Http(patience=Patience(pauses=()), arrived=counted.append) as http:
        web.at("/a", hang_up_after(act) if expected is None else act)
        with suppress(SkillhubError):
            http.get(web.url("/a"), cap=1_500)
    assert sum(counted) <= 1_500
    assert expected is None or sum(counted) == expected


def hang_up_after(act):
    def both(connection):
        act(connection)
        with suppress(OSError):
            connection.shutdown(2)

    return both
