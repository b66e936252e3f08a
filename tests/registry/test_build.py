import json
import os
import shlex
import stat
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from tuf.api.metadata import Root

from fixtures.build import EMBEDDED, build, differences
from skillhub.errors import FormatError, NotFound, Refused, SkillhubError, UnsafeArchive, UsageError
from skillhub.model.index import Index
from skillhub.registry.build import Setup, add, init
from skillhub.registry.check import check
from skillhub.registry.operator import RegistryDir, RegistrySettings, Signing, opened
from skillhub.sources.configured import ROOT_CAP, root_fingerprint
from skillhub.sources.local import read_local
from skillhub.trust.documents import refuse_large
from skillhub.trust.keys import PrivateKey
from skillhub.trust.oms import sign
from skillhub.trust.registry_metadata import public_key
from tests.support.faults import KILLED, in_child, kill
from tests.support.killing import kill_everywhere
from tests.support.published import change, tree_of
from tests.support.registry import Simulator, key_of, long_ago, now, write_skill


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Simulator(tmp_path_factory.mktemp("made"))


def test_embedded_registry_equals_a_build_of_its_sources(tmp_path):
    """If this fails: run `make fixtures`, and read the difference."""
    assert differences(build(str(tmp_path)), EMBEDDED) == []


def test_embedded_registry_is_valid_and_has_the_known_root(tmp_path):
    build(str(tmp_path))
    assert check(str(tmp_path), now()).problems == ()
    assert RegistryDir(str(tmp_path)).fingerprint() == root_fingerprint()


def test_new_registry_is_valid_and_its_keys_are_private(hub):
    assert check(hub.dir.path, now()).problems == ()
    keys = os.path.join(hub.dir.path, "keys")
    assert sorted(os.listdir(keys)) == ["offline", "online", "publishers"]
    assert len(os.listdir(os.path.join(keys, "offline"))) == 11
    for top, _, names in os.walk(keys):
        for name in names:
            assert stat.S_IMODE(os.stat(os.path.join(top, name)).st_mode) == 0o600
    assert not any("PRIVATE" in data.decode("latin-1") for data in tree_of(hub.dir.site).values())


def test_same_setup_and_time_give_the_same_bytes(tmp_path):
    when = now()
    sites = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        hub = Simulator(tmp_path / name, when=when)
        hub.publish()
        sites.append(hub.files)
    assert sites[0] == sites[1]


def test_second_init_is_refused_without_changes(hub):
    before = tree_of(hub.dir.path)
    with pytest.raises(UsageError):
        init(hub.dir.path, Setup(settings=RegistrySettings.of("acme")), now())
    assert tree_of(hub.dir.path) == before


def test_offline_keys_of_another_registry_are_not_overwritten(hub, tmp_path):
    disk = os.path.join(hub.dir.path, "keys", "offline")
    before = tree_of(hub.dir.path)
    with pytest.raises(UsageError, match="offline keys"):
        init(str(tmp_path / "other"), Setup(settings=RegistrySettings.of("acme"), keys=disk), now())
    assert tree_of(hub.dir.path) == before


def test_killed_init_completes_at_the_next_run(tmp_path):
    """`init` is killed before each of its writes: the next call makes a sound registry, or names what to remove."""
    folder, skill = str(tmp_path / "r"), write_skill(tmp_path)
    os.mkdir(folder)
    setup = Setup(settings=RegistrySettings.of("acme"))

    def run():
        try:
            init(folder, setup, now())
        except UsageError as error:
            subprocess.run(error.hint.rpartition(": ")[2].split(), check=True)
            init(folder, setup, now())

    def look(kill, done):
        assert RegistryDir(folder).exists == done
        if done:
            assert check(folder, now()).problems == ()
            assert len(add(folder, [skill], Signing(now=now())).releases) == 1
            assert check(folder, now()).problems == ()

    assert kill_everywhere(folder, run, look) > 40


def test_init_killed_before_its_last_write_is_refused_with_the_command_that_helps(tmp_path):
    folder, disk = str(tmp_path / "r"), str(tmp_path / "disk")
    setup = Setup(settings=RegistrySettings.of("acme"), keys=disk)
    init(folder, setup, now())
    os.remove(os.path.join(folder, "registry.json"))
    before = tree_of(str(tmp_path))
    with pytest.raises(UsageError, match=r"without its registry.json") as caught:
        init(folder, setup, now())
    assert tree_of(str(tmp_path)) == before
    command = f"rm {os.path.join(disk, '1.root.json')}"
    assert caught.value.hint.endswith(f": {command}")
    subprocess.run(command.split(), check=True)
    init(folder, setup, now())
    assert check(folder, now()).problems == ()
    assert len(add(folder, [write_skill(tmp_path)], Signing(now=now(), keys=disk)).releases) == 1


