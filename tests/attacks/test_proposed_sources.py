"""A registry that only a clone names is used only with the consent of user or machine, and only in that clone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from skillhub.formats.digest import Digest
from tests.support.here import Here, close_resources
from tests.support.served import Served
from tests.support.site import JSON, WELL_KNOWN, current, offer
from tests.support.web import Web, answer

__all__ = ["close_resources"]
pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.usefixtures("close_resources")]
YES = ("--yes", "--allow-unsigned")
FROZEN = ("install", "--frozen", *YES)
OTHER = f"sha256:{'0' * 64}"


@pytest.fixture(scope="module")
def root(registry):
    return str(Digest.of(registry.root.read_bytes()))


def serve(web: Web, site: Path) -> None:
    for path in site.rglob("*"):
        if path.is_file():
            web.at(f"/{path.relative_to(site).as_posix()}", answer(path.read_bytes()))


@pytest.fixture
def web(registry):
    with Web() as web:
        serve(web, registry.site)
        yield web


@pytest.fixture(scope="module")
def locked(tmp_path_factory, registry, root):
    """The lock and the intent of a user who installed from the registry, and its URL at that time."""
    first = Here(tmp_path_factory.mktemp("first"))
    with Web() as web:
        serve(web, registry.site)
        assert first.run("source", "add", "acme", web.url(""), "--fingerprint", root).status == 0
        assert first.run("install", "acme:greeting", *YES).status == 0
        return *((first.project / f"skillhub.{kind}").read_text() for kind in ("lock", "toml")), web.url("")


@pytest.fixture
def clone(tmp_path, web, root, locked):
    """A new machine with a clone whose intent and lock name an unknown registry."""
    clone = Here(tmp_path / "clone")
    lock, intent, url = locked
    clone.write("project/skillhub.lock", lock.replace(url, web.url("")))
    clone.write("project/skillhub.toml", f'[sources.acme]\nurl = "{web.url("")}"\nroot = "{root}"\n\n{intent}')
    return clone


def another(clone: Here, name: str = "other") -> Here:
    """Return another project of the same user."""
    twin = Here(clone.folder)
    twin.project = clone.folder / name
    twin.project.mkdir()
    return twin


def sources(shell: Here) -> dict[str, dict[str, object]]:
    return {each["name"]: each for each in shell.run("source", "list", "--json").json["sources"]}


@pytest.mark.parametrize(
    "words",
    [
        FROZEN,
        ("install", *YES),
        ("install", "acme:parting", *YES),
        ("install", "greeting", *YES),
        ("install", "--json", *YES),
        ("install", *YES, "--accept", "findings", "--accept", "mcp", "--accept", "needs"),
        ("install",),
        ("install", "--frozen"),
    ],
)
def test_attack_yes_gives_no_trust_in_a_registry_of_a_clone(clone, web, root, words):
    before = clone.files()
    done = clone.run(*words)
    assert done.status == 6, done.err
    assert "--trust-source acme=sha256:… with the fingerprint that its operator publishes" in done.err + done.out
    assert f"acme={root}" not in done.err + done.out  # an attacker would show this fingerprint
    assert not web.heads
    assert {path for path in clone.files().keys() - before.keys() if not path.endswith(".lock")} == set()
    assert [*sources(clone)] == ["github"]


def test_a_terminal_asks_before_the_registry_gets_a_request(clone, web, root):
    asked = ("which you do not have; trust it in this project?", "")
    assert clone.at_terminal("install", say=[asked, (root, ""), ("[N]o: ", "n\n")], columns=200).status == 6
    assert (web.heads, [*sources(clone)]) == ([], ["github"])
    done = clone.at_terminal("install", say=[asked, ("[N]o: ", "y\n"), ("[N]o: ", "y\n")], columns=200)
    assert done.status == 0, done.out
    assert (clone.project / ".agents/skills/greeting").is_dir()


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("update",), 6),
        (("update", "greeting"), 3),
        (("update", "--check"), 1),
        (("sync",), 3),
        (("enable", "greeting"), 3),
    ],
)
def test_attack_only_install_accepts_a_registry_of_a_clone(clone, web, words, status):
    done = clone.run(*words, "--yes")
    assert (done.status, "skillhub install asks about those that the project names" in done.err) == (status, True)
    assert not web.heads
    assert [*sources(clone)] == ["github"]


@pytest.mark.parametrize("where", ["intent", "lock"])
def test_attack_a_registry_in_only_lock_or_intent_is_asked_about(clone, web, root, where):
    gone = {"intent": "skillhub.lock", "lock": "skillhub.toml"}[where]
    (clone.project / gone).unlink()
    done = clone.run("install", *YES, "--json")
    assert (done.status, [each["kind"] for each in done.json["questions"]]) == (6, ["source"])
    assert not web.heads
    assert clone.run("install", *YES, "--trust-source", f"acme={root}").status == 0


def test_the_trust_source_flag_accepts_a_registry_without_a_question(clone, root):
    done = clone.run(*FROZEN, "--trust-source", f"acme={root}", "--json")
    assert done.status == 0, done.err
    assert done.json["questions"][0]["answer"] == "yes"
    assert (clone.project / ".agents/skills/greeting/SKILL.md").is_file()
    assert clone.run("audit", "--json").json["ok"]
    assert clone.run("verify").status == clone.run(*FROZEN).status == 0
    assert clone.run("update", "--check").status == 0


@pytest.mark.parametrize("form", ["{root}", "acme={root}"])
@pytest.mark.parametrize("kind", ["sources", "agree"])
def test_trusted_sources_in_a_policy_accept_a_registry(clone, root, form, kind):
    line = f'trusted-sources = ["{form.format(root=root)}"]'
    clone.write("hub/config/policy.toml", line if kind == "sources" else 'agree = ["install", "unsigned"]')
    assert clone.run(*FROZEN).status == (0 if kind == "sources" else 6)


@pytest.mark.parametrize("line", [f"other={OTHER}", OTHER, "other={root}", f"acme={OTHER}"])
def test_attack_a_policy_with_another_root_or_name_does_not_accept_a_registry(clone, root, line):
    clone.write("hub/config/policy.toml", f'trusted-sources = ["{line.format(root=root)}"]')
    assert clone.run(*FROZEN).status == 6


def test_attack_a_project_cannot_trust_its_own_registry(clone, root, web):
    intent = (clone.project / "skillhub.toml").read_text()
    clone.write("project/skillhub.toml", f'{intent}\n[policy]\ntrusted-sources = ["{root}"]\n')
    done = clone.run(*FROZEN, "--json")
    assert (done.status, done.error["code"]) == (4, "format")
    assert not web.heads


@pytest.mark.parametrize(
    ("word", "status"),
    [
        (f"acme={OTHER}", 5),
        ("nobody={root}", 2),
        ("github={root}", 5),
        ("acme", 2),
        ("acme=", 2),
        ("{root}", 2),
        ("acme={root}0", 2),
        ("ACME={root}", 2),
        ("local={root}", 2),
        ("acme=sha1:00", 2),
        ("={root}", 2),
        ("acme={root},{root}", 2),
    ],
)
def test_attack_a_trust_source_flag_for_another_registry_is_refused(clone, web, root, word, status):
    done = clone.run(*FROZEN, "--trust-source", word.format(root=root), "--json")
    assert (done.status, "trust-source" in done.error["message"]) == (status, True)
    assert not web.heads


def test_attack_two_roots_for_one_alias_are_refused(clone, root):
    words = ("--trust-source", f"acme={root}", "--trust-source", f"acme={OTHER}")
    assert clone.run(*FROZEN, *words).status == 2
    assert clone.run(*FROZEN, *words[:2], *words[:2]).status == 0


def test_attack_a_registry_of_one_project_is_unknown_in_another(clone, root, web):
    assert clone.run(*FROZEN, "--trust-source", f"acme={root}").status == 0
    other = another(clone)
    assert [*sources(other)] == ["github"]
    for ref in ("acme:parting", "parting"):
        assert other.run("install", ref, *YES, "--json").error["code"] == "not-found"
        assert other.run("show", ref, "--json").error["code"] == "not-found"
    assert other.run("source", "show", "acme", "--json").error["code"] == "not-found"
    assert not [
        each for each in other.run("search", "parting", "--json").json["hits"] if each.get("source") == "acme"
    ]
    assert other.run("install", "acme:parting", "-g", *YES).status == 3
    for name in ("skillhub.toml", "skillhub.lock"):
        shutil.copy(clone.project / name, other.project)
    assert other.run(*FROZEN).status == 6
    assert clone.run("install", "acme:parting", *YES).status == 0


def test_attack_consent_is_not_valid_for_another_clone_in_the_same_folder(clone, root, web):
    """Consent is valid while the project names the same registry, and is valid again once it does."""
    assert clone.run(*FROZEN, "--trust-source", f"acme={root}").status == 0
    for name in ("skillhub.toml", "skillhub.lock"):
        (clone.project / name).rename(clone.home / name)
    assert [*sources(clone)] == ["github"]
    assert clone.run("install", "acme:parting", *YES).status == 3
    for name in ("skillhub.toml", "skillhub.lock"):
        (clone.home / name).rename(clone.project / name)
    assert clone.run("install", "acme:parting", *YES).status == 0


@pytest.mark.parametrize("changed", ["url", "root", "alias", "site"])
def test_attack_a_changed_proposal_needs_consent_again(clone, root, web, registry, changed):
    assert clone.run(*FROZEN, "--trust-source", f"acme={root}").status == 0
    lock, intent = clone.lock(), (clone.project / "skillhub.toml").read_text()
    with Web() as evil:
        serve(evil, registry.site)
        row = lock["sources"]["acme"]
        if changed == "url":
            row["url"] = evil.url("")
            intent = intent.replace(web.url(""), evil.url(""))
        elif changed == "root":
            row["root"] = OTHER
            intent = intent.replace(root, OTHER)
        elif changed == "alias":
            lock["sources"]["other"] = lock["sources"].pop("acme")
            lock["skills"]["greeting"]["source"] = "other"
            intent = intent.replace("acme", "other")
        else:
            row |= {"kind": "well-known"}
            del row["root"]
            intent = intent.replace(f'root = "{root}"\n', "")
        clone.write("project/skillhub.lock", json.dumps(lock))
        clone.write("project/skillhub.toml", intent)
        shutil.rmtree(clone.hub / "data", ignore_errors=True)
        web.heads.clear()
        done = clone.run("install", *YES, "--json")
        assert done.status == (5 if changed == "site" else 6), done.out
        if changed != "site":
            assert [each["kind"] for each in done.json["questions"]] == ["source"]
        assert not evil.heads
        assert "acme" not in sources(clone)


def test_attack_no_flag_gives_the_users_alias_to_another_registry(clone, root, web, tmp_path):
    mine = Served(tmp_path / "mine")
    mine.publish("1.0.0", "mine")
    with Web() as other:
        serve(other, mine.site)
        pin = str(Digest.of(mine.root.read_bytes()))
        assert clone.run("source", "add", "acme", other.url(""), "--fingerprint", pin).status == 0
        for words in (FROZEN, (*FROZEN, "--trust-source", f"acme={root}"), ("update", *YES)):
            done = clone.run(*words, "--json")
            assert (done.status, done.error["code"]) == (5, "source-mismatch")
    assert not web.heads


def test_attack_two_registries_for_one_alias_in_lock_and_intent_are_refused(clone, root, web):
    intent = (clone.project / "skillhub.toml").read_text()
    clone.write("project/skillhub.toml", intent.replace(root, OTHER))
    for word in (root, OTHER):
        done = clone.run("install", *YES, "--trust-source", f"acme={word}", "--json")
        assert (done.status, done.error["code"]) == (5, "source-mismatch")
    assert not web.heads


def netrc(clone, web):
    path = clone.write("home/.netrc", "machine 127.0.0.1 login me password s3cret\n")
    path.chmod(0o600)
    clone.write("hub/config/config.toml", f'[tokens]\n"127.0.0.1:{web.port}" = {{ env = "TOKEN" }}\n')


@pytest.mark.parametrize("way", ["flag", "policy", "trust"])
def test_attack_a_registry_of_a_clone_gets_no_credentials(clone, web, root, way):
    netrc(clone, web)
    words = FROZEN
    if way == "flag":
        words = (*FROZEN, "--trust-source", f"acme={root}")
    elif way == "policy":
        clone.write("hub/config/policy.toml", f'trusted-sources = ["{root}"]')
    else:
        assert clone.run("source", "trust", "acme", "--fingerprint", root, TOKEN="s3cret").status == 0
    assert clone.run(*words, TOKEN="s3cret").status == 0
    for more in (
        ("update", "--check"),
        ("audit",),
        ("source", "show", "acme"),
        ("search", "parting"),
        ("diff", "greeting"),
    ):
        assert clone.run(*more, TOKEN="s3cret").status == 0
    assert clone.run("install", "acme:parting", *YES, TOKEN="s3cret").status == 0
    assert web.heads
    assert not [head for head in web.heads if "authorization" in head.lower()]


def test_a_registry_on_a_trusted_host_gets_the_users_credentials(clone, web, root):
    netrc(clone, web)
    config = (clone.hub / "config/config.toml").read_text()
    clone.write("hub/config/config.toml", f'trusted-hosts = ["127.0.0.1:{web.port}"]\n{config}')
    assert clone.run(*FROZEN, "--trust-source", f"acme={root}", TOKEN="s3cret").status == 0
    assert all("Authorization: Bearer s3cret" in head for head in web.heads)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:{port}",
        "https://localhost:{port}",
        "https://[::1]:{port}",
        "https://10.0.0.7",
        "https://169.254.169.254",
        "https://192.168.0.1:8443",
        "https://[fd00::1]",
        "https://0.0.0.0:{port}",
        "http://10.0.0.7",
        "http://2130706433:{port}",
        "http://169.254.169.254/latest",
    ],
)
def test_attack_a_clone_leads_to_no_private_address(clone, web, root, url):
    place = url.format(port=web.port)
    for name in ("skillhub.toml", "skillhub.lock"):
        text = (clone.project / name).read_text().replace(web.url(""), place)
        clone.write(f"project/{name}", text)
    for words in ((*FROZEN, "--trust-source", f"acme={root}"), ("source", "trust", "acme", "--fingerprint", root)):
        done = clone.run(*words, "--json")
        assert (done.status, done.error["code"]) == (5, "unsafe-transfer"), done.out
    assert not web.heads
    assert [*sources(clone)] == ["github"]


def test_attack_a_proposed_url_in_the_form_of_another_service_is_refused(clone, root):
    """A proposed URL must have the form of a registry's: otherwise a clone could send requests to local services."""
    with Web() as here:
        for place in ("/api/delete?x=", "/%2e%2e", "/a;b"):
            source = f'[sources.acme]\nurl = "{here.url(place)}"\nroot = "{root}"\n'
            clone.write("project/skillhub.toml", f'{source}[skills]\ngreeting = {{ source = "acme" }}\n')
            (clone.project / "skillhub.lock").unlink(missing_ok=True)
            done = clone.run("install", *YES, "--trust-source", f"acme={root}")
            assert (done.status, "only this project names it" in done.err) == (5, True), done.err
        assert not here.heads


