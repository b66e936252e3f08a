"""Advisories on the command line: an operator publishes them; list, doctor and audit show them."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from tests.model.test_advisory import osv, package, semver
from tests.support.gitrepos import files
from tests.support.here import Here
from tests.support.http_api import api
from tests.support.served import online
from tests.support.site import JSON, WELL_KNOWN, current, entry, skill_md, zipped
from tests.support.web import answer

REASON = "sends tokens away"


@pytest.fixture
def own(offered, tmp_path):
    """A machine whose user operates a registry and has its skill installed."""
    shell = offered.copy(tmp_path / "own")
    root = shell.folder / "registry/site/metadata/1.root.json"
    with online(shell.folder / "registry/site") as url:
        assert shell.run("source", "add", "acme", url, "--root", root).status == 0
        assert shell.run("install", "acme:greeting", "--yes").status == 0
        yield shell


def advise(shell, *words, status=0):
    done = shell.run("registry", "advise", shell.folder / "registry", *words, "--json")
    assert done.status == status, done.err
    return done.json


def test_a_published_advisory_reaches_list_doctor_audit_and_sync(own):
    tree = own.lock()["skills"]["greeting"]["tree"]
    assert own.run("list", "--json").json["known_bad"] == []
    published = advise(own, "--digest", tree, "--reason", REASON)
    assert published == {"schema": 1, "advisories": [], "digests": [tree]}
    folder = own.folder / "registry"
    done = own.run("registry", "advise", folder, "--digest", tree, "--reason", REASON)
    push = f"skillhub registry push {folder} TARGET"
    assert done.out == f"the registry has advisories: 0, digests: 1; to publish that: {push}\n"
    done = own.run("audit", "--json")
    finding = done.json["findings"][0]
    assert (done.status, finding["rule"], finding["severity"]) == (1, "known-bad", "critical")
    assert REASON in finding["message"]
    (row,) = own.run("list", "--json").json["known_bad"]
    assert (row["skill"], row["id"], row["severity"]) == ("greeting", f"sha256-{tree[7:19]}", "critical")
    assert f"{REASON}; skillhub remove greeting" in own.run("list").out
    assert "problem  advisory on greeting: " in own.run("doctor").out
    for words in (["sync"], ["install"], ["install", "--frozen"], ["enable", "greeting"]):
        done = own.run(*words, "--yes", "--json")
        assert (done.status, done.error["code"]) == (5, "known-bad")
    assert own.run("registry", "check", own.folder / "registry").status == 0
    assert advise(own, "--withdraw", tree)["digests"] == []
    assert own.run("audit").status == 0
    assert own.run("sync").status == 0


def test_attack_damaged_advisories_stop_installs_until_audit_fetches_them(own):
    advise(own, "--digest", own.lock()["skills"]["greeting"]["tree"])
    assert own.run("audit").status == 1
    (path,) = own.folder.rglob("tuf/*/targets/idx%2F_advisories.json")
    path.write_bytes(b"")
    for words in (["sync"], ["install"], ["install", "--offline", "--frozen"], ["load", "greeting"]):
        done = own.run(*words, "--json")
        assert (done.status, done.error["code"]) == (4, "format")
        assert done.error["hint"] == "skillhub audit fetches it again"
    assert "_advisories.json" in own.run("list").err
    assert own.run("audit").status == 1
    assert own.run("sync", "--json").error["code"] == "known-bad"


def test_attack_no_flag_installs_a_known_bad_skill(own):
    tree = own.lock()["skills"]["greeting"]["tree"]
    assert own.run("remove", "greeting").status == 0
    advise(own, "--digest", tree)
    flags = [
        "--yes",
        "--allow-unsigned",
        "--accept",
        "findings",
        "--accept",
        "mcp",
        "--accept",
        "needs",
        "--no-enable",
    ]
    for words in (["acme:greeting"], ["acme:greeting", "--dry-run"]):
        done = own.run("install", *words, *flags, "--json")
        assert (done.status, done.error["code"]) == (5, "known-bad")
    assert not (own.project / ".agents/skills/greeting").exists()


def test_a_file_of_osv_names_severity_and_fix_in_every_format(own):
    events = semver(("introduced", "0"), ("fixed", "1.0.1"))
    own.write("osv.json", json.dumps(osv([package(name="greeting", **events)])))
    assert advise(own, own.folder / "osv.json")["advisories"] == ["TEST-2026-1"]
    done = own.run("audit")
    text = "TEST-2026-1 (high, by its version): sends tokens away; fixed in 1.0.1 [advisory]"
    assert (done.status, text in done.out, "take version 1.0.1 or a later one" in done.out) == (1, True, True)
    result = own.run("audit", "--format", "sarif").json["runs"][0]["results"][0]
    assert (result["ruleId"], result["properties"]["severity"]) == ("advisory", "high")
    assert "| high | advisory | greeting |" in own.run("audit", "--format", "markdown").out
    assert own.run("sync").status == 0


def test_the_audit_names_an_invalid_event_of_an_advisory(own):
    events = semver(("introduced", "0"), ("fixed", "1.2"))
    own.write("hub/config/bad.json", json.dumps(osv([package(name="greeting", **events)])))
    own.write("hub/config/config.toml", 'advisories = ["bad.json"]\n')
    done = own.run("audit", "--json")
    assert "advisory" in {each["rule"] for each in done.json["findings"]}
    text = "TEST-2026-1: affected[0].ranges[0].events[1]: fixed: expected a version such as 1.2.0, found '1.2'"
    assert [each for each in done.json["notes"] if text in each]


def test_advisories_in_the_config_apply_offline_too(own):
    tree = own.lock()["skills"]["greeting"]["tree"]
    own.write("hub/config/config.toml", 'advisories = ["bad.txt"]\n')
    done = own.run("audit", "--json")
    assert (done.status, done.json["findings"][0]["rule"]) == (1, "source-unreachable")
    hint = "create the file, or remove its line from advisories in config.toml"
    assert done.json["findings"][0]["hint"] == own.run("sync", "--json").error["hint"] == hint
    assert own.run("sync", "--json").error["code"] == "not-found"
    assert own.run("list").status == 0
    own.write("hub/config/bad.txt", f"{tree} {REASON}\n")
    assert own.run("sync", "--offline", "--json").error["code"] == "known-bad"
    assert own.run("audit", "--offline").status == 1


@pytest.mark.parametrize(
    "place",
    ["http://mirror.example/a", "https://user:hunter22@mirror.example/a", "ftp://mirror.example/a", "", "a\u202eb"],
)
def test_attack_an_advisory_url_without_authenticated_host_is_refused(shell, place):
    shell.write("hub/config/config.toml", f"advisories = [{json.dumps(place)}]\n")
    shell.skill("project/src")
    done = shell.run("install", "./src", "--yes", "--allow-unsigned", "--json")
    assert (done.status, done.error["code"]) == (4, "format")
    assert "hunter22" not in done.out


def test_a_fetched_advisory_list_is_kept_for_offline_use(own):
    own.write("registry/site/bad.json", json.dumps({"digests": {own.lock()["skills"]["greeting"]["tree"]: REASON}}))
    url = own.run("source", "show", "acme", "--json").json["url"]
    own.write("hub/config/config.toml", f'advisories = ["{url}/bad.json"]\n')
    done = own.run("install", "--offline", "--json")
    assert (done.status, "offline" in done.error["message"]) == (3, True)
    assert own.run("audit").status == 1
    assert own.run("install", "--offline", "--json").error["code"] == "known-bad"
    assert REASON in own.run("list").out


@pytest.mark.parametrize("words", [[], ["--digest", "md5:0"], ["--digest", ""], ["/nowhere.json"]])
def test_an_invalid_advisory_is_not_published(offered, words):
    done = offered.run("registry", "advise", offered.folder / "registry", *words, "--json")
    assert done.status == (3 if words == ["/nowhere.json"] else 2)


def test_attack_a_known_bad_skill_cannot_be_used_patched_enabled_or_adopted(own):
    tree = own.lock()["skills"]["greeting"]["tree"]
    advise(own, "--digest", tree)
    done = own.run("use", "acme:greeting", "--json")
    assert (done.status, done.error["code"]) == (5, "known-bad")
    assert own.run("show", "acme:greeting", "--files").status == 0  # reading is harmless
    assert own.run("audit").status == 1
    path = own.project / ".agents/skills/greeting/SKILL.md"
    path.write_text(path.read_text() + "More.\n")
    for words in (["patch", "greeting", "--yes"], ["enable", "greeting", "--yes"]):
        done = own.run(*words, "--json")
        assert (done.status, done.error["code"]) == (5, "known-bad"), words
    assert own.run("remove", "greeting", "--yes").status == 0
    own.skill("project/.agents/skills/loose")
    own.write("hub/config/config.toml", 'advisories = ["bad.txt"]\n')
    listing = sha256((own.project / ".agents/skills/loose/SKILL.md").read_bytes()).hexdigest()
    own.write("hub/config/bad.txt", f"{listing}  loose\n")
    done = own.run("adopt", "--yes", "--allow-unsigned", "--json")
    assert "loose" not in (json.loads((own.project / "skillhub.lock").read_bytes())["skills"])


def served_answers(shell):
    """Return the skill's row in an agent's catalogue, and the answer of load, which the HTTP server gives as well."""
    row = next(each for each in shell.run("catalog", "--json").json["skills"] if each["name"] == "greeting")
    return row, shell.run("load", "greeting", "--json")


def test_attack_an_installed_skill_that_became_known_bad_is_not_served(own):
    assert served_answers(own)[0]["enabled"] and served_answers(own)[1].status == 0
    tree = own.lock()["skills"]["greeting"]["tree"]
    file = "sha256:" + sha256((own.project / ".agents/skills/greeting/SKILL.md").read_bytes()).hexdigest()
    bad = own.folder / "bad.txt"
    config = own.hub / "config/config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text(f'advisories = ["{bad}"]\n')
    named = json.dumps(osv([package(name="greeting")], id="MAL-1"))
    for text in (f"{tree} {REASON}\n", f"{file[7:]} {REASON}\n", named):
        bad.write_text(text)
        row, done = served_answers(own)
        assert not row["enabled"] and row["why"] == "known-bad"
        assert (done.status, done.error["code"]) == (5, "known-bad")
        assert "skillhub remove greeting" in done.error["hint"]
    bad.write_text("")
    assert served_answers(own)[1].status == 0
    for text in ("{", "sha256:1 x"):  # an unreadable list
        bad.write_text(text)
        assert served_answers(own)[1].status == 4
    bad.unlink()
    assert served_answers(own)[1].status == 3
    config.unlink()
    assert served_answers(own)[1].status == 0
    advise(own, "--digest", tree, "--reason", REASON)
    assert served_answers(own)[1].status == 0  # load reads no source, so the new advisory is not known yet
    assert own.run("audit").status == 1
    row, done = served_answers(own)
    assert (row["why"], done.error["code"]) == ("known-bad", "known-bad")
    assert REASON in done.error["message"]
    assert own.run("remove", "greeting", "--yes").status == 0


def test_an_update_names_the_known_bad_skill_its_fix_and_its_removal(own):
    tree = own.lock()["skills"]["greeting"]["tree"]
    own.write("osv.json", json.dumps(osv([package(name="greeting", **semver(("introduced", "0")))], id="MAL-7")))
    advise(own, own.folder / "osv.json")
    for words in (["update"], ["update", "greeting"], ["update", "--check"], ["update", "--dry-run"]):
        done = own.run(*words)
        assert done.status == ("--dry-run" not in words), (words, done.err)
        assert "greeting 1.0.0 is known to be bad: MAL-7" in done.err
        assert "skillhub remove greeting removes it" in done.err
        assert "up to date" not in done.err + done.out
        assert "everything" not in done.err + done.out
    advise(own, "--digest", tree, "--reason", REASON)
    assert own.run("update", "--json").status == 1
    assert own.run("remove", "greeting", "--yes").status == 0
    assert own.run("update").status == 0


def test_list_show_and_http_report_the_same_known_bad_skills(own, monkeypatch):
    def rows():
        listed = own.run("list", "--json").json["skills"]
        return listed[0], api(own, monkeypatch).get("/api/v1/skills").json()["skills"][0]

    assert "known_bad" not in rows()[0]
    tree = own.lock()["skills"]["greeting"]["tree"]
    own.write("hub/config/config.toml", 'advisories = ["bad.txt"]\n')
    own.write("hub/config/bad.txt", f"{tree} {REASON}\n")
    path = own.project / ".agents/skills/greeting/SKILL.md"
    path.write_text(path.read_text() + "More.\n")
    listed, served_row = rows()
    assert listed == served_row
    assert REASON in listed["known_bad"] and listed["edited"]
    assert " known bad " in own.run("list").out
    assert "enabled, known bad, edited" in own.run("show", "greeting").out
    assert own.run("remove", "greeting", "--yes").status == 0
    assert own.run("install", "acme:greeting", "--global", "--yes").status == 5


def withdrawn(shell):
    done = shell.run("registry", "withdraw", shell.folder / "registry", "greeting@1.0.0", "--reason", "it lies")
    assert done.status == 0, done.err


def test_a_source_does_not_show_a_skill_of_withdrawn_releases_as_offered(own):
    assert [each["name"] for each in own.run("source", "show", "acme", "--json").json["skills"]] == ["greeting"]
    withdrawn(own)
    assert own.run("source", "show", "acme", "--json").json["skills"] == []


@pytest.mark.parametrize("hear", [["audit"], ["update"], ["show", "greeting"]])
def test_attack_an_installed_release_that_became_withdrawn_is_not_served(own, hear, monkeypatch):
    withdrawn(own)
    assert served_answers(own)[1].status == 0  # load reads no source, so the withdrawal is not known yet
    own.run(*hear)
    row, done = served_answers(own)
    assert not row["enabled"] and row["why"] == "withdrawn"
    assert (done.status, done.error["code"]) == (5, "withdrawn")
    assert "it lies" in done.error["message"]
    assert done.error["hint"] == "to resolve it: skillhub remove greeting"
    resolved = " ".join(own.run("resolve", "$greeting now").out.split())
    assert (
        "'greeting' must not be used, since greeting 1.0.0 was withdrawn by its registry: it lies; "
        "its registry has no other version yet; to resolve it: skillhub remove greeting" in resolved
    )
    assert "it lies" in own.run("catalog").err
    assert own.run("use", "greeting", "--json").error["code"] == "withdrawn"
    client = api(own, monkeypatch)
    assert client.get("/api/v1/skills").json()["skills"][0]["withdrawn"] == "it lies"
    asked = {"jsonrpc": "2.0", "id": 1, "method": "skills.load", "params": {"name": "greeting"}}
    answer = client.post("/rpc", json=asked).json()
    assert "it lies" in answer["error"]["message"] and "result" not in answer
    lock, other = own.lock(), "sha256:" + "0" * 64
    for key, value in (("digest", other), ("root", other)):  # a lock is as easy to change
        skill, source = lock["skills"]["greeting"], lock["sources"]["acme"]
        skills = {"greeting": skill | ({key: value} if key in skill else {})}
        sources = {"acme": source | ({key: value} if key in source else {})}
        own.write("project/skillhub.lock", json.dumps({"skills": skills, "sources": sources, "version": 1}))
        assert served_answers(own)[0]["why"] == "withdrawn", key
    own.write("project/skillhub.lock", json.dumps(lock))
    # Neither disabling nor editing hides the reason; a removed skill is gone.
    assert own.run("disable", "greeting", "--yes").status == 0
    assert served_answers(own)[0]["why"] == "withdrawn"
    assert own.run("remove", "greeting", "--yes").status == 0
    assert own.run("load", "greeting", "--json").status == 3


def changed_entry(shell, name, **facts):
    """Change facts of a locked skill, as a pull request can."""
    lock = shell.lock()
    lock["skills"][name] |= facts
    shell.write("project/skillhub.lock", json.dumps(lock))


def test_attack_a_lock_with_the_digest_of_another_release_hides_no_withdrawal(own):
    newer = own.skill("newer/greeting", head='metadata:\n  version: "2.0.0"\n')
    assert own.run("registry", "add", own.folder / "registry", newer).status == 0
    withdrawn(own)
    assert own.run("audit").status == 1
    (archive,) = own.folder.glob("registry/site/archives/greeting/2.0.0/*.zip")
    changed_entry(own, "greeting", digest=f"sha256:{archive.stem}")
    assert served_answers(own)[0]["why"] == "withdrawn"
    for words in (["load", "greeting"], ["sync"], ["install"], ["install", "--frozen"], ["enable", "greeting"]):
        assert own.run(*words, "--json").error["code"] == "withdrawn", words
    (row,) = own.run("list", "--json").json["skills"]
    assert row["withdrawn"] == "it lies"
    assert {"withdrawn"} < {each["code"] for each in own.run("verify", "--json").json["skills"][0]["problems"]}


@pytest.mark.parametrize("by", ["URL", "artifact"])
def test_attack_a_lock_with_another_url_or_digest_hides_no_advisory_on_these(own, by):
    lock = own.lock()
    url, digest = lock["sources"]["acme"]["url"], lock["skills"]["greeting"]["digest"]
    bad = json.dumps(osv([package(f"AgentSkills:{url}", "greeting")], id="MAL-1")) if by == "URL" else f"{digest} bad"
    own.write("hub/config/bad.json", bad)
    own.write("hub/config/config.toml", 'advisories = ["bad.json"]\n')
    assert own.run("load", "greeting", "--json").error["code"] == "known-bad"
    old, new = f'"url": "{url}"', '"url": "https://x.example"'
    if by == "artifact":
        old, new = digest, "sha256:" + "1" * 64
    own.write("project/skillhub.lock", (own.project / "skillhub.lock").read_text().replace(old, new))
    assert own.run("load", "greeting", "--json").error["code"] == "known-bad"
    assert own.run("sync", "--json").error["code"] == "known-bad"
    assert [each["skill"] for each in own.run("list", "--json").json["known_bad"]] == ["greeting"]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("code", ["withdrawn", "withdrawn by a former source", "known-bad"])
def test_attack_a_lock_without_a_skill_hides_no_withdrawal_and_no_advisory(own, whole, code):
    if code != "known-bad":
        withdrawn(own)
    else:
        advise(own, "--digest", own.lock()["skills"]["greeting"]["tree"], "--reason", REASON)
    assert own.run("audit").status == 1
    if code.endswith("source"):
        assert own.run("source", "remove", "acme").status == 0
    path, lock = own.project / "skillhub.lock", own.lock()
    path.unlink()
    if not whole:
        own.write("project/skillhub.lock", json.dumps({**lock, "skills": {}}))
    done = own.run("load", "greeting", "--json")
    assert (done.status, done.error["code"]) == (5, code.partition(" ")[0])
    assert done.error["hint"] == "to resolve it: skillhub remove greeting"
    assert "skillhub remove greeting" in own.run("catalog").err
    (row,) = own.run("list", "--json").json["skills"]
    if code == "known-bad":
        assert REASON in row["known_bad"]
        assert [each["skill"] for each in own.run("list", "--json").json["known_bad"]] == ["greeting"]
        assert "problem  advisory on greeting: " in own.run("doctor").out
    else:
        assert row["withdrawn"] == "it lies"
    shown = own.run("list").out
    assert ("skillhub remove greeting" in shown, "None" in shown) == (True, False)
    assert own.run("remove", "greeting", "--yes").status == 0
    assert own.run("load", "greeting", "--json").status == 3


def adopting(own):
    """Return another user, who has the skill from the registry that only their project brings."""
    user, source = Here(own.folder / "user"), own.lock()["sources"]["acme"]
    url, root = source["url"], source["root"]
    user.write("project/skillhub.toml", f'[sources.acme]\nurl = "{url}"\nroot = "{root}"\n')
    user.write("hub/config/config.toml", f'trusted-hosts = ["{url.partition("://")[2]}"]\n')
    assert user.run("install", "acme:greeting", "--yes", "--trust-source", f"acme={root}").status == 0
    return user


def test_an_advisory_of_a_registry_that_a_project_brings_holds_back_its_skills(own):
    user, tree = adopting(own), own.lock()["skills"]["greeting"]["tree"]
    advise(own, "--digest", tree, "--reason", REASON)
    assert user.run("load", "greeting").status == 0  # not heard yet
    assert user.run("audit").status == 1
    for words in (["load", "greeting"], ["sync"]):
        assert user.run(*words, "--json").error["code"] == "known-bad"


@pytest.mark.parametrize("is_adopted", [False, True])
def test_attack_a_lock_with_another_root_hides_no_withdrawal_by_a_source_that_is_gone(own, is_adopted):
    root, user = own.lock()["sources"]["acme"]["root"], adopting(own) if is_adopted else own
    withdrawn(own)
    assert user.run("audit").status == 1
    if not is_adopted:
        assert user.run("source", "remove", "acme").status == 0
    assert " withdrawn " in user.run("list").out and "greeting 1.0.0 was withdrawn: it lies" in user.run("list").out
    for path in ("skillhub.lock", "skillhub.toml"):
        text = (user.project / path).read_text()
        user.write(f"project/{path}", text.replace(root, "sha256:" + "1" * 64))
    assert user.run("load", "greeting", "--json").error["code"] == "withdrawn"
    assert user.run("list", "--json").json["skills"][0]["withdrawn"] == "it lies"


@pytest.mark.parametrize("affected", [{"versions": ["1.0.0"]}, semver(("introduced", "0"), ("fixed", "2.0.0"))])
def test_attack_a_lock_with_another_version_hides_no_advisory(own, affected):
    note = own.skill("project/note", head='metadata:\n  version: "1.0.0"\n')
    assert own.run("install", note, "--yes", "--allow-unsigned").status == 0
    named = [osv([package(name=name, **affected)], id=f"MAL-{name}") for name in ("greeting", "note")]
    own.write("hub/config/bad.json", json.dumps(named))
    own.write("hub/config/config.toml", 'advisories = ["bad.json"]\n')
    for name in ("greeting", "note"):
        assert own.run("load", name, "--json").error["code"] == "known-bad"
        changed_entry(own, name, version="9.0.0")
        assert own.run("load", name, "--json").error["code"] == "known-bad"
    assert {each["skill"] for each in own.run("list", "--json").json["known_bad"]} == {"greeting", "note"}
    assert own.run("sync", "--json").error["code"] == "known-bad"


def test_attack_a_lock_with_another_version_of_a_stored_unsigned_skill_is_refused(own):
    note = own.skill("project/note", head='metadata:\n  version: "1.0.0"\n')
    assert own.run("install", note, "--yes", "--allow-unsigned").status == 0
    assert own.run("verify").status == 0
    changed_entry(own, "note", version="9.0.0")
    for words in (["install"], ["install", "--frozen"], ["enable", "note"]):
        done = own.run(*words, "--json")
        assert (done.status, done.error["code"]) == (5, "source-mismatch"), words
    (checked,) = own.run("verify", "note", "--json").json["skills"]
    assert [(each["code"], each["message"]) for each in checked["problems"]] == [
        ("source-mismatch", "the lock has note 9.0.0, its SKILL.md says 1.0.0")
    ]
    assert own.run("audit").status == 1


def test_attack_a_lock_with_another_commit_hides_no_advisory(shell, repo):
    assert shell.run("install", f"git+{repo.url}", "--yes", "--allow-unsigned").status == 0
    bad = osv([package(name="deploy", versions=[shell.lock()["skills"]["deploy"]["rev"]])], id="MAL-1")
    shell.write("hub/config/bad.json", json.dumps(bad))
    shell.write("hub/config/config.toml", 'advisories = ["bad.json"]\n')
    whole = shell.lock()
    for lock in (
        whole,
        {**whole, "skills": {"deploy": {**whole["skills"]["deploy"], "rev": "1" * 40}}},
        {**whole, "skills": {}},
    ):
        shell.write("project/skillhub.lock", json.dumps(lock))
        assert shell.run("load", "deploy", "--json").error["code"] == "known-bad"
        if lock["skills"]:
            assert [each["skill"] for each in shell.run("list", "--json").json["known_bad"]] == ["deploy"]
            for words in (["sync"], ["install"], ["install", "--frozen"], ["enable", "deploy"]):
                assert shell.run(*words, "--json").error["code"] == "known-bad", words
            assert "known-bad" in {each["rule"] for each in shell.run("audit", "--json").json["findings"]}


def test_attack_a_lock_that_returns_with_another_commit_hides_no_advisory(shell, repo):
    assert shell.run("install", f"git+{repo.url}", "--yes", "--allow-unsigned").status == 0
    older = shell.lock()
    repo.commit(files("Do it better.\n"))
    assert shell.run("update", "--yes", "--allow-unsigned").status == 0
    assert shell.lock()["skills"]["deploy"]["rev"] != older["skills"]["deploy"]["rev"]
    bad = osv([package(name="deploy", versions=[older["skills"]["deploy"]["rev"]])], id="MAL-1")
    shell.write("hub/config/bad.json", json.dumps(bad))
    shell.write("hub/config/config.toml", 'advisories = ["bad.json"]\n')
    older["skills"]["deploy"]["rev"] = "1" * 40
    shell.write("project/skillhub.lock", json.dumps(older))
    assert shell.run("sync", "--json").error["code"] == "known-bad"
    assert [each["skill"] for each in shell.run("list", "--json").json["known_bad"]] == ["deploy"]
    for words in (["install"], ["install", "--frozen"], ["enable", "deploy"]):  # there is no such commit
        assert shell.run(*words, "--json").error["code"] in ("known-bad", "not-found"), words


def test_attack_a_lock_that_has_a_skill_again_with_another_commit_hides_no_advisory(shell, repo):
    assert shell.run("install", f"git+{repo.url}", "--yes", "--allow-unsigned").status == 0
    whole = shell.lock()
    shell.write("project/skillhub.lock", json.dumps({**whole, "skills": {}}))
    shell.write("project/skillhub.toml", "[skills]\n")
    assert shell.run("sync").status == 0
    bad = osv([package(name="deploy", versions=[whole["skills"]["deploy"]["rev"]])], id="MAL-1")
    shell.write("hub/config/bad.json", json.dumps(bad))
    shell.write("hub/config/config.toml", 'advisories = ["bad.json"]\n')
    whole["skills"]["deploy"]["rev"] = repo.commit(files("Do it.\n"), date=1)  # the same tree
    shell.write("project/skillhub.lock", json.dumps(whole))
    shell.write("project/skillhub.toml", "")
    for words in (["sync"], ["install"], ["install", "--frozen"], ["enable", "deploy"]):
        assert shell.run(*words, "--json").error["code"] == "known-bad", words
    assert [each["skill"] for each in shell.run("list", "--json").json["known_bad"]] == ["deploy"]


def test_attack_a_lock_with_another_digest_hides_no_advisory_on_the_artifact_of_a_site(shell, web):
    data = zipped({"SKILL.md": skill_md("plain")})
    web.at("/plain.zip", answer(data, "Content-Type: application/zip"))
    web.at(WELL_KNOWN, answer(current(entry("plain", data, "/plain.zip")), JSON))
    assert shell.run("source", "add", "docs", web.url(""), "--yes").status == 0
    assert shell.run("install", "docs:plain", "--yes", "--allow-unsigned").status == 0
    whole = shell.lock()
    shell.write("hub/config/bad", f"{whole['skills']['plain']['digest']} bad")
    shell.write("hub/config/config.toml", 'advisories = ["bad"]\n')
    for lock in (
        whole,
        {**whole, "skills": {"plain": {**whole["skills"]["plain"], "digest": "sha256:" + "1" * 64}}},
        {**whole, "skills": {}},
    ):
        shell.write("project/skillhub.lock", json.dumps(lock))
        assert shell.run("load", "plain", "--json").error["code"] == "known-bad"
        if lock["skills"]:
            assert [each["skill"] for each in shell.run("list", "--json").json["known_bad"]] == ["plain"]
            for words in (["sync"], ["install"], ["install", "--frozen"], ["enable", "plain"]):
                assert shell.run(*words, "--json").error["code"] == "known-bad", words
