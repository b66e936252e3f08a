"""A large registry: its listing is in parts that pin each other; commands of an operator, clients and attacks."""

import json
import os
import random
from dataclasses import replace
from hashlib import sha256

import pytest

from skillhub.disk import files
from skillhub.errors import (
    BadMetadata,
    FormatError,
    NameNotOwned,
    NotFound,
    Refused,
    SecurityError,
    SourceError,
    UsageError,
    WrongBytes,
)
from skillhub.formats.digest import Digest
from skillhub.model.discovery import PART_CAP, NamespacesDocument, parse_listing, parse_namespaces
from skillhub.model.index import namespace_path
from skillhub.registry.build import add
from skillhub.registry.check import _in_parts, check
from skillhub.registry.operator import RegistrySettings, Signing, opened
from skillhub.registry.push import push
from skillhub.registry.push_targets import FolderTarget
from skillhub.registry.upkeep import AdmissionChange, delegate, withdraw, yank
from skillhub.sources.local import read_local
from skillhub.trust.documents import NO_PARTS, SHARD_PATHS, PartsWriter, rows_of, shard_path
from skillhub.trust.keys import PrivateKey
from skillhub.trust.oms import sign
from skillhub.trust.registry_metadata import path_of, pinned_target
from skillhub.trust.registry_rules import (
    BEST_MAX,
    DEPTH_MAX,
    ROWS_MAX,
    every_part,
    keys_of,
    part_of,
    part_path,
    searched,
)
from skillhub.trust.roles import PARTS, WELL_KNOWN
from tests.support.published import tree_of
from tests.support.registry import Simulator, now, write_skill

NAMES = [f"{what}-{thing}" for what in ("fill", "merge", "split", "sign", "scan") for thing in "abcdefgh"]


def set_limit(hub, most):
    path = os.path.join(hub.dir.path, "registry.json")
    with open(path) as file:
        found = json.load(file)
    with open(path, "w") as file:
        json.dump({**found, "listed_whole": most}, file)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    hub = Simulator(folder, log=True)
    set_limit(hub, 20)
    hub.publish("hello")
    add(hub.dir.path, [write_skill(folder, name) for name in NAMES], Signing(now=hub.when))
    hub.pull()
    return hub


def parts_of(hub):
    with opened(hub.dir.path, Signing(now=now())) as found:
        return list(every_part(found.large.first, found.large.read))


def test_grown_registry_is_listed_in_parts(tmp_path):
    hub = Simulator(tmp_path, log=True)
    set_limit(hub, 2)
    hub.publish("one")
    hub.publish("two")
    whole = hub.dir.metadata()
    assert whole.find("index.json") and whole.find("skills/one.json") and not whole.find(PARTS)
    assert hub.open(tmp_path / "m").listing().names == ("one", "two")
    hub.publish("three")
    now_large = hub.dir.metadata()
    assert [*now_large.signed("listing", type(now_large.read("listing"))).targets] == [PARTS]
    assert hub.open(tmp_path / "m").listing("two").names == ("one", "three", "two")
    assert hub.open(tmp_path / "m").release_index(["one"]).names == ("one",)
    assert check(hub.dir.path, now()).problems == ()


def test_lists_of_all_skills_are_written_before_the_listing_is_split(tmp_path):
    hub = Simulator(tmp_path)
    hub.publish("one")
    hub.publish("two")
    with opened(hub.dir.path, Signing(now=hub.when)) as found:
        _, public, first = found._in_parts(found.index(), [], ["two"])
    # After a kill, the repeated call writes only the lists of its own skills.
    assert {path for path in first if "/lists/" in path and "well-known" in path} == {
        *map(shard_path, ("one", "two"))
    }
    assert f"{WELL_KNOWN}/index.json" in public and f"{WELL_KNOWN}/index.json" not in first