def test_attack_a_registry_with_another_root_is_refused(clone, web, root, tmp_path):
    evil = Served(tmp_path / "evil")
    evil.publish("1.0.0")
    web.acts.clear()
    serve(web, evil.site)
    done = clone.run(*FROZEN, "--trust-source", f"acme={root}", "--json")
    assert (done.status, done.error["code"]) == (5, "wrong-bytes")
    assert [*sources(clone)] == ["github"]


def test_attack_a_proposal_without_a_root_needs_a_fingerprint(clone, web, root):
    clone.write(
        "project/skillhub.toml",
        f'[sources.acme]\nurl = "{web.url("")}"\n[skills]\ngreeting = {{ source = "acme" }}\n',
    )
    (clone.project / "skillhub.lock").unlink()
    assert clone.run("install", *YES).status == 6
    assert not web.heads
    wrong = clone.run("install", *YES, "--trust-source", f"acme={OTHER}", "--json")
    assert (wrong.status, wrong.error["code"]) == (5, "wrong-bytes")
    assert clone.run("install", *YES, "--trust-source", f"acme={root}").status == 0


def test_a_site_in_the_lock_needs_no_trust_and_stays_unsigned(tmp_path):
    with Web() as site:
        site.at(WELL_KNOWN, answer(current(offer(site, "pdf")), JSON))
        first = Here(tmp_path / "first")
        assert first.run("source", "add", "docs", site.url(""), "--allow-unsigned").status == 0
        assert first.run("install", "docs:pdf", *YES).status == 0
        clone = Here(tmp_path / "clone")
        for name in ("skillhub.toml", "skillhub.lock"):
            shutil.copy(first.project / name, clone.project)
        netrc(clone, site)
        site.heads.clear()
        done = clone.run("install", "--frozen", "--yes", "--json")
        assert (done.status, [each["kind"] for each in done.json["questions"]]) == (6, ["unsigned", "install"])
        assert clone.run(*FROZEN, TOKEN="s3cret").status == 0
        assert not [head for head in site.heads if "authorization" in head.lower()]
        assert sources(clone)["docs"]["scope"] == "project"
        assert [*sources(another(clone))] == ["github"]


