"""``SKILL.md`` as a manifest: lenient for installs, strict for publishing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import ForbiddenVariable, FormatError, SkillhubError
from skillhub.model.manifest import Manifest, problems
from skillhub.model.tree import File, Tree
from tests.support.effort import at_most


def skill(frontmatter="", body="# Do\n", **files):
    head = "name: fix-ci\ndescription: Fixes CI. Use when it is red.\n"
    data = f"---\n{head}{frontmatter}---\n{body}".encode()
    return Tree({"SKILL.md": File(data), **{path: File(text.encode()) for path, text in files.items()}})


def raw(text):
    return Tree({"SKILL.md": File(text if isinstance(text, bytes) else text.encode())})


def codes(issues):
    return [issue.code for issue in issues]


def test_minimal_manifest_has_defaults():
    manifest = Manifest.read(skill())
    assert (manifest.name, manifest.description) == ("fix-ci", "Fixes CI. Use when it is red.")
    assert manifest.body == "# Do\n"
    assert (manifest.version, manifest.license, manifest.compatibility) == (None, None, None)
    assert manifest.user_invocable
    assert manifest.model_invocable
    assert manifest.fork is None
    assert not (manifest.hooks or manifest.requires or manifest.warnings or manifest.extra or manifest.allowed_tools)


def test_all_keys_of_the_specification_are_read():
    manifest = Manifest.read(
        skill(
            "license: Apache-2.0\ncompatibility: Needs git\nallowed-tools: Bash(git add:*) Read\n"
            "metadata: {author: someone, version: 1.10}\n"
        ),
        strict=True,
    )
    assert manifest.license == "Apache-2.0"
    assert manifest.compatibility == "Needs git"
    assert manifest.version == "1.10"
    assert manifest.metadata == {"author": "someone", "version": "1.10"}
    assert manifest.allowed_tools == ("Bash(git add:*)", "Read")


def test_keys_of_clients_are_read_without_errors():
    tree = skill(
        "argument-hint: '[pr]'\ndisable-model-invocation: true\nuser-invocable: false\nmodel: opus\n"
        "context: fork\nagent: Explore\nversion: 2\nmetadata: {version: 1.0.0, openclaw: {emoji: x}}\n"
        "hooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks: [{type: command, command: ./check.sh}]\n"
    )
    manifest = Manifest.read(tree, strict=True)
    assert not manifest.user_invocable
    assert not manifest.model_invocable
    assert manifest.fork == {"context": "fork", "agent": "Explore", "model": "opus"}
    assert manifest.hooks["PreToolUse"][0]["matcher"] == "Bash"
    assert manifest.extra["argument-hint"] == "[pr]"
    assert problems(tree) == ((), ())


def test_needs_interface_and_policy_come_from_openai_yaml():
    manifest = Manifest.read(
        skill(
            "metadata: {openclaw: {requires: {bins: [gh]}}}\n",
            **{
                "agents/openai.yaml": "interface: {display_name: CI}\npolicy: {allow_implicit_invocation: false}\n"
                "dependencies: {tools: [{type: env_var, value: GITHUB_TOKEN}]}\npermissions: {network: all}\n"
            },
        )
    )
    assert [need.spell() for need in manifest.requires] == ["env:GITHUB_TOKEN", "program:gh"]
    assert manifest.interface == {"display_name": "CI"}
    assert manifest.permissions == ("network=all",)
    assert not manifest.model_invocable


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ("Read Grep", ("Read", "Grep")),
        ("Read, Grep,Glob", ("Read", "Grep", "Glob")),
        ("Bash(npm run test:*), Bash(a, b)", ("Bash(npm run test:*)", "Bash(a, b)")),
        ("[Read, 'Bash(git add:*)', Read]", ("Read", "Bash(git add:*)")),
        ("mcp__github__list", ("mcp__github__list",)),
        ("Bash(git", ("Bash", "git")),
        ("''", ()),
    ],
)
def test_tools_are_split_like_clients(tools, expected):
    assert Manifest.read(skill(f"allowed-tools: {tools}\n")).allowed_tools == expected


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("# No frontmatter\n", "SKILL.md:1"),
        (b"\xff", "SKILL.md"),
        ("---\nname: a\n", "SKILL.md"),
        ("---\n- a\n---\n", "SKILL.md"),
        ("---\n---\n", "SKILL.md"),
        ("---\njust text\n---\n", "SKILL.md"),
        ("---\nname: a\ndescription: &x b\n---\n", "SKILL.md:3"),
        ("---\nname: a\nname: b\ndescription: c\n---\n", "SKILL.md:3"),
        ("---\ndescription: a\n---\n", "SKILL.md"),
        ("---\nname: My Skill\ndescription: a\n---\n", "SKILL.md:2"),
        ("---\nname: ../up\ndescription: a\n---\n", "SKILL.md:2"),
        ("---\nname: [a]\ndescription: a\n---\n", "SKILL.md:2"),
        ("---\nname: a\n---\n", "SKILL.md"),
        ("---\nname: a\ndescription:\n---\n", "SKILL.md:3"),
        ("---\nname: a\ndescription: '  '\n---\n", "SKILL.md:3"),
        ("---\nname: a\ndescription: {b: c}\n---\n", "SKILL.md:3"),
    ],
)
def test_missing_name_or_description_is_refused(text, where):
    with pytest.raises(FormatError) as caught:
        Manifest.read(raw(text))
    assert caught.value.where == where
    errors, _ = problems(raw(text))
    assert errors


def test_tree_without_skill_md_is_refused():
    with pytest.raises(FormatError, match=r"SKILL\.md"):
        Manifest.read(Tree({}))
    assert codes(problems(Tree({}))[0])[0] == "frontmatter"


def test_error_about_an_unquoted_colon_asks_for_quotes():
    with pytest.raises(FormatError, match="in quotes") as caught:
        Manifest.read(raw("---\nname: a\ndescription: Use when: always\n---\n"))
    assert caught.value.where == "SKILL.md:3"


BREACHES = [
    ("compatibility: " + "x" * 501 + "\n", "compatibility"),
    ("compatibility: [a]\n", "compatibility"),
    ("license: [a]\n", "license"),
    ("metadata: text\n", "metadata"),
    ("allowed-tools: {a: b}\n", "allowed-tools"),
    ("allowed-tools: [a, [b]]\n", "allowed-tools"),
]


@pytest.mark.parametrize(("frontmatter", "code"), BREACHES)
def test_breach_of_the_specification_is_a_warning_and_a_strict_error(frontmatter, code):
    tree = skill(frontmatter)
    (warning,) = Manifest.read(tree).warnings
    assert warning.startswith("SKILL.md:4: ")
    with pytest.raises(FormatError):
        Manifest.read(tree, strict=True)
    assert codes(problems(tree)[0]) == [code]


def test_description_over_1024_characters_is_a_strict_error():
    for length, strict_errors in ((1024, []), (1025, ["description"])):
        tree = raw(f"---\nname: a\ndescription: {'é' * length}\n---\n")
        assert len(Manifest.read(tree).description) == length
        assert codes(problems(tree)[0]) == strict_errors


@pytest.mark.parametrize("key", ["user-invocable", "disable-model-invocation"])
def test_invalid_truth_value_gives_a_warning_and_the_default(key):
    manifest = Manifest.read(skill(f"{key}: perhaps\n"))
    assert manifest.user_invocable
    assert manifest.model_invocable
    assert len(manifest.warnings) == 1


def test_all_problems_are_reported_at_once():
    tree = raw(
        "---\nname: Bad Name\ndescription:\ncompatibility: [a]\nmetadata: {version: 1.0.0, a: [b]}\n"
        "user-invocable: perhaps\ncolour: red\n---\n"
    )
    errors, warnings = problems(tree)
    assert codes(errors) == ["name", "description", "compatibility"]
    assert codes(warnings) == ["user-invocable", "unknown-key", "metadata-value"]
    assert errors[0].where == "SKILL.md:2"


def test_another_folder_name_is_an_error_and_a_missing_version_a_warning():
    errors, warnings = problems(skill(), folder="other")
    assert (codes(errors), codes(warnings)) == (["folder-name"], ["no-version"])
    assert problems(skill("metadata: {version: 1.0.0}\n"), folder="fix-ci") == ((), ())


@pytest.mark.parametrize("version", ["1e3", "1.10", "v1.0.0", "1.0.0.0", "latest"])
def test_version_that_is_not_semver_gives_a_warning(version):
    tree = skill(f"metadata: {{version: {version}}}\n")
    assert Manifest.read(tree, strict=True).version == version
    (warning,) = problems(tree)[1]
    assert (warning.code, warning.where) == ("version", "SKILL.md:4")
    assert f"a registry accepts only a version by SemVer 2.0.0, found '{version}'" == warning.message


def test_forbidden_variable_is_raised_by_read_and_listed_by_problems():
    tree = skill("metadata: {version: 1.0.0, openclaw: {requires: {env: [LD_PRELOAD]}}}\n")
    with pytest.raises(ForbiddenVariable):
        Manifest.read(tree)
    assert codes(problems(tree)[0]) == ["forbidden-variable"]


def test_broken_declaration_is_a_warning_even_when_strict():
    tree = skill("metadata: {version: 1.0.0}\n", **{"agents/openai.yaml": "a: *x"})
    assert Manifest.read(tree, strict=True).warnings
    assert codes(problems(tree)[1]) == ["bad-declaration"]


def test_manifest_is_immutable():
    manifest = Manifest.read(skill("metadata: {a: b}\n"))
    with pytest.raises(AttributeError):
        manifest.name = "other"
    with pytest.raises(TypeError):
        manifest.metadata["a"] = "c"


def test_six_thousand_unknown_keys_are_reported_in_linear_time():
    with at_most(2):
        _, warnings = problems(skill("".join(f"k{n}: x\n" for n in range(6000))))
    assert warnings[-2].where == "SKILL.md:6003"


@given(st.binary(max_size=200) | st.text("-\n: ab[]{}&*'\"name").map(str.encode))
def test_any_bytes_of_a_manifest_are_read_or_refused(data):
    for tree in (
        raw(data),
        raw(b"---\n" + data + b"\n---\n"),
        raw(b"---\nname: a\ndescription: b\n" + data + b"\n---\n"),
    ):
        try:
            Manifest.read(tree)
        except SkillhubError as error:
            assert error.exit_code in (4, 5)
        problems(tree)


@pytest.mark.parametrize("version", ['"1.0\\u001b[31m"', '"1.0\\u202e"', '"' + "1" * 65 + '"', '"1\\n0"'])
def test_unprintable_version_is_ignored_with_a_warning(version: str) -> None:
    text = f"---\nname: evil\ndescription: Does a thing.\nmetadata:\n  version: {version}\n---\n"
    manifest = Manifest.read(Tree({"SKILL.md": File(text.encode())}))
    assert manifest.version is None
    assert any("version" in warning for warning in manifest.warnings)


def test_unknown_keys_of_needs_are_warnings_of_validation_only():
    server = "{type: mcp, value: docs, command: docs-mcp, args: [--root], cwd: /}"
    text = f"dependencies:\n  tools: [{server}]\n  tool: []\ninterfaces: {{}}\n"
    tree = skill("metadata: {version: 1.0.0}\n", **{"agents/skillhub.yaml": text})
    errors, warnings = problems(tree)
    assert (codes(errors), codes(warnings)) == ([], ["unknown-key"] * 4)
    places = {(each.message.split("'")[1], each.where) for each in warnings}
    start = "agents/skillhub.yaml"
    tools = {(key, f"{start}: dependencies.tools[0]") for key in ("args", "cwd")}
    assert places == {*tools, ("tool", f"{start}: dependencies"), ("interfaces", start)}
    assert Manifest.read(tree).warnings == ()  # the installing user cannot correct the file
    theirs = skill("metadata: {version: 1.0.0}\n", **{"agents/openai.yaml": "more: {}\n"})
    assert problems(theirs)[1] == ()
