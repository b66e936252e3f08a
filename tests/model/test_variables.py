"""Variables that programs read, off their bytes; what is nobody's secret, and what is no end of names."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.model.variables import NAMES_MAX, variables


def read(text, path="scripts/run.sh"):
    data = text if isinstance(text, bytes) else text.encode()
    return sorted(variables([(path, data)]))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", 'os.environ["A_KEY"]'),
        ("a.py", "environ [ 'A_KEY' ]"),
        ("a.py", 'os.environ.get("A_KEY", "")'),
        ("a.py", 'os.environ.get(\n    "A_KEY",\n)'),
        ("a.py", 'os.environ.pop("A_KEY")'),
        ("a.py", 'os.environb[b"A_KEY"]'),
        ("a.py", 'os.getenv("A_KEY")'),
        ("a.py", 'if os.environ["A_KEY"] == "x":'),
        ("a.js", "process.env.A_KEY"),
        ("a.js", "process.env?.A_KEY ?? ''"),
        ("a.js", "process.env['A_KEY']"),
        ("a.js", "if (process.env.A_KEY === 'x')"),
        ("a.ts", "import.meta.env.A_KEY"),
        ("a.ts", 'Deno.env.get("A_KEY")'),
        ("a.ts", "Bun.env.A_KEY"),
        ("a.mjs", "const { A_KEY } = process.env"),
        ("a.rb", 'ENV["A_KEY"]'),
        ("a.rb", "ENV.fetch('A_KEY')"),
        ("a.pl", "$ENV{A_KEY}"),
        ("a.php", "getenv('A_KEY')"),
        ("a.php", "$_ENV['A_KEY']"),
        ("a.go", 'os.Getenv("A_KEY")'),
        ("a.go", 'os.LookupEnv("A_KEY")'),
        ("a.lua", 'os.getenv("A_KEY")'),
        ("a.r", 'Sys.getenv("A_KEY")'),
        ("a.jl", 'ENV["A_KEY"]'),
        ("a.rs", 'env::var("A_KEY")'),
        ("a.ps1", "$env:A_KEY"),
        ("a.ps1", "${Env:A_KEY}"),
        ("a.ps1", "[Environment]::GetEnvironmentVariable('A_KEY')"),
        ("a.sh", "curl -H $A_KEY"),
        ("a.sh", 'echo "${A_KEY}"'),
        ("a.sh", "${A_KEY:-none}"),
        ("a.sh", "${A_KEY:?is missing}"),
        ("a.sh", ': "${A_KEY:=none}"'),
        ("a.sh", "${#A_KEY}"),
        ("a.sh", "${!A_KEY}"),
        ("a.sh", "python3 - <<'E'\nimport os; os.environ['A_KEY']\nE"),
        ("tool", "#!/usr/bin/env bash\n$A_KEY"),
        ("tool", "#!/bin/sh -e\n$A_KEY"),
        ("tool", "$A_KEY"),
        ("a.sh", "echo 'usage: A_KEY=... run'\necho $A_KEY"),
        ("a.sh", "# A_KEY=secret\necho $A_KEY"),
        ("a.sh", 'A_KEY="${A_KEY:-}"\necho $A_KEY'),
        ("a.sh", "export A_KEY=$A_KEY\n"),
        ("a.sh", "export A_KEY\necho $A_KEY"),
    ],
)
def test_a_variable_that_is_read(path, text):
    assert read(text, path) == ["A_KEY"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", 'os.environ["A_KEY"] = "1"'),
        ("a.py", 'os.putenv("A_KEY", "1"); os.environ[name]; os.environ.copy()'),
        ("a.py", 'my_environment["A_KEY"]; MY_ENV["A_KEY"]; settings.env["A_KEY"]'),
        ("a.py", 'f"${A_KEY}"'),
        ("a.js", "process.env.A_KEY = '1'"),
        ("a.js", "process.env.hasOwnProperty(x); `${A_KEY}`; const { A_KEY } = config"),
        ("a.ps1", "$env:A_KEY = 1"),
        ("a.sh", "A_KEY=1\necho $A_KEY"),
        ("a.sh", "echo $A_KEY\nexport A_KEY=1"),
        ("a.sh", "if x; then A_KEY=1; fi; echo $A_KEY"),
        ("a.sh", "local -r A_KEY=1; echo $A_KEY"),
        ("a.sh", "declare -A A_KEY\nA_KEY[x]=1\necho ${A_KEY[x]}"),
        ("a.sh", "ARGS=()\nARGS+=(-x)\necho ${ARGS[@]}"),
        ("a.sh", "ARGS=''\nARGS=\"$ARGS -x\"\n"),
        ("a.sh", "for A_KEY in x y; do echo $A_KEY; done"),
        ("a.sh", "while IFS= read -r A_KEY OTHER; do echo $A_KEY $OTHER; done"),
        ("a.sh", "mapfile -t A_KEY < x; echo $A_KEY; printf -v OTHER %s x; echo $OTHER"),
        ("a.sh", "echo \\$A_KEY $lower ${Mixed} $1 $@ $? $$"),
        ("a.sh", "echo $PATH $HOME ${PWD} $USER $TMPDIR $LC_ALL $RANDOM $BASH_SOURCE ${EUID} $OPTARG"),
        ("a.sh", "awk '{print $NF, $NR}'\n. /etc/os-release\necho $VERSION_ID"),
        ("a.py", 'os.environ["PATH"]; os.environ.get("HOME")'),
        ("a.py", "#!/usr/bin/env python3\n$A_KEY"),
        ("tool", b"\x7fELF\0\0$A_KEY"),
        ("notes.txt", "$A_KEY"),
    ],
)
def test_what_is_no_reading(path, text):
    assert read(text, path) == []


def test_several_names_of_several_files_each_once():
    files = [("a.sh", b"$B_KEY $A_KEY ${A_KEY}"), ("b.js", b"const { C: c, D = 1, ...rest } = process.env")]
    assert variables(files) == {"A_KEY", "B_KEY", "C", "D"}


def test_a_name_that_another_file_sets_is_read_here():
    assert variables([("a.sh", b"A_KEY=1"), ("b.sh", b"$A_KEY")]) == {"A_KEY"}


@pytest.mark.parametrize(
    "text", ["$%s", "${%s}", "%s=1; $A", 'os.environ["%s"]', "process.env.%s", "$ENV{%s}"]
)
def test_attack_a_name_of_ten_thousand_letters_is_none(text):
    assert read(text % ("A" * 10_000)) in ([], ["A"])


def test_a_name_as_long_as_names_may_be():
    assert read("$" + "A" * 255) == ["A" * 255]
    assert read("$" + "A" * 256) == []


@pytest.mark.parametrize(
    "text", ["$V%d ", 'os.getenv("V%d")\n', "process.env.V%d\n", "const {V%d} = process.env\n"]
)
def test_attack_a_hundred_thousand_names_are_one_star(text):
    assert read("".join(text % number for number in range(100_000))) == ["*"]


def test_attack_programs_too_large_to_be_read_in_time_may_read_anything():
    large = b"echo $TOKEN\n" + b" " * (2 << 20)
    assert variables([("a.sh", large)]) == {"TOKEN"}
    assert variables([("a.sh", large), ("b.sh", large), ("c.sh", b"")]) == {"*"}


def test_as_many_as_a_person_reads_are_named():
    text = "".join(f"$V{number} " for number in range(NAMES_MAX))
    assert len(read(text)) == NAMES_MAX
    assert read(f"{text} $MORE") == ["*"]
    assert variables([("a.sh", text.encode()), ("b.sh", b"$MORE")]) == {"*"}


def test_attack_one_name_a_million_times_takes_no_million_steps():
    assert read("$A_KEY " * 1_000_000) == ["*"]
    assert read("A_KEY=1;" * 1_000_000 + "$B_KEY") == ["*"]


HOSTILE = [
    "$",
    "{",
    "{a,",
    "(",
    "; ",
    "do ",
    ";A[",
    "export -a ",
    "environ['",
    "nv:",
    "ENV",
    "read ",
    "A",
    "} = process.env ",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_attack_no_text_takes_more_than_its_length(piece):
    """Where time went with the square of it, this would not end."""
    assert read("$A_KEY = process.env " + piece * (300_000 // len(piece))) in (["A", "A_KEY"], ["A_KEY"])


@settings(max_examples=50)
@given(st.binary(max_size=200), st.sampled_from(["a.sh", "tool", "a.py", "a.js"]))
def test_any_bytes_at_all_give_names_in_any_order_of_the_files(data, path):
    files = [(path, data), ("b.sh", b"$A_KEY")]
    found = variables(files)
    assert found == variables(reversed(files))
    assert all(name.isascii() and name.isprintable() for name in found)
