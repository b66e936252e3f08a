import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.edits.lock_merge import drive, merge, sides
from skillhub.errors import FormatError
from skillhub.formats.digest import Digest
from skillhub.model.lock import Lock, Locked, LockedSource

ROOT = Digest.of(b"root")
HERS, HIS = (f"key:{Digest.of(name)}:{name.decode()}" for name in (b"ann", b"bob"))
ACME = {"acme": LockedSource(kind="registry", url="https://acme.example", root=ROOT)}


def released(version, signer=HERS, source="acme", content=b""):
    data = Digest.of(version.encode() + content)
    return Locked(
        source=source, version=version, url=f"https://acme.example/{version}.zip", digest=data, tree=data, size=1,
        signed_by=(signer,) if signer else (),
    )  # fmt: skip


def local(content, path="skills/deploy"):
    return Locked(source="local", path=path, tree=Digest.of(content), size=1)


def in_git(rev, asked="v1", version=None, repo="acme/x"):
    return Locked(
        source=f"github:{repo}@{asked}", git=f"https://github.com/{repo}", rev=rev * 40, path="s",
        version=version, tree=Digest.of(rev.encode()), size=1,
    )  # fmt: skip


def lock(sources=ACME, **skills):
    return Lock({name: entry for name, entry in skills.items() if entry is not None}, sources)


def merged(ours, theirs, base=None, allows=lambda name, entry: True, take=None):
    return merge(ours, theirs, base, allows, take or {})


def choices(done):
    return [(each.name, each.took) for each in done.choices]


ONE, TWO, THREE = released("1.0.0"), released("1.1.0"), released("1.2.0")


def test_additions_of_both_sides_are_kept():
    done = merged(lock(a=ONE), lock(b=ONE), lock())
    assert done.lock == lock(a=ONE, b=ONE)
    assert choices(done) == [("a", "ours"), ("b", "theirs")]


def test_a_change_of_one_side_is_taken():
    assert merged(lock(a=ONE), lock(a=TWO), lock(a=ONE)).lock.skills == {"a": TWO}
    assert merged(lock(a=TWO), lock(a=ONE), lock(a=ONE)).lock.skills == {"a": TWO}
    # Also a change back to a lower version, which was intended.
    assert merged(lock(a=THREE), lock(a=ONE), lock(a=THREE)).lock.skills == {"a": ONE}


def test_a_removal_of_one_side_is_taken_and_reported():
    done = merged(lock(a=ONE), lock(a=ONE, b=ONE), lock(a=ONE, b=ONE))
    assert done.lock.skills == {"a": ONE}
    assert [(each.took, each.why) for each in done.choices] == [
        (None, "ours removed it, the other left it unchanged")
    ]


def test_a_skill_removed_by_one_side_and_changed_by_the_other_is_kept():
    for ours, theirs, side in ((None, TWO, "theirs"), (TWO, None, "ours")):
        done = merged(lock(a=ours), lock(a=theirs), lock(a=ONE))
        assert done.lock.skills == {"a": TWO}
        assert choices(done) == [("a", side)]
        assert "removed it, the other changed it, so it is kept" in done.choices[0].why


def test_without_a_base_no_skill_counts_as_removed():
    done = merged(lock(a=ONE), lock(b=ONE))
    assert set(done.lock.skills) == {"a", "b"}
    assert {each.why for each in done.choices} == {"only one side has it, so it is kept"}


def test_the_higher_of_two_versions_is_taken():
    for ours, theirs, side in ((TWO, THREE, "theirs"), (THREE, TWO, "ours")):
        done = merged(lock(a=ours), lock(a=theirs), lock(a=ONE))
        assert done.lock.skills == {"a": THREE}
        assert choices(done) == [("a", side)]
        assert "1.2.0 is higher than 1.1.0" in done.choices[0].why


def test_versions_are_compared_by_semver():
    nine, ten, rc = released("1.9.0"), released("1.10.0"), released("1.10.0-rc.1")
    assert merged(lock(a=nine), lock(a=ten)).lock.skills == {"a": ten}
    assert merged(lock(a=rc), lock(a=ten)).lock.skills == {"a": ten}


