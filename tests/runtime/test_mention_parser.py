"""Finding mentions in a text, apart from code, numbers and variables, in linear time."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.runtime.mention_parser import code_spans, mentions
from tests.support.effort import at_most, is_linear


def names(text):
    return [each.name for each in mentions(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$systematic-debugging fix it", ["systematic-debugging"]),
        ("$github:gh-fix-ci inspect", ["github:gh-fix-ci"]),
        ("use $alpha, then ($beta).", ["alpha", "beta"]),
        ("$alpha: go", ["alpha"]),
        ("$alpha.skill", ["alpha"]),
        ("$alpha- and $beta--", ["alpha", "beta"]),
        ("'$alpha' or \"$beta\"", ["alpha", "beta"]),
        ("使用$alpha修复", ["alpha"]),
        ("say /alpha", []),
        ("/alpha args", ["alpha"]),
        ("  /git:commit", ["git:commit"]),
        ("/usr/bin/env python", []),
        ("$5 and $5.00 and $10-20 and $3-", []),
        ("$PATH ${HOME} $XDG_CONFIG_HOME $HOME-dir", []),
        ("US$alpha a$beta \\$gamma $$delta x=$eps https://x.example/$zeta", []),
        ("![picture]($alpha)", ["alpha"]),
    ],
)
def test_mentions_are_found(text, found):
    assert names(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "`echo $tdd`",
        "``a ` $tdd``",
        "```\n$tdd\n```",
        "```sh\n$tdd",
        "> ~~~\n> $tdd\n> ~~~",
        "1. ```\n   $tdd\n   ```",
        "$ echo $tdd",
        "  ! echo $tdd",
        "see $(cat $tdd) there",
        'run bash -lc "echo $tdd" now',
        "sh -c 'echo $tdd'",
        "`[$tdd](/x)`",
    ],
)
def test_code_and_commands_have_no_mentions(text):
    assert names(text) == []
    assert names(f"{text}\n```\n\n$after" if text == "```sh\n$tdd" else f"{text}\n\n$after") == ["after"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`unclosed $tdd", ["tdd"]),
        ("`unclosed $tdd\n\nnext ` paragraph", ["tdd"]),
        ("\\`$tdd\\`", ["tdd"]),
        ("```$tdd```", []),
        ("`a` $tdd `b`", ["tdd"]),
        ("```\na\n``\n$tdd\n```\n$after", ["after"]),
        ("````\n```\n$tdd\n````\n$after", ["after"]),
        ("```\n$tdd\n```\n`$tdd` $after ``` x ```", ["after"]),
        ("~~~\n```\n$tdd\n~~~\n$after", ["after"]),
    ],
)
def test_code_ends_by_the_rules_of_markdown(text, found):
    assert names(text) == found


def test_mention_in_a_link_has_its_path():
    (found,) = mentions("try [$beta]  ( /tmp/beta ) now")
    assert (found.name, found.path, found.start, found.end) == ("beta", "/tmp/beta", 4, 26)
    assert names("[$PATH](/tmp/x)") == []
    assert [each.path for each in mentions("[$beta]() [$beta](a\nb)")] == [None, None]


@pytest.mark.parametrize("text", ["$my_var", "$user", "$3d", "$fooBar"])
def test_possible_variable_is_doubtful(text):
    assert [each.doubtful for each in mentions(text)] == [True]


def test_name_with_a_hyphen_is_not_doubtful():
    assert not any(each.doubtful for each in mentions("$Fix-It $ns:Name $plain"))


PIECES = st.lists(
    st.sampled_from(
        ["$", "`", "```", "\n", " ", "/", "[$a](", ")", "a", "-", ":", "~~~", "\\", "!", "$(", '-c "', "é", "5"]
    )
)


@settings(deadline=None)
@given(st.one_of(st.text(), PIECES.map("".join)))
def test_any_text_has_mentions_at_their_positions(text):
    last = 0
    for each in mentions(text):
        assert last <= each.start < each.end <= len(text)
        assert each.name in text[each.start : each.end]
        assert text[each.start] in "$/["
        assert each.name.isascii()
        last = each.end


@settings(deadline=None)
@given(PIECES.map("".join))
def test_any_fenced_text_is_code(text):
    body = text.replace("`", "")
    assert any(span.start <= 4 + len(body) // 2 < span.end for span in code_spans(f"```\n{body}\n```"))


@pytest.mark.parametrize(
    "unit",
    ["$", "$a ", "[$a](", "[$a](x ", "`", "` ", "``` \n", "$(", '-c "', "$a-", "$a:", "\n \n`", ">", "!\n$a ", "/a:"],
)
def test_long_text_takes_linear_time(unit):
    assert is_linear(lambda size: deque(mentions(unit * (size // len(unit))), 0), 25_000)


def test_attack_blanks_in_an_unclosed_link_take_linear_time():
    assert is_linear(lambda size: deque(mentions("[$a](" + " " * size + "\n"), 0), 5_000)


def test_runs_of_backticks_of_every_length_take_linear_time():
    text = "".join("`" * (each % 700 + 1) + " $a " for each in range(2800))
    with at_most(2):
        assert sum(1 for _ in mentions(text)) <= 2800


def test_a_megabyte_of_dollars_is_read_fast():
    with at_most(1):
        assert names("$" * 1_000_000) == []
