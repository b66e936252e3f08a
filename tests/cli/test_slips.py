"""Misspelled commands: the hint works when typed, and repeats no argument, which may be a secret."""

from __future__ import annotations

import os

import pytest

from tests.support.here import Here


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return Here(tmp_path_factory.mktemp("slips"))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("install github:code-review --fozen", "skillhub install --frozen"),
        ("--json install a b --alow-unsigned", "skillhub install --allow-unsigned"),
        ("instal github:code-review --yes", "skillhub install"),
        ("uninstall code-review", "skillhub remove"),
        ("registry ad here ./skill", "skillhub registry add"),
        ("help instal", "skillhub install"),
        ("--verison", "skillhub --version"),
        ("unpublish x", "skillhub registry yank"),
        ("source rm x", "skillhub source remove"),
        ("source ls", "skillhub source list"),
        ("cache clean", "skillhub cache gc"),
        ("prune", "skillhub cache gc"),
        ("registry unpublish here", "skillhub registry yank"),
        ("outdated", "skillhub update --check"),
        ("ci", "skillhub install --frozen"),
        ("explain SH101", "skillhub audit --explain SH101"),
        ("rules", "skillhub audit --explain all"),
        ("completion", "skillhub --install-completion"),
        ("pin code-review", "skillhub install NAME@VERSION"),
        ("run code-review", "skillhub use"),
        ("source add acme/skills team", "skillhub source add team acme/skills"),
        ("source add https://skills.invalid team", "skillhub source add team https://skills.invalid"),
    ],
)
def test_a_misspelling_is_corrected(shell, typed, meant):
    done = shell.run(*typed.split())
    assert done.status == 2
    assert f"hint: did you mean: {meant}\n" in done.err


@pytest.mark.parametrize(
    "typed",
    [
        "install a --env TOKEN=hunter2 --fozen",
        "install a --env=TOKEN=hunter2 --fozen",
        "install a --env hunter2 --fozen",
        "install a --evn TOKEN=hunter2",
        "install a --evn=TOKEN=hunter2",
        "install a --en hunter2",
        "install a --envv hunter2=",
        "env set TOKEN hunter2 --skil a",
        "env exec --quite -- deploy --password=hunter2",
        "install a --env-fil hunter2",
        "install https://me:hunter2@host.example/x --fozen",
    ],
)
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_attack_a_hint_repeats_no_secret(shell, typed, more):
    first, *rest = typed.split()
    done = shell.run(first, *more, *rest)
    assert done.status == 2
    assert "hunter2" not in done.out + done.err


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("publisher trust bob", "with the publisher's PEM file: skillhub publisher trust bob --key FILE"),
        ("publish nix", "expected a skill: a folder, .zip, .skill or .tar.gz"),
        ("registry push ./hub s3:bucket", "did you mean s3://bucket? a folder of that name: ./s3:bucket"),
        ("install github/code-review --offline", "did you mean github:code-review?"),
        ("install GitHub:Code_Review", "did you mean github:code-review?"),
        ("install github:code-review==1.0.0", "did you mean github:code-review@1.0.0?"),
        ("install github:code-review>=1", "did you mean 'github:code-review@>=1'?"),
        ("install 127.0.0.1:8000", "put https:// or http:// before a host: https://127.0.0.1:8000; ./ before a path"),
        ("install localhost:80/x", "put https:// or http:// before a host: https://localhost:80/x; ./ before a path"),
        ("show localhost:8000", "put https:// or http:// before a host: https://localhost:8000; ./ before a path"),
        ("list --project nix", "--project names the project's folder"),
        ("install skillhub.lock", "a name is of a-z"),
        ("install github:code-review --agent codex,cursor", "repeat the option: --agent A --agent B"),
        ("install github:", "skillhub source show github lists what it has; put ./ before a path"),
        ("install fo:o/my-skill", "put ./ before a path; any git repository is git+https://host/repository@rev"),
        ("install foo:bar:baz", "a name is of a-z, 0-9 and single hyphens, at most 64; put ./ before a path"),
        ("source add x http://127.0.0.1:9", "check the address, the network and the settings of your proxy"),
        ("-g install https://a:b/", "skillhub install --help shows its usage"),
        ("source add local skills", "a-z, 0-9 and single hyphens, at most 64; not embedded"),
        ("source remove githbu", "did you mean github?"),
        ("source remove githbu --dry-run", "did you mean github?"),
        ("source remove nope", "skillhub source list shows yours"),
        ("source show nope", "configured: github; skillhub source add nope URL adds it"),
        ("install my-skill-1.0.0.zip", "did you mean ./my-skill-1.0.0.zip?"),
        ("publisher trust bob --key nix", "expected a PEM file: ask the publisher for it; of your own key: skillhub"),
        ("publisher trust bob --certificate nix", "expected a PEM file: "),
        ("registry delegate . bob --key nix", "expected a PEM file: "),
        ("audit --baseline nix", "skillhub audit --write-baseline nix writes it"),
        ("audit SH101", "skillhub audit --explain SH101"),
        ("audit --from-lock nix", "- reads stdin: git show HEAD:skillhub.lock | skillhub audit --from-lock -"),
        ("lock import nix", "known: skills-lock.json, .skill-lock.json, apm.lock.yaml and .clawhub/lock.json"),
    ],
)
def test_an_error_about_words_or_files_that_are_missing_has_a_hint(here, typed, hint):
    done = here.run(*typed.split(), "--json")
    assert done.status in (2, 3)
    assert done.error["hint"].startswith(hint)