def test_a_skill_of_another_source_is_installed_without_the_proposal(clone, web):
    clone.skill("project/plain")
    assert clone.run("install", "./plain", *YES).status == 0
    assert clone.run("list").status == clone.run("verify", "plain").status == 0
    assert not web.heads


def test_sources_of_a_project_are_listed_and_removed_by_name(clone, root, web):
    assert clone.run(*FROZEN, "--trust-source", f"acme={root}").status == 0
    listed = sources(clone)
    assert [(each["name"], each["scope"]) for each in listed.values()] == [("github", "user"), ("acme", "project")]
    assert "proposed by this project" in clone.run("source", "list").out
    assert "proposed by this project" in clone.run("source", "show", "acme").out
    removed = clone.run("source", "remove", "acme", "--json")
    assert (removed.status, removed.json["scope"]) == (0, "project")
    assert f"skillhub source trust acme --fingerprint {root}" in removed.err
    assert clone.run("install", "acme:parting", *YES).status == 6
    again = clone.run("source", "trust", "acme", "--fingerprint", root)
    assert (again.status, "for this project alone" in again.out) == (0, True)
    assert clone.run("install", "acme:parting", *YES).status == 0


def test_attack_a_removed_source_is_removed_from_projects_too(clone, root, web):
    assert clone.run(*FROZEN, "--trust-source", f"acme={root}").status == 0
    assert clone.run("source", "add", "acme", web.url(""), "--fingerprint", root).status == 0
    assert sources(clone)["acme"]["scope"] == "user"
    assert another(clone).run("source", "remove", "acme").status == 0
    assert [*sources(clone)] == ["github"]
    assert clone.run("install", "acme:parting", *YES).status == 6