@pytest.mark.parametrize("publisher", ["../evil", "", "A"])
def test_invalid_name_of_a_publisher_is_refused(tmp_path, publisher):
    with pytest.raises(UsageError):
        init(str(tmp_path / "r"), Setup(settings=RegistrySettings.of(publisher)), now())
    assert not (tmp_path / "r").exists()


def test_added_versions_are_offered_to_readers_of_every_kind(hub, tmp_path):
    hub.publish(version="1.0.0")
    hub.publish(version="1.10.0")
    hub.publish(version="1.9.0")
    assert check(hub.dir.path, now()).problems == ()
    for base, home in (("", "../../"), ("hello/", "../../../")):
        listing = json.loads(hub.files[f"{base}.well-known/agent-skills/index.json"])
        (entry,) = listing["skills"]
        assert (entry["name"], entry["type"], entry["version"]) == ("hello", "archive", "1.10.0")
        assert entry["url"].removeprefix(home) in hub.files
        assert entry["releases"].removeprefix(home) in hub.files
    document = json.loads(hub.files[".well-known/agent-skills/skills/hello.json"])
    assert [each["version"] for each in document["releases"]] == ["1.10.0", "1.9.0", "1.0.0"]
    assert document["releases"][0]["url"].removeprefix("../../../") in hub.files


def test_repeated_add_changes_no_file(hub, tmp_path):
    hub.publish()
    before = tree_of(hub.dir.path)
    added = add(hub.dir.path, [write_skill(tmp_path)], Signing(now=now()))
    assert added.releases == ()
    assert [each.version for each in added.unchanged] == ["1.0.0"]
    assert tree_of(hub.dir.path) == before


def test_attack_a_version_that_differs_from_another_only_in_case_is_refused(hub, tmp_path):
    hub.publish("hello", "1.0.0-rc.1")
    before = hub.files
    with pytest.raises(Refused, match=r"differs from the published 1\.0\.0-rc\.1 only in case"):
        hub.publish("hello", "1.0.0-RC.1")
    hub.pull()
    assert hub.files == before


def test_same_version_with_other_content_in_one_call_is_refused(hub, tmp_path):
    first = write_skill(tmp_path / "1")
    second = write_skill(tmp_path / "2", **{"extra.md": "more"})
    before = tree_of(hub.dir.path)
    with pytest.raises(Refused, match="other content"):
        add(hub.dir.path, [first, second], Signing(now=now()))
    assert tree_of(hub.dir.path) == before
    assert len(add(hub.dir.path, [first, first], Signing(now=now())).releases) == 1
    assert check(hub.dir.path, now()).problems == ()


def test_same_version_with_other_bytes_is_refused(hub, tmp_path):
    hub.publish()
    before = tree_of(hub.dir.path)
    folder = write_skill(tmp_path, **{"extra.md": "more"})
    with pytest.raises(Refused, match="other content"):
        add(hub.dir.path, [folder], Signing(now=now()))
    assert tree_of(hub.dir.path) == before


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda folder: os.remove(f"{folder}/SKILL.md"), NotFound),
        (lambda folder: os.symlink("/nowhere", f"{folder}/link"), UnsafeArchive),
        (lambda folder: edit(folder, "name: good", "name: other"), FormatError),
        (lambda folder: edit(folder, "name: good", "name: ../evil"), FormatError),
        (lambda folder: edit(folder, 'version: "1.0.0"', 'version: "one"'), FormatError),
        (lambda folder: edit(folder, 'metadata:\n  version: "1.0.0"\n', ""), FormatError),
    ],
)
def test_one_invalid_skill_prevents_the_whole_publication(hub, tmp_path, change, error):
    before = tree_of(hub.dir.path)
    bad = write_skill(tmp_path, "good")
    change(bad)
    with pytest.raises(error):
        add(hub.dir.path, [write_skill(tmp_path), bad], Signing(now=now()))
    assert tree_of(hub.dir.path) == before


def test_archive_with_a_wrapper_folder_is_refused(hub, tmp_path):
    path = tmp_path / "good.zip"
    folder = write_skill(tmp_path, "good")
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(f"{folder}/SKILL.md", "good-main/SKILL.md")
    assert read_local(str(path)).warnings
    before = tree_of(hub.dir.path)
    with pytest.raises(UnsafeArchive) as caught:
        add(hub.dir.path, [str(path)], Signing(now=now()))
    assert caught.value.reason == "no-skill-md"
    assert tree_of(hub.dir.path) == before


