"""Skills signed with a bare key: the user's own key is named; a stranger's key proves nothing."""

from __future__ import annotations

import json
import shutil

import pytest

from skillhub.disk.folders import remove_tree
from tests.cli.test_questions import ASK
from tests.support.gitrepos import Repo
from tests.support.site import JSON, WELL_KNOWN, current, entry
from tests.support.web import Web, answer


@pytest.fixture
def signed(shell):
    """Sign a skill with the user's own key; return its fingerprint."""
    shell.skill("project/mine")
    shell.write("home/.gitconfig", "[user]\n\temail = ben@example.org\n\tname = Bén  Example\n")
    assert shell.run("key", "new").status == 0
    return shell.run("sign", "mine", "--json").json["fingerprint"]


def signature(shell, **environ):
    [found] = shell.run("validate", "mine", "--json", **environ).json["skills"]
    return found["signature"], " ".join(each["message"] for each in found["warnings"])


def question(done):
    [found] = [each for each in done.json["questions"] if each["kind"] == "publisher"]
    return found


def stranger(shell):
    return {"SKILLHUB_HOME": str(shell.folder / "other")}


def test_a_key_has_the_same_fingerprint_in_validate_and_key_list(shell, signed):
    found, warning = signature(shell)
    assert found == {"status": "untrusted", "identity": "ben-example", "fingerprint": signed, "code": None}
    assert "ben-example, a key of yours that you do not trust yet" in warning
    [listed] = shell.run("key", "list", "--json").json["keys"]
    assert listed["fingerprint"] == signed


def test_a_claimed_unknown_key_has_no_fingerprint(shell, signed):
    found, warning = signature(shell, **stranger(shell))
    assert found == {"status": "untrusted", "identity": None, "fingerprint": None, "code": None}
    assert "which claims the key in a PEM file of sha256:" in warning


@pytest.mark.parametrize(("key", "name"), [("default", "ben-example"), ("work", "work")])
def test_a_yes_pins_the_users_own_key(shell, signed, key, name):
    if key != "default":
        assert shell.run("key", "new", key).status == 0
        signed = shell.run("sign", "mine", "--key", key, "--json").json["fingerprint"]
    asked = question(shell.run("install", "./mine", "--yes", "--json"))
    assert (asked["answer"], asked["details"][0]) == ("unanswered", f"key {signed}")
    assert f"signed by {name}, a key of yours" in asked["message"]
    assert shell.at_terminal("install", "./mine", say=[(ASK, "y\n")] * 2).status == 0
    assert shell.lock()["skills"]["mine"]["signed_by"] == [f"key:{signed}:{name}"]
    assert shell.run("verify").status == 0
    remove_tree(str(shell.hub / "data"))
    assert shell.run("sync").status == 0
    assert shell.run("verify").status == 0
    again = shell.run("install", "--yes", "--json")
    assert (again.status, again.json["questions"]) == (0, [])


@pytest.mark.parametrize(
    ("config", "login", "name"),
    [
        ('[user]\n\tname = "Zoë Müller-Lüdenscheidt  Jr."\n', "zoe", "zoe-muller-ludenscheidt-jr"),
        ("[alias]\nname = evil\n[user]\nemail = q\n[core]\nname = no\n", "ben", "ben"),
        ("[user]\nname = 山田\n", "yamada.t", "yamada-t"),
        ("[user]\nname =\n", "山田", "me"),
        (f"[User]\n  Name={'x' * 80}\n", "ben", "x" * 64),
        ("[user]\nname = \x1b[2J$(id)\n", "ben", "2j-id"),
        ("[user]\nname = Taken\n", "ben", "ben"),
        (None, "DOMAIN\\Ben", "domain-ben"),
        ("x" * 70_000, "ben", "ben"),
    ],
)
def test_the_suggested_name_comes_from_the_users_git_config_or_login(shell, signed, config, login, name):
    if config is None:
        (shell.home / ".gitconfig").unlink()
    else:
        shell.write("home/.gitconfig", config)
    shell.run("key", "new", **stranger(shell))
    theirs = shell.folder / "other/state/keys/default.pub.pem"
    assert shell.run("publisher", "trust", "taken", "--key", theirs).status == 0
    assert signature(shell, LOGNAME=login)[0]["identity"] == name


