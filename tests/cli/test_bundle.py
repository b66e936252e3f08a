"""``bundle``: one file for a network without access; its content, and the refusal of hostile bundles."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import zipfile
from datetime import UTC, datetime, timedelta
from io import BytesIO
from struct import pack
from types import SimpleNamespace

import pytest

from skillhub.archive.unpack import zip_parts
from skillhub.disk.folders import remove_tree
from skillhub.errors import FormatError, UnsafeArchive
from skillhub.formats.digest import Digest
from skillhub.formats.document import json_bytes
from skillhub.model.tree import File
from skillhub.sources.bundle import SkillBundle
from tests.support import oci
from tests.support.bare import run_bare
from tests.support.cli import REPO, Shell
from tests.support.gitrepos import Repo
from tests.support.here import Here
from tests.support.served import Served, online
from tests.support.site import JSON, WELL_KNOWN, current, entry, skill_md, zipped
from tests.support.web import Web, answer

SECRET = "Bearer-of-nobody"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A project with a skill of each kind of source, its bundle, and an older bundle."""
    folder = tmp_path_factory.mktemp("exported")
    machine, served, repo = Here(folder / "a"), Served(folder / "registry"), Repo(folder / "repo.git")
    served.publish("1.0.0")
    notes = {"SKILL.md": skill_md("notes"), "run.sh": b"#!/bin/sh\n"}
    repo.commit({"beside/large": b"x" * 5000, **{f"skills/notes/{path}": data for path, data in notes.items()}})
    machine.skill("project/skills/mine")
    artifact, packed = oci.toolhive("boxed", {"SKILL.md": skill_md("boxed")}), zipped({"SKILL.md": skill_md("paged")})
    with online(served.site) as url, Web() as web:
        web.at(WELL_KNOWN, answer(current(entry("paged", packed, "/paged.zip")), JSON))
        web.at("/paged.zip", answer(packed, "Content-Type: application/zip"))
        web.at(
            "/token?service=box&scope=repository%3Ateam%2Fboxed%3Apull",
            answer(json.dumps({"token": SECRET}).encode()),
        )
        for tag, data in {"v1": artifact.manifest, artifact.digest: artifact.manifest, **artifact.below}.items():
            web.at(f"/v2/team/boxed/manifests/{tag}", with_login(web, data))
        for digest, data in artifact.blobs.items():
            web.at(f"/v2/team/boxed/blobs/{digest}", with_login(web, data))
        mirrors = f'[mirrors]\n"https://paged.example" = "{web.url("")}"\n'
        machine.write("hub/config/config.toml", mirrors)
        assert machine.run("source", "add", "acme", url, "--root", served.root).status == 0
        refs = ("acme:greeting", f"git+{repo.url}#skills/notes", "./skills/mine", "https://paged.example")
        boxed, heads = web.url("/team/boxed:v1").replace("http:", "oci:"), web.heads
        done = machine.run(*("install", *refs, boxed, "--yes", "--allow-unsigned"))
        assert done.status == 0, done.err
        for name in ("bundle", "again"):
            done = machine.run("bundle", "export", folder / name, "--json")
            assert done.status == 0, done.err
        assert any(SECRET in head for head in heads)
    root = machine.lock()["sources"]["acme"]["root"]
    yes = ("--yes", "--allow-unsigned", "--trust-source", f"acme={root}")
    return SimpleNamespace(
        folder=folder, machine=machine, served=served, url=url, path=folder / "bundle", summary=done.json, yes=yes
    )


def with_login(web, data):
    """Serve the data only to a client with the token that the registry hands out."""
    realm = f'Bearer realm="{web.url("/token")}",service="box"'
    refusal = answer(b"", f"WWW-Authenticate: {realm}", status="401 Unauthorized")
    return lambda connection: (answer(data) if SECRET in web.heads[-1] else refusal)(connection)


@pytest.fixture
def machine(tmp_path, exported):
    """A machine without network that has the project's lock and intent only."""
    found = Here(tmp_path / "machine")
    for name in ("skillhub.lock", "skillhub.toml"):
        shutil.copy(exported.machine.project / name, found.project)
    return found