def test_attack_a_list_left_by_a_killed_call_is_removed(tmp_path, monkeypatch):
    """The call is killed while the registry becomes large; later another skill makes the registry large."""
    write = files.write_atomic

    def killed(path, data, **more):
        if "/metadata/" in path:
            raise KeyboardInterrupt
        write(path, data, **more)

    hub = Simulator(tmp_path)
    set_limit(hub, 1)
    hub.publish("one")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(files, "write_atomic", killed)
        hub.publish("two")
    left = os.path.join(hub.dir.site, *shard_path("two").split("/"))
    assert os.path.exists(left)
    hub.publish("three")
    assert not os.path.exists(left)
    assert check(hub.dir.path, now()).problems == ()


def test_search_reads_only_matching_parts(made, hub, tmp_path):
    registry = hub.open(tmp_path / "m")
    hub.asked.clear()
    found = registry.listing("merge c")
    assert "merge-c" in found.skills
    assert len(found.skills) < len(NAMES)
    parts = [path for path in hub.asked if "/lists/" in path]
    assert 0 < len(parts) <= 8 < len(parts_of(hub))
    assert all(len(hub.files[path]) <= PART_CAP for path in parts)
    hub.asked.clear()
    assert hub.open(tmp_path / "m").listing("merge c") == found
    assert not [path for path in hub.asked if "targets/" in path]


@pytest.mark.parametrize("typed", ["sign-d", "SIGN d", "d sign", "sign", "says hello", "sgin-d", "d"])
def test_skill_is_found_by_name_word_and_description(made, tmp_path, typed):
    registry = made.open(tmp_path / "m")
    hits = registry.listing(typed)
    assert any(name.startswith("sign-") for name in hits.skills) or len(hits.skills) == BEST_MAX
    release = next(iter(hits.skills.values()))[0]
    assert (release.publisher, release.version, release.description) == ("acme", "1.0.0", "Says hello.")


def test_shortened_results_give_a_warning(made, tmp_path):
    warnings = made.open(tmp_path / "m").listing("s").warnings
    assert any("begin with s, of which 16 were read" in each for each in warnings)
    assert made.open(tmp_path / "n").listing("hello-hello").warnings == ()


def test_release_changes_few_files_in_a_large_registry(hub, tmp_path):
    """A new version of a known skill changes no file of another skill, and no list of all skills."""
    before = tree_of(hub.dir.site)
    hub.publish("merge-c", "1.1.0")
    written = {path for path, data in tree_of(hub.dir.site).items() if before.get(path) != data}
    assert len(written) < 35
    named = [path for path in written if "/lists/" not in path and any(each in path for each in NAMES)]
    assert named and all("merge-c" in path for path in named)
    assert check(hub.dir.path, now()).problems == ()


def test_index_of_a_known_skill_equals_that_of_the_full_index(hub, tmp_path):
    with opened(hub.dir.path, Signing(now=now())) as found:
        some, every = found.index(["merge-c"]), found.index()
        assert some.releases("merge-c") == every.releases("merge-c")
        assert some.admissions["acme"] == every.admissions["acme"]
        again = found.index(["merge-c", "unheard-of"])
        assert again.admissions == every.admissions and again.releases("merge-c") == every.releases("merge-c")


def with_rival(hub, *names):
    """Admit a second publisher with these names, and return its key."""
    key = PrivateKey.from_seed(b"7" * 32)
    mandate = AdmissionChange(publisher="rival", keys=(key.public.pem,), names=names)
    delegate(hub.dir.path, mandate, Signing(now=hub.when))
    return key


def signed_by(key, parent, name, version="1.0.0"):
    folder = write_skill(parent, name, version)
    with open(f"{folder}/skill.oms.sig", "wb") as file:
        file.write(sign(read_local(folder).tree, name, key))
    return folder


def lose(hub, begins, but=()):
    """Remove files below ``targets`` that the next command must not need."""
    folder = os.path.join(hub.dir.site, *begins.split("/"))
    lost = [name for name in os.listdir(folder) if name.partition(".")[2] not in but]
    for name in lost:
        os.remove(os.path.join(folder, name))
    assert lost


