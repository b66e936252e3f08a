"""The table of exit codes with the JSON of each; a refused command changes nothing."""

from __future__ import annotations

import json

import pytest

from skillhub.cli.app import command_of
from skillhub.cli.render import fail
from skillhub.errors import SourceError

REF = "github:release-notes"


def test_a_memory_error_is_a_state_error(capsys):
    assert fail(MemoryError(), ["list", "--json"], command_of) == 7
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "state"


def without_a_lock(shell):
    return "list"


def a_dry_run(shell):
    return f"install {REF} --dry-run"


def not_enabled(shell):
    return f"install {REF} --yes --no-enable"


def nothing_to_do(shell):
    assert shell.run("install", REF, "--yes").status == 0
    return f"install {REF}"


def verify_without_a_lock(shell):
    return "verify"


@pytest.mark.parametrize("case", [without_a_lock, verify_without_a_lock, a_dry_run, not_enabled, nothing_to_do])
def test_a_successful_command_exits_with_0(shell, case):
    words = case(shell).split()
    done = shell.run(*words, "--json")
    assert done.status == 0, done.err
    assert "error" not in done.json


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f"show {REF} --skill x", "--skill is for a place that holds several skills"),
        ("install ./many --skill a --skill b --as c --yes", "--as names one skill; found a, b"),
        ("install ./many/a --env-file nowhere --yes", "--env-file names no file"),
        ("mcp --all check x", "expected options after check, found some before it"),
    ],
)
def test_an_option_that_does_not_fit_is_named(shell, words, told):
    for name in ("a", "b"):
        shell.skill(f"project/many/{name}")
    done = shell.run(*words.split())
    assert (done.status, told in done.err) == (2, True), done.err


def drift(shell):
    shell.run("install", REF, "--yes")
    shell.write("project/.agents/skills/release-notes/extra.txt", "more")
    return "verify"


def bad_content(shell):
    shell.skill("project/bad", name="other")
    return "validate bad"


def broken_signature(shell):
    shell.skill("project/signed")
    assert shell.run("key", "new").status == 0
    assert shell.run("sign", "signed").status == 0
    shell.write("project/signed/late.txt", "not signed")
    return "validate signed"


def open_need(shell):
    shell.run("install", "github:gh-fix-ci", "--yes")
    return "doctor"


@pytest.mark.parametrize("case", [drift, bad_content, broken_signature, open_need])
def test_a_failed_check_prints_its_own_json(shell, case):
    words = case(shell).split()
    done = shell.run(*words, "--json")
    assert done.status == 1
    assert done.json["ok"] is False
    assert "error" not in done.json


def bad_reference(shell):
    return "install not/a:ref@@", 2, "usage"


def nothing_to_install_from(shell):
    return "install", 2, "usage"


def no_source(shell):
    return "install nope:x", 3, "not-found"


def no_skill(shell):
    return "install github:nope", 3, "not-found"


def no_version(shell):
    return f"install {REF}@99.0.0", 3, "not-found"


def no_path(shell):
    return "install ./nope", 3, "not-found"


def unreachable(shell):
    return "source add there http://127.0.0.1:9/", 3, None


def offline(shell):
    return "source add there https://registry.invalid --offline", 3, None


def remove_unknown(shell):
    return "remove nope", 3, "not-found"


def enable_unknown(shell):
    return "enable nope", 3, "not-found"


def show_unknown(shell):
    return "show nope", 3, "not-found"


def empty_lock(shell):
    shell.write("project/skillhub.lock", "")
    return "list", 4, None


def torn_lock(shell):
    shell.write("project/skillhub.lock", "<<<<<<< ours\n{}\n=======\n{}\n>>>>>>> theirs\n")
    return "verify", 4, None


def newer_lock(shell):
    shell.write("project/skillhub.lock", json.dumps({"skills": {}, "sources": {}, "version": 2}))
    return "sync", 4, None


def twice_in_the_lock(shell):
    shell.write("project/skillhub.lock", '{"skills": {}, "skills": {}, "sources": {}, "version": 1}')
    return "list", 4, None