def edit(folder, old, new):
    path = os.path.join(folder, "SKILL.md")
    with open(path) as file:
        text = file.read()
    assert old in text
    with open(path, "w") as file:
        file.write(text.replace(old, new))


def test_skill_signed_by_an_unknown_key_is_refused(hub, tmp_path):
    folder = write_skill(tmp_path)
    before = tree_of(hub.dir.path)
    with open(os.path.join(folder, "skill.oms.sig"), "wb") as file:
        file.write(sign(read_local(folder).tree, "hello", PrivateKey.generate()))
    with pytest.raises(Refused, match="signature by a publisher that is admitted here"):
        add(hub.dir.path, [folder], Signing(now=now()))
    assert tree_of(hub.dir.path) == before


def test_unsigned_skill_without_the_key_of_the_publisher_is_refused(hub, tmp_path):
    os.remove(os.path.join(hub.dir.path, "keys", "publishers", "acme.pem"))
    with pytest.raises(Refused, match="only signed skills"):
        add(hub.dir.path, [write_skill(tmp_path)], Signing(now=now()))


def test_new_name_needs_offline_keys_and_a_new_version_does_not(hub, tmp_path):
    hub.publish()
    for number in (1, 2):
        os.remove(os.path.join(hub.dir.path, "keys", "offline", f"namespaces-{number}.pem"))
    hub.publish(version="1.1.0")
    before = tree_of(hub.dir.path)
    with pytest.raises(Refused, match="namespaces"):
        hub.publish("another")
    assert tree_of(hub.dir.path) == before


def test_hint_for_the_owner_of_offline_keys_quotes_the_folder(tmp_path):
    hub = Simulator(tmp_path / "our hub")
    for number in (1, 2):
        os.remove(os.path.join(hub.dir.path, "keys", "offline", f"namespaces-{number}.pem"))
    with pytest.raises(Refused) as refused:
        hub.publish()
    _, command = refused.value.hint.split("owner to run: ")
    assert shlex.split(command)[1:4] == ["registry", "delegate", hub.dir.path]


def test_name_of_another_publisher_is_refused(hub, tmp_path):
    """The other publisher was admitted in a separate ceremony."""
    hub.admit("rival", names=["hello"])
    before = tree_of(hub.dir.path)
    with pytest.raises(Refused, match="unsigned; rival"):
        hub.publish()
    assert tree_of(hub.dir.path) == before


def test_passphrase_is_required_and_checked(tmp_path):
    folder = str(tmp_path / "r")
    setup = Setup(settings=RegistrySettings.of("acme", bins=2), passphrase=b"secret", new_key=key_of("locked"))
    init(folder, setup, now())
    skill = write_skill(tmp_path)
    with pytest.raises(UsageError):
        add(folder, [skill], Signing(now=now()))
    with pytest.raises(FormatError):
        add(folder, [skill], Signing(now=now(), passphrase=b"wrong"))
    assert len(add(folder, [skill], Signing(now=now(), passphrase=b"secret")).releases) == 1


def test_folder_without_a_registry_is_not_found(tmp_path):
    with pytest.raises(NotFound):
        add(str(tmp_path), [], Signing(now=now()))
    with pytest.raises(NotFound):
        check(str(tmp_path), now())


