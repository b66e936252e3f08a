"""Advisories in the OSV format: parsing, and the skills that they affect."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.model.advisory import AdvisoriesDocument, AdvisoryFeed, AdvisoryIndex, AdvisorySubject
from skillhub.model.version import precedence
from tests.support.effort import is_linear, steps

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ROOT, OTHER = Digest.of(b"root"), Digest.of(b"other")
BAD = Digest.of(b"bad")


def osv(affected=None, **more):
    return {
        "schema_version": "1.7.0",
        "id": "TEST-2026-1",
        "modified": "2026-11-01T00:00:00Z",
        "summary": "sends tokens away",
        **({} if affected is None else {"affected": affected}),
        **more,
    }


def package(ecosystem="AgentSkills", name="hello", **more):
    return {"package": {"ecosystem": ecosystem, "name": name}, **more}


def semver(*events):
    return {"ranges": [{"type": "SEMVER", "events": [dict([each]) for each in events]}]}


def ends(**keys):
    return {"ranges": [{"type": "SEMVER", "events": [{"introduced": "0.5.0"}, keys]}]}


def feed(*documents, root=None):
    return AdvisoryFeed.parse(json.dumps(list(documents)).encode(), "here", root)


def subject(version="1.0.0", name="hello", root=None, urls=("https://skills.example/a",), digests=()):
    versions = (version,) if version else ()
    return AdvisorySubject(name, lambda: versions, root, lambda: urls, lambda: dict.fromkeys(digests, "its tree"))


def matches(document, by=None, **about):
    return AdvisoryIndex([feed(document, root=by)], NOW).matches(subject(**about))


RANGES = [
    (semver(("introduced", "0")), {"0.0.1", "1.0.0", "9.9.9-rc.1"}, set()),
    (semver(("introduced", "0"), ("fixed", "1.2.0")), {"1.0.0", "1.2.0-rc.1"}, {"1.2.0", "2.0.0"}),
    (semver(("introduced", "1.1.0"), ("fixed", "1.2.0")), {"1.1.0", "1.1.9"}, {"1.0.9", "1.2.0", "1.1.0-rc.1"}),
    (semver(("introduced", "0"), ("last_affected", "1.2.0")), {"1.2.0", "1.2.0-x"}, {"1.2.1", "1.3.0-rc.1"}),
    (
        semver(("introduced", "2.0.0"), ("fixed", "2.1.0"), ("introduced", "0"), ("fixed", "1.0.0")),
        {"0.9.0", "2.0.5"},
        {"1.0.0", "1.5.0", "2.1.0"},
    ),
    (semver(("fixed", "1.0.0"), ("introduced", "1.0.0")), {"1.0.0", "1.0.1"}, {"0.9.0"}),
    (semver(("introduced", "0"), ("limit", "2.0.0")), {"1.9.9"}, {"2.0.0"}),
    (semver(("introduced", "0"), ("fixed", "no version")), {"1.0.0"}, set()),
    (semver(("introduced", "no version"), ("fixed", "2.0.0")), {"1.0.0"}, {"2.0.0"}),
    (semver(("introduced", "0"), ("fixed", "1.2"), ("fixed", "2.0.0")), {"1.0.0", "1.3.0"}, {"2.0.0"}),
    (semver(("introduced", "0"), ("limit", "*"), ("limit", "2.0.0")), {"1.0.0", "2.0.0"}, set()),
    (semver(("introduced", "0"), ("limit", "2.0.0"), ("limit", "1.0.0")), {"1.5.0"}, {"2.0.0"}),
    (semver(("introduced", "0"), ("limit", "2.0.0"), ("limit", "odd")), {"3.0.0"}, set()),
    (ends(fixed="1.0.0", last_affected="2.0.0"), {"0.9.0", "1.5.0", "2.1.0"}, {"0.4.0"}),
    (ends(introduced="1.0.0", fixed="1.2.0"), {"0.9.0", "1.2.0"}, {"0.4.0"}),
    (semver(("last_affected", "1.0.0"), ("introduced", "0"), ("fixed", "1.5.0")), {"1.0.0"}, {"1.2.0", "1.5.0"}),
    (semver(("introduced", "0"), ("last_affected", "1.0.0+a")), {"1.0.0", "1.0.0+b", "1.0.0-rc.1"}, {"1.0.1"}),
    ({"versions": ["1.0.0", "1.0.2"]}, {"1.0.0", "1.0.2"}, {"1.0.1"}),
    ({"versions": ["1.0.0"], **semver(("introduced", "2.0.0"))}, {"1.0.0", "2.0.0"}, {"1.5.0"}),
    ({}, {"1.0.0"}, set()),
    ({"ranges": [], "versions": []}, {"1.0.0"}, set()),
    ({"ranges": None, "versions": []}, {"1.0.0"}, set()),
]


@pytest.mark.parametrize(("range_", "bad", "good"), RANGES)
def test_affected_versions_follow_the_evaluation_of_osv(range_, bad, good):
    document = osv([package(**range_)])
    assert {version for version in bad | good if matches(document, version=version)} == bad


def test_unknown_version_is_affected_only_if_every_version_is():
    assert matches(osv([package(**semver(("introduced", "0")))]), version=None)
    assert matches(osv([package()]), version=None)
    assert not matches(osv([package(**semver(("introduced", "0"), ("fixed", "1.0.0")))]), version=None)
    assert not matches(osv([package(**semver(("introduced", "0"), ("limit", "1.0.0")))]), version=None)
    assert matches(osv([package(**semver(("introduced", "0"), ("fixed", "1.2")))]), version=None)
    assert matches(osv([package(**semver(("introduced", "0"), ("limit", "*")))]), version=None)
    assert not matches(osv([package(ranges=[{"type": "SEMVER", "events": []}])]), version=None)


def test_commits_are_matched_exactly_and_never_as_a_range():
    commit = "a" * 40
    events = [{"introduced": "0"}]
    ranges = [{"type": "GIT", "repo": "https://git.example/x", "events": events}]
    assert not matches(osv([package(ranges=ranges)]))
    assert matches(osv([package(ranges=ranges, versions=[commit])]), version=commit)


numbers = st.builds("{}.{}.{}".format, *[st.integers(0, 3)] * 3)


@given(st.lists(st.tuples(st.sampled_from(["introduced", "fixed", "last_affected"]), numbers), max_size=6), numbers)
def test_last_event_at_or_below_the_version_decides(events, version):
    order = {"fixed": 0, "introduced": 1, "last_affected": 2}
    expected = False
    for kind, at in sorted(events, key=lambda each: (precedence(each[1]), order[each[0]])):
        if precedence(at) <= precedence(version) and not (kind == "last_affected" and at == version):
            expected = kind == "introduced"
    assert bool(matches(osv([package(**semver(*events))]), version=version)) == expected


@pytest.mark.parametrize(
    ("more", "severity"),
    [
        ({}, "high"),
        ({"id": "MAL-2026-1"}, "critical"),
        ({"database_specific": {"severity": "moderate"}}, "medium"),
        ({"database_specific": {"severity": "LOW"}}, "low"),
        ({"id": "MAL-2026-1", "database_specific": {"severity": "LOW"}}, "critical"),
        ({"severity": [{"type": "CVSS_V3", "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"}]}, "critical"),
        ({"severity": [{"type": "CVSS_V3", "score": "CVSS:3.1/AV:N/AC:L/PR:L/UI:R/S:C/C:L/I:L/A:N"}]}, "medium"),
        ({"severity": [{"type": "CVSS_V3", "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:N/A:N"}]}, "high"),
        ({"severity": [{"type": "CVSS_V3", "score": "CVSS:3.0/AV:L/AC:H/PR:H/UI:R/S:U/C:L/I:N/A:N"}]}, "low"),
        ({"severity": [{"type": "CVSS_V3", "score": "CVSS:3.0/AV:L/AC:H/PR:H/UI:R/S:U/C:N/I:N/A:N"}]}, "low"),
        ({"severity": [{"type": "CVSS_V3", "score": "nonsense"}]}, "high"),
        ({"severity": [{"type": "CVSS_V4", "score": "CVSS:4.0/AV:N"}]}, "high"),
        ({"severity": None}, "high"),
    ],
)
def test_severity_of_an_advisory(more, severity):
    (match,) = matches(osv([package()], **more))
    assert match.severity == severity
    assert match.is_refused == (severity == "critical")


@pytest.mark.parametrize("is_mirror_first", [True, False])
def test_attack_a_registry_cannot_lower_the_severity_of_an_advisory(is_mirror_first):
    ranks = {"LOW": ROOT, "CRITICAL": None}
    feeds = [feed(osv([package()], database_specific={"severity": rank}), root=root) for rank, root in ranks.items()]
    mild = osv([package()], id="TEST-2026-2", database_specific={"severity": "MEDIUM"})
    feeds = [feed(mild), *(feeds[::-1] if is_mirror_first else feeds)]
    found = AdvisoryIndex(feeds, NOW).matches(subject(root=ROOT))
    assert [(match.id, match.severity) for match in found] == [("TEST-2026-1", "critical"), ("TEST-2026-2", "medium")]


def test_matching_tree_is_named_before_a_matching_file():
    document = osv([], database_specific={"digests": [Digest.of(bytes([n])) for n in range(200)] + [BAD]})
    digests = {**{Digest.of(bytes([n])): f"its file {n}" for n in range(200)}, BAD: "its tree"}
    about = AdvisorySubject("hello", tuple, None, tuple, lambda: digests)
    (match,) = AdvisoryIndex([feed(document)], NOW).matches(about)
    assert match.by == "its tree"


@pytest.mark.parametrize(
    ("ecosystem", "about", "expected"),
    [
        ("AgentSkills", {}, True),
        ("AgentSkills:", {}, True),
        ("AgentSkills:https://skills.example", {}, True),
        ("AgentSkills:https://skills.example/a", {}, True),
        ("AgentSkills:https://skills.example/ab", {}, False),
        ("AgentSkills:https://skills.example.evil.example", {}, False),
        ("AgentSkills:https://other.example", {}, False),
        (f"AgentSkills:{ROOT}", {"root": ROOT}, True),
        (f"AgentSkills:{ROOT}", {"root": OTHER}, False),
        (f"AgentSkills:{ROOT}", {}, False),
        ("AgentSkillsX", {}, False),
        ("agentskills", {}, False),
        ("npm", {}, False),
        ("PyPI", {"name": "hello"}, False),
        ("AgentSkills", {"name": "hell"}, False),
    ],
)
def test_ecosystem_selects_the_source(ecosystem, about, expected):
    assert bool(matches(osv([package(ecosystem)]), **about)) == expected


@pytest.mark.parametrize(
    "url",
    [
        *("https://github.com/Acme/Skills", "https://github.com/acme/skills.git", "ssh://git@github.com/acme/skills"),
        *(
            "https://www.github.com/acme/skills",
            "https://github.com./acme/skills",
            "https://github.com:8443/acme/skills",
            "ssh://git@ssh.github.com:443/acme/skills.git",
            "https://codeload.github.com/acme/skills/tar.gz/v1",
        ),
        *(
            "https://github.com//acme/skills/",
            "https://github.com/x/../acme/./skills",
            "https://github.com/acme/%73kills",
        ),
    ],
)
def test_attack_another_spelling_of_a_url_escapes_no_advisory(url):
    for source in (
        "https://github.com/acme/skills",
        "https://github.com/ACME",
        "https://github.com/acme/skills.git/",
    ):
        assert matches(osv([package(f"AgentSkills:{source}")]), urls=(url,))
    assert not matches(osv([package("AgentSkills:https://github.com/acme/skill")]), urls=(url,))


@pytest.mark.parametrize("ecosystem", ["AgentSkills", f"AgentSkills:{OTHER}", "AgentSkills:https://skills.example"])
def test_attack_an_advisory_applies_by_name_only_to_its_registry(ecosystem):
    document = osv([package(ecosystem)])
    assert not matches(document, by=ROOT)
    assert not matches(document, by=ROOT, root=OTHER)
    assert bool(matches(document, by=ROOT, root=ROOT)) == (ecosystem == "AgentSkills")


@pytest.mark.parametrize("where", ["advisory", "affected"])
def test_known_bad_digest_is_refused_from_any_source(where):
    specific = {"database_specific": {"digests": [BAD], "severity": "LOW"}}
    document = osv([{}], **specific) if where == "advisory" else osv([specific])
    (match,) = matches(document, by=ROOT, digests=(BAD,))
    assert (match.by, match.is_refused, match.severity, match.rule) == ("its tree", True, "critical", "known-bad")
    assert not matches(document, digests=(OTHER,))


def test_attack_the_digest_of_an_empty_file_matches_no_skill():
    assert not AdvisoryIndex([AdvisoryFeed.parse(NO_FILES.encode(), "list")], NOW)
    assert not matches(osv([], database_specific={"digests": [NO_FILES]}), digests=(NO_FILES,))


def test_withdrawn_advisory_does_not_apply():
    assert not matches(osv([package()], withdrawn="2026-11-02T00:00:00.123456789Z"))
    assert not matches(osv([package()], withdrawn="2026-11-02T00:00:00Z"))


def test_an_advisory_applies_until_the_time_of_its_withdrawal():
    feeds = [feed(osv([package()], withdrawn="2026-11-20T12:00:01Z", database_specific={"digests": [BAD]}))]
    about = subject(digests=(BAD,))
    assert AdvisoryIndex(feeds, NOW).matches(about)
    assert not AdvisoryIndex(feeds, NOW + timedelta(seconds=1)).matches(about)
    (advisory,) = feeds[0].document.advisories
    assert "expected a past time" in next(advisory.warnings(NOW))


@pytest.mark.parametrize("text", ["", "no", "null", "0", "2026-13-01T00:00:00Z"])
def test_attack_an_advisory_with_an_invalid_withdrawal_applies(text):
    assert matches(osv([package()], withdrawn=text))


def test_next_fixed_version_is_named():
    document = osv(
        [package(**semver(("introduced", "0"), ("fixed", "1.2.0"), ("introduced", "2.0.0"), ("fixed", "2.1.0")))]
    )
    assert [matches(document, version=each)[0].fixed for each in ("1.0.0", "2.0.0")] == ["1.2.0", "2.1.0"]
    assert str(matches(document)[0]) == "TEST-2026-1 (high, by its version): sends tokens away; fixed in 1.2.0"


def test_fixed_version_affected_by_another_range_is_not_named():
    ranges = [semver(("introduced", "0"), ("fixed", "1.2.0")), semver(("introduced", "1.1.0"), ("fixed", "1.9.0"))]
    document = osv([package(ranges=[range_ for each in ranges for range_ in each["ranges"]])])
    assert matches(document)[0].fixed == "1.9.0"


@pytest.mark.parametrize(("kind", "fixed"), [("GIT", "1.2.0"), ("SEMVER", "1\x1b[2J"), ("SEMVER", "1.2")])
def test_attack_an_invalid_fixed_version_is_not_named(kind, fixed):
    ranges = [{"type": kind, "events": [{"introduced": "0"}, {"fixed": fixed}]}]
    (match,) = matches(osv([{"ranges": ranges, "database_specific": {"digests": [BAD]}}]), digests=(BAD,))
    assert (match.fixed, str(match).isprintable()) == (None, True)


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        ({"fixed": "1.2"}, "fixed: expected a version such as 1.2.0, found '1.2'; it ends no range"),
        ({"limit": "x\x1b"}, "limit: expected a version such as 1.2.0, found 'x\\x1b'; it ends no range"),
        (
            {"introduced": "1"},
            "introduced: expected a version such as 1.2.0, found '1'; it counts as the lowest version",
        ),
        (
            {"fixed": "1.0.0", "limit": "*"},
            "expected one of introduced, fixed, last_affected, limit, found 2 of them; the event ends no range",
        ),
        ({"introduced": "0"}, None),
        ({"limit": "*"}, None),
        ({"last_affected": "1.0.0-rc.1+b"}, None),
    ],
)
def test_invalid_event_gives_a_warning(event, fault):
    ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, event]}]
    (advisory,) = feed(osv([package("npm", ranges=ranges), package(ranges=ranges)])).document.advisories
    assert [*advisory.warnings(NOW)] == ([f"TEST-2026-1: affected[1].ranges[0].events[1]: {fault}"] if fault else [])


def test_withdrawal_without_a_time_gives_a_warning():
    bad = semver(("introduced", "0"), ("fixed", "1.2"))
    ((odd,), (gone,)) = (
        feed(osv([package(**bad)], withdrawn=each)).document.advisories for each in ("no", "2026-11-02")
    )
    assert next(odd.warnings(NOW)) == "TEST-2026-1: withdrawn: expected a past time, found 'no'; the advisory applies"
    assert [*gone.warnings(NOW)] == []


@pytest.mark.parametrize(
    "text",
    [
        f"{BAD} sends tokens away\n",
        f"# known\n\n{BAD[7:]}  skill.zip\r\n",
        json.dumps({"version": 1, "digests": {BAD: "x"}}),
        json.dumps(osv([], database_specific={"digests": [BAD]})),
        json.dumps([osv([], database_specific={"digests": [BAD]})]),
        json.dumps({"advisories": [osv([], database_specific={"digests": [BAD]})], "later": 1}),
    ],
)
def test_forms_of_a_list_are_read(text):
    assert AdvisoryIndex([AdvisoryFeed.parse(text.encode(), "list")], NOW).matches(subject(digests=(BAD,)))


@pytest.mark.parametrize(
    "text",
    [
        "<html>sign in</html>",
        "md5:0",
        f"{BAD.upper()} x",
        f"x {BAD}",
        BAD[:-1],
        '{"version": 2}',
        '{"id": "A-1"}',
        '{"id": "A-1", "modified": "x", "schema_version": "2.0.0"}',
        '{"id": "A\\u202e-1", "modified": "x"}',
        '{"id": "A-1", "modified": "x", "affected": "all"}',
        '{"id": "A-1", "modified": "x", "affected": [{"package": {"name": "x"}}]}',
        '{"id": "A-1", "modified": "x", "affected": [{"ranges": [{"type": "ODD", "events": []}]}]}',
        '{"id": "A-1", "modified": "x", "database_specific": {"digests": ["sha256:0"]}}',
        '{"id": "A-1", "modified": "x"} {"id": "A-2", "modified": "x"}',
        '{"digests": {"sha256:0": ""}}',
        "[[]]",
        '[{"id": "A-1", "modified": "x"}, 1]',
        '{"id": "A-1", "id": "A-2", "modified": "x"}',
    ],
)
def test_attack_a_list_with_an_unreadable_part_is_refused(text):
    with pytest.raises(FormatError):
        AdvisoryFeed.parse(text.encode(), "list")


@pytest.mark.parametrize("part", [b"{}", b"[]"])
def test_attack_a_list_of_very_many_parts_is_refused_unparsed(part):
    """32 MiB of empty packages took 8 GB of memory and minutes."""
    head, end = b'[{"id": "a", "modified": "b", "affected": [', b"]}]"
    with pytest.raises(FormatError, match="at most 1000000 values"):
        AdvisoryFeed.parse(head + b",".join([part] * 500_000) + end, "here")
    assert AdvisoryFeed.parse(head + b",".join([b"{}"] * 500) + end, "here")


def test_empty_list_has_no_advisories():
    for text in ("", "\n# nothing yet\n", "[]", "{}"):
        assert not AdvisoryIndex([AdvisoryFeed.parse(text.encode(), "list")], NOW)


def test_other_fields_of_osv_are_kept():
    document = osv([package(ecosystem_specific={"a": 1})], references=[{"type": "WEB", "url": "https://a.example"}])
    (found,) = json.loads(AdvisoriesDocument.parse({"advisories": [document]}, "x").dump())["advisories"]
    assert found["references"] == document["references"]
    assert found["affected"][0]["ecosystem_specific"] == {"a": 1}


def test_attack_text_of_an_advisory_is_escaped_and_shortened():
    (match,) = matches(osv([package()], summary="a\x1b[2J\n\u202eb" + "c" * 5000))
    assert str(match).isprintable()
    assert len(str(match)) < 400


def test_attack_the_cost_of_an_advisory_with_many_packages_is_linear():
    def work(size):
        matches(osv([package()] * size, summary="", details="\u00e9" * size * 9))

    assert is_linear(work, 200)


def test_attack_the_cost_of_many_advisories_on_one_digest_is_constant():
    """The digest of a file that all skills of a lock have, such as a license, is looked up for each of them."""

    def work(count):
        advised = {"database_specific": {"digests": [BAD]}}
        index = AdvisoryIndex([feed(*(osv(id=f"TEST-{number}", **advised) for number in range(count)))], NOW)
        return steps(lambda: index.matches(subject(digests=[BAD])))

    assert work(2000) == work(200)


def test_attack_of_very_many_advisories_the_worst_are_named_and_that_there_are_others():
    many = [osv([package()], id=f"TEST-{number:03}") for number in range(200)]
    bad = osv(id="Z-1", database_specific={"digests": [BAD]})
    found = AdvisoryIndex([feed(*many, bad)], NOW).matches(subject(digests=[BAD]))
    assert [each.id for each in found] == ["Z-1", *(f"TEST-{number:03}" for number in range(99)), "others"]
    assert str(found[-1]) == "others (high, by its version): more advisories match than are listed"


def test_look_up_reads_only_advisories_of_the_name():
    looked = []

    class Counting(dict):
        def __getitem__(self, key):
            looked.append(key)
            return super().__getitem__(key)

        def get(self, key, default=None):
            looked.append(key)
            return super().get(key, default)

    documents = [osv([package(name=f"skill-{n}")], id=f"T-{n}") for n in range(500)]
    index = AdvisoryIndex([feed(*documents)], NOW)
    index._by_name = Counting(index._by_name)
    assert [each.id for each in index.matches(subject(name="skill-7"))] == ["T-7"]
    assert looked == ["skill-7"]