def torn_intent(shell):
    shell.write("project/skillhub.toml", "[skills\n")
    return "install", 4, None


def no_archive(shell):
    shell.write("project/bad.zip", "this is no zip")
    return "install ./bad.zip", 4, None


def unsafe_archive(shell):
    import zipfile

    with zipfile.ZipFile(shell.project / "evil.zip", "w") as archive:
        archive.writestr("SKILL.md", "---\nname: evil\ndescription: x\n---\n")
        archive.writestr("../outside.txt", "out")
    return "install ./evil.zip --yes --allow-unsigned", 5, "unsafe-archive"


def from_elsewhere(shell):
    shell.run("install", REF, "--yes")
    shell.skill("project/release-notes")
    return "install ./release-notes --yes --allow-unsigned", 5, None


def without_answer(shell):
    return f"install {REF}", 6, "refused"


def unsigned(shell):
    shell.skill("project/plain")
    return "install ./plain --yes", 6, "refused"


def link_out(shell):
    (shell.folder / "elsewhere").mkdir()
    (shell.project / ".agents").symlink_to(shell.folder / "elsewhere")
    return f"install {REF} --yes", 7, "link-leaves-project"


def in_the_way(shell):
    shell.skill("project/.agents/skills/release-notes")
    return f"install {REF} --yes", 7, "state"


ERRORS = [
    bad_reference, nothing_to_install_from,
    no_source, no_skill, no_version, no_path, unreachable, offline, remove_unknown, enable_unknown, show_unknown,
    empty_lock, torn_lock, newer_lock, twice_in_the_lock, torn_intent, no_archive,
    unsafe_archive, from_elsewhere, without_answer, unsigned, link_out, in_the_way,
]  # fmt: skip


def without_cache(files):
    """Drop files that reading may change: metadata that protects against a rollback, and lock files."""
    return {path: data for path, data in files.items() if "/hub/" not in path}


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case.__name__)
def test_an_error_has_its_exit_code_and_changes_nothing(shell, case):
    words, status, code = case(shell)
    before = without_cache(shell.files())
    done = shell.run(*words.split(), "--json")
    assert done.status == status, done.err
    assert done.error["message"]
    assert code is None or done.error["code"] == code
    assert isinstance(done.json["questions"], list)
    assert without_cache(shell.files()) == before
    assert done.err.startswith("error: ")
    assert f"[{done.error['code']}]" in done.err


def test_unanswered_questions_are_listed_in_json(shell):
    shell.skill("project/plain")
    done = shell.run("install", "./plain", "--yes", "--json")
    assert [(each["kind"], each["answer"]) for each in done.json["questions"]] == [
        ("unsigned", "unanswered"),
        ("install", "yes"),
    ]
    assert all(set(each) == {"kind", "skill", "message", "details", "answer"} for each in done.json["questions"])
    assert "--allow-unsigned" in done.error["hint"]


def test_an_open_need_is_installed_and_exits_6(shell):
    done = shell.run("install", "github:gh-fix-ci", "--yes", "--json")
    assert done.status == 6
    assert done.json["skills"][0]["state"] == "disabled"
    assert "gh-fix-ci" in shell.lock()["skills"]
    assert not (shell.project / ".agents/skills/gh-fix-ci").exists()
    assert "export GITHUB_TOKEN=" in done.err


def test_several_references_are_one_transaction(shell):
    before = without_cache(shell.files())
    done = shell.run("install", REF, "github:nope", "--yes", "--json")
    assert (done.status, done.error["code"]) == (3, "not-found")
    assert without_cache(shell.files()) == before


def test_a_name_in_two_sources_is_refused_with_the_candidates(offered, served, tmp_path):
    shell = offered.copy(tmp_path / "twin")
    pin = shell.run("registry", "check", offered.folder / "registry", "--json")
    assert pin.json["ok"] is True
    root = offered.folder / "registry/site/metadata/1.root.json"
    assert shell.run("source", "add", "one", served, "--root", root).status == 0
    assert shell.run("source", "add", "two", served, "--root", root).status == 0
    done = shell.run("install", "greeting", "--yes", "--json")
    assert (done.status, done.error["code"]) == (2, "usage")
    assert "one:greeting" in json.dumps(done.json)
    assert "two:greeting" in json.dumps(done.json)