def test_new_name_reads_admissions_and_no_other_skill(hub, tmp_path):
    key = with_rival(hub, "rivals-own", "rivals-next")
    add(hub.dir.path, [signed_by(key, tmp_path, "rivals-own")], Signing(now=hub.when))
    lose(hub, "targets/skills", but=["_all.json"])
    lose(hub, "targets/idx", but=["acme.json"])
    name = next(each for each in map("brand-new-{}".format, range(999)) if shard_path(each) in hub.files)
    add(hub.dir.path, [write_skill(tmp_path, name)], Signing(now=hub.when))
    hub.pull()
    assert hub.open(tmp_path / "m").release_index([name]).names == (name,)
    assert name in hub.open(tmp_path / "m").listing(name).skills


def test_new_name_of_another_publisher_keeps_its_other_releases(hub, tmp_path):
    key = with_rival(hub, "rivals-own", "rivals-next")
    add(hub.dir.path, [signed_by(key, tmp_path, "rivals-own")], Signing(now=hub.when))
    add(hub.dir.path, [signed_by(key, tmp_path, "rivals-next"), write_skill(tmp_path, "ours")], Signing(now=hub.when))
    hub.pull()
    both = ["rivals-own", "rivals-next"]
    assert set(hub.open(tmp_path / "m").release_index(both).admissions) == {"rival"}
    assert check(hub.dir.path, now()).problems == ()


def test_delegate_reads_no_other_skill_and_keeps_documents(hub, tmp_path):
    key = with_rival(hub, "rivals-own")
    add(hub.dir.path, [signed_by(key, tmp_path, "rivals-own")], Signing(now=hub.when))
    lose(hub, "targets/skills", but=["_all.json", "rivals-own.json"])
    second = PrivateKey.from_seed(b"8" * 32).public.pem
    mandate = AdmissionChange(publisher="rival", keys=(second,), names=("rivals-next",))
    delegate(hub.dir.path, mandate, Signing(now=hub.when))
    delegate(hub.dir.path, AdmissionChange(publisher="third", keys=(second,)), Signing(now=hub.when))
    hub.pull()
    registry = hub.open(tmp_path / "m")
    (admission,) = registry.release_index(["rivals-own"]).admissions.values()
    assert (len(admission.keys), admission.names) == (2, {"rivals-own", "rivals-next"})
    assert registry.listing("rivals-own").releases("rivals-own")[0].description == "Says hello."
    assert {*registry.offers().admissions} == {"acme", "rival", "third"}


def test_moved_name_in_a_large_registry_keeps_other_names(hub):
    with_rival(hub, "rivals-own")
    with pytest.raises(NameNotOwned):
        delegate(hub.dir.path, AdmissionChange(publisher="rival", names=("merge-c",)), Signing(now=hub.when))
    done = delegate(
        hub.dir.path, AdmissionChange(publisher="rival", names=("merge-c",), move=True), Signing(now=hub.when)
    )
    assert [each.name for each in done.withdrawn] == ["merge-c"]
    assert check(hub.dir.path, now()).problems == ()
    with opened(hub.dir.path, Signing(now=now())) as found:
        index = found.index()
    assert (index.owner("merge-c"), {*index.skills}) == ("rival", {"hello", *NAMES})
    assert {each.description for releases in index.skills.values() for each in releases} == {"Says hello."}


@pytest.mark.parametrize("is_released", [False, True])
def test_attack_a_skill_cannot_take_the_name_of_another_publisher(hub, tmp_path, is_released):
    key = with_rival(hub, "rivals-own")
    if is_released:
        add(hub.dir.path, [signed_by(key, tmp_path, "rivals-own")], Signing(now=hub.when))
    before = tree_of(hub.dir.path)
    with pytest.raises((Refused, NameNotOwned), match="rival"):
        add(hub.dir.path, [write_skill(tmp_path / "own", "rivals-own", "2.0.0")], Signing(now=hub.when))
    with pytest.raises((Refused, NameNotOwned), match="acme"):
        mine = signed_by(key, tmp_path / "theirs", "merge-c", "2.0.0")
        add(hub.dir.path, [mine], Signing(now=hub.when))
    assert tree_of(hub.dir.path) == before