def test_attack_the_git_config_of_a_repository_suggests_no_name(shell, signed):
    shell.write("project/.git/config", "[user]\n\tname = Mallory\n")
    assert signature(shell)[0]["identity"] == "ben-example"


def test_every_command_shows_the_same_fingerprint_of_a_key(shell, signed):
    pem = shell.run("key", "list", "--json").json["keys"][0]["public_path"]
    outputs = [shell.run("key", "list").out, shell.run("sign", "mine").out, shell.run("show", "./mine").out]
    outputs.append(shell.at_terminal("install", "./mine", say=[(ASK, "n\n")], columns=200).out)
    outputs.append(shell.run("publisher", "trust", "ben-example", "--key", pem).out)
    outputs.append(shell.run("publisher", "list").out)
    assert shell.run("install", "./mine", "--yes").status == 0
    outputs.append(shell.run("show", "mine").out)
    assert all(signed in each for each in outputs), outputs
    assert "signed by     an unknown key" in shell.run("show", "./mine", **stranger(shell)).out


@pytest.mark.parametrize(("given", "proposed"), [("ben-example", "ben-example"), ("-x; rm", "publisher")])
def test_the_hint_for_an_unknown_key_of_a_locked_skill_works(shell, signed, given, proposed):
    pem = shell.run("key", "list", "--json").json["keys"][0]["public_path"]
    assert shell.run("publisher", "trust", "ben-example", "--key", pem).status == 0
    assert shell.run("install", "./mine", "--yes").status == 0
    lock = shell.project / "skillhub.lock"
    lock.write_text(lock.read_text().replace(":ben-example", f":{given}"))
    error = shell.run("sync", "--json", **stranger(shell)).error
    assert error["code"] == "signer-changed"
    file = f"{proposed}.pub.pem"
    assert f"as {file}, and then: skillhub publisher trust {proposed} --key {file}" in error["hint"]
    shutil.copy(pem, shell.project / file)
    words = error["hint"].rpartition(": ")[2].split()[1:]
    assert shell.run(*words, **stranger(shell)).status == 0
    assert shell.run("sync", "--json", **stranger(shell)).status == 0


def test_a_strangers_key_is_not_pinned_and_reported_as_unproven(shell, signed):
    done = shell.run("install", "./mine", "--yes", "--json", **stranger(shell))
    asked = question(done)
    assert "install it as if unsigned?" in asked["message"]
    assert asked["details"][0].startswith("the signature claims the key in a PEM file of sha256:")
    assert "sha256sum" in asked["details"][1]
    assert "nothing is proven" in " ".join(asked["details"])
    assert signed not in " ".join(asked["details"])
    assert shell.at_terminal("install", "./mine", say=[(ASK, "y\n")] * 2, **stranger(shell)).status == 0
    assert "signed_by" not in shell.lock()["skills"]["mine"]


def test_attack_no_flag_accepts_an_unknown_signature_from_any_source(shell, signed):
    held = {each.name: each.read_bytes() for each in (shell.project / "mine").iterdir()}
    repo = Repo(shell.folder / "repo.git")
    repo.commit({f"skills/mine/{name}": data for name, data in held.items()})
    assert shell.run("pack", "mine").status == 0
    [archive] = shell.project.glob("mine*.zip")
    shell.run("source", "add", "theirs", f"git+{repo.url}", "--yes", **stranger(shell))
    every = ("--yes", "--allow-unsigned", "--accept", "findings", "--accept", "mcp", "--accept", "needs")
    for ref in ("./mine", f"./{archive.name}", f"git+{repo.url}#skills/mine", f"git+{repo.url}", "theirs:mine"):
        done = shell.run("install", ref, *every, "--json", **stranger(shell))
        assert (done.status, done.error["code"], question(done)["answer"]) == (6, "refused", "unanswered"), ref
        assert "skillhub publisher trust NAME --key FILE" in done.error["hint"]
        assert not (shell.project / "skillhub.lock").exists()
    key = shell.run("key", "list", "--json").json["keys"][0]["public_path"]
    assert shell.run("publisher", "trust", "them", "--key", key, "--yes", **stranger(shell)).status == 0
    assert shell.run("install", "theirs:mine", "--yes", **stranger(shell)).status == 0
    assert shell.lock()["skills"]["mine"]["signed_by"] == [f"key:{signed}:them"]


