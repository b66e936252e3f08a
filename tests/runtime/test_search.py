"""Search: the order of hits and their reasons; in memory, in a file, on disk and in a listing."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.errors import StateError
from skillhub.model.skill import Skill
from skillhub.runtime.ranking import LIMIT_MAX, SearchIndex, Stored, rows_of, search

SKILLS = {
    "systematic-debugging": "Find the cause of a bug before fixing it.",
    "release-notes": "Draft notes for a release from the commits since the last.",
    "release": "Cut a version and publish it.",
    "pr-summary": "Sum up a pull request; mentions releases at the end.",
    "gh-fix-ci": "Repair failing checks on GitHub.",
    "pdf-forms": "Fill in forms.",
}


def on_disk(name, description, scope="project", path=None):
    return Stored(name=name, description=description, scope=scope, path=path or f"/{scope}/{name}")


@pytest.fixture(scope="module")
def index():
    body = {"pdf-forms": "Extract tables with the flattening algorithm."}
    rows = [on_disk(name, text) for name, text in SKILLS.items()]
    built = SearchIndex.build(
        Stored(name=r.name, description=r.description, scope=r.scope, path=r.path, body=body.get(r.name, ""))
        for r in rows
    )
    yield built
    built.close()


def found(query, index, **more):
    return [(hit.name, hit.reason) for hit in search(query, [index], **more).hits]


@pytest.mark.parametrize(
    ("query", "first", "reason"),
    [
        ("/project/pdf-forms/SKILL.md", "pdf-forms", "exact_path"),
        ("/project/pdf-forms/", "pdf-forms", "exact_path"),
        ("release", "release", "exact_name"),
        ("$Release-Notes", "release-notes", "exact_name"),
        ("gh fix ci", "gh-fix-ci", "exact_name"),
        ("system", "systematic-debugging", "prefix"),
        ("debug causes", "systematic-debugging", "token_overlap"),
        ("failing check", "gh-fix-ci", "token_overlap"),
        ("flattening algorithms", "pdf-forms", "full_text"),
        ("systmatic", "systematic-debugging", "spelling"),
        ("repare githib", "gh-fix-ci", "spelling"),
    ],
)
def test_first_hit_and_its_reason(index, query, first, reason):
    assert found(query, index)[0] == (first, reason)


def test_hits_are_ordered_by_the_strength_of_their_reason(index):
    assert found("release", index) == [
        ("release", "exact_name"),
        ("release-notes", "prefix"),
        ("pr-summary", "token_overlap"),
    ]


def test_spelling_is_used_only_without_other_hits(index):
    assert "spelling" not in {reason for _, reason in found("release gihtub", index)}


@pytest.mark.parametrize("query", ["", " ", "zzzzqqqq", '"', "NEAR(", "*", "\x00", "\ud800"])
def test_query_without_hits_gives_an_empty_result(index, query):
    assert search(query, [index]).to_json() == {"hits": [], "count": 0, "truncated": False}


def test_query_syntax_is_read_as_words(index):
    assert found("name:release AND (", index)[0][0] == "release"
    search("'; DROP TABLE skills; --", [index])
    assert found("release", index)


def test_ties_are_ordered_by_scope_and_path():
    rows = [
        on_disk("twin", "Same.", "user", "/a/twin"),
        on_disk("twin", "Same.", "project", "/z/twin"),
        on_disk("twin", "Same.", "project", "/b/twin"),
    ]
    index = SearchIndex.build(rows)
    hits = search("twin", [index]).hits
    assert [hit.path for hit in hits] == ["/b/twin", "/z/twin", "/a/twin"]
    assert len({hit.score for hit in hits}) == 1
    index.close()


def test_several_sources_share_one_ranking():
    first = [Stored(name=f"art-{n}", description="Draws with code.", source="first") for n in range(6)]
    second = [
        Stored(name="asking-for-review", description="Ask for a review of code.", source="second"),
        Stored(name="code-review-fast", description="Reviews code.", source="second"),
        Stored(name="branches", description="What to do before a review.", source="second"),
    ]
    for order in ((first, second), (second, first)):
        indexes = [SearchIndex.build(rows) for rows in order]
        found = [(hit.name, hit.source) for hit in search("code review", indexes, 50).hits]
        assert found[:2] == [("code-review-fast", "second"), ("asking-for-review", "second")]
        assert len(found) == 9
        # A word of one source is no misspelling in the other.
        assert {hit.source for hit in search("branches", indexes).hits} == {"second"}
        assert {(hit.source, hit.reason) for hit in search("branchse", indexes).hits} == {("second", "spelling")}
        for index in indexes:
            index.close()


def test_default_limit_is_eight_and_the_maximum_fifty():
    index = SearchIndex.build(on_disk(f"many-{each:03}", "One of many.") for each in range(80))
    shown = search("many", [index])
    assert (len(shown.hits), shown.truncated) == (8, True)
    assert len(search("many", [index], 1000).hits) == LIMIT_MAX
    assert len(search("many", [index], 0).hits) == 1
    assert search("many 007", [index], 50).hits[0].name == "many-007"
    index.close()


def test_namespace_is_optional_in_a_query():
    index = SearchIndex.build([on_disk("superpowers:tdd", "Test first.")])
    assert found("tdd", index)[0] == ("superpowers:tdd", "exact_name")
    assert found("superpowers:tdd", index)[0] == ("superpowers:tdd", "exact_name")
    index.close()


def test_installed_skills_and_listings_share_scores(tmp_path):
    text = "---\nname: release\ndescription: Cut it.\n---\nThe body has flattening.\n"
    (tmp_path / "SKILL.md").write_text(text)
    here = {"path": str(tmp_path), "scope": "project", "state": "enabled"}
    broken = Skill(name="broken", **{**here, "path": str(tmp_path / "gone")})
    skill = Skill(name="release", description="Cut it.", **here)
    local = SearchIndex.build(rows_of([skill, broken]))
    assert found("flattening", local) == [("release", "full_text")]
    listed = SearchIndex.build([Stored(name="release", description="Cut it.", source="github")])
    shown = search("release", [listed, local]).to_json()["hits"]
    assert [(each.get("scope"), each.get("source")) for each in shown] == [("project", None), (None, "github")]
    assert all({"name", "description", "score", "reason"} <= set(each) for each in shown)
    assert shown[0]["score"] == shown[1]["score"]
    local.close()
    listed.close()


class MeetingConnection:
    """A connection whose first query waits for another thread's query, and counts the threads that met."""

    def __init__(self, inner):
        self.inner, self.met, self.both = inner, [], Barrier(2)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def execute(self, *query):
        try:
            self.both.wait(0.2)
            self.met.append(query)
        except BrokenBarrierError:
            pass
        return self.inner.execute(*query)


def test_queries_of_threads_on_one_index_do_not_overlap():
    index = SearchIndex.build([on_disk("first", "x")])
    index._connection = meeting = MeetingConnection(index._connection)
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(found, "first", index) for _ in range(2)]
        assert [each.result() for each in both] == [[("first", "exact_name")]] * 2
    assert meeting.met == []
    index.close()


def test_path_that_is_not_utf8_is_indexed():
    index = SearchIndex.build([on_disk("odd", "x", path=os.fsdecode(b"/p/\xff"))])
    assert found("odd", index) == [("odd", "exact_name")]
    index.close()


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_any_query_is_answered(query):
    index = SearchIndex.build([on_disk("release", "Cut it."), on_disk(query or "x", query)])
    hits = search(query, [index]).hits
    assert all(hit.score > 0 for hit in hits)
    index.close()


def test_a_closed_index_is_an_error():
    with SearchIndex.build([on_disk("demo", "Good.")]) as index:
        assert found("demo", index)
    with pytest.raises(StateError, match="cannot be read"):
        search("demo", [index])