def test_attack_a_publisher_pinned_as_another_is_refused(hub, tmp_path):
    with_rival(hub, "rivals-own")
    pins = {}
    for path in ("acme", "rival"):
        pins |= parse_namespaces(hub.dir.target(hub.dir.metadata(), namespace_path(path)), "")
    hub.revise({namespace_path("zeta"): NamespacesDocument(publishers={"zeta": pins["rival"]}).dump()})
    hub.dir.publish({path.replace("rival", "zeta"): data for path, data in hub.files.items() if ".rival." in path})
    with pytest.raises(NameNotOwned):
        add(hub.dir.path, [write_skill(tmp_path, "brand-new")], Signing(now=hub.when))


def test_parts_show_recalled_releases(hub, tmp_path):
    yank(hub.dir.path, "merge-c@1.0.0", "slow", Signing(now=hub.when))
    withdraw(hub.dir.path, "sign-d@1.0.0", "leaks", Signing(now=hub.when))
    hub.pull()
    assert hub.open(tmp_path / "m").listing("merge-c").releases("merge-c")[0].yanked == "slow"
    assert hub.open(tmp_path / "m").listing("sign-d").releases("sign-d")[0].withdrawn == "leaks"
    assert check(hub.dir.path, now()).problems == ()


def test_push_serves_all_files_of_the_folder(hub, tmp_path):
    push(hub.dir.path, str(tmp_path / "public"), FolderTarget, now=now())
    files = tree_of(tmp_path / "public")
    assert files == {path: hub.files[path] for path in files}
    assert {path for path in hub.files if "/lists/" in path and path.startswith(WELL_KNOWN)} <= set(files)
    hub.files = files
    assert "scan-h" in hub.open(tmp_path / "m").listing("scan-h").skills


def test_other_programs_find_all_skills_in_the_lists(made):
    whole = json.loads(made.files[f"{WELL_KNOWN}/index.json"])
    assert (whole["skills"], len(whole["lists"])) == ([], 256)
    paths = (f"{WELL_KNOWN}/{each}" for each in whole["lists"])
    found = [parse_listing(made.files[path], path) for path in paths if path in made.files]
    assert sorted(name for each in found for name in each.names) == sorted([*NAMES, "hello"])
    (release,) = next(each for each in found if "hello" in each.skills).skills["hello"]
    assert release.url.removeprefix("../../../") in made.files


def test_listing_equals_the_document_of_the_skill(hub, tmp_path):
    """The description has hidden characters; an older version is added while the newest one is yanked."""

    def published(version, text):
        folder = write_skill(tmp_path, "merge-c", version)
        with open(f"{folder}/SKILL.md", encoding="utf-8") as file:
            head = file.read()
        with open(f"{folder}/SKILL.md", "w", encoding="utf-8") as file:
            file.write(head.replace("Says hello.", text))
        add(hub.dir.path, [folder], Signing(now=hub.when))

    published("2.0.0", "Joins docu\u200bments and \u202etables.")
    yank(hub.dir.path, "merge-c@2.0.0", "slow", Signing(now=hub.when))
    published("1.5.0", "Something entirely different.")
    assert check(hub.dir.path, now()).problems == ()
    published("3.0.0", "Another one.")
    assert check(hub.dir.path, now()).problems == ()
    hub.pull()
    keys = {row.key for part in parts_of(hub) for row in part.rows if row.name == "merge-c"}
    assert keys == {*keys_of("merge-c", "Another one.")}


# The parts themselves.


