"""Each change of a skill's origin, for install, update, merge and audit, and for every kind of source.

Each row changes one fact of an entry. ``lock`` is the result of ``install`` and ``update`` for a new version that
differs in this fact from the lock; ``record`` is the result of ``install`` for a lock that differs in this fact from
the user's consent, with the same tree.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from skillhub.audit.checks import Case, change
from skillhub.audit.report import Locations
from skillhub.edits.lock_merge import merge
from skillhub.errors import SecurityError
from skillhub.formats.digest import Digest
from skillhub.install.admission import refuse_other_signer
from skillhub.install.candidates import Content, candidate_of, check_against_lock
from skillhub.model.lock import Lock, Locked, LockedSource, Signer
from skillhub.model.manifest import Manifest
from skillhub.model.provenance import MEANING, Provenance, ProvenanceChange, Record, source_changes
from skillhub.model.tree import File, Tree
from skillhub.project.last_seen import ReleaseStatus
from skillhub.sources.configured import Source
from skillhub.trust.publishers import Verdict
from tests.support.world import World

TREE = Tree({"SKILL.md": File(b"---\nname: deploy\ndescription: d\n---\n")})
ONE, TWO, THREE = (Digest.of(text) for text in (b"1", b"2", b"3"))
ANN, ANNA, BOB = f"key:{ONE}:ann", f"key:{ONE}:anna", f"key:{TWO}:bob"

REGISTRY = LockedSource(kind="registry", url="https://acme.example", root=ONE)
SITE = LockedSource(kind="well-known", url="https://corp.example")
ALIASES = {"acme": REGISTRY, "corp": SITE, "evil": REGISTRY}


def entry(source, **facts):
    return Locked(source=source, tree=TREE.digest, size=1, **{"signed_by": (ANN,), **facts})


GIT = {"rev": "a" * 40, "path": "skills/deploy", "version": "1.0.0"}
KINDS = {
    "registry": entry("acme", version="1.0.0", url="https://acme.example/1.zip", digest=ONE),
    "site": entry("corp", url="https://corp.example/a.zip", digest=ONE, version="1.0.0"),
    "url": entry("https://site.example/s", url="https://site.example/a.zip", digest=ONE, version="1.0.0"),
    "git": entry("git+https://git.example/x@v1", git="https://git.example/x", **GIT),
    "ssh": entry("git+ssh://git@git.example/x@v1", git="ssh://git@git.example/x", **GIT),
    "github": entry("github:acme/x@v1", git="https://github.com/acme/x", **GIT),
    "plugin": entry("github:acme/x@v1?plugin=tools", git="https://github.com/acme/x", **GIT),
    "oci": entry("oci://oci.example/x:1", url="https://oci.example/v2/x", digest=ONE, version="1.0.0"),
    "mcp": entry(
        "mcp+https://mcp.example/mcp", url="https://mcp.example/mcp", path="skill://x/deploy", version="1.0.0"
    ),
    "local": entry("local", path="skills/deploy", version="1.0.0"),
    "local plugin": entry("local?plugin=tools", path="skills/deploy", version="1.0.0"),
}
SAME, ELSEWHERE, SIGNER = "", "source-mismatch", "signer-changed"
ASKED, CLASH, AUDIT = "question", "source", "origin-changed"
NOTHING = (SAME, SAME, SAME, SAME)
TOLD = (SAME, ASKED, SAME, SAME)
HOST = (SAME, ASKED, CLASH, AUDIT)
OTHER = (ELSEWHERE, ASKED, CLASH, AUDIT)
# The fact; the kinds; the new entry; then lock, record, merge, audit.
ROWS = [
    ("version", [*KINDS], {"version": "2.0.0"}, NOTHING),
    ("digest", ["registry", "site", "url", "oci"], {"digest": TWO}, NOTHING),
    ("commit", ["git", "ssh", "github", "plugin"], {"rev": "b" * 40}, NOTHING),
    ("tag", ["git"], {"source": "git+https://git.example/x@v2"}, TOLD),
    ("tag", ["ssh"], {"source": "git+ssh://git@git.example/x@v2"}, TOLD),
    ("tag", ["github"], {"source": "github:acme/x@v2"}, TOLD),
    ("tag", ["plugin"], {"source": "github:acme/x@v2?plugin=tools"}, TOLD),
    ("tag", ["oci"], {"source": "oci://oci.example/x:2"}, TOLD),
    ("no tag", ["git"], {"source": "git+https://git.example/x"}, TOLD),
    ("no tag", ["oci"], {"source": "oci://oci.example/x"}, TOLD),
    ("digest for a tag", ["oci"], {"source": f"oci://oci.example/x@{ONE}"}, TOLD),
    ("plugin", ["plugin"], {"source": "github:acme/x@v1?plugin=evil"}, OTHER),
    ("no plugin", ["plugin"], {"source": "github:acme/x@v1"}, OTHER),
    ("plugin", ["github"], {"source": "github:acme/x@v1?plugin=evil"}, OTHER),
    ("plugin", ["local plugin"], {"source": "local?plugin=evil"}, (SAME, ASKED, CLASH, AUDIT)),
    ("no plugin", ["local plugin"], {"source": "local"}, (SAME, ASKED, CLASH, AUDIT)),
    ("plugin", ["local"], {"source": "local?plugin=tools"}, (SAME, ASKED, CLASH, AUDIT)),
    ("path", ["git", "ssh", "github", "plugin", "local", "local plugin"], {"path": "evil/deploy"}, OTHER),
    ("URI", ["mcp"], {"path": "skill://evil/deploy"}, OTHER),
    ("scheme of the URI", ["mcp"], {"path": "github://x/deploy"}, OTHER),
    ("server", ["mcp"], {"source": "mcp+https://evil.example/mcp", "url": "https://evil.example/mcp"}, OTHER),
    ("path of the server", ["mcp"], {"source": "mcp+https://mcp.example/x", "url": "https://mcp.example/x"}, OTHER),
    ("scheme of it", ["mcp"], {"source": "mcp+http://mcp.example/mcp", "url": "http://mcp.example/mcp"}, OTHER),
    ("host that is asked", ["mcp"], {"url": "https://evil.example/mcp"}, HOST),
    ("case of the host", ["mcp"], {"source": "mcp+https://MCP.example/mcp", "url": "https://MCP.example/mcp"}, TOLD),
    ("alias", ["registry", "site"], {"source": "evil"}, OTHER),
    ("host of the artifact", ["registry", "site"], {"url": "https://evil.example/1.zip"}, HOST),
    ("host of the artifact", ["url", "oci"], {"url": "https://evil.example/1"}, HOST),
    ("file on the host", ["registry", "site", "url", "oci"], {"url": "{host}/other"}, NOTHING),
    ("case of the host", ["registry"], {"url": "https://ACME.example/1.zip"}, TOLD),
    ("URL", ["url"], {"source": "https://evil.example/s"}, OTHER),
    ("path of the URL", ["url"], {"source": "https://site.example/evil"}, OTHER),
    ("scheme of the URL", ["url"], {"source": "http://site.example/s"}, OTHER),
    ("case of the host", ["url"], {"source": "https://SITE.example/s"}, TOLD),
    ("repository", ["git"], {"source": "git+https://evil.example/x@v1", "git": "https://evil.example/x"}, OTHER),
    ("repository", ["github"], {"source": "github:evil/x@v1", "git": "https://github.com/evil/x"}, OTHER),
    ("repository", ["oci"], {"source": "oci://oci.example/evil:1"}, OTHER),
    ("host of the registry", ["oci"], {"source": "oci://evil.example/x:1"}, OTHER),
    ("server", ["github"], {"git": "https://evil.example/acme/x"}, OTHER),
    ("repository of the plugin", ["plugin"], {"git": "https://github.com/evil/x"}, OTHER),
    ("user", ["ssh"], {"source": "git+ssh://eve@git.example/x@v1", "git": "ssh://eve@git.example/x"}, OTHER),
    (
        "spelling of the repository",
        ["git"],
        {"source": "git+https://GIT.example:443/x/@v1", "git": "https://GIT.example:443/x/"},
        TOLD,
    ),
    ("case of the path", ["github"], {"source": "github:Acme/x@v1"}, OTHER),
    ("another signer", [*KINDS], {"signed_by": (BOB,)}, (SIGNER, SIGNER, "signer", SIGNER)),
    ("no signer", [*KINDS], {"signed_by": ()}, (SIGNER, SIGNER, "signer", SIGNER)),
    ("name of the signer", [*KINDS], {"signed_by": (ANNA,)}, NOTHING),
    ("a second signer", [*KINDS], {"signed_by": (ANN, BOB)}, (SAME, SIGNER, "signer", SIGNER)),
]  # fmt: skip


def of(before, facts):
    host = (before.url or "").rpartition("/")[0]
    return replace(before, **{key: each.format(host=host) if key == "url" else each for key, each in facts.items()})


KIND_CHANGED = [
    ("local", "git"),
    ("git", "github"),
    ("registry", "url"),
    ("url", "registry"),
    ("oci", "url"),
    ("github", "local"),
    ("mcp", "url"),
    ("url", "mcp"),
    ("mcp", "registry"),
]
CASES = [
    pytest.param(KINDS[kind], of(KINDS[kind], facts), expected, id=f"{kind}: {fact}")
    for fact, kinds, facts, expected in ROWS
    for kind in kinds
] + [pytest.param(KINDS[was], KINDS[now], OTHER, id=f"{was}: {now}") for was, now in KIND_CHANGED]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


def found(now, publisher_keys=frozenset()):
    signer = Signer.parse(now.signed_by[0]) if now.signed_by else None
    verdict = Verdict("valid" if signer else "unsigned", TREE, signer)
    return replace(candidate_of(Content(Manifest.read(TREE)), now, verdict, (), ()), publisher_keys=publisher_keys)


def refusal(act, *words):
    try:
        act(*words)
    except SecurityError as error:
        return error.code
    return ""


def by_lock(before, now, world, publisher_keys=frozenset()):
    return refusal(check_against_lock, found(now, publisher_keys), before, world.project.scope)


def by_record(before, now, world, publisher_keys=frozenset()):
    record = Record(tree=before.tree, enabled=True, provenance=Provenance.of(before))
    expected = refusal(refuse_other_signer, found(now, publisher_keys), record, world.ports())
    return expected or ("" if record.is_of(now) else ASKED)


def by_merge(before, now):
    ours, theirs = (Lock({"a": each}, ALIASES) for each in (before, now))
    return next((each.about for each in merge(ours, theirs, None, lambda name, entry: True, {}).clashes), "")


def by_audit(before, now, world):
    locations, ports = Locations(world.project, Lock()), world.ports()
    case = Case("a", now, None, before, None, ReleaseStatus("a", now), {}, locations, ports)
    return " ".join(each.rule for each in change(case))


@pytest.mark.parametrize(("before", "now", "expected"), CASES)
def test_each_single_change_has_its_consequence(world, before, now, expected):
    found = (
        by_lock(before, now, world),
        by_record(before, now, world),
        by_merge(before, now),
        by_audit(before, now, world),
    )
    assert found == expected


@pytest.mark.parametrize("before", KINDS.values(), ids=KINDS)
def test_equal_provenance_is_no_change(world, before):
    assert by_lock(before, before, world) == by_record(before, before, world) == by_audit(before, before, world) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_another_key_of_the_same_publisher_is_asked_about(world, kind):
    before, now = KINDS[kind], replace(KINDS[kind], signed_by=(BOB,))
    publisher_keys = frozenset((ONE, TWO))
    assert by_lock(before, now, world, publisher_keys) == ""
    assert by_record(before, now, world, publisher_keys) == ASKED
    assert by_lock(before, now, world, frozenset((TWO, THREE))) == SIGNER
    assert by_record(before, now, world, frozenset((TWO, THREE))) == SIGNER


@pytest.mark.parametrize("kind", KINDS)
def test_a_signature_added_later_is_asked_about_by_merge_and_record(world, kind):
    before = replace(KINDS[kind], signed_by=())
    found = by_lock(before, KINDS[kind], world), by_record(before, KINDS[kind], world)
    assert (*found, by_merge(before, KINDS[kind]), by_audit(before, KINDS[kind], world)) == ("", ASKED, "signer", "")


MOVED, OTHER_ROOT = replace(REGISTRY, url="https://new.example"), replace(REGISTRY, root=TWO)
# Before, now; whether `install` takes the source of the lock for the user's; what the change is called.
SOURCES = {
    "URL of a registry": (REGISTRY, MOVED, True, "another URL:"),
    "root": (REGISTRY, OTHER_ROOT, False, "another root:"),
    "both": (REGISTRY, replace(MOVED, root=TWO), False, "another URL and root:"),
    "URL of a site": (SITE, replace(SITE, url="https://evil.example"), False, "another URL:"),
    "a site for a registry": (REGISTRY, replace(SITE, url=REGISTRY.url), False, "another root:"),
    "a registry for a site": (SITE, replace(REGISTRY, url=SITE.url), False, "another root:"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "now", "is_meant", "what"), SOURCES.values(), ids=SOURCES)
def test_a_changed_source_of_an_alias_is_reported_and_conflicts(before, now, is_meant, what):
    assert Source("acme", before.url, before.root).is_meant(now) == is_meant
    (change,) = source_changes({"acme": before}, {"acme": now})
    assert (change.status, what in change.line) == ("changed", True)
    (clash,) = merge(Lock({}, {"acme": before}), Lock({}, {"acme": now}), None, lambda name, entry: True, {}).clashes
    assert (clash.name, clash.about) == ("acme", "source")


def test_attack_another_plugin_of_a_tagged_repository_is_a_finding(world):
    for tag in ("", "@v1", "@x?plugin=tools"):
        before = entry(f"github:acme/x{tag}?plugin=tools", git="https://github.com/acme/x", **GIT)
        for now in (f"github:acme/x{tag}?plugin=evil", f"github:acme/x{tag}?plugin=tools?plugin=evil"):
            assert by_audit(before, replace(before, source=now), world) == AUDIT


OTHER_PLACES = [
    ("git", {"source": "git+https://git.example:8443/x@v1", "git": "https://git.example:8443/x"}),
    ("git", {"source": "git+http://git.example/x@v1", "git": "http://git.example/x"}),
    ("git", {"source": "git+https://git.example/x.git@v1", "git": "https://git.example/x.git"}),
    ("git", {"source": "git+https://eve@git.example/x@v1", "git": "https://eve@git.example/x"}),
    ("git", {"path": "Skills/deploy"}),
    ("git", {"path": None}),
    ("github", {"source": "github:acme/x@v1%3Fplugin=evil"}),
    ("github", {"git": None, "rev": None, "path": None, "url": "https://evil.example/x"}),
    ("url", {"source": "https://site.example./s"}),
    ("url", {"source": "https://site.example/%73"}),
    ("url", {"source": "https://site.example//s"}),
    ("url", {"source": "https://site.example/s?x"}),
    ("url", {"source": "https://site.example/s@evil"}),
    ("oci", {"source": "oci://oci.example:5000/x:1"}),
    ("oci", {"source": "oci://oci.example/x/y:1"}),
    ("mcp", {"source": "mcp+https://mcp.example:8443/mcp"}),
    ("mcp", {"source": "mcp+https://mcp.example./mcp"}),
    ("mcp", {"source": "mcp+https://mcp.example/mcp/x"}),
    ("mcp", {"source": "mcp+https://mcp.example/mcp?x"}),
    ("mcp", {"path": "skill://x/Deploy"}),
    ("mcp", {"path": "SKILL://x/deploy"}),
    ("mcp", {"path": None}),
    ("registry", {"source": "ACME"}),
    ("registry", {"source": "\N{CYRILLIC SMALL LETTER A}cme"}),
    ("registry", {"source": "local", "path": "x", "url": None, "digest": None}),
    ("local", {"path": "/skills/deploy"}),
    ("local", {"source": "::::"}),
]


@pytest.mark.parametrize(("kind", "facts"), OTHER_PLACES)
def test_attack_a_look_alike_of_the_agreed_place_is_another_place(world, kind, facts):
    before = KINDS[kind]
    now = replace(before, **facts)
    results = by_lock(before, now, world), by_record(before, now, world), by_merge(before, now)
    assert (*results, by_audit(before, now, world)) == OTHER


@pytest.mark.parametrize("kind", ["registry", "site", "url", "oci"])
@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/9.zip",
        "https://{host}@evil.example/9.zip",
        "https://{host}.evil.example/9.zip",
        "https://{host}./9.zip",
        "https://{host}:8443/9.zip",
        "http://evil.example/{host}/9.zip",
        "https://evil.example?{host}",
        "https://evil.example#{host}",
    ],
)
def test_attack_a_higher_version_from_another_host_conflicts_in_a_merge(kind, url):
    before, host = KINDS[kind], f"{'acme' if kind == 'registry' else 'corp'}.example"
    now = replace(before, version="9.0.0", tree=TWO, url=url.format(host=host))
    assert by_merge(before, now) == by_merge(now, before) == CLASH


def test_the_page_has_the_table():
    page = Path(__file__).parents[2].joinpath("docs/formats/lock.md").read_text()
    rows = re.findall(r"^\| `(\w+)`[^|]* \|" + r" ?`?([a-z-]*)`? \|" * 4 + "$", page, re.MULTILINE)
    found = {fact: tuple(cells) for fact, *cells in rows}
    assert found == {
        fact: (lock, record, "clash" if merged else "", audited)
        for fact, (lock, record, merged, audited) in MEANING.items()
    }
    assert set(MEANING) == set(re.findall(r"'(\w+)'", str(ProvenanceChange)))