def test_attack_a_damaged_record_of_consent_is_an_error(clone, root):
    assert clone.run(*FROZEN, "--trust-source", f"acme={root}").status == 0
    path = clone.hub / "state/project-sources.json"
    for text in ("{}", "", "null", '{"version": 1}', path.read_text().replace("sha256:", "sha1:")):
        path.write_text(text)
        assert clone.run("install", *YES).status == 7


def test_a_signer_of_a_clones_registry_is_shown_with_the_registry(clone, root, web, registry):
    asked = clone.run("install", *YES, "--trust-source", f"acme={root}", "--dry-run")
    assert asked.status == 0
    assert clone.run("list", "--json").json["skills"][0]["claimed_by"][0]["by"] == "acme"  # not agreed to yet
    done = clone.run(*FROZEN, "--trust-source", f"acme={root}", "--json")
    details = [line for each in done.json["questions"] for line in each["details"]]
    assert [line for line in details if line.startswith("signed by")] == [
        line for line in details if line.startswith("signed by acme by acme (sha256:")
    ]
    for words in (("list",), ("show", "greeting"), ("show", "acme:parting"), ("list", "--json")):
        out = clone.run(*words).out
        assert ("acme by acme" in out) or '"by": "acme"' in out, words
    clone.write("hub/config/policy.toml", 'publishers = ["other"]')
    assert "is signed by acme by acme (sha256:" in clone.run("audit", "--json").out
    (clone.hub / "config/policy.toml").unlink()
    [signer] = clone.run("show", "greeting", "--json").json["signed_by"]
    assert (signer["identity"], signer["by"]) == ("acme", "acme")
    assert clone.run("source", "add", "acme", web.url(""), "--fingerprint", root).status == 0
    assert "acme by acme" not in clone.run("list").out
    assert "by" not in clone.run("show", "greeting", "--json").json["signed_by"][0]


