"""The lock beyond the files of ``lockfiles/``: properties, real merges, and invalid entries."""

import contextlib
import json
import re
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError, SkillhubError
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.formats.text import RESERVED_ALIASES, clean
from skillhub.model.lock import CAP, LOCAL, Lock, Locked, LockedSource, Patch
from tests.support.effort import at_most

TREE = Digest.of(b"tree")
SOURCE = LockedSource(kind="registry", url="https://skills.example", root=Digest.of(b"root"))
RELEASED = Locked(
    source="github",
    tree=TREE,
    size=5,
    version="1.0.0",
    url="https://skills.example/a.zip",
    digest=Digest.of(b"artifact"),
)
ON_DISK = Locked(source=LOCAL, tree=TREE, size=5, path="skills/deploy")

names = st.from_regex(r"[a-z0-9]{1,6}(-[a-z0-9]{1,4}){0,2}", fullmatch=True)
texts = st.text(min_size=1, max_size=12).map(clean).filter(bool)
needs = st.builds("{}:a{}".format, st.sampled_from(["mcp", "program", "skill"]), names)
capability_kinds = st.sampled_from(["network", "tools"])
digests = st.binary(max_size=4).map(Digest.of)
versions = st.builds("{}.{}.0-a{}".format, st.integers(0, 99), st.integers(0, 1 << 40), names)
capabilities = st.sampled_from(["scripts", "agents"]) | st.builds("{}:{}".format, capability_kinds, texts)
signers = st.builds("{}:{}:{}".format, st.sampled_from(["key", "certificate"]), digests, texts)
common = {
    "tree": st.binary(min_size=1, max_size=4).map(Digest.of),
    "size": st.integers(0, 1 << 40),
    "capabilities": st.lists(capabilities, max_size=3).map(tuple),
    "requires": st.lists(needs, max_size=3).map(tuple),
    "signed_by": st.lists(signers, max_size=2).map(tuple),
}
paths = texts.filter(lambda text: not text.startswith("~") and ".." not in text)
local_entries = st.builds(
    Locked, source=st.just(LOCAL), path=paths, version=st.none() | texts, digest=st.none() | digests, **common
)


@st.composite
def locks(draw):
    aliases = names.filter(lambda name: name not in RESERVED_ALIASES)
    urls = texts.filter(lambda text: "@" not in text)
    source = st.builds(LockedSource, kind=st.just("registry"), url=urls, root=digests)
    sources = draw(st.dictionaries(aliases, source, min_size=1, max_size=3))
    released = st.builds(
        Locked, source=st.sampled_from(sorted(sources)), url=urls, digest=digests, version=versions, **common
    )
    return Lock(draw(st.dictionaries(names, released | local_entries, max_size=4)), sources)


@given(locks())
def test_lock_is_read_back(lock):
    data = lock.dump()
    assert Lock.parse(data) == lock
    assert Lock.parse(data).dump() == data


@given(locks(), st.randoms(use_true_random=False))
def test_lock_is_written_in_one_order(lock, random):
    def shuffled(mapping):
        items = list(mapping.items())
        random.shuffle(items)
        return dict(items)

    again = Lock(shuffled(lock.skills), shuffled(lock.sources))
    assert again.dump() == lock.dump()
    by_hand = json.dumps(shuffled(json.loads(lock.dump())), indent="\t").replace("\n", "\r\n").encode()
    assert Lock.parse(by_hand).dump() == lock.dump()
    assert list(Lock.parse(by_hand).skills) == sorted(lock.skills)


@given(st.binary(max_size=300))
def test_any_bytes_of_a_lock_are_parsed_or_refused(data):
    with contextlib.suppress(SkillhubError):
        Lock.parse(data)


GOOD = Lock({"gh-fix-ci": RELEASED, "deploy": ON_DISK}, {"github": SOURCE}).dump()


@given(st.integers(0, len(GOOD) - 1), st.binary(max_size=3), st.integers(0, 3))
def test_any_damaged_lock_is_refused_or_valid(at, put, cut):
    with contextlib.suppress(SkillhubError):
        lock = Lock.parse(GOOD[:at] + put + GOOD[at + cut :])
        assert Lock.parse(lock.dump()) == lock


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_PLACES = [
    (*above, key)
    for above, block in [
        ((), json.loads(GOOD)),
        (("skills", "gh-fix-ci"), json.loads(GOOD)["skills"]["gh-fix-ci"]),
        (("skills", "deploy"), json.loads(GOOD)["skills"]["deploy"]),
        (("sources", "github"), json.loads(GOOD)["sources"]["github"]),
    ]
    for key in (*block, "new")
]