def test_the_error_for_a_misplaced_option_names_its_help(shell):
    assert "skillhub COMMAND --help shows them" in shell.run("--frozen", "install").err
    assert "COMMAND --json" not in shell.run("update", "--nope").err


def test_the_hint_names_a_local_folder_if_the_source_is_unreachable(shell):
    shell.skill("project/skills/greet")
    done = shell.run("install", "skills/greet", "--json", "--offline")
    assert done.status == 3
    assert done.error["hint"] == "to install the folder: skillhub install ./skills/greet"
    done = shell.run("install", "skills/greet", "-g", "--json", "--offline")
    assert done.error["hint"] == "to install the folder: skillhub install ./skills/greet --global"


def test_the_hint_explains_a_skill_if_a_folder_has_none(shell):
    (shell.project / "empty").mkdir()
    assert "SKILL.md" in shell.run("install", "./empty", "--json").error["hint"]


@pytest.mark.parametrize(
    ("typed", "meant"), [("uninstall", "remove"), ("add", "install"), ("upgrade", "update"), ("version", "--version")]
)
def test_a_command_of_another_installer_gives_the_name_of_ours(shell, typed, meant):
    done = shell.run(typed, "x", "--json")
    assert (done.status, done.error["hint"]) == (2, f"did you mean: skillhub {meant}")
    assert shell.run(meant, *([] if meant.startswith("-") else ["--help"])).status == 0


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("instal", "did you mean: skillhub install"),
        ("source lst", "did you mean: skillhub source list"),
        ("list --jsn", "did you mean: skillhub list --json"),
        ("source frobnicate", "skillhub source --help lists them"),
        ("disable --all", "skillhub disable --help lists them"),
        ("install --force", "skillhub install --help lists them"),
        ("list --project", "skillhub list --help shows its usage"),
        ("source add x ./none --fingerprint", "skillhub source add --help shows its usage"),
        ("-g publisher trust bob --key", "skillhub publisher trust --help shows its usage"),
    ],
)
def test_a_misspelling_gives_one_command_as_hint(shell, typed, hint):
    done = shell.run(*typed.split())
    assert done.status == 2
    assert done.err.splitlines()[1] == f"  hint: {hint}"


def test_the_hint_for_an_unknown_name_is_a_search_that_finds_a_similar_one(shell):
    done = shell.run("install", "code-reviw", "--json")
    assert (done.status, done.error["code"]) == (3, "not-found")
    search = done.error["hint"].partition("? ")[2].partition(" finds")[0]
    assert shell.run(*search.split()[1:], "--json").json["hits"][0]["name"] == "code-review"
    shell.skill("project/mine")
    hint = shell.run("install", "mine", "--json").error["hint"]
    assert hint == "to install the folder: skillhub install ./mine"
    assert shell.run(*hint.split()[5:], "--yes", "--allow-unsigned", "--json").status == 0


@pytest.mark.parametrize("command", ["install", "show", "validate", "pack", "audit"])
def test_a_missing_path_is_named_once(shell, command):
    done = shell.run(command, "./nope")
    assert done.status == 3
    assert done.err.count("nope") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("source", "add", "A B", "./nope"),
        ("source", "add", "A B", "https://127.0.0.1:1/", "--root", "nope"),
        ("source", "add", "http", "./nope"),
        ("publisher", "trust", "A B", "--key", "nope"),
        ("publisher", "trust", "A B", "--key", "key.pem", "--dry-run"),
    ],
)
def test_a_name_is_checked_before_anything_is_read(shell, words):
    assert shell.run("key", "new").status == 0
    shell.write("project/key.pem", (shell.hub / "state/keys/default.pub.pem").read_bytes())
    error = shell.run(*words, "--json").error
    assert (error["code"], "cannot name a" in error["message"]) == ("usage", True)
    assert error["hint"].startswith("a-z, 0-9 and single hyphens, at most 64")