@pytest.mark.parametrize(
    ("typed", "status", "where", "hint"),
    [
        ("lock import bad.json", 4, "bad.json:1:7", "known: skills-lock.json, "),
        ("lock import bad", 7, "bad", "known: skills-lock.json, "),
        ("install --from bad.json", 4, "bad.json", "a bundle is what skillhub bundle export wrote"),
        ("audit --baseline bad.json", 4, "bad.json:1:7", "skillhub audit --write-baseline bad.json writes it"),
        (
            "source add x https://x.invalid --root bad.json",
            4,
            "bad.json:1:7",
            "a registry is known by its first root",
        ),
        ("install ./bad", 4, "./bad: SKILL.md:3", "skillhub validate ./bad lists all of its errors"),
        ("audit plain", 3, None, "of the file or folder here: skillhub audit ./plain"),
        ("install ./nix ./nothing", 3, "nix", "expected a skill: a folder, .zip"),
        ("install ./my skill", 3, "my", "if blanks belong to a path, quote it: skillhub install './my skill'"),
        ("enable nope", 3, "", "skillhub list shows installed skills; skillhub adopt adopts unmanaged ones"),
        ("registry advise ./hub bad.json", 4, "bad.json:1:7", "a FILE has advisories in OSV's JSON, or lines"),
        ("registry advise ./hub --withdraw nope", 3, "./hub", "there are: none in this registry"),
        ("registry cosign ./hub bad.pem", 4, "./hub", "each begins with —; --request N prints what to send"),
        ("registry cosign ./hub nix", 3, "nix", "a FILE has the answer of a witness; --request N prints"),
        ("registry yank ./hub nope@1.0.0 --reason x", 3, None, "there are: plain"),
        ("registry yank ./hub plan@1.0.0 --reason x", 3, None, "did you mean plain?"),
        (
            "registry delegate ./hub own --revoke hub/keys/publishers/own.pem",
            4,
            "hub/keys/publishers/own.pem",
            "give its public half: NAME.pub",
        ),
        ("registry delegate ./hub nobody --revoke sha256:00", 2, None, "there are: own"),
        ("registry delegate ./hub onw --name x", 2, None, "did you mean own? to admit it: --key FILE or --cert"),
        ("registry add ./plain ./hub", 3, "./plain", "did you swap the two? skillhub registry add ./hub ./plain"),
        ("registry check ./plain", 3, "plain", "this is a skill: name the registry's folder first"),
        (
            "registry serve ./hub/site",
            3,
            "hub/site",
            "this is the site of a registry: name the folder of its operator",
        ),
        (
            "registry serve ./hub --host 999.1.1.1",
            7,
            "999.1.1.1:8000",
            "--port 0 takes a free port, --host an address of this",
        ),
        ("registry init ./hub/site", 2, "hub/site", "name another folder, such as ./registry: a web server would"),
        ("registry push ./hub ./plain", 2, "./plain", "name another folder, such as the web server's: the skill"),
    ],
)
def test_an_error_about_a_bad_file_or_an_unknown_name_has_place_and_hint(shell, typed, status, where, hint):
    shell.write("project/bad.json", '{"a": }')
    shell.write("project/bad.pem", "no key\n")
    shell.write("project/bad/SKILL.md", "---\nname: [\n---\n")
    shell.write("project/my skill/SKILL.md", "")
    if "plain" in typed or "./hub" in typed:
        shell.skill("project/plain", head='metadata:\n  version: "1.0.0"\n')
    if "./hub" in typed:
        assert shell.run("registry", "init", "./hub").status == 0
        assert shell.run("registry", "add", "./hub", "./plain").status == 0
    done = shell.run(*typed.split(), "--json")
    assert (done.status, done.error["hint"][: len(hint)]) == (status, hint)
    places = None if where is None else {where, f"{shell.project}/{where}".removesuffix("/")}
    assert done.error["where"] in places if places else done.error["where"] is None


@pytest.mark.parametrize(
    ("typed", "status", "message"),
    [
        ("install --all", 2, "--all is for a reference that holds several skills, and there is none"),
        ("install --skill plain", 2, "--skill is for a reference that holds several skills, and there is none"),
        ("install ./plain --all --skill plain", 2, "--all and --skill exclude each other"),
        ("use ./plain --skill nope", 3, "there is no skill 'nope' here"),
        ("show ./plain --skill nope", 3, "there is no skill 'nope' here"),
        ("show plain --skill nope", 2, "--skill is for a place that holds several skills"),
    ],
)
def test_skills_are_chosen_only_of_a_place_that_has_them(shell, typed, status, message):
    shell.skill("project/plain")
    assert shell.run("install", "./plain", "--yes", "--allow-unsigned").status == 0
    done = shell.run(*typed.split(), "--json")
    assert (done.status, done.error["message"]) == (status, message)


