"""A registry from ``init`` to an install over loopback, and its trust decisions."""

from __future__ import annotations

import os
import shlex
import shutil

import pytest

from skillhub.formats.digest import Digest
from skillhub.server.site import SiteHandler, site_server
from skillhub.sources.configured import embedded_root
from tests.support.hearing import heard_by
from tests.support.killing import Killed, Killer
from tests.support.served import online
from tests.support.serving import serving


@pytest.fixture
def shell(offered, tmp_path):
    return offered.copy(tmp_path / "twin")


@pytest.fixture(scope="module")
def root(offered):
    return offered.folder / "registry/site/metadata/1.root.json"


@pytest.fixture(scope="module")
def fingerprint(root):
    return str(Digest.of(root.read_bytes()))


def written(shell):
    return {path: data for path, data in shell.files().items() if data != b"folder"}


def test_a_skill_is_installed_from_a_pinned_registry(shell, served, fingerprint):
    added = shell.run("source", "add", "acme", served, "--fingerprint", fingerprint, "--json")
    assert added.status == 0, added.err
    assert added.json == {**added.json, "name": "acme", "url": served, "root": fingerprint}
    done = shell.run("install", "acme:greeting", "--yes", "--json")
    assert done.status == 0, done.err
    skill = done.json["skills"][0]
    assert (skill["source"], skill["version"], skill["trust"]) == ("acme", "1.0.0", "signed")
    assert skill["signed_by"][0]["identity"] == "acme"
    assert shell.lock()["sources"]["acme"]["root"] == fingerprint
    assert shell.run("verify", "--json").json["ok"] is True
    offers = shell.run("source", "show", "acme", "--json").json["skills"]
    assert [(each["name"], each["version"]) for each in offers] == [("greeting", "1.0.0")]
    assert {"acme", "github"} == {each["name"] for each in shell.run("source", "list", "--json").json["sources"]}
    removed = shell.run("source", "remove", "acme")
    assert (removed.status, "in this project: greeting\n" in removed.err) == (0, True)
    assert shell.run("source", "show", "acme").status == 3
    assert shell.run("verify", "--json").json["ok"] is True
    back = removed.err.partition("to add it again: skillhub ")[2]
    assert shell.run(*shlex.split(back)).status == 0
    assert shell.run("source", "show", "acme", "--json").json["root"] == fingerprint


def test_an_unreadable_lock_does_not_prevent_removal_of_a_source(shell):
    shell.write("project/skillhub.lock", "<<<<<<< ours")
    assert shell.run("source", "remove", "github").status == 0
    assert shell.run("source", "list", "--json").json["sources"] == []


def test_a_registry_is_pinned_by_its_root_file(shell, served, root, fingerprint):
    done = shell.run("source", "add", "acme", served, "--root", root, "--json")
    assert (done.status, done.json["root"]) == (0, fingerprint)


def test_adding_the_same_source_again_changes_nothing_and_asks_nothing(shell, served, root):
    assert "added acme" in shell.run("source", "add", "acme", served, "--root", root).out
    before = written(shell)
    for words in ((), ("--root", root)):
        again = shell.run("source", "add", "acme", served, *words)
        assert (again.status, again.out.partition(":")[0]) == (0, "already added"), again.err
        assert written(shell).keys() == before.keys()


@pytest.mark.parametrize("words", [[], ["--yes"]])
def test_without_an_answer_no_root_is_pinned(shell, served, words):
    before = shell.files()
    done = shell.run("source", "add", "acme", served, *words, "--json")
    assert (done.status, done.error["code"]) == (6, "refused")
    assert [(each["kind"], each["answer"]) for each in done.json["questions"]] == [("root", "unanswered")]
    assert "--fingerprint" in done.error["hint"]
    assert shell.files() == before


def test_a_yes_to_the_fingerprint_pins_the_root(shell, served, fingerprint):
    refused = shell.at_terminal("source", "add", "acme", served, say=[("[N]o: ", "n\n")])
    assert refused.status == 6
    assert fingerprint in refused.out
    assert shell.run("source", "show", "acme").status == 3
    assert shell.at_terminal("source", "add", "acme", served, say=[("[N]o: ", "y\n")]).status == 0