def contents(exported):
    with zipfile.ZipFile(exported.path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(files):
    return b"".join(zip_parts({path: File(data) for path, data in sorted(files.items())}))


def with_answer(exported, change):
    """Return the bundle after ``change`` of its answers, which maps a key to a media type and bytes."""
    bundle = SkillBundle.parse(exported.path.read_bytes(), "bundle")
    answers = dict(bundle.answers)
    change(answers)
    return b"".join(SkillBundle(bundle.lock, answers).parts())


def refused(machine, exported, data, *words):
    """Install from hostile bytes; return the error. Assert that project, store and trust stay empty."""
    bundle = machine.write("hostile", data)
    before = machine.files()
    done = machine.run("install", "--from", bundle, *exported.yes, *words, "--json")
    here = {path for path, was in machine.files().items() if before.get(path) != was and was != b"folder"}
    left = {path for path in here if not path.endswith(".lock") and "/hub/state/tuf/" not in path}
    assert left == set(), left
    return done


def test_a_bundle_has_the_files_that_a_lock_needs_and_is_reproducible(exported):
    assert exported.path.read_bytes() == (exported.folder / "again").read_bytes()
    assert exported.summary["skills"] == ["boxed", "greeting", "mine", "notes", "paged"]
    assert exported.summary["digest"] == str(Digest.of(exported.path.read_bytes()))
    assert exported.summary["size"] == exported.path.stat().st_size
    files = contents(exported)
    assert files["skillhub.lock"] == (exported.machine.project / "skillhub.lock").read_bytes()
    keys = json.loads(files["bundle.json"])["content"]
    assert {key.split(":")[0] for key in keys} == {"git", "https", "http", "tree"}
    assert f"{exported.url}/metadata/1.root.json" in keys and any(key.startswith("tree:sha256:") for key in keys)
    assert b"x" * 5000 not in files.values()  # a file beside the skill


@pytest.mark.parametrize("has_lock", [True, False])
def test_a_bundle_is_installed_without_network(machine, exported, has_lock):
    if not has_lock:
        for name in ("skillhub.lock", "skillhub.toml"):
            (machine.project / name).unlink()
    done = machine.run("install", "--from", exported.path, *exported.yes, "--json")
    assert done.status == 0, done.err
    assert sorted(each["name"] for each in done.json["skills"]) == exported.summary["skills"]
    assert machine.lock() == exported.machine.lock()
    assert machine.run("verify").status == 0
    asked = sorted((each["kind"], each["skill"]) for each in done.json["questions"])
    assert ("source", "acme") in asked and ("unsigned", "notes") in asked and ("install", "greeting") in asked
    assert any(each.startswith("notes: only the bundle states where it came from") for each in done.json["warnings"])
    assert not any(each.startswith("greeting:") for each in done.json["warnings"])
    assert machine.run("install", "--frozen", "--from", exported.path, "--yes").status == 0


def test_a_bundle_has_a_local_skill_under_the_name_that_the_user_gave_it(tmp_path):
    here, there = Here(tmp_path / "a"), Here(tmp_path / "b")
    here.skill("project/skills/mine")
    yes = ("--yes", "--allow-unsigned")
    assert here.run("install", "./skills/mine", "--as", "own", *yes).status == 0
    assert here.run("bundle", "export", tmp_path / "bundle").status == 0
    assert there.run("install", "--from", tmp_path / "bundle", *yes).status == 0
    assert [*there.lock()["skills"]] == ["own"]


def test_a_missing_bundle_is_written_by_the_command_in_the_hint(shell):
    done = shell.run("install", "--from", "my skills.bundle", "--json")
    assert (done.status, done.error["code"]) == (3, "not-found")
    command = done.error["hint"].partition(": ")[2]
    assert command == "skillhub bundle export 'my skills.bundle'"
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    assert shell.run(*shlex.split(command)[1:]).status == 0
    assert shell.run("install", "--from", "my skills.bundle").status == 0


def test_attack_a_bundle_gives_neither_consent_nor_trust(machine, exported):
    for words, kind in ((("--yes",), "source"), (exported.yes[:1] + exported.yes[2:], "unsigned"), ((), "source")):
        done = machine.run("install", "--from", exported.path, *words, "--json")
        assert done.status == 6, done.out
        assert kind in {each["kind"] for each in done.json["questions"] if each["answer"] == "unanswered"}
    assert not (machine.project / ".agents").exists()
    done = machine.run("install", "--from", exported.path, *exported.yes[:3], "acme=sha256:" + "0" * 64, "--json")
    assert (done.status, done.error["code"]) == (5, "source-mismatch")


@pytest.mark.parametrize("bad", [True, False])
def test_attack_signed_advisories_of_a_registry_cannot_be_left_out_of_a_bundle(tmp_path, bad):
    machine, other, served = Here(tmp_path / "a"), Here(tmp_path / "b"), Served(tmp_path / "registry")
    served.publish("1.0.0")
    with online(served.site) as url:
        assert machine.run("source", "add", "acme", url, "--root", served.root).status == 0
        assert machine.run("install", "acme:greeting", "--yes").status == 0
        lock = machine.lock()
        named = lock["skills"]["greeting"]["tree"] if bad else Digest.of(b"something else")
        served.operate("advise", "--digest", named)
        assert machine.run("bundle", "export", tmp_path / "bundle").status == 0
    yes = ("--yes", "--trust-source", f"acme={lock['sources']['acme']['root']}")
    without = with_answer(SimpleNamespace(path=tmp_path / "bundle"), drop("_advisories.json"))
    assert other.run("install", "--from", other.write("without", without), *yes).status == 3
    assert other.run("install", "--from", tmp_path / "bundle", *yes).status == (5 if bad else 0)


def test_attack_a_bundle_cannot_replace_the_users_advisories(machine, exported):
    """The user's own advisory list stays in force, for this command and the next."""
    tree = machine.lock()["skills"]["mine"]["tree"]
    known, nothing = (json.dumps({"version": 1, "advisories": [], "digests": each}) for each in ({tree: "bad"}, {}))
    with Web() as web:
        url = web.url("/known.json")
        web.at("/known.json", answer(known.encode()))
        machine.write("hub/config/config.toml", f'advisories = ["{url}"]\n')
        machine.run("audit")
    kept = {path: data for path, data in machine.files().items() if "/state/advisories/" in path}
    assert [*kept.values()] == [known.encode()]
    bundle = machine.write("hostile", with_answer(exported, lambda a: a.update({url: (JSON, nothing.encode())})))
    for path in (bundle, exported.path):
        done = machine.run("install", "--from", path, *exported.yes, "--json")
        assert (done.status, done.error["code"]) == (5, "known-bad")
    assert {path: machine.files().get(path) for path in kept} == kept


def test_attack_a_policy_applies_to_the_skills_of_a_bundle(machine, exported):
    text = (machine.project / "skillhub.toml").read_text()
    for policy in (
        'sources = ["https://elsewhere.example/"]',
        'signed = "required"',
        'deny-capabilities = ["scripts"]',
    ):
        machine.write("project/skillhub.toml", f"{text}\n[policy]\n{policy}\n")
        assert machine.run("install", "--from", exported.path, *exported.yes).status == 6, policy


def test_attack_a_policy_and_a_question_do_not_believe_the_origin_that_a_bundle_states(machine, exported):
    text = (machine.project / "skillhub.toml").read_text()
    lock = machine.lock()
    box = lock["skills"]["boxed"]["source"].partition("/team")[0]
    stated = [
        lock["sources"]["acme"]["root"],
        "https://paged.example/",
        f"{box}/",
        f"file://{exported.folder}/repo.git",
    ]
    stated += [f"file://{machine.project}/skills/"]
    words = ("install", "--from", exported.path, "--json")
    asked = [each for each in machine.run(*words, *exported.yes[1:]).json["questions"] if each["kind"] == "install"]
    said = [line for each in asked for line in each["details"] if "(according to the bundle)" in line]
    assert len(said) == len(asked) - 1
    for allowed, status in ((stated, 6), ([*stated, f"file://{exported.path}"], 0)):
        machine.write("project/skillhub.toml", f"{text}\n[policy]\nsources = {json.dumps(allowed)}\n")
        done = machine.run(*words, *exported.yes)
        assert done.status == status, done.err
        assert (f"comes from 'file://{exported.path}'" in done.out) == (status == 6)


def swap(key, data):
    return lambda answers: answers.update({next(each for each in answers if key in each): ("", data)})


def drop(key):
    return lambda answers: answers.pop(next(each for each in answers if key in each))


def stale(key):
    """Replace a signed document by that of another registry or another skill."""

    def change(answers):
        found = [each for each in answers if key in each]
        others = [each for each in answers if each.endswith(".json") and each not in found]
        answers[found[0]] = answers[others[-1]]

    return change


def every(key, change):
    return lambda answers: answers.update({k: (t, change(d)) for k, (t, d) in answers.items() if key in k})


def strip(data):
    return json.dumps({**json.loads(data), "signatures": []}).encode()


def bomb():
    """Return a zip of one file that claims a size of 600 MiB."""
    data = b"".join(zip_parts({"SKILL.md": File(bytes(70_001))}, compress=True))
    return data.replace(pack("<I", 70_001), pack("<I", 600 << 20))


CHANGED = {
    "an artifact is another": (swap("/archives/greeting", b"PK\5\6" + bytes(18)), 5),
    "an artifact of a site is another": (swap("/paged.zip", zipped({"SKILL.md": skill_md("paged", "evil")})), 5),
    "a layer is another": (swap("/blobs/sha256", b"other"), 5),
    "a file of a commit is another": (
        lambda a: a.update({k: ("", v[1] + b" ") for k, v in a.items() if "git:" in k}),
        5,
    ),
    "a commit is gone": (drop("git:"), 3),
    "a tree is another": (swap("tree:", zipped({"SKILL.md": skill_md("mine", "evil")})), 5),
    "a tree is a bomb": (swap("tree:", bomb()), 5),
    "a tree is gone": (drop("tree:"), 3),
    "the timestamp is gone": (drop("timestamp.json"), 3),
    "the timestamp is no metadata": (swap("timestamp.json", b"{}"), 4),
    "the snapshot is another document": (stale("snapshot.json"), 5),
    "the signatures are gone": (
        lambda a: a.update({k: (t, strip(d)) for k, (t, d) in a.items() if "timestamp" in k}),
        5,
    ),
    "the root is another": (swap("1.root.json", b"{}"), 5),
    "the publisher is another": (swap("/publishers/", b"{}"), 5),
    "the releases are others": (swap("/idx/", b"{}"), 5),
    "the artifact is gone": (drop("/archives/greeting"), 3),
}


@pytest.mark.parametrize("case", CHANGED)
def test_attack_a_bundle_with_changed_content_is_refused(machine, exported, case):
    change, status = CHANGED[case]
    (machine.project / "skills").mkdir(exist_ok=True)
    done = refused(machine, exported, with_answer(exported, change))
    assert done.status == status, done.out


def entry_of(name, data=b"x", **facts):
    held = BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        info = zipfile.ZipInfo(name)
        for key, value in facts.items():
            setattr(info, key, value)
        archive.writestr(info, data)
    return held.getvalue()


def other_zips(exported):
    """Yield bundles with the right content in another encoding, or with additional content."""
    whole, files = exported.path.read_bytes(), contents(exported)
    yield "an extra file", packed({**files, "extra": b"x"})
    yield "a path outside", packed({**files, "../../evil": b"x"})
    yield "an absolute path", packed({**files, "/etc/evil": b"x"})
    yield "a blob that nothing names", packed({**files, f"blobs/{Digest.of(b'x').hex}": b"x"})
    yield "a blob under another digest", packed({**files, f"blobs/{'0' * 64}": b"x"})
    yield "a blob is missing", packed({k: v for k, v in files.items() if k != sorted(files)[0]})
    yield "no lock", packed({k: v for k, v in files.items() if k != "skillhub.lock"})
    yield "no content", packed({k: v for k, v in files.items() if k != "bundle.json"})
    twice = BytesIO()
    with zipfile.ZipFile(twice, "w") as archive, pytest.warns(UserWarning):
        for name, data in [*sorted(files.items()), ("skillhub.lock", files["skillhub.lock"])]:
            archive.writestr(zipfile.ZipInfo(name), data)
    yield "two entries of one name", twice.getvalue()
    deflated = BytesIO()
    with zipfile.ZipFile(deflated, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(name, data)
    yield "packed by another program", deflated.getvalue()
    yield "a link", entry_of("skillhub.lock", b"/etc/passwd", external_attr=0o120777 << 16, create_system=3)
    yield "a bomb", bomb()
    yield "bytes before", b"x" + whole
    yield "bytes behind", whole + b"x"
    yield "no zip", b"<html>login</html>"
    yield "nothing", b""
    document = json.loads(files["bundle.json"])
    for key, value in (("version", 2), ("more", 1), ("content", [])):
        yield f"another {key}", packed({**files, "bundle.json": json_bytes({**document, key: value})})
    text = files["bundle.json"].replace(b'"version": 1', b'"version": 1, "version": 1')
    yield "a key twice", packed({**files, "bundle.json": text})
    yield "a lock with spaces", packed({**files, "skillhub.lock": files["skillhub.lock"] + b"\n"})
    row = next(iter(document["content"].values()))
    content = {**document["content"], "https://evil.example/\x1b[2J": {**row, "type": "a\nb"}}
    yield "a media type of two lines", packed({**files, "bundle.json": json_bytes({**document, "content": content})})


def test_attack_a_bundle_that_is_not_canonical_is_refused(machine, exported):
    for case, data in other_zips(exported):
        done = refused(machine, exported, data)
        assert done.status in (4, 5), (case, done.out)
        assert "\x1b" not in done.out


def test_attack_a_compressed_bundle_is_not_inflated():
    data = BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("skillhub.lock", bytes(1 << 20))
    with pytest.raises(UnsafeArchive) as caught:
        SkillBundle.parse(data.getvalue(), "bundle")
    assert caught.value.reason == "too-large"


def test_attack_a_truncated_bundle_is_refused(machine, exported):
    whole = exported.path.read_bytes()
    for end in {*range(0, len(whole), max(1, len(whole) // 40)), len(whole) - 1, len(whole) - 22}:
        with pytest.raises((FormatError, UnsafeArchive)) as caught:
            SkillBundle.parse(whole[:end], "bundle")
        assert (caught.value.where or "").startswith("bundle"), end
    assert refused(machine, exported, whole[: len(whole) // 2]).status in (4, 5)


def test_attack_a_bundle_of_another_lock_is_refused(machine, exported):
    lock = json.loads(contents(exported)["skillhub.lock"])
    for change in ("drop", "more", "tree", "root"):
        other = json.loads(json.dumps(lock))
        if change == "drop":
            del other["skills"]["notes"]
        elif change == "more":
            other["skills"]["other"] = other["skills"]["mine"]
        elif change == "tree":
            other["skills"]["mine"]["tree"] = f"sha256:{'1' * 64}"
        else:
            other["sources"]["acme"]["root"] = f"sha256:{'1' * 64}"
        bundle = {**contents(exported), "skillhub.lock": json_bytes(other)}
        done = refused(machine, exported, packed(bundle))
        assert (done.status, "is of another lock" in done.error["message"]) == (4, True), change
    done = machine.run("install", "--from", exported.path, "acme:greeting", "--json")
    assert done.status == 2
    (machine.project / "skillhub.lock").unlink()
    done = refused(machine, exported, exported.path.read_bytes(), "--frozen")
    assert done.status == 4


def test_attack_a_bundle_with_a_wrong_tree_for_its_commit_is_refused(machine, exported):
    """Lock and bundle agree with each other and name a wrong tree for the commit."""
    lock = json.loads(contents(exported)["skillhub.lock"])
    lock["skills"]["notes"]["tree"] = lock["skills"]["mine"]["tree"]
    machine.write("project/skillhub.lock", json_bytes(lock))
    done = refused(machine, exported, packed({**contents(exported), "skillhub.lock": json_bytes(lock)}))
    assert (done.status, done.error["code"]) == (5, "wrong-bytes")


def test_attack_a_bundle_older_than_the_metadata_seen_is_refused(exported, tmp_path):
    machine, served = Here(exported.machine.copy(tmp_path / "machine").folder), exported.served
    shutil.rmtree(machine.project / ".agents")
    before = {path: path.read_bytes() for path in served.site.rglob("*") if path.is_file()}
    served.publish("1.0.1")
    with online(served.site) as url:
        machine.write("hub/config/config.toml", f'[mirrors]\n"{exported.url}" = "{url}"\n')
        assert machine.run("update", "greeting", "--yes").status == 0
    remove_tree(str(machine.hub / "data"))
    for name in ("skillhub.lock", "skillhub.toml"):
        shutil.copy(exported.machine.project / name, machine.project)
    done = machine.run("install", "--from", exported.path, *exported.yes[:2], "--json")
    assert (done.status, done.error["code"]) == (5, "rollback"), done.out
    for path, data in before.items():
        path.write_bytes(data)


def test_attack_a_bundle_with_expired_metadata_is_refused(machine, exported):
    later = datetime.now(UTC) + timedelta(days=4)
    shown = {"version": 1, "latest": f"{later:%Y-%m-%dT%H:%M:%SZ}", "by": "https://registry.example"}
    machine.write("hub/state/shown-time.json", json.dumps(shown))
    done = refused(machine, exported, exported.path.read_bytes())
    assert (done.status, done.error["code"]) == (5, "metadata-expired")
    assert exported.summary["usable_until"] < later.isoformat()


def test_attack_a_bundle_leaves_no_site_record_and_no_cached_document(machine, exported):
    assert machine.run("install", "--from", exported.path, *exported.yes).status == 0
    assert not (machine.hub / "state" / "sites.json").exists()
    assert not (machine.hub / "cache" / "http").exists()
    assert [*json.loads((machine.hub / "state" / "project-sources.json").read_bytes())["projects"].values()]


def test_attack_a_bundle_contains_no_login(exported):
    for data in contents(exported).values():
        assert SECRET.encode() not in data and b"/token" not in data


def test_export_loads_no_scanner(tmp_path):
    machine = Here(tmp_path)
    machine.skill("project/skills/mine")
    assert machine.run("install", "./skills/mine", "--yes", "--allow-unsigned").status == 0
    code = "from skillhub.cli.main import main\ntry: main()\nfinally: print('skillhub.scan.scanner' in sys.modules)"
    assert machine.run("bundle", "export", "x.bundle", "--dry-run").status == 0
    assert not (machine.project / "x.bundle").exists()
    output = run_bare(code, "bundle", "export", "x.bundle", environ=machine.environ, cwd=machine.project)
    assert (output.split()[-1], (machine.project / "x.bundle").exists()) == ("False", True)


def test_a_failed_export_leaves_no_file(exported, tmp_path):
    machine = exported.machine.copy(tmp_path / "machine")
    target = tmp_path / "bundle"
    assert machine.run("bundle", "export", target).status == 3  # the server has stopped
    assert machine.run("bundle", "export", target, "--offline").status == 3
    assert machine.run("remove", *exported.summary["skills"], "--yes").status == 0
    assert machine.run("bundle", "export", target).status == 2
    assert not target.exists()


def test_the_commands_of_the_offline_page_work_with_a_mirror_in_a_folder(exported, tmp_path):
    """No server runs: the registry is a folder, and the policy matches it by its URL."""
    shell = Shell(tmp_path)
    shutil.copytree(exported.served.site, shell.project / "mirror")
    shell.write("project/skillhub.toml", '[policy]\nsources = ["https://registry.example/"]\n')
    page = (REPO / "docs" / "offline.md").read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    shell.on_path()
    environ = shell.having({"ROOT": "mirror/metadata/1.root.json"})
    words = ["sh", "-ec", "".join(blocks)]
    done = subprocess.run(words, cwd=shell.project, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert shell.lock()["sources"]["acme"]["url"] == "https://registry.example"
    assert (shell.project / ".agents/skills/greeting/SKILL.md").exists()
    shell.write("project/skillhub.toml", '[policy]\nsources = ["https://elsewhere.example/"]\n')
    assert shell.run("install", "acme:greeting", "--yes").status == 6