def document_of(name, text="Says hello.", withdrawn=None, **more):
    facts = {"version": "1.0.0", "published": "2026-01-01T00:00:00Z", "size": 1, "url": "x", "withdrawn": withdrawn}
    release = {**facts, "digest": str(Digest.of(b"")), "tree": str(Digest.of(b"")), **more}
    return json.dumps({"name": name, "publisher": "acme", "description": text, "releases": [release]}).encode()


def rows_for(state):
    rows = {}
    for name, (text, withdrawn) in state.items():
        rows |= rows_of(name, document_of(name, text, withdrawn))
    return rows


def test_part_of_the_longest_texts_is_within_the_limit_of_clients():
    texts = {"version": f"1.0.0+{'9' * 250}", "yanked": "\U0001f642" * 1024, "withdrawn": "\U0001f642" * 1024}
    rows = {}
    for number in range(ROWS_MAX):
        name = f"{'a' * 61}-{number:02}"
        found = rows_of(name, document_of(name, "\U0001f642" * 1024, **texts))
        rows[f"{name}--{name}."] = found[f"{name}--{name}."]
    first = PartsWriter(None).revised(part_of("", None, NO_PARTS, ""), rows)
    assert len(part_of("", None, first, "").rows) == ROWS_MAX
    assert len(first) < PART_CAP // 2


def test_parts_depend_only_on_the_skills():
    """Many small changes give the same bytes as one build, so that `check` can build the parts again."""
    chance, kept, state = random.Random(7), {}, {}
    words = ["pdf", "form", "fill", "git", "commit", "a", "aa", "aaa", "aaaa", "über", "表"]

    def read(prefix, pinned):
        data = kept[path_of(pinned_target(part_path(prefix), pinned))]
        return part_of(prefix, pinned, data, prefix)

    first = NO_PARTS
    for step in range(20):
        before = dict(state)
        for _ in range(chance.choice([1, 2, 40])):
            if state and chance.random() < 0.3:
                del state[chance.choice(sorted(state))]
            name = "-".join(chance.choices(words[:9], k=chance.choice([1, 2, 3])))
            state[name] = (" ".join(chance.choices(words, k=5)), chance.choice([None, None, "bad"]))
        changes = {**dict.fromkeys(rows_for(before)), **rows_for(state)}
        made = PartsWriter(read)
        first = made.revised(part_of("", None, first, ""), changes)
        kept |= made.made
        again = PartsWriter(read)
        assert (step, first) == (step, again.revised(part_of("", None, NO_PARTS, ""), rows_for(state)))
    every = [*every_part(part_of("", None, first, ""), read)]
    assert {row.key for each in every if not each.parts for row in each.rows} == set(rows_for(state))
    assert len(every) > 20 and all(len(each.rows) <= (BEST_MAX if each.parts else ROWS_MAX) for each in every)


def test_words_of_any_script_are_keys_and_hostile_text_is_dropped():
    assert keys_of("fill-pdf", "Füllt PDF forms, 表格; ../../x $(rm) \x1b[2J\u202e") == [
        "fill-pdf--fill-pdf.",
        "pdf--fill-pdf.",
        f"{'füllt'.encode().hex()}--fill-pdf.",
        "forms--fill-pdf.",
        f"{'表格'.encode().hex()}--fill-pdf.",
    ]
    assert searched("  Fill-PDF, fast!! a b c d") == ["fill-pdf-fast-a", "fill", "pdf", "fast", "a"]
    assert searched("../..; $()") == []
    assert len(keys_of("a", " ".join(f"word{number}" for number in range(1000)))) == 25


@pytest.mark.parametrize("bins", [0, 1, -4, 3, 8192, 2**40])
def test_invalid_number_of_bins_is_refused(bins):
    assert [RegistrySettings.of("acme", bins=1 << bits).bin_bits for bits in (1, 4, 9, 12)] == [1, 4, 9, 12]
    with pytest.raises(UsageError, match=f"found {bins}"):
        RegistrySettings.of("acme", bins=bins)


# Attacks by the server of the site, and by a thief with the key of the listing.