def test_a_root_with_another_fingerprint_is_refused(shell, served, root):
    wrong = "sha256:" + "0" * 64
    before = shell.files()
    done = shell.run("source", "add", "acme", served, "--fingerprint", wrong, "--json")
    assert (done.status, done.error["code"]) == (5, "wrong-bytes")
    assert "the operator publishes" in done.error["hint"]
    both = shell.run("source", "add", "acme", served, "--root", root, "--fingerprint", wrong)
    assert both.status == 5
    assert shell.files() == before


def test_the_root_of_another_registry_is_refused(shell, served):
    made = shell.run("registry", "init", shell.folder / "other")
    assert (made.status, "the publisher own signs unsigned skills; --publisher" in made.out) == (0, True)
    other = shell.folder / "other/site/metadata/1.root.json"
    before = written(shell)
    done = shell.run("source", "add", "acme", served, "--root", other, "--json")
    assert done.status == 5
    assert written(shell) == before
    assert shell.run("source", "show", "acme").status == 3


def test_a_later_root_of_a_registry_is_not_taken_for_its_first(shell):
    registry = shell.folder / "registry"
    assert shell.run("registry", "rotate", registry, "root").status == 0
    before = written(shell)
    with online(registry / "site") as url:
        done = shell.run("source", "add", "acme", url, "--root", registry / "site/metadata/2.root.json", "--json")
        assert (done.status, done.error["message"]) == (2, "--root: expected the first root, found version 2")
        assert written(shell) == before
        first = registry / "site/metadata/1.root.json"
        assert shell.run("source", "add", "acme", url, "--root", first).status == 0
        assert shell.run("install", "acme:greeting", "--yes").status == 0


def test_the_embedded_root_is_refused_for_other_registries(shell, served):
    shell.write("embedded.json", embedded_root())
    done = shell.run("source", "add", "acme", served, "--root", shell.folder / "embedded.json", "--json")
    assert done.status == 2
    assert "public test keys" in done.error["message"]


def test_the_registry_of_the_package_is_removed_and_brought_back(shell):
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    before = shell.run("source", "list", "--json").json
    trusted = shell.run("source", "trust", "github", "--json")
    assert (trusted.status, "source show github" in trusted.error["hint"]) == (2, True)
    removed = shell.run("source", "remove", "github", "--json")
    assert (removed.status, removed.json["name"]) == (0, "github")
    assert "still locked from it in this project: release-notes\n" in removed.err
    assert "to add it again: skillhub source add github embedded:\n" in removed.err
    asked = shell.run("install", "github:code-review", "--project", shell.home, "--json")
    assert (asked.status, asked.error["code"]) == (3, "not-found")
    assert asked.error["hint"].endswith("skillhub source add github embedded:")
    assert shell.run("source", "add", "other", "embedded:").status == 2
    assert shell.run("source", "add", "github", "embedded:", "--fingerprint", "sha256:" + "0" * 64).status == 5
    assert shell.run("source", "add", "github", "embedded:", "--offline").status == 0
    assert shell.run("source", "list", "--json").json == before
    assert shell.run("verify").status == 0
    assert shell.run("install", "github:code-review", "--yes").status == 0


def test_a_lock_restores_the_embedded_registry_only_with_consent(shell):
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    assert shell.run("source", "remove", "github").status == 0
    asked = shell.run("install", "--json")
    assert (asked.status, [each["kind"] for each in asked.json["questions"]]) == (6, ["source"])
    assert shell.run("install", "--yes").status == 6
    trusted = f"github={shell.lock()['sources']['github']['root']}"
    assert shell.run("install", "--yes", "--trust-source", trusted).status == 0
    assert [each["url"] for each in shell.run("source", "list", "--json").json["sources"]] == ["embedded:"]


@pytest.mark.parametrize("alias", ["https", "git", "UPPER", "a--b", "embedded", "x" * 65])
def test_an_invalid_alias_is_refused(shell, served, fingerprint, alias):
    done = shell.run("source", "add", alias, served, "--fingerprint", fingerprint, "--json")
    assert (done.status, done.error["code"]) == (2, "usage")