@pytest.mark.parametrize("typed", ["source show githbu", "install githbu:code-review"])
def test_a_misspelled_source_has_a_hint_with_one_command_that_works(here, typed):
    assert here.run(*typed.split(), "--json").error["hint"] == "did you mean github? skillhub source list shows yours"
    assert here.run("source", "list").status == 0


def test_a_name_that_the_embedded_registry_has_is_refused_in_words(here):
    error = here.run("source", "add", "github", "https://x.example", "--json").error
    taken = "the name github is taken by the registry inside skillhub; it cannot also name https://x.example"
    assert (error["code"], error["message"]) == ("usage", taken)
    assert error["hint"] == "choose another name; to free this one: skillhub source remove github"


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("cache gc --days x", "expected a whole number for --days, found 'x'"),
        ("cache gc --days 1.5", "expected a whole number for --days, found '1.5'"),
        ("cache gc --days -3", "expected 0 or more for --days, found -3"),
        ("registry refresh . --within soon", "expected a number for --within, found 'soon'"),
        ("search a --limit 0", "expected 1 or more for --limit, found 0"),
    ],
)
def test_an_invalid_number_is_reported_with_its_option(shell, typed, message):
    done = shell.run(*typed.split())
    assert (done.status, f"error: {message} [usage]" in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("claud-cod", "claude-code"), ("claude", "claude-code"), ("copilot", "github-copilot"), ("cursr", "cursor")],
)
def test_a_misspelled_agent_gives_a_suggestion(shell, typed, meant):
    done = shell.run("install", "github:code-review", "--agent", typed)
    assert (done.status, f"did you mean {meant}" in done.err) == (2, True), done.err


def test_an_invalid_ssh_address_gives_a_hint_with_its_form(shell):
    done = shell.run("install", "git@host:a b/c")
    assert (done.status, "hint: git over ssh is git+ssh://git@host/repository\n" in done.err) == (2, True), done.err


@pytest.mark.parametrize("port", ["65536", "70000", "99999999999", "0", "x", "१"])
@pytest.mark.parametrize(
    "url",
    [
        *(
            "https://h.example:{}/x",
            "http://127.0.0.1:{}",
            "git+https://h.example:{}/a/b#c",
            "git+ssh://git@h.example:{}/a",
        ),
        *(
            "oci://h.example:{}/r/x:tag",
            "mcp+https://h.example:{}/mcp",
            "https://[::1]:{}/x.zip",
            "git+http://h:{}/x",
        ),
    ],
)
def test_an_invalid_port_is_a_usage_error(here, url, port):
    done = here.run("install", url.format(port), "--yes", "--json")
    assert (done.status, done.error["code"]) == (2, "usage")
    assert "expected a port from 1 to 65535" in done.error["message"]
    if url.startswith("http"):
        done = here.run("source", "add", "acme", url.format(port), "--json")
        assert (done.status, "port from 1 to 65535" in done.error["message"]) == (2, True)


@pytest.mark.parametrize("url", ["https://127.0.0.1:1/x", "https://[::1]:65535/x", "https://h.invalid/a:70000"])
def test_a_valid_port_is_no_usage_error(here, url):
    assert here.run("install", url, "--yes", "--offline").status == 3


@pytest.mark.parametrize("typed", ["sync nosuch", "agents nosuch"])
def test_a_word_too_many_is_named(here, typed):
    done = here.run(*typed.split())
    assert (done.status, done.err.splitlines()[0]) == (2, "error: expected no more words, found 'nosuch' [usage]")


def test_mcp_remove_twice_names_the_file_and_what_it_lacks(here):
    (here.project / ".claude").mkdir()
    done = here.run("mcp", "remove", "--agent", "claude-code")
    assert (done.status, done.out) == (0, f"{here.project / '.mcp.json'} has no MCP server skillhub\n")


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("registry init *", "DIR"),
        ("registry push registry *", "TARGET"),
        ("install *", "REF"),
        ("install github:code-review *", "REF"),
        ("pack skill --output *", "FILE after --output"),
        ("publish skill --to=*", "TARGET after --to"),
        ("install --env * code-review", "NAME[=VALUE] after --env"),
        ("--project * list", "DIR after --project"),
    ],
)
def test_an_empty_argument_is_no_folder(shell, typed, wanted):
    done = shell.run(*(word.replace("*", "") for word in typed.split(" ")))
    assert (done.status, done.err.splitlines()[0]) == (
        2,
        f"error: expected {wanted}, found an empty argument [usage]",
    )
    assert not os.listdir(shell.project)