@given(st.sampled_from(_PLACES), values)
def test_any_value_at_any_key_is_valid_or_refused_with_its_line(place, value):
    document = json.loads(GOOD)
    block = document
    for key in place[:-1]:
        block = block[key]
    block[place[-1]] = value
    try:
        Lock.parse(json.dumps(document).encode())
    except FormatError as error:
        assert re.match(r"skillhub\.lock:\d+: ", error.where)
        assert clean(error.where) == error.where


def test_attack_deeply_nested_lists_in_a_lock_are_refused():
    """Near the limit, the parser accepts the value and the message cannot show it."""
    for depth in range(900, 1001):
        data = GOOD.replace(b'"size": 5', b'"size": ' + b"[" * depth + b"]" * depth, 1)
        with pytest.raises(FormatError):
            Lock.parse(data)


def test_attack_an_oversized_lock_is_refused():
    with pytest.raises(FormatError, match="expected at most"):
        Lock.parse(b" " + b"[" * CAP)


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        (replace(ON_DISK, path="skills/\x1b[2J"), "skills.deploy.path"),
        (replace(ON_DISK, path="caf\udce9"), "skills.deploy.path"),
        (replace(ON_DISK, path="../deploy"), "skills.deploy.path"),
        (replace(ON_DISK, signed_by=("somebody",)), "skills.deploy.signed_by[0]"),
        (replace(ON_DISK, version="1\n2"), "skills.deploy.version"),
        (replace(ON_DISK, size=-1), "skills.deploy.size"),
        (replace(ON_DISK, tree=NO_FILES), "skills.deploy.tree"),
        (
            replace(ON_DISK, patch=Patch(base=NO_FILES, digest=ON_DISK.tree, path="a.patch")),
            "skills.deploy.patch.base",
        ),
        (replace(ON_DISK, path=None), "skills.deploy.source"),
        (replace(RELEASED, url="https://me:secret@skills.example/a"), "skills.deploy.url"),
        (replace(RELEASED, source="acme"), "skills.deploy.source"),
    ],
)
def test_entry_that_could_not_be_read_back_is_not_written(entry, place):
    with pytest.raises(FormatError) as caught:
        Lock({"deploy": entry}, {"github": SOURCE}).dump()
    assert caught.value.where == f"skillhub.lock: {place}"


def test_password_in_a_source_is_not_written():
    with pytest.raises(FormatError) as caught:
        Lock({}, {"github": replace(SOURCE, url="https://me:secret@skills.example")}).dump()
    assert caught.value.where == "skillhub.lock: sources.github.url"


def merge(tmp_path, ours, base, theirs):
    files = []
    for name, lock in (("ours", ours), ("base", base), ("theirs", theirs)):
        file = tmp_path / name
        file.write_bytes(lock.dump())
        files.append(str(file))
    done = subprocess.run(["git", "merge-file", "-p", *files], capture_output=True, check=False)
    return done.returncode, done.stdout


def with_skills(*added):
    entries = {name: replace(RELEASED, tree=Digest.of(name.encode())) for name in added}
    return Lock(entries, {"github": SOURCE})


def test_two_added_skills_merge_as_text(tmp_path):
    conflicts, merged = merge(
        tmp_path,
        with_skills("alpha", "golf", "mike", "tango"),
        with_skills("golf", "mike", "tango"),
        with_skills("golf", "mike", "papa", "tango"),
    )
    assert conflicts == 0
    assert merged == with_skills("alpha", "golf", "mike", "papa", "tango").dump()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(("aa", "golf"), ("golf", "zz")), (("golf", "yy"), ("golf", "zz")), (("ff", "golf"), ("fg", "golf"))],
)
def test_merge_gives_both_skills_or_a_refused_conflict(tmp_path, ours, theirs):
    conflicts, merged = merge(tmp_path, with_skills(*ours), with_skills("golf"), with_skills(*theirs))
    if conflicts:
        with pytest.raises(FormatError, match="merge conflict"):
            Lock.parse(merged)
    else:
        assert set(Lock.parse(merged).skills) == {*ours, *theirs}


def test_lock_of_a_thousand_skills_is_read_fast():
    data = with_skills(*(f"skill-{number}" for number in range(1000))).dump()
    with at_most(1):  # about 20 ms
        Lock.parse(data)


@pytest.mark.parametrize("kind", ["tools", "permissions", "mcp", "env", "network"])
def test_attack_a_capability_longer_than_any_that_is_written_is_refused(kind):
    """A policy compared each command in a tool of a megabyte for days."""
    most = 1000 if kind == "network" else 120
    entry = replace(ON_DISK, capabilities=(f"{kind}:".ljust(most, "1"),))
    assert Lock.parse(Lock({"one": entry}).dump()).skills["one"] == entry
    with pytest.raises(FormatError, match=f"at most {most} characters"):
        Lock({"one": replace(entry, capabilities=(f"{kind}:".ljust(most + 1, "1"),))}).dump()