def test_an_alias_in_use_is_refused(shell, served, fingerprint):
    done = shell.run("source", "add", "github", served, "--fingerprint", fingerprint, "--json")
    assert (done.status, done.error["code"]) == (2, "usage")


def test_a_registry_is_created_filled_and_checked(shell):
    folder = shell.folder / "mine"
    made = shell.run("registry", "init", folder, "--publisher", "me", "--json")
    assert made.status == 0
    assert made.json["fingerprint"] == Digest.of((folder / "site/metadata/1.root.json").read_bytes())
    assert shell.run("registry", "init", folder).status == 2
    shell.skill("src/one", head='metadata:\n  version: "1.0.0"\n')
    shell.skill("src/two", head='metadata:\n  version: "2.0.0"\n')
    one, two = shell.folder / "src/one", shell.folder / "src/two"
    three = shell.skill("src/three", head='metadata:\n  version: "1.0.0"\n')
    added = shell.run("registry", "add", folder, one, two, "--json")
    assert [(each["name"], each["version"]) for each in added.json["added"]] == [("one", "1.0.0"), ("two", "2.0.0")]
    again = shell.run("registry", "add", folder, one, "--json").json
    assert (again["added"], [each["name"] for each in again["unchanged"]]) == ([], ["one"])
    assert "one 1.0.0 was added before, with the same content\n" in shell.run("registry", "add", folder, one).out
    assert "would add three 1.0.0" in shell.run("registry", "add", folder, three, "--dry-run").out
    shell.write("src/one/more.md", "more")
    assert shell.run("registry", "add", folder, one).status == 6
    shell.skill("src/unversioned")
    assert shell.run("registry", "add", folder, shell.folder / "src/unversioned").status == 4
    assert shell.run("registry", "check", folder, "--json").json == {
        "schema": 1,
        "ok": True,
        "problems": [],
        "warnings": [],
    }
    assert not any(b"PRIVATE" in path.read_bytes() for path in (folder / "site").rglob("*") if path.is_file())
    archive = next((folder / "site").rglob("*.zip"))
    archive.chmod(0o644)
    archive.write_bytes(b"other")
    for words in ("check", "refresh"):
        site = shell.run("registry", words, folder / "site", "--json")
        assert (site.status, site.error["hint"].split(":")[0]) == (3, "this is the site of a registry")
    broken = shell.run("registry", "check", folder, "--json")
    assert (broken.status, broken.json["ok"]) == (1, False)
    assert [each["where"] for each in broken.json["problems"]] == [str(archive)]
    assert f"[{broken.json['problems'][0]['code']}]" in shell.run("registry", "check", folder).out


REMEDY = "copy the file back from the target or a backup"


@pytest.mark.parametrize(
    ("document", "status", "where", "message"),
    [
        (None, 7, "{}/site/metadata/timestamp.json", "there is no such file"),
        ("{}", 4, "timestamp.json", "expected TUF metadata"),
    ],
)
def test_a_lost_or_damaged_document_of_the_metadata_is_named_with_the_remedy(shell, document, status, where, message):
    assert shell.run("registry", "init", "../hub").status == 0
    path = shell.folder / "hub/site/metadata/timestamp.json"
    path.unlink() if document is None else path.write_text(document)
    where = where.format(shell.folder / "hub")
    found = shell.run("registry", "check", "../hub", "--json")
    (problem,) = found.json["problems"]
    assert (found.status, problem["where"], problem["message"]) == (1, where, f"{message}; {REMEDY}")
    for words in (
        ("refresh", "../hub", "--role", "timestamp"),
        ("rotate", "../hub", "timestamp"),
        ("build", "../hub"),
    ):
        done = shell.run("registry", *words, "--json")
        assert (done.status, done.error["where"], done.error["hint"]) == (status, where, REMEDY), words