def part_paths(hub):
    return sorted(path for path in hub.files if path.startswith("targets/lists/"))


def is_asked(hub, tmp_path):
    hub.open(tmp_path / "other").listing("merge-c")
    return [path for path in hub.asked if path.startswith("targets/lists/")]


def hub_of(hub, files):
    hub.files = dict(files)
    hub.asked.clear()
    return hub


@pytest.mark.parametrize("how", ["another", "damaged", "missing", "longer", "empty"])
def test_attack_a_foreign_damaged_or_missing_part_is_refused(hub, tmp_path, how):
    for path in is_asked(hub, tmp_path):
        data = hub.files[path]
        wrong = next(hub.files[each] for each in part_paths(hub) if each != path)
        changed = {"another": wrong, "damaged": data[:-9] + b"x" * 9, "longer": data + b" ", "empty": b""}
        hub.files.pop(path) if how == "missing" else hub.files.update({path: changed[how]})
        with pytest.raises(SourceError if how == "missing" else WrongBytes):
            hub.open(tmp_path / f"m-{len(data)}").listing("merge-c")
        assert check(hub.dir.path, now()).problems == ()
        hub.files[path] = data


def test_attack_older_parts_are_refused(hub, tmp_path):
    hub.open(tmp_path / "m").listing("merge-c")
    old = dict(hub.files)
    yank(hub.dir.path, "merge-c@1.0.0", "slow", Signing(now=hub.when))
    hub.pull()
    new = dict(hub.files)
    first = next(path for path in new if path.endswith("_all.json") and path not in old)
    hub.files[first] = next(old[path] for path in old if path.endswith("_all.json"))
    with pytest.raises(SecurityError):
        hub.open(tmp_path / "m").listing("merge-c")
    before = {path.partition(".")[2]: data for path, data in old.items() if path.startswith("targets/lists/")}
    asked = [path for path in is_asked(hub_of(hub, new), tmp_path) if path not in old]
    assert asked
    for path in asked:
        hub.files = {**new, path: before[path.partition(".")[2]]}
        with pytest.raises(SecurityError):
            hub.open(tmp_path / "m").listing("merge-c")


ROW = {"key": "pdf--fill-pdf.", "name": "fill-pdf", "publisher": "acme", "version": "1.0.0", "description": "Fills."}
PIN = {"sha256": "0" * 64, "size": 10, "count": 60}
LEAF = {"version": 1, "prefix": "", "count": 1, "rows": [ROW], "parts": {}}
INNER = {"version": 1, "prefix": "", "count": 120, "rows": [ROW], "parts": {"a": PIN, "b": PIN}}
OTHER = {**ROW, "key": "a--fill-pdf."}
MANY = [{**ROW, "key": f"a{number}--fill-pdf."} for number in range(10, 59)]
LIES = {
    "a row under what does not begin so": ("x", {**LEAF, "prefix": "x"}, BadMetadata),
    "another prefix than asked for": ("x", LEAF, BadMetadata),
    "a count that is too high": ("", {**LEAF, "count": 2}, BadMetadata),
    "a count that is too low": ("", {**INNER, "count": 1}, BadMetadata),
    "a count beyond all": ("", {**INNER, "count": 10**30}, BadMetadata),
    "a count below zero": ("", {**LEAF, "count": -1}, FormatError),
    "a count that is text": ("", {**LEAF, "count": "1"}, FormatError),
    "unsorted rows": ("", {**LEAF, "rows": [ROW, OTHER], "count": 2}, BadMetadata),
    "the same row twice": ("", {**LEAF, "rows": [ROW, ROW], "count": 2}, BadMetadata),
    "the same best row twice": ("", {**INNER, "rows": [ROW, ROW]}, BadMetadata),
    "a key of another name": ("", {**LEAF, "rows": [{**ROW, "key": "pdf--other."}]}, BadMetadata),
    "a key without a word": ("", {**LEAF, "rows": [{**ROW, "key": "--fill-pdf."}]}, FormatError),
    "a key that leads out": ("", {**LEAF, "rows": [{**ROW, "key": "../x--fill-pdf."}]}, FormatError),
    "a name that leads out": ("", {**LEAF, "rows": [{**ROW, "name": "../../x"}]}, SecurityError),
    "a name in capitals": ("", {**LEAF, "rows": [{**ROW, "name": "Fill"}]}, FormatError),
    "a version that is none": ("", {**LEAF, "rows": [{**ROW, "version": "newest"}]}, FormatError),
    "a part that leads out": ("", {**INNER, "parts": {"../x": PIN, "b": PIN}}, FormatError),
    "a part beside the prefix": ("a", {**INNER, "prefix": "a", "rows": []}, BadMetadata),
    "a part above itself": ("a", {**INNER, "prefix": "a", "rows": [], "parts": {"a": PIN, "ab": PIN}}, BadMetadata),
    "two parts of one letter": ("", {**INNER, "parts": {"aa": PIN, "ab": PIN}}, BadMetadata),
    "a part without a digest": ("", {**INNER, "parts": {"a": {"size": 1, "count": 120}}}, FormatError),
    "a part that is too large": ("", {**INNER, "parts": {"a": {**PIN, "size": PART_CAP + 1}, "b": PIN}}, FormatError),
    "more rows than a part has": ("", {**LEAF, "count": 49, "rows": MANY}, BadMetadata),
    "another version of the format": ("", {**LEAF, "version": 2}, FormatError),
    "no object": ("", [], FormatError),
}