@pytest.mark.parametrize("form", ["{name}", "{root}/{name}", "{key}", "{other}/{name}", "{root}", "{root}/other"])
def test_attack_a_clones_publisher_with_a_name_of_the_policy_is_refused(clone, root, form):
    key = clone.lock()["skills"]["greeting"]["signed_by"][0].split(":", 1)[1].rpartition(":")[0]
    line = form.format(name="acme", root=root, other=OTHER, key=key)
    clone.write("hub/config/policy.toml", f'publishers = ["{line}"]')
    done = clone.run(*FROZEN, "--trust-source", f"acme={root}", "--json")
    is_meant = form in ("{root}/{name}", "{key}")
    assert (done.status, "" if is_meant else done.error["code"]) == ((0, "") if is_meant else (6, "policy"))
    audited = clone.run("audit", "--json").json["findings"]
    assert [each for each in audited if each["rule"] == "policy"] == [] or not is_meant


def key_of(clone, registry):
    """Return a file with the public key of the registry's publisher."""
    document = min(registry.site.glob("targets/publishers/*.acme.json"))
    return clone.write("acme.pub.pem", json.loads(document.read_text())["keys"][0])


def test_a_policy_names_a_publisher_whom_the_user_trusts_by_key(clone, root, registry, tmp_path):
    clone.write("hub/config/policy.toml", 'publishers = ["mine"]')
    words = (*FROZEN, "--trust-source", f"acme={root}")
    assert clone.run(*words).status == 6
    assert clone.run("publisher", "trust", "mine", "--key", key_of(clone, registry)).status == 0
    assert clone.run(*words).status == 0