def test_a_version_allowed_by_the_intent_wins_over_a_higher_one():
    done = merged(lock(a=TWO), lock(a=THREE), lock(a=ONE), lambda name, entry: entry == TWO)
    assert done.lock.skills == {"a": TWO}
    assert "skillhub.toml allows only 1.1.0" in done.choices[0].why


def test_two_versions_that_the_intent_excludes_are_reported():
    done = merged(lock(a=TWO), lock(a=THREE), lock(a=ONE), lambda name, entry: False)
    assert done.lock.skills == {"a": THREE}
    assert "skillhub install" in done.choices[0].why


def test_different_signers_are_a_clash():
    done = merged(lock(a=TWO), lock(a=released("1.2.0", HIS)), lock(a=ONE))
    (clash,) = done.clashes
    assert (clash.name, clash.about) == ("a", "signer")
    assert clash.ours == f"signed by {HERS} by acme"
    assert clash.theirs == f"signed by {HIS} by acme"
    assert done.lock.skills == {"a": TWO}


def test_an_unsigned_higher_version_clashes_with_a_signed_one():
    done = merged(lock(a=TWO), lock(a=released("9.0.0", signer=None)), lock(a=ONE))
    assert [(each.about, each.theirs) for each in done.clashes] == [("signer", "unsigned")]


def test_different_sources_are_a_clash():
    both = {**ACME, "evil": LockedSource(kind="registry", url="https://evil.example", root=ROOT)}
    done = merged(lock(a=TWO), lock(both, a=released("9.0.0", source="evil")), lock(a=ONE))
    assert [(each.about, each.ours, each.theirs) for each in done.clashes] == [
        ("source", "acme at acme.example", "evil at acme.example")
    ]


@pytest.mark.parametrize(
    "other",
    [
        LockedSource(kind="registry", url="https://acme.example", root=Digest.of(b"another")),
        LockedSource(kind="registry", url="https://evil.example", root=ROOT),
    ],
)
def test_different_registries_for_one_alias_are_a_clash(other):
    done = merged(lock(ACME, a=ONE), lock({"acme": other}, a=ONE))
    assert [(each.name, each.about) for each in done.clashes] == [("acme", "source")]
    assert other.url in done.clashes[0].theirs


def test_one_version_with_different_content_is_a_clash():
    done = merged(lock(a=TWO), lock(a=released("1.1.0", content=b"x")), lock(a=ONE))
    assert [each.about for each in done.clashes] == ["content"]
    assert done.clashes[0].ours != done.clashes[0].theirs


def test_commits_of_one_repository_are_chosen_by_version_or_clash():
    done = merged(lock(a=in_git("a", "v1", "1.0.0")), lock(a=in_git("b", "v2", "2.0.0")))
    assert choices(done) == [("a", "theirs")]
    assert [each.about for each in merged(lock(a=in_git("a")), lock(a=in_git("b"))).clashes] == ["content"]
    other = merged(lock(a=in_git("a")), lock(a=in_git("b", repo="evil/x")))
    assert [each.about for each in other.clashes] == ["source"]


def test_a_local_skill_takes_ours_and_names_the_command_for_its_folder():
    done = merged(lock(a=local(b"1")), lock(a=local(b"2")), lock(a=local(b"0")))
    assert done.lock.skills == {"a": local(b"1")}
    assert "skillhub install ./skills/deploy" in done.choices[0].why
    assert [each.about for each in merged(lock(a=local(b"1")), lock(a=local(b"2", "b"))).clashes] == ["source"]


def test_a_new_signer_of_one_side_is_reported():
    (choice,) = merged(lock(a=ONE), lock(a=released("1.1.0", HIS)), lock(a=ONE)).choices
    assert choice.took == "theirs"
    assert f"signed by {HIS} by acme now, no longer signed by {HERS} by acme" in choice.why


def test_attack_another_root_of_a_source_is_reported_though_only_one_side_has_it():
    evil = LockedSource(kind="registry", url="https://evil.example", root=Digest.of(b"another"))
    done = merged(lock(a=ONE), lock({"acme": evil}, a=ONE), lock(a=ONE))
    assert (done.lock.sources, choices(done)) == ({"acme": evil}, [("acme", "theirs")])
    assert f"this source is {evil} now, no longer {ACME['acme']}" in done.choices[0].why