@pytest.mark.parametrize("lie", LIES)
def test_attack_invalid_parts_signed_by_a_stolen_key_are_refused(lie):
    prefix, document, error = LIES[lie]
    with pytest.raises((error, FormatError) if error is SecurityError else error):
        part_of(prefix, None, json.dumps(document).encode(), "x")


def test_attack_a_part_with_another_number_of_rows_is_refused():
    pinned = part_of("", None, json.dumps(INNER).encode(), "x").parts["a"]
    with pytest.raises(BadMetadata):
        part_of("", pinned, json.dumps(LEAF).encode(), "x")
    part_of("", replace(pinned, count=1), json.dumps(LEAF).encode(), "x")
    with pytest.raises(FormatError):
        part_of("", None, b" " * (PART_CAP + 1), "x")


def sign_part(hub, part):
    """Serve ``part`` as the first part, signed with the key of the listing."""
    hub.revise({PARTS: json.dumps(part).encode()})


def test_attack_a_stolen_key_of_the_listing_installs_no_skill(hub, tmp_path):
    sign_part(hub, {**LEAF, "rows": [{**ROW, "publisher": "evil", "description": "Use me\x1b[2J\u202e"}]})
    registry = hub.open(tmp_path / "m")
    (found,) = registry.listing("fill").skills["fill-pdf"]
    assert found.description == "Use me[2J"
    with pytest.raises(NotFound):
        registry.release_index(["fill-pdf"])
    assert registry.release_index(["merge-c"]).names == ("merge-c",)
    assert check(hub.dir.path, now()).problems[0].code == "bad-metadata"


def test_attack_an_endless_chain_of_parts_is_limited(hub, tmp_path):
    below, files = {"version": 1, "prefix": "a" * 150, "count": 1, "rows": [], "parts": {}}, {}
    below["rows"] = [{**ROW, "key": f"{'a' * 150}--fill-pdf."}]
    for length in range(149, -1, -1):
        data = json.dumps(below).encode()
        prefix, digest = "a" * (length + 1), sha256(data).hexdigest()
        files[f"targets/lists/{digest}.{prefix}.json"] = data
        pin = {"sha256": digest, "size": len(data), "count": 1}
        below = {"version": 1, "prefix": "a" * length, "count": 1, "rows": [], "parts": {prefix: pin}}
    sign_part(hub, below)
    hub.files |= files
    assert hub.open(tmp_path / "m").listing("a" * 200).skills == {}
    assert sum(path.startswith("targets/lists/") for path in hub.asked) == DEPTH_MAX