def test_attack_trust_limited_to_a_source_does_not_hold_for_a_clones_source(clone, root, registry, web):
    assert clone.run("source", "add", "acme", web.url(""), "--fingerprint", root).status == 0
    pem = key_of(clone, registry)
    assert clone.run("publisher", "trust", "mine", "--key", pem, "--source", "acme").status == 0
    assert clone.run("source", "remove", "acme").status == 0
    clone.write("hub/config/policy.toml", 'publishers = ["mine"]')
    assert clone.run(*FROZEN, "--trust-source", f"acme={root}", "--json").error["code"] == "policy"
    assert clone.run("source", "add", "acme", web.url(""), "--fingerprint", root).status == 0
    assert clone.run(*FROZEN).status == 0


def changing(clone, how):
    """Change the sources of a clone's lock like a pull request; return the previous lock."""
    before = clone.write("before.lock", (clone.project / "skillhub.lock").read_bytes())
    lock = clone.lock()
    row = lock["sources"]["acme"]
    if how == "added":
        lock["sources"]["evil"] = {"kind": "registry", "url": "https://evil.example", "root": OTHER}
    elif how == "site":
        lock["sources"]["evil"] = {"kind": "well-known", "url": "https://evil.example"}
    elif how == "moved":
        toml = (clone.project / "skillhub.toml").read_text()
        clone.write("project/skillhub.toml", toml.replace(row["url"], "https://evil.example"))
    elif how.startswith("wanted"):
        root = f'root = "{OTHER}"\n' if how == "wanted" else ""
        clone.write("project/skillhub.toml", f'[sources.evil]\nurl = "https://evil.example"\n{root}')
    elif how == "removed":
        del lock["sources"]["acme"]
        (clone.project / "skillhub.toml").unlink()
        lock["skills"] = {}
    elif how == "url":
        row["url"] = "https://evil.example"
    else:
        row["root"] = OTHER
    clone.write("project/skillhub.lock", json.dumps(lock))
    return before


