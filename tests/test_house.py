"""Limits of the code base: rooms, sizes, imports, public names, errors.

The order of rooms is checked by import-linter.
"""

import ast
import io
import os
import re
import subprocess
import sys
import tokenize

import pytest

import skillhub
from tests.support.source import MODULES, REPO, nodes

EVERYTHING = sorted(
    path for root in ("skillhub", "tests", "fixtures", "docs") for path in (REPO / root).rglob("*.py")
)
HEAVY = {
    "httpx",
    "tuf",
    "cryptography",
    "typer",
    "rich",
    "pydantic",
    "yaml",
    "tomlkit",
    "skillhub.command",
    "skillhub.install",
    "skillhub.project",
    "skillhub.sources",
    "skillhub.net",
}
# As they are: they may fall, not rise.
MODULES_MAX, CODE_MAX, DEPTH_MAX, LOADED_MAX = 210, 48365, 12, 90
LAZY = {
    "skillhub/__init__.py",
    "skillhub/edits/patch.py",
    "skillhub/install/gather.py",
    "skillhub/project/copies.py",
    "skillhub/install/candidates.py",
    "skillhub/install/pins.py",
    "skillhub/archive/unpack.py",
    "skillhub/formats/toml.py",
    "skillhub/project/last_seen.py",
    "skillhub/formats/text.py",
    "skillhub/formats/yaml.py",
    "skillhub/trust/oms.py",
    "skillhub/trust/publishers.py",
    "skillhub/trust/registry_rules.py",
    "skillhub/disk/home.py",
    "skillhub/net/target.py",
    "skillhub/project/project.py",
    "skillhub/scan/__init__.py",
    "skillhub/scan/code/__init__.py",
    "skillhub/scan/skill_files.py",
    "skillhub/sources/configured.py",
    "skillhub/sources/registry_client.py",
}


def name_of(path):
    return str(path.relative_to(REPO))


def functions(path):
    return [node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def body_lines(function):
    """Count the lines of a body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def all_errors():
    """Return every error class of the source, with its own code if it has one."""
    found = {}
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base) for base in node.bases]
                code = [
                    each.value.value
                    for each in node.body
                    if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "code"
                ]
                found[node.name] = (bases, code[0] if code else None, name_of(path))
    family = {"SkillhubError"}
    while more := {name for name, (bases, _, _) in found.items() if set(bases) & family} - family:
        family |= more
    return {name: found[name] for name in family}


def arguments(function):
    """Count the arguments of a function, without self and cls."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def code_lines(path):
    """Count the lines with code, without blank lines, comments and docstrings."""
    lines = path.read_text("utf-8").split("\n")
    words, about, texts = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef), set(), set()
    for node in nodes(path):
        if isinstance(node, words) and ast.get_docstring(node, clean=False) is not None:
            about |= {*range(node.body[0].lineno, node.body[0].end_lineno + 1)}
        elif isinstance(node, ast.Constant | ast.JoinedStr) and '"""' in lines[node.lineno - 1]:
            texts |= {*range(node.lineno, node.end_lineno + 1)}  # of which no line is a comment
    code = {number for number, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")}
    return len((code | texts) - about)


def imported():
    """Return the modules of the package that each of its modules imports, at the top or within a function."""
    names = {name_of(path)[:-3].replace("/", ".").removesuffix(".__init__"): path for path in MODULES}
    found = {}
    for name, path in names.items():
        all_of = set()
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skillhub"):
                inner = {f"{node.module}.{each.name}" for each in node.names} & names.keys()
                all_of |= inner or {node.module}
        # The package's public names are loaded at first use, so that its version loads none of them.
        found[name] = all_of - {name} if name != "skillhub" else set()
    return found


def test_the_table_of_rooms_names_each_folder():
    page = (REPO / "docs" / "architecture.md").read_text("utf-8")
    table = page.partition("<!-- rooms: begin")[2].partition("<!-- rooms: end")[0]
    rooms = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    folders = {path.name for path in (REPO / "skillhub").iterdir() if (path / "__init__.py").exists()}
    assert sorted(rooms) == sorted({*folders, "api", "errors"})
    named = (REPO / "pyproject.toml").read_text("utf-8").partition("layers = [")[2].partition("]\n")[0]
    assert re.findall(r"skillhub\.(\w+)", named) == rooms


def test_a_room_has_few_modules():
    rooms = {path.parent for path in MODULES}
    sizes = {name_of(room): sum(path.name != "__init__.py" for path in room.glob("*.py")) for room in rooms}
    assert {room: size for room, size in sizes.items() if size > (24 if room.endswith("/cli") else 16)} == {}


def test_the_house_does_not_grow():
    modules = [path for path in MODULES if path.name != "__init__.py"]
    assert len(modules) <= MODULES_MAX
    assert sum(code_lines(path) for path in MODULES) <= CODE_MAX


def test_a_chain_of_imports_is_short():
    edges, depths = imported(), {}

    def depth(name):
        if name not in depths:
            depths[name] = 1 + max((depth(each) for each in edges.get(name, ())), default=0)
        return depths[name]

    assert max(depth(name) for name in edges) <= DEPTH_MAX


def test_an_install_loads_few_modules(tmp_path):
    code = "from skillhub.cli.main import main; import sys; main(); print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "install", "github:code-review", "--yes", "--quiet"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPO), "SKILLHUB_HOME": str(tmp_path / "home")},
    )
    packages = {name_of(path.parent).replace("/", ".") for path in MODULES if path.name == "__init__.py"}
    ours = {name for name in done.stdout.split() if name.startswith("skillhub")} - packages
    assert "skillhub.install.install" in ours
    assert len(ours) <= LOADED_MAX


