"""Promises of docs/threats.md about the program as a whole."""

import json

import pytest

from skillhub.cli.terminal import Terminal
from skillhub.disk.home import Home
from skillhub.errors import UsageError
from skillhub.sources.configured import Sources, embedded_root


def test_the_packages_public_keys_are_valid_for_no_other_source(tmp_path):
    sources = Sources(Home.of({"SKILLHUB_HOME": str(tmp_path)}))
    before = sources.all()
    with pytest.raises(UsageError, match="public test keys"):
        sources.add("acme", "https://skills.example", embedded_root())
    assert sources.all() == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\u202e", "\u200b", "\r", "\x08"])
def test_untrusted_text_cannot_steer_a_terminal(hostile, capsys):
    terminal = Terminal()
    terminal.out(f"a{hostile}b", "green")
    terminal.say(f"a{hostile}b")
    terminal.table(("HEAD",), [(f"a{hostile}b",)])
    terminal.json({"a": f"a{hostile}b"})
    shown, errors = capsys.readouterr()
    for text in (shown, errors):
        assert hostile not in text
        assert not set(text) & {"\x1b", "\x9b", "\x07", "\r", "\x08", "\u202e", "\u200b"}
    assert json.loads(shown[shown.index("{") :]) == {"a": f"a{hostile}b"}