def test_oversized_lock_is_not_written():
    hosts = (f"network:{number:0990}" for number in range(CAP // 2000))
    entry = replace(ON_DISK, capabilities=tuple(hosts))
    assert Lock.parse(Lock({"one": entry}).dump()).skills["one"] == entry
    with pytest.raises(FormatError):
        Lock({"one": entry, "two": entry}).dump()


def test_ten_thousand_signed_skills_fit_into_a_lock():
    url = f"https://skills.example.com/archives/{'n' * 24}/1.0.0/{'a' * 64}.zip"
    can = ("binary", "scripts", "tools:Bash", *(f"network:api-{each}.example.com" for each in range(6)))
    requires = ("env:GITHUB_TOKEN", "program:gh")
    signed = f"key:{TREE}:some-publisher"
    entry = replace(RELEASED, url=url, capabilities=can, requires=requires, signed_by=(signed,))
    names = [f"some-skill-of-some-name-{each:03}" for each in range(100)]
    assert len(Lock(dict.fromkeys(names, entry), {"github": SOURCE}).dump()) * 100 < CAP


GITHUB_SKILL = Locked(
    source="github:acme/skills",
    tree=TREE,
    size=1,
    git="https://github.com/acme/skills",
    rev="a" * 40,
    path="skills/deploy",
)


@pytest.mark.parametrize(
    "entry",
    [
        replace(GITHUB_SKILL, git="https://evil.example/x"),
        replace(GITHUB_SKILL, git="file:///tmp/x"),
        replace(GITHUB_SKILL, git="https://evil.example/notacme/skills.git"),
        replace(GITHUB_SKILL, source="git+https://git.example/a", git="https://evil.example/a"),
        replace(GITHUB_SKILL, source="https://skills.example"),
        replace(GITHUB_SKILL, source="https://skills.example?plugin=x"),
        replace(GITHUB_SKILL, path="/etc"),
        replace(GITHUB_SKILL, path="a//b"),
    ],
)
def test_attack_a_lock_with_another_repository_than_its_source_is_refused(entry):
    with pytest.raises(FormatError):
        Lock({"deploy": entry}).dump()
    with pytest.raises(FormatError):  # nor after a valid entry of the same source
        Lock({"a-sound-one": GITHUB_SKILL, "deploy": entry}).dump()


MCP_SKILL = Locked(
    source="mcp+https://mcp.example/mcp", tree=TREE, size=1, url="https://mcp.example/mcp", path="skill://acme/deploy"
)


@pytest.mark.parametrize(
    "facts",
    [
        {"url": "https://evil.example/mcp"},
        {"url": "http://mcp.example/mcp"},
        {"url": "https://mcp.example/mcp/"},
        {"url": "https://MCP.example/mcp"},
        {"url": "mcp+https://mcp.example/mcp"},
        {"source": "mcp+http://mcp.example/mcp"},
        {"source": "https://mcp.example/mcp"},
        {"source": "mcp:deploy"},
        {"path": "skill://../deploy"},
        {"path": "skill://a/%252e%252e/deploy"},
        {"path": "skill://a/Deploy"},
        {"path": "deploy"},
        {"path": "/etc"},
        {"path": "skill://acme/deploy?x"},
        {"path": "skill://acme/deploy#x"},
        {"path": "skill://" + "a/" * 600 + "deploy"},
    ],
)
def test_attack_a_lock_with_another_server_than_its_source_is_refused(facts):
    assert Lock.parse(Lock({"deploy": MCP_SKILL}).dump()).skills["deploy"] == MCP_SKILL
    with pytest.raises(FormatError):
        Lock({"a-sound-one": MCP_SKILL, "deploy": replace(MCP_SKILL, **facts)}).dump()


def test_plugins_of_other_repositories_and_enterprise_servers_are_valid():
    for entry in (
        GITHUB_SKILL,
        replace(GITHUB_SKILL, source="github:acme/market?plugin=deploy-tools"),
        replace(GITHUB_SKILL, git="https://git.acme.example/ACME/skills"),
        replace(GITHUB_SKILL, source="git+ssh://git@h/r@v1", git="ssh://git@h/r"),
    ):
        Lock.parse(Lock({"deploy": entry}).dump())


def test_lock_that_is_no_json_has_a_hint_to_restore_the_file():
    with pytest.raises(FormatError, match="expected JSON: Extra data") as caught:
        Lock.parse(b"{}\n{}\n")
    hint = "restore it from version control, if that has it, or delete it and install again"
    assert caught.value.hint == hint