def test_killed_add_leaves_a_valid_site_and_the_next_run_completes(hub, tmp_path):
    """`add` is killed before each of its writes: a client gets the complete old state or the complete new one."""
    hub.publish()
    twin = hub.copy(tmp_path / "twin")
    twin.publish(version="1.1.0")
    before, after, looks = dict(hub.files), dict(twin.files), []

    def look(kill, done):
        hub.pull()
        registry = hub.open(tmp_path / f"m{len(looks)}")
        releases = registry.release_index(["hello"]).releases("hello")
        assert [each.version for each in releases] in (["1.0.0"], ["1.1.0", "1.0.0"])
        assert all(registry.artifact(each) for each in releases)
        finished = {path: data for path, data in hub.files.items() if not path.endswith(".tmp")}
        assert not done or finished == after
        looks.append(done)

    kills = kill_everywhere(hub.dir.path, lambda: hub.publish(version="1.1.0"), look)
    assert kills >= sum(before.get(path) != data for path, data in after.items())
    assert looks == [True] + [False, True] * (len(looks) // 2)


@pytest.mark.parametrize(
    "part", ["archives/", "targets/idx", "targets/publishers", "metadata/timestamp", ".well-known/agent-skills/index"]
)
def test_check_finds_any_changed_file(hub, part):
    hub.publish()
    for path in [path for path in hub.files if path.startswith(part)]:
        with open(os.path.join(hub.dir.site, path), "r+b") as file:
            file.seek(-20, os.SEEK_END)
            file.write(b"X" * 5)
    assert check(hub.dir.path, now()).problems != ()


@pytest.mark.parametrize("role", ["snapshot", "targets", "namespaces", "releases"])
def test_check_finds_damaged_metadata_despite_an_intact_bundle(hub, role):
    hub.publish()
    newest = max(
        (path for path in hub.files if path.startswith("metadata/") and path.endswith(f".{role}.json")),
        key=lambda path: int(path.partition("/")[2].split(".")[0]),
    )
    with open(os.path.join(hub.dir.site, newest), "r+b") as file:
        file.seek(-20, os.SEEK_END)
        file.write(b"X" * 5)
    assert check(hub.dir.path, now()).problems != ()


def test_check_finds_an_expired_registry(tmp_path):
    hub = Simulator(tmp_path, when=long_ago(5))
    assert [issue.code for issue in check(hub.dir.path, now()).problems] == ["metadata-expired"]


def test_invalid_settings_are_refused(hub):
    for text in (
        "{}",
        '{"publisher": "../x", "bin_bits": 1, "days": null, "compress": true, "version": 1}',
        "<html>",
    ):
        with open(os.path.join(hub.dir.path, "registry.json"), "w") as file:
            file.write(text)
        with pytest.raises(SkillhubError) as caught:
            add(hub.dir.path, [], Signing(now=now()))
        assert caught.value.code == "format"


def test_attack_a_document_above_the_limit_of_clients_is_not_published(hub):
    """No file is published, so no client gets a registry that it cannot read."""
    hub.publish()
    before = tree_of(hub.dir.path)
    with opened(hub.dir.path, Signing(now=hub.when)) as found:
        index = found.index()
        one = replace(index.skills["hello"][0], yanked="broken " * 300)
        many = tuple(replace(one, version=f"1.0.{number}") for number in range(2_500))
        with pytest.raises(Refused, match="clients read at most 5,000,000"):
            found.publish(Index({"hello": many}, index.admissions), ["acme"], ["hello"])
    assert tree_of(hub.dir.path) == before
    for path, size in {
        "index.json": 32 << 20,
        "idx/acme.json": 5_000_000,
        "metadata/listing.json": 5_000_000,
    }.items():
        refuse_large({path: bytes(size)})
        with pytest.raises(Refused, match=path):
            refuse_large({path: bytes(size + 1)})


@pytest.mark.parametrize("dry_run", [False, True])
def test_root_that_clients_would_refuse_is_not_written(hub, dry_run):
    before = tree_of(hub.dir.site)
    with opened(hub.dir.path, Signing(now=hub.when, dry_run=dry_run)) as found:
        root = found.metadata.signed("root", Root)
        for number in range(120):
            root.add_key(public_key(PrivateKey.from_seed(bytes([number] * 32), "ed25519").public), "timestamp")
        state = found.metadata.changed({"root": root}, found.keys.of, found.dates)
        assert len(state.documents["root"]) > ROOT_CAP
        with pytest.raises(Refused, match=r"clients read at most 32,000"):
            found.serve(state)
    assert tree_of(hub.dir.site) == before
    for path, data in state.files().items():  # as another program, or an older version, would have published it
        Path(hub.dir.site, path).write_bytes(data)
    (problem,) = check(hub.dir.path, now()).problems
    assert (problem.code, problem.message) == ("wrong-bytes", "expected at most 32000 bytes, found more")
    assert problem.where.endswith("/metadata/2.root.json")


def test_unfinished_files_of_a_killed_command_are_removed_by_the_next_one(hub, tmp_path):
    names = [f"{folder}/.skillhub-{'a' * 16}.tmp" for folder in ("", "site/metadata", "keys/online", "site/x")]
    left = [Path(hub.dir.path, *name.split("/")) for name in [*names, "site/.skillhub-notes.tmp"]]
    skill = write_skill(tmp_path, "other")

    def killed():
        with hub.dir.locked():
            for path in left:
                change(path, b"half")
            kill()

    assert in_child(killed) == KILLED
    assert check(hub.dir.path, now()).problems == ()
    add(hub.dir.path, [skill], Signing(now=hub.when))
    assert [path for path in left if path.exists()] == left[-1:]
    change(left[0], b"of a process that is running")
    add(hub.dir.path, [skill], Signing(now=hub.when))
    assert left[0].exists()