def test_a_module_has_at_most_600_lines():
    lines = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > 600} == {}


def test_a_function_fits_on_a_screen():
    found = [(name_of(path), each.name, body_lines(each)) for path in MODULES for each in functions(path)]
    assert [each for each in found if each[-1] > 60] == []


def test_a_function_takes_at_most_six_arguments():
    # The arguments of a command are its options.
    called = [path for path in MODULES if path.parent.name != "cli"]
    found = [(name_of(path), each.name, arguments(each)) for path in called for each in functions(path)]
    assert [each for each in found if each[-1] > 6] == []


def test_broad_except_clauses_are_in_two_modules():
    broad = []
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.ExceptHandler):
                kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
                if any(kind is None or ast.unparse(kind) in ("Exception", "BaseException") for kind in kinds):
                    broad.append(name_of(path))
    assert sorted(broad) == ["skillhub/cli/main.py", "skillhub/scan/skill_files.py"]  # a command, a part of a scan


def test_imports_are_at_the_top_except_in_commands():
    lazy = set()
    for path in MODULES:
        for function in functions(path):
            if any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(function)):
                lazy.add(name_of(path))
    assert {name for name in lazy if not name.startswith("skillhub/cli/")} <= LAZY


def test_public_names():
    homes = {name: getattr(skillhub, name).__module__ for name in skillhub.__all__ if name != "__version__"}
    assert all(
        name in ("OpenProject", "Options", "open_project")
        for name, home in homes.items()
        if home.startswith(
            ("skillhub.api", "skillhub.command", "skillhub.install", "skillhub.project", "skillhub.sources")
        )
    )


def test_importing_loads_little():
    """One process has all statements: what one must not load, those before it must not either."""
    forbidden = {
        "import skillhub; skillhub.Tree, skillhub.Digest, skillhub.SkillhubError": HEAVY,
        "from skillhub.cli import main": {"typer", "tuf", "cryptography", "pydantic", "rich"},
        "import skillhub.runtime.discover": {"tuf", "cryptography", "typer", "httpx"},
        "import skillhub.install.links, skillhub.cli.common": {"tuf", "typer", "rich"},
        "import skillhub.sources.registry_client": {"httpx"},
        "import skillhub.cli.audit": {"skillhub.audit.doctor", "cryptography.x509"},
    }
    code = "import sys\n" + "".join(f"{statement}; print(*sys.modules)\n" for statement in forbidden)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPO)
    for (statement, heavy), loaded in zip(forbidden.items(), done.stdout.splitlines(), strict=True):
        assert heavy & {*loaded.split()} == set(), statement