@pytest.mark.parametrize("is_trusted", [False, True])
def test_the_hint_for_an_own_key_that_is_not_admitted_is_a_command(shell, is_trusted):
    hub = shell.folder / "registry"
    shell.skill("project/mine", head='metadata:\n  version: "1.0.0"\n')
    shell.run("key", "new")
    shell.write("home/.gitconfig", f"[user]\nname = {'ben' if is_trusted else 'me'}\n")
    if is_trusted:
        shell.run("publisher", "trust", "me", "--key", shell.hub / "state/keys/default.pub.pem")
    assert shell.run("sign", "mine").status == 0
    refused = shell.run("registry", "add", hub, "./mine", "--json")
    assert (refused.status, refused.error["code"]) == (6, "refused")
    line = refused.error["hint"].partition("skillhub ")[2]
    assert shell.run(*shlex.split(line)).status == 0
    added = shell.run("registry", "add", hub, "./mine")
    assert (added.status, "signed by me" in added.out) == (0, True)
    shell.write("project/mine/more.txt", "x")
    edited = shell.run("registry", "add", hub, "./mine", "--json").error
    assert (edited["reason"], edited["hint"]) == (
        "extra-file",
        "if the skill is yours, delete skill.oms.sig, or: skillhub sign ./mine",
    )


def test_the_hint_for_an_unknown_key_has_a_placeholder_for_its_file(shell):
    hub = shell.folder / "registry"
    shell.skill("project/greeting", head='metadata:\n  version: "1.1.0"\n')
    shell.run("key", "new", SKILLHUB_HOME=str(shell.folder / "stranger"))
    assert shell.run("sign", "greeting", SKILLHUB_HOME=str(shell.folder / "stranger")).status == 0
    hint = shell.run("registry", "add", hub, "./greeting", "--json").error["hint"]
    assert f"skillhub registry delegate {hub} acme --key FILE" in hint
    assert "in a PEM file of sha256:" in hint
    hint = shell.run("registry", "add", hub, "./greeting", "--keys", hub / "keys/offline", "--json").error["hint"]
    assert hint.endswith(f"--key FILE --keys {hub / 'keys/offline'}")


def test_a_registry_that_lost_its_metadata_is_reported_without_a_quoted_message(shell, root):
    with online(shell.folder / "registry/site") as url:
        assert shell.run("source", "add", "acme", url, "--root", root).status == 0
        shutil.rmtree(shell.folder / "registry/site/metadata")
        error = shell.run("source", "refresh", "acme", "--json").error
    assert error["message"] == "cannot fetch the metadata: not found: the server answered 404"


def test_refresh_says_at_a_terminal_only_that_there_is_nothing_to_renew(shell):
    assert shell.at_terminal("registry", "refresh", shell.folder / "registry").out == "nothing to renew\r\n"
    done = shell.run("registry", "refresh", shell.folder / "registry")
    assert (done.status, done.out, done.err) == (0, "", "")


def test_an_existing_registry_is_refused_before_a_passphrase_is_asked_for(shell):
    folder = shell.folder / "registry"
    for words in ((folder,), (shell.folder / "fresh", "--keys", folder / "keys/offline")):
        done = shell.at_terminal("registry", "init", *words, columns=200)
        assert (done.status, "already" in done.out, "empty for" in done.out) == (2, True, False), done.out
    done = shell.run("registry", "init", folder, "--dry-run", "--json")
    assert (done.status, done.error["where"]) == (2, str(folder))
    assert done.error["hint"] == f"skillhub registry check {folder} checks it"


def test_no_registry_is_made_in_the_folder_of_a_skill(shell):
    shell.skill("project/mine")
    before = shell.files()
    done = shell.run("registry", "init", "./mine", "--json")
    assert (done.status, done.error["message"]) == (2, "expected a folder for a registry, found a skill")
    assert shell.files() == before


@pytest.mark.parametrize("name", ["site", "keys"])
def test_no_registry_is_made_in_a_folder_that_has_files_of_something_else_in_its_places(shell, name):
    shell.write(f"project/{name}/index.html", "mine")
    before = shell.files()
    done = shell.run("registry", "init", ".", "--json")
    assert (done.status, done.error["where"]) == (2, str(shell.project / name))
    assert shell.files() == before


def test_keys_in_a_repository_are_ignored_by_git_before_they_are_written(shell):
    keys = shell.project / "mine/keys"
    killer = Killer(4)
    with pytest.raises(Killed), heard_by(killer.hear):
        shell.run("registry", "init", "mine", "--github-pages")
    assert any(keys.rglob("*.pem"))
    assert (shell.project / "mine/.gitignore").read_text() == "*\n"
    again = shell.run("registry", "init", "mine", "--github-pages", "--json")
    assert again.error["hint"] == "move it away"
    os.remove(again.error["where"])
    assert shell.run("registry", "init", "mine", "--github-pages").status == 0
    assert shell.run("registry", "check", "mine").status == 0