def test_attack_a_forged_signature_that_names_the_users_key_is_invalid(shell, signed):
    mine = json.loads((shell.project / "mine/skill.oms.sig").read_bytes())
    shell.run("key", "new", **stranger(shell))
    shell.run("sign", "mine", **stranger(shell))
    forged = json.loads((shell.project / "mine/skill.oms.sig").read_bytes())
    assert forged["verificationMaterial"] != mine["verificationMaterial"]
    forged["verificationMaterial"] = mine["verificationMaterial"]
    shell.write("project/mine/skill.oms.sig", json.dumps(forged))
    found, _ = signature(shell)
    assert (found["status"], found["code"]) == ("invalid", "wrong-signature")
    done = shell.run("install", "./mine", "--yes", "--allow-unsigned", "--json")
    assert (done.status, done.error["code"]) == (5, "bad-signature")
    assert not (shell.project / "skillhub.lock").exists()


def limited(shell, alias):
    """Trust the signer for this source alone, on a machine that does not have the key itself."""
    (shell.hub / "state/keys").rename(shell.folder / "keys")
    key = shell.folder / "keys/default.pub.pem"
    return shell.run("publisher", "trust", "ben", "--key", key, "--source", alias, "--json")


def test_trust_is_limited_to_a_repository_by_its_alias(shell, signed, tmp_path):
    repo = Repo(tmp_path / "repo")
    repo.commit({path.name: path.read_bytes() for path in (shell.project / "mine").iterdir()})
    for alias, ref in (("team", f"git+file://{repo.path}"), ("other", f"git+file://{repo.path}@main")):
        assert shell.run("source", "add", alias, ref, "--yes").status == 0
    assert limited(shell, "team").status == 0
    assert shell.run("install", "other:mine", "--yes").status == 6
    assert shell.run("install", "./mine", "--yes").status == 6
    done = shell.run("install", "team:mine", "--yes", "--json")
    assert (done.status, done.json["skills"][0]["trust"]) == (0, "signed")
    assert shell.run("audit").status == 0


def test_trust_cannot_be_limited_to_a_folder(shell, signed):
    assert shell.run("source", "add", "mine", shell.project, "--yes").status == 0
    done = limited(shell, "mine")
    assert (done.status, done.error["message"]) == (2, "mine is a folder, and trust cannot be limited to one")
    assert shell.run("publisher", "list", "--json").json["publishers"] == []


def test_attack_a_site_of_a_project_with_the_users_alias_gets_no_trust_limited_to_it(shell, signed):
    assert shell.run("pack", "mine").status == 0
    (archive,) = shell.project.glob("mine*.zip")
    with Web() as ours, Web() as theirs:
        for web in (ours, theirs):
            web.at("/mine.zip", answer(archive.read_bytes(), "Content-Type: application/zip"))
            offered = entry("mine", archive.read_bytes(), "/mine.zip")
            web.at(WELL_KNOWN, answer(current(offered), JSON))
        assert shell.run("source", "add", "docs", ours.url(""), "--yes").status == 0
        assert limited(shell, "docs").status == 0
        assert shell.run("install", "docs:mine", "--yes").status == 0
        lock = (shell.project / "skillhub.lock").read_text()
        for words in (["remove", "mine"], ["source", "remove", "docs"]):
            assert shell.run(*words).status == 0
        (shell.project / "skillhub.toml").unlink()
        shell.write("project/skillhub.lock", lock.replace(ours.url(""), theirs.url("")))
        shell.write("hub/config/config.toml", f'trusted-hosts = ["127.0.0.1:{theirs.port}"]\n')
        done = shell.run("install", "--yes", "--json")
        assert (done.status, done.error["code"]) == (5, "signer-changed")
        shell.write("project/skillhub.lock", lock)
        shell.write("hub/config/config.toml", f'trusted-hosts = ["127.0.0.1:{ours.port}"]\n')
        assert shell.run("source", "add", "docs", ours.url(""), "--yes").status == 0
        assert shell.run("install", "--yes").status == 0