@pytest.mark.parametrize("fingerprint", ["foo", "", "sha256:" + "A" * 64])
def test_an_invalid_fingerprint_is_a_usage_error(shell, fingerprint):
    url = "https://skills.example"
    done = shell.run("source", "add", "acme", url, "--fingerprint", fingerprint, "--json")
    assert (done.status, done.error["code"]) == (2, "usage")
    assert "--fingerprint" in done.error["message"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[skills]\nx = { git = "http://a.b/c" }', "skills.x"),
        ('[install]\nagents = ["nope"]\n[skills]\nrelease-notes = "^1"', "install.agents"),
        ('[sources.aa]\nurl = "ftp://x"', "sources.aa.url"),
        ('[sources.aa]\nurl = "skills.example"', "sources.aa.url"),
        ('[sources.aa]\nurl = "https://me:secret@skills.example"', "sources.aa.url"),
    ],
)
def test_an_error_in_the_intent_names_its_key(shell, text, where):
    path = shell.write("project/skillhub.toml", text + "\n")
    done = shell.run("install", "--yes", "--json")
    assert (done.status, done.error["code"]) == (4, "format")
    assert done.error["where"] == f"{path}: {where}"
    assert "secret" not in done.out


def test_an_unknown_source_in_the_intent_has_the_place_of_its_skill(shell):
    path = shell.write("project/skillhub.toml", '[skills]\ncode-review = { source = "gihub" }\n')
    done = shell.run("install", "--yes", "--json")
    assert (done.status, done.error["where"]) == (3, f"{path}: skills.code-review")
    assert done.error["hint"].startswith("did you mean github?")


def test_a_merge_conflict_in_the_intent_is_reported_as_such(shell):
    path = shell.write("project/skillhub.toml", "[skills]\n<<<<<<< HEAD\n=======\n>>>>>>> other\n")
    done = shell.run("install", "--json")
    assert (done.status, done.error["where"]) == (4, f"{path}:2")
    assert "merge conflict" in done.error["message"] and done.error["hint"]


def test_lock_import_refuses_the_lock_of_skillhub(shell):
    shell.skill("project/src/plain")
    assert shell.run("install", "./src/plain", "--yes", "--allow-unsigned").status == 0
    done = shell.run("lock", "import", "skillhub.lock", "--json")
    assert (done.status, done.error["code"]) == (4, "format")
    assert "skillhub's own" in done.error["message"]


def test_lock_import_names_the_files_that_it_knows(shell):
    shell.write("project/skillhub.toml", '[skills]\npdf = { source = "github" }\n')
    error = shell.run("lock", "import", "skillhub.toml", "--json").error
    assert error["message"] == "expected a lock of another installer, found neither JSON nor APM's YAML"
    assert error["hint"].startswith("known: skills-lock.json, ")


def test_a_lock_version_that_is_a_string_is_refused(shell):
    shell.write("project/skillhub.lock", '{"skills": {}, "sources": {}, "version": "1"}\n')
    done = shell.run("list", "--json")
    assert (done.status, done.error["message"]) == (4, "expected lock format 1, found the text '1'")


@pytest.mark.parametrize("message", ["cannot fetch it", "cannot reach the registry", "the server cannot be reached"])
def test_the_error_about_a_server_that_nobody_reaches_says_what_to_check(message, capsys):
    assert fail(SourceError(message), ["list"], command_of) == 3
    assert "hint: check the address, the network and the settings of your proxy" in capsys.readouterr().err


def test_the_hint_is_a_whole_command_that_works(shell):
    shell.write("project/skillhub.toml", '[skills]\ncode-review = "*"\n')
    hint = shell.run("bundle", "export", "x.bundle", "--json").error["hint"]
    assert hint == "skillhub install locks the skills of skillhub.toml"
    assert shell.run("install", "--yes").status == 0
    hint = shell.run("registry", "serve", "new", "--json").error["hint"]
    assert hint == f"skillhub registry init {shell.project / 'new'}"
    assert shell.run(*hint.split()[1:]).status == 0
    assert shell.run("load", "--path", "x", "--json").error["message"].startswith("the catalog has no skill at ")