def test_attack_a_pin_of_the_document_of_another_skill_is_refused(hub, tmp_path):
    """The next command of the operator reads no description, owner or release of another skill."""
    data = hub.files[f"{WELL_KNOWN}/skills/hello.json"]
    digest = sha256(data).hexdigest()
    lie = {**ROW, "key": "sign-d--sign-d.", "name": "sign-d", "document": {"sha256": digest, "size": len(data)}}
    hub.dir.publish({f"targets/skills/{digest}.sign-d.json": data})
    sign_part(hub, {**LEAF, "rows": [lie]})
    with pytest.raises(BadMetadata, match="expected the releases of 'sign-d'"):
        yank(hub.dir.path, "sign-d@1.0.0", "slow", Signing(now=hub.when))
    assert check(hub.dir.path, now()).problems[0].code == "bad-metadata"


def test_attack_public_lists_that_differ_from_signed_ones_are_found(hub):
    path = next(path for path in hub.files if path.startswith(f"{WELL_KNOWN}/lists/"))
    for wrong in (path, f"{WELL_KNOWN}/skills/hello.json", f"{WELL_KNOWN}/index.json"):
        full = os.path.join(hub.dir.site, *wrong.split("/"))
        with open(full, "ab") as file:
            file.write(b" ")
        assert [each.code for each in check(hub.dir.path, now()).problems] == ["wrong-bytes"]
        with open(full, "wb") as file:
            file.write(hub.files[wrong])
    assert check(hub.dir.path, now()).problems == ()


def test_attack_a_public_list_without_a_skill_is_found(hub):
    """No release writes this list, and other programs would read it."""
    free = next(path for path in SHARD_PATHS if path not in hub.files)
    listed = next(data for path, data in hub.files.items() if path in SHARD_PATHS)
    for data in (listed, b"", b"{}", listed * 2):
        hub.dir.publish({free: data})
        assert [(each.code, each.where.endswith(free)) for each in check(hub.dir.path, now()).problems] == [
            ("wrong-bytes", True)
        ]
    os.remove(os.path.join(hub.dir.site, *free.split("/")))
    assert check(hub.dir.path, now()).problems == ()


def test_short_listing_is_requested_once(hub, tmp_path):
    registry = hub.open(tmp_path / "m")
    hub.asked.clear()
    _in_parts(registry, registry.first_part(), hub)
    assert hub.asked[f"{WELL_KNOWN}/index.json"] == 1


DAMAGES = {
    "cut off": lambda data: data[:-20],
    "no JSON": lambda data: b"\0" * 10,
    "empty": lambda data: b"",
    "a list": lambda data: b"[]",
    "another format": lambda data: data.replace(b"schemas.agentskills.io", b"example.org"),
    "a skill twice": lambda data: json.dumps({**json.loads(data), "skills": json.loads(data)["skills"] * 2}).encode(),
    "deep": lambda data: b"[" * 100_000,
    "missing": lambda data: None,
}


@pytest.mark.parametrize("how", DAMAGES)
def test_attack_a_damaged_public_list_does_not_stop_a_recall(hub, how):
    """The recall builds it, and the others, again from signed documents."""
    path = shard_path("merge-c")
    other = next(each for each in hub.files if each in SHARD_PATHS and each != path)
    for each in (path, other):
        full = os.path.join(hub.dir.site, *each.split("/"))
        data = DAMAGES[how](hub.files[each])
        os.remove(full)
        if data is not None:
            hub.dir.publish({each: data})
    assert [each.code for each in check(hub.dir.path, now()).problems] != []
    yank(hub.dir.path, "merge-c@1.0.0", "leaks", Signing(now=hub.when))
    assert check(hub.dir.path, now()).problems == ()
    hub.pull()
    assert "merge-c" not in parse_listing(hub.files[path], path).skills