def test_only_the_default_publisher_is_said_to_have_another_choice(shell):
    for words, is_said in ((), True), (("--publisher", "acme"), False):
        done = shell.run("registry", "init", shell.folder / f"of-{len(words)}", *words)
        assert (done.status, "--publisher names another" in done.out) == (0, is_said), done.out


def test_the_keys_of_a_registry_are_encrypted_with_a_passphrase(shell):
    folder = shell.folder / "mine"
    assert shell.run("registry", "init", folder, SKILLHUB_PASSPHRASE="open sesame").status == 0
    keys = [path for path in (folder / "keys").rglob("*") if path.is_file() and "pub" not in path.name]
    assert keys
    assert all(b"ENCRYPTED" in path.read_bytes() for path in keys if b"PRIVATE" in path.read_bytes())
    without = shell.run("registry", "add", folder, shell.folder / "src/greeting", "--json")
    assert (without.status, without.error["code"]) == (2, "passphrase-needed")
    assert (
        shell.run("registry", "add", folder, shell.folder / "src/greeting", SKILLHUB_PASSPHRASE="open sesame").status
        == 0
    )


def test_a_registry_that_cannot_be_served_is_an_error_and_no_bug(offered, served, tmp_path):
    shell = offered.copy(tmp_path / "own")
    port = served.rpartition(":")[2].partition("/")[0]
    error = shell.run("registry", "serve", shell.folder / "registry", "--port", port, "--json").error
    assert (error["code"], error["where"]) == ("state", f"127.0.0.1:{port}")
    shutil.rmtree(shell.folder / "registry/site")
    assert shell.run("registry", "serve", shell.folder / "registry", "--port", "0", "--json").status == 3


def test_a_served_registry_is_checked_by_its_url(shell, served):
    done = shell.run("registry", "check", served)
    assert (done.status, done.out) == (0, f"{served}: no problems found\n")


def test_a_publisher_has_several_keys_and_can_be_limited_to_a_source(shell):
    for name in ("default", "second"):
        assert shell.run("key", "new", name).status == 0
    keys = shell.hub / "state/keys"
    one = shell.run("publisher", "trust", "me", "--key", keys / "default.pub.pem", "--source", "github", "--json")
    assert (one.status, one.json["sources"]) == (0, ["github"])
    two = shell.run("publisher", "trust", "me", "--key", keys / "second.pub.pem", "--source", "github", "--json")
    assert len(two.json["signers"]) == 2
    listed = shell.run("publisher", "list", "--json").json["publishers"]
    assert [each["name"] for each in listed] == ["me"]
    assert {each["kind"] for each in listed[0]["signers"]} == {"key"}
    # Limited to a source, the publisher is not trusted for a local skill.
    shell.skill("project/mine")
    assert shell.run("sign", "mine").status == 0
    assert shell.run("install", "./mine", "--yes").status == 6
    wide = shell.run("publisher", "trust", "me", "--key", keys / "default.pub.pem", "--json")
    assert wide.json["sources"] == []
    assert shell.run("publisher", "remove", "me", "--json").json["name"] == "me"
    assert shell.run("publisher", "list", "--json").json == {"schema": 1, "publishers": []}
    assert shell.run("publisher", "remove", "me").status == 3


def test_invalid_keys_and_names_of_publishers_are_refused(shell):
    shell.write("bad.pem", "no key")
    shell.run("key", "new")
    trust = ("publisher", "trust", "me")
    assert shell.run(*trust).status == 2
    assert shell.run(*trust, "--key", shell.folder / "bad.pem").status == 4
    assert shell.run(*trust, "--key", shell.folder / "nope.pem").status == 3
    assert shell.run(*trust, "--certificate", shell.folder / "bad.pem").status == 4
    private = shell.run(*trust, "--key", shell.hub / "state/keys/default.pem")
    assert private.status == 4
    assert "PRIVATE KEY-----" not in private.out + private.err
    good = shell.hub / "state/keys/default.pub.pem"
    assert shell.run(*trust, "--key", good, "--source", "nope").status == 3
    assert shell.run("publisher", "trust", "No Name", "--key", good).status == 2
    assert shell.run("publisher", "list", "--json").json == {"schema": 1, "publishers": []}