def test_no_pattern_has_a_possessive_group():
    # Before 3.11.5, Python does not go back if such a group fails in its middle. An atomic group is right.
    # `()*+` is a part of a set of characters.
    group = re.compile(r"(?<![\\(])\)(?:[*+?]|\{[0-9]*,?[0-9]*\})\+")
    found = []
    for path in MODULES:
        for node in nodes(path):
            text = node.value if isinstance(node, ast.Constant) else None
            text = text.decode("latin-1") if isinstance(text, bytes) else text
            if isinstance(text, str) and "(?" in text and group.search(text):
                found.append((name_of(path), node.lineno))
    assert found == []


def test_every_error_has_its_own_code():
    codes = {name: code for name, (_, code, _) in all_errors().items() if code is not None}
    # A class without a code is never raised itself.
    assert set(all_errors()) - set(codes) == {"Reasoned"}
    assert len(set(codes.values())) == len(codes)
    for code in codes.values():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code), code


def test_every_error_is_in_the_table():
    table = (REPO / "docs" / "architecture.md").read_text("utf-8")
    for name, (_, code, _) in all_errors().items():
        if code is not None and name != "SkillhubError":
            assert f"| `{name}` | `{code}` |" in table, f"run: make docs ({name})"


def test_no_comment_marks_unfinished_work():
    mark = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    assert [(path, comment) for path in EVERYTHING for comment in comments(path) if mark.search(comment)] == []


def test_no_module_imports_posix_modules_at_the_top():
    alone = re.compile(r"^(?:import|from) (?:fcntl|grp|pty|pwd|resource|termios|tty)(?: import .*)?$", re.MULTILINE)
    found = [name_of(path) for path in EVERYTHING if alone.search(path.read_text("utf-8"))]
    assert found == ["docs/demo.py", "tests/mutation/run.py"]  # programs of their own


def comments(path):
    text = path.read_text("utf-8")
    if not re.search(r"TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK", text):
        return []  # telling a file's comments from its strings is slow
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [each.string for each in tokens if each.type == tokenize.COMMENT]


def test_no_module_has_a_vague_name():
    vague = {"utils", "util", "helpers", "helper", "manager", "service", "misc", "base"}
    assert [name_of(path) for path in MODULES if path.stem in vague] == []


@pytest.mark.parametrize(
    "target", ["demo", "test", "lint", "test-interop", "bench", "fixtures", "docs", "site", "clean", "help"]
)
def test_make_has_the_targets_of_the_pages(target):
    makefile = (REPO / "Makefile").read_text("utf-8")
    assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE)


def test_public_names_of_types_are_unique():
    known_to_hosts = {"Outcome", "State"}  # two words of ``skillhub.runtime``, which also name classes
    homes = {}
    for path in (path for path in MODULES if path.parent.name != "cli" and "scan" not in path.parts):
        for node in nodes(path)[0].body:
            target = getattr(node, "targets", [getattr(node, "target", node)])[0]
            name = getattr(target, "name", getattr(target, "id", ""))
            if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name) and name not in known_to_hosts:
                homes.setdefault(name, []).append(name_of(path))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_public_class_names_are_unique():
    homes = {}
    for path in MODULES:
        for node in nodes(path)[0].body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name_of(path))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_attributes_are_set_in_init():
    late = set()
    for path in MODULES:
        for found in (node for node in nodes(path) if isinstance(node, ast.ClassDef)):
            methods = [each for each in found.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            stored = {
                (each.name in ("__init__", "__post_init__"), node.attr)
                for each in methods
                for node in ast.walk(each)
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
                if isinstance(node.value, ast.Name) and node.value.id == "self"
            }
            known = {each for is_first, each in stored if is_first}
            known |= {
                ast.unparse(getattr(each, "target", None) or each.targets[0])
                for each in found.body
                if isinstance(each, ast.Assign | ast.AnnAssign)
            }
            late |= {(name_of(path), found.name, each) for _, each in stored if each not in known}
    # Attributes of a base class in the standard library.
    assert {each for each in late if each[2] != "close_connection"} == set()