CHANGES = {
    "added": ("added", "source-added", "source evil added: https://evil.example with root"),
    "moved": ("changed", "origin-changed", "source acme has another URL: "),
    "wanted": ("added", "source-added", "source evil added: https://evil.example with root"),
    "wanted without a root": (
        "added",
        "source-added",
        "source evil added: https://evil.example, whose root is not named",
    ),
    "site": ("added", "source-added", "source evil added: https://evil.example, which is not a registry"),
    "removed": ("removed", "source-removed", "source acme removed: http://127.0.0.1"),
    "url": ("changed", "origin-changed", "source acme has another URL: "),
    "root": ("changed", "origin-changed", "source acme has another root: "),
}


@pytest.mark.parametrize("how", CHANGES)
def test_attack_a_change_of_the_sources_in_the_lock_is_reported(clone, how):
    before = changing(clone, how)
    status, rule, line = CHANGES[how]
    for form in ("text", "markdown"):
        out = clone.run("diff", "--from-lock", before, "--format", form).out
        assert line in next(each for each in out.splitlines() if each and not each.startswith("#"))
    alone = clone.run("diff", "--from-lock", before, "nothing", "--json").json
    assert [each["status"] for each in alone["sources"]] == [status]
    first = clone.run("audit", "--from-lock", before, "--offline", "--json").json["findings"][0]
    assert (first["rule"], first["message"].startswith(line)) == (rule, True)


def test_attack_a_source_moved_by_an_update_is_reported(clone, root, web):
    assert clone.run("source", "add", "acme", web.url(""), "--fingerprint", root).status == 0
    (clone.project / "skillhub.toml").unlink()
    assert clone.run(*FROZEN).status == 0
    lock = clone.lock()
    lock["sources"]["acme"]["url"] = "https://before.example"
    url = lock["skills"]["greeting"]["url"]
    lock["skills"]["greeting"]["url"] = url.replace(web.url(""), "https://before.example")
    clone.write("project/skillhub.lock", json.dumps(lock))
    for words in (("update", *YES, "--dry-run"), ("update", *YES)):
        done = clone.run(*words)
        out = done.out if "--dry-run" in words else done.err
        assert "source acme has another URL: https://before.example" in out.splitlines()[0]
    assert clone.lock()["sources"]["acme"]["url"] == web.url("")