@pytest.mark.parametrize("option", ["--key", "--certificate", "--revoke"])
def test_the_refusal_of_a_delegated_key_names_its_file(shell, option):
    bad = shell.write("bad.pem", "no key")
    done = shell.run("registry", "delegate", shell.folder / "registry", "partner", option, bad, "--json")
    assert (done.status, done.error["where"]) == (4, str(bad))


def test_serve_prints_its_url_and_writes_nothing(offered, served):
    before = offered.files()
    process, url = offered.serve(offered.folder / "registry")
    assert url.startswith("http://127.0.0.1:")
    assert url != served
    process.terminate()
    process.communicate()
    assert offered.files() == before


def test_serve_says_that_there_are_no_pages(shell):
    assert shell.run("registry", "init", "new").status == 0
    for is_said in (True, False):
        process, _ = shell.serve(shell.project / "new")
        process.terminate()
        assert ("no pages; to write them: skillhub registry build " in process.communicate()[1].decode()) == is_said
        shell.write("project/new/site/index.html", "")


def test_the_hint_for_an_unsigned_skill_of_another_publisher_is_to_sign_it(shell):
    key = shell.run("key", "new", "partner", "--json").json["public_path"]
    registry = shell.folder / "registry"
    admitted = shell.run("registry", "delegate", registry, "partner", "--key", key, "--name", "theirs")
    assert admitted.status == 0, admitted.err
    path = shell.skill("src/theirs", head='metadata:\n  version: "1.0.0"\n')
    before = written(shell)
    done = shell.run("registry", "add", registry, path, "--json")
    assert (done.status, done.error["code"]) == (6, "refused")
    assert done.error["message"].startswith("unsigned; partner")
    hint = shlex.split(done.error["hint"])
    assert (hint, written(shell)) == (["skillhub", "sign", str(path), "--key", "partner"], before)
    assert shell.run(*hint[1:]).status == 0
    assert "signed by partner" in shell.run("registry", "add", registry, path).out


def test_a_check_of_a_url_sends_the_token_of_its_host_and_reads_its_mirror(shell, offered):
    class Guarded(SiteHandler):
        def serve(self, with_body):
            if self.headers["Authorization"] == "Bearer sesame":
                super().serve(with_body)
            else:
                self.send_error(401)

    with serving(site_server(str(offered.folder / "registry/site"), handler=Guarded)) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        assert shell.run("registry", "check", url).status == 3
        config = f'[tokens]\n"127.0.0.1" = {{ env = "TOKEN" }}\n[mirrors]\n"https://skills.example" = "{url}"\n'
        shell.write("hub/config/config.toml", config)
        for place in (url, "https://skills.example"):
            done = shell.run("registry", "check", place, TOKEN="sesame")
            assert (done.status, done.out) == (0, f"{place}: no problems found\n"), done.err


def test_a_check_of_a_url_needs_the_network(shell, served):
    assert shell.run("registry", "check", served, "--json").json["ok"] is True
    done = shell.run("registry", "check", served, "--offline", "--json")
    assert (done.status, done.error["code"], done.error["where"]) == (3, "source", served)


def test_a_frozen_dry_run_without_the_source_fails(shell, served, fingerprint):
    assert shell.run("source", "add", "acme", served, "--fingerprint", fingerprint).status == 0
    assert shell.run("install", "acme:greeting", "--yes").status == 0
    frozen, other = ("install", "--frozen", "--dry-run"), {"SKILLHUB_HOME": str(shell.folder / "other")}
    done = shell.run(*frozen, "--json", **other)
    assert (done.status, done.error["code"]) == (3, "source")
    assert "nothing was checked" in done.error["message"]
    assert shell.run("source", "add", "acme", served, "--fingerprint", fingerprint, **other).status == 0
    assert shell.run(*frozen, **other).status == 0
    assert shell.run(*frozen, "--offline", **other).status == 3