def test_take_chooses_a_side():
    ours, theirs = lock(a=TWO), lock(a=released("1.2.0", HIS))
    for side, expected in (("ours", ours), ("theirs", theirs)):
        done = merged(ours, theirs, lock(a=ONE), take={"a": side})
        assert (done.lock, done.clashes) == (expected, ())
    assert merged(lock(a=ONE), lock(), take={"a": "theirs"}).lock.skills == {}


def test_a_chosen_side_that_the_intent_excludes_is_reported():
    for side, expected in (("ours", local(b"1")), ("theirs", ONE)):
        done = merged(lock(a=local(b"1")), lock(a=ONE), None, lambda name, entry: entry == ONE, {"a": side})
        assert done.lock.skills == {"a": expected}
        note = "; skillhub.toml asks for another: correct its line a before skillhub install"
        assert done.choices[0].why == f"as you chose{note if side == 'ours' else ''}"


def test_a_source_stays_while_a_skill_needs_it():
    base = lock(ACME, a=ONE)
    done = merged(lock({}, a=None), lock(ACME, a=ONE, b=ONE), base)
    assert done.lock == lock(ACME, b=ONE)
    assert Lock.parse(done.lock.dump()) == done.lock


entries = st.sampled_from([ONE, TWO, THREE, released("1.1.0", HIS), released("2.0.0", None), local(b"1"), None])
locks = st.builds(lambda a, b: lock(a=a, b=b), entries, entries)


@given(locks, locks, st.none() | locks)
def test_no_skill_is_lost_silently_and_no_signer_replaced(ours, theirs, base):
    done = merged(ours, theirs, base)
    assert Lock.parse(done.lock.dump()) == done.lock
    named = {each.name for each in (*done.choices, *done.clashes)}
    for name in {*ours.skills, *theirs.skills}:
        mine, yours = ours.skills.get(name), theirs.skills.get(name)
        assert (name in named) == (mine != yours)
        assert done.lock.skills.get(name) in (mine, yours, None)
        if base is None:
            assert name in done.lock.skills
            if mine and yours and mine.signed_by != yours.signed_by:
                assert name in {each.name for each in done.clashes}


@given(locks, locks, locks)
def test_the_result_does_not_depend_on_the_order_of_the_sides(ours, theirs, base):
    one, other = merged(ours, theirs, base), merged(theirs, ours, base)
    assert {each.name for each in one.clashes} == {each.name for each in other.clashes}
    clashing = {each.name for each in one.clashes}
    for name in {*one.lock.skills, *other.lock.skills} - clashing:
        mine, yours = one.lock.skills.get(name), other.lock.skills.get(name)
        assert mine == yours or mine.local


@pytest.mark.parametrize(
    "path", ["a;touch pwned", "$(touch pwned)", "a b", "`id`", "a'b", "a|sh", "--yes", "a&&b", "a>b", "~root", "#a"]
)
def test_attack_a_path_of_the_lock_is_quoted_in_the_command(path):
    (choice,) = merged(lock(a=local(b"1", path)), lock(a=local(b"2", path)), lock(a=local(b"0", path))).choices
    command = re.search(r"; (skillhub install .*) takes the present version", choice.why)[1]
    assert shlex.split(command) == ["skillhub", "install", f"./{path}"]


def test_attack_sides_that_make_no_lock_together_stay_a_conflict():
    """The other side turns a site into a registry, whose skills need a digest: its changes must not be lost."""
    site = {"acme": LockedSource(kind="well-known", url="https://acme.example")}
    one, two = (Locked(source="acme", url=f"https://acme.example/{name}", tree=ROOT, size=1) for name in "ab")
    ours, theirs = lock(site, a=one, b=two).dump(), lock(a=ONE).dump()
    done = drive(lock(site, a=one).dump(), ours, theirs)
    assert isinstance(done.error, FormatError)
    assert sides(done.data) == (ours, theirs, None)
