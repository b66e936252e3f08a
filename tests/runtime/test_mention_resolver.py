"""Outcomes of mentions: every row of the table with its message."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.errors import NotFound
from skillhub.model.skill import Problem, Skill
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.loading import pick
from skillhub.runtime.mention_resolver import MentionRules, Selected, complete, mentioned
from tests.support.effort import at_most, is_linear


def skill(name, namespace=None, **facts):
    given = {"scope": "project", "state": "enabled", "managed": False, "path": f"/r/{namespace or '-'}/{name}"}
    return Skill(name=name, namespace=namespace, **{**given, **facts})


CATALOG = Catalog.of(
    [
        skill("systematic-debugging"),
        skill("root-cause-debugging"),
        skill("systematic-debugging", "superpowers"),
        skill("gh-fix-ci", "github"),
        skill("test-driven-development"),
        skill("release-notes", source="registry", managed=True),
        skill("aleph", state="disabled"),
        skill("background", user_invocable=False),
        skill("deploy", invocation="user"),
    ]
)


def only(text, catalog=CATALOG, **more):
    resolved = mentioned(text, catalog, **more)
    (found,) = resolved.mentions
    return found, resolved


def test_exact_name_is_activated():
    found, resolved = only("$systematic-debugging fix it")
    assert (found.outcome, found.message) == ("activated", "Using skill: systematic-debugging")
    assert (found.skill.full_name, resolved.task) == ("systematic-debugging", "fix it")
    assert resolved.skills == (found.skill,)


def test_name_with_a_namespace_is_activated():
    found, resolved = only("$github:gh-fix-ci inspect")
    assert (found.outcome, found.message) == ("activated", "Using skill: github:gh-fix-ci")
    assert (found.skill.full_name, resolved.task) == ("github:gh-fix-ci", "inspect")


def test_source_of_a_locked_skill_serves_as_a_namespace():
    assert only("$registry:release-notes")[0].skill.name == "release-notes"
    assert only("$elsewhere:release-notes")[0].outcome == "unknown"


def test_unknown_name_stays_text():
    found, resolved = only("$nope do")
    assert (found.outcome, found.skill, resolved.task) == ("unknown", None, "$nope do")
    assert found.message.startswith("No skill named 'nope'")
    assert "skillhub catalog" in found.message


def test_three_candidates_are_ambiguous():
    found, resolved = only("$debugging why")
    assert found.outcome == "ambiguous"
    assert found.message == (
        "$debugging matched 3 skills: systematic-debugging, root-cause-debugging, "
        "superpowers:systematic-debugging, use $superpowers:systematic-debugging"
    )
    assert found.candidates == ("systematic-debugging", "root-cause-debugging", "superpowers:systematic-debugging")
    assert resolved.skills == ()


def test_single_candidate_is_suggested():
    found, resolved = only("$systematic-debug go")
    assert found.outcome == "suggested"
    assert found.message == "No exact skill 'systematic-debug', did you mean $systematic-debugging?"
    assert (found.skill, found.candidates, resolved.skills) == (None, ("systematic-debugging",), ())


def test_disabled_skill_is_reported_with_the_command_that_enables_it():
    found, resolved = only("$aleph search")
    assert (found.outcome, resolved.skills) == ("disabled", ())
    assert "disabled" in found.message
    assert "skillhub enable aleph" in found.message


@pytest.mark.parametrize("first", ["$tdd", "$test-driven-development"])
def test_two_mentions_ask_to_choose_one(first):
    resolved = mentioned(f"{first} $systematic-debugging go", CATALOG)
    assert [each.outcome for each in resolved.mentions] == ["choose-one", "choose-one"]
    message = "Choose one skill to lead this turn: $test-driven-development or $systematic-debugging."
    assert {each.message for each in resolved.mentions} == {message}
    assert (resolved.skills, resolved.task) == ((), f"{first} $systematic-debugging go")


def test_attack_the_answer_to_a_message_that_names_every_skill_grows_with_the_message():
    catalog = Catalog.of([skill(f"skill-{number}") for number in range(800)])
    sizes = []
    for count in (100, 800):
        resolved = mentioned(" ".join(f"$skill-{number}" for number in range(count)), catalog)
        assert {each.outcome for each in resolved.mentions} == {"choose-one"}
        sizes.append(len(json.dumps(resolved.to_json())))
    assert sizes[1] < 9 * sizes[0]


def test_rules_may_allow_several_skills():
    resolved = mentioned("$deploy $release-notes go", CATALOG, rules=MentionRules(leads=2))
    assert [each.name for each in resolved.skills] == ["deploy", "release-notes"]
    assert resolved.task == "go"


@pytest.mark.parametrize("text", ["`echo $PATH`", "echo $PATH", "it costs $5", "```\n$aleph\n```"])
def test_text_without_a_mention_has_no_outcome(text):
    resolved = mentioned(text, CATALOG)
    assert (resolved.mentions, resolved.task) == ((), text)


def test_slash_mention_has_arguments():
    found, resolved = only("/deploy 'to production' now")
    assert (found.outcome, found.skill.name, resolved.task) == ("activated", "deploy", "'to production' now")


def test_path_takes_precedence_over_the_name():
    found, resolved = only("[$release-notes](skill:///r/-/deploy/SKILL.md) go")
    assert (found.skill.name, found.message, resolved.task) == ("deploy", "Using skill: deploy", "go")


def test_missing_path_does_not_fall_back_to_the_name():
    found, resolved = only("[$deploy](/gone/deploy) go")
    assert (found.outcome, found.skill, resolved.skills) == ("missing-path", None, ())
    assert "/gone/deploy" in found.message


def test_selected_skill_comes_first_and_reserves_its_name():
    resolved = mentioned(
        "$deploy now", CATALOG, [Selected("release-notes", "/r/-/release-notes")], MentionRules(leads=2)
    )
    assert [each.name for each in resolved.skills] == ["release-notes", "deploy"]
    resolved = mentioned("$deploy now", CATALOG, [Selected("deploy", "/gone")])
    assert [each.outcome for each in resolved.mentions] == ["missing-path"]
    assert resolved.skills == ()


def test_repeated_mentions_count_once():
    resolved = mentioned("$deploy and $deploy and [$deploy](/r/-/deploy)", CATALOG)
    assert [each.outcome for each in resolved.mentions] == ["activated"]
    assert len(mentioned("$nope and $nope", CATALOG).mentions) == 1


def test_connector_takes_precedence_over_a_skill_of_its_name():
    found, resolved = only("$deploy now", rules=MentionRules(connectors=("Deploy",)))
    assert (found.outcome, resolved.skills) == ("connector", ())
    assert "[$deploy](/r/-/deploy)" in found.message
    assert only("[$x](app://deploy)")[0].outcome == "connector"
    assert only("[$x](/r/-/deploy)", rules=MentionRules(connectors=("deploy",)))[0].outcome == "activated"


def test_path_chooses_between_skills_of_one_name():
    twins = Catalog.of([skill("twin"), skill("twin", path="/other/twin")], hides=False)
    found, resolved = only("$twin go", twins)
    assert (found.outcome, found.candidates, resolved.skills) == ("ambiguous", ("/r/-/twin", "/other/twin"), ())
    assert "[$twin](/r/-/twin)" in found.message
    assert only("[$twin](/other/twin)", twins)[0].skill.path == "/other/twin"


@pytest.mark.parametrize(
    ("typed", "suggestion"),
    [
        ("relea", "release-notes"),
        ("driven", "test-driven-development"),
        ("notes-for-release", None),
        ("notes-releases", "release-notes"),
        ("relaese-notes", "release-notes"),
        ("gh-fix-ci", "github:gh-fix-ci"),
        ("Release-Notes", "release-notes"),
    ],
)
def test_similar_name_is_only_suggested(typed, suggestion):
    found, resolved = only(f"${typed} go")
    assert resolved.skills == ()
    assert found.candidates == ((suggestion,) if suggestion else ())
    assert found.outcome == ("suggested" if suggestion else "unknown")


@pytest.mark.parametrize("typed", ["$my_var", "$user", "$3d", "$fooBar"])
def test_variable_is_a_mention_only_with_a_skill_of_its_name(typed):
    assert mentioned(typed, CATALOG).mentions == ()
    known = Catalog.of([skill(typed[1:])])
    assert only(typed, known)[0].outcome == "activated"


@pytest.mark.parametrize(
    ("name", "caller", "outcome"),
    [
        ("deploy", "user", "activated"),
        ("deploy", "model", "disabled"),
        ("background", "user", "disabled"),
        ("background", "model", "activated"),
    ],
)
def test_mention_respects_the_allowed_callers(name, caller, outcome):
    assert only(f"${name}", rules=MentionRules(caller=caller))[0].outcome == outcome


def test_foreign_names_are_escaped_for_the_terminal():
    evil = Catalog.of([skill("tdd-guide", "\x1b[31m")])
    found, _ = only("$tdd-guide", evil)
    assert "\x1b" not in found.message + "".join(found.candidates)


def test_json_of_mentions_has_the_keys_of_the_contract():
    shown = mentioned("$deploy now", CATALOG).to_json()
    assert set(shown) == {"mentions", "task"}
    (found,) = shown["mentions"]
    assert set(found) == {"text", "outcome", "skill", "candidates", "message"}
    assert found["skill"]["name"] == "deploy"


@settings(deadline=None)
@given(st.text(alphabet="$/[]()`:-\n debuging/alphtsymc"))
def test_any_text_activates_only_an_exact_name(text):
    resolved = mentioned(text, CATALOG)
    for found in resolved.mentions:
        assert found.message
        if found.outcome == "activated":
            assert found.skill.name in found.text or found.skill.path in found.text
    assert len(resolved.skills) <= 1


def test_many_mentions_take_linear_time():
    def resolve(count):
        text = " ".join(f"$unknown-{each}" for each in range(count))
        assert len(mentioned(text, CATALOG).mentions) == count

    assert is_linear(resolve, 2_500)


@pytest.mark.parametrize("unit", ["a", "a-", "a:"])
def test_very_long_name_is_unknown(unit):
    with at_most(5):
        assert only("$" + unit * 300_000 + "b")[0].outcome == "unknown"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("$system|", ("$systematic-debugging", "$superpowers:systematic-debugging")),
        ("use $gith|ub:x now", ("$github:gh-fix-ci",)),
        ("/rel|", ("/release-notes",)),
        ("$backg|", ()),
        ("$ale|", ()),
    ],
)
def test_completion_offers_skills_that_the_user_may_invoke(text, names):
    found = complete(text.replace("|", ""), text.index("|"), CATALOG)
    assert found.names == names


def test_completion_replaces_the_whole_word():
    found = complete("use $gith-x now", 9, CATALOG)
    assert (found.start, found.end) == (4, 11)
    assert found.to_json()["items"][0]["name"] == "$github:gh-fix-ci"


def test_dollar_alone_offers_all_skills():
    assert len(complete("$", 1, CATALOG).names) == 7


@pytest.mark.parametrize("text", ["|", "word|", "`$rel|`", "a/rel|", "US$rel|", "$rel |", "hi /rel|"])
def test_completion_outside_of_a_mention_offers_nothing(text):
    assert complete(text.replace("|", ""), text.index("|"), CATALOG) is None


def test_locked_skill_with_a_namespace_is_suggested_by_its_short_name():
    locked = skill("notes", source="registry", managed=True)
    seen = Catalog.of([skill("notes", "git", source="registry", managed=True)], locked=[locked])
    found, _ = only("$notes now", seen)
    assert (found.outcome, found.candidates) == ("suggested", ("git:notes",))
    assert only("$registry:notes now", seen)[0].outcome == "activated"
    found, _ = only("$notes now", Catalog.of([], locked=[locked]))
    assert (found.outcome, found.candidates) == ("unknown", ())
    assert "but in no folder that this agent reads" in found.message


def test_skill_with_an_objection_is_not_activated():
    found, resolved = only("$deploy now", rules=MentionRules(objection=lambda each: f"{each.name} was changed"))
    assert (found.outcome, found.message) == ("disabled", "Skill 'deploy' cannot be loaded: deploy was changed")
    assert (resolved.task, resolved.skills) == ("$deploy now", ())


@pytest.mark.parametrize(
    "text", ["/skill deploy to production", "  /skill  deploy to production", "/deploy to production"]
)
def test_slash_skill_with_a_name_activates_the_skill(text):
    found, resolved = only(text)
    assert (found.outcome, found.skill.name, resolved.task) == ("activated", "deploy", "to production")


@pytest.mark.parametrize(
    "text", ["/skill", "/skill list", "/skill enable aleph", "/skill disable deploy", "/skill reload"]
)
def test_other_slash_skill_commands_are_no_mentions(text):
    resolved = mentioned(text, CATALOG)
    assert (resolved.mentions, resolved.task) == ((), text)


def test_slash_skill_reports_unknown_and_disabled_names():
    assert only("/skill nope")[0].outcome == "unknown"
    assert only("/skill aleph")[0].outcome == "disabled"
    assert only("/skill systematic-debug")[0].candidates[0] == "systematic-debugging"


def test_skill_named_skill_is_activated():
    catalog = Catalog.of([skill("skill"), skill("deploy")])
    assert only("/skill", catalog)[0].skill.name == "skill"
    assert only("/skill deploy", catalog)[0].skill.name == "deploy"


@pytest.mark.parametrize("typed", ["Deploy", "DEploy", "dEploy"])
def test_name_in_another_case_is_only_suggested(typed):
    found, resolved = only(f"${typed} it")
    assert (found.outcome, found.candidates, found.skill) == ("suggested", ("deploy",), None)
    assert found.message == f"No exact skill '{typed}', did you mean $deploy?"
    assert resolved.task == f"${typed} it"


@pytest.mark.parametrize("text", ["$Aleph", "$Background", "$Nothing", "$DEPLOY", "$PATH", "$HOME"])
def test_another_case_of_an_unusable_skill_or_variable_is_no_mention(text):
    assert mentioned(text, CATALOG).mentions == ()


def test_names_that_differ_only_in_case_are_both_suggested():
    catalog = Catalog.of([skill("Demo"), skill("demo")])
    assert only("$DeMo", catalog)[0].outcome == "ambiguous"
    assert only("$Demo", catalog)[0].skill.name == "Demo"


TWINS = [skill("demo", path="/a/demo"), skill("demo", path="/b/demo"), skill("demo", path="/c (1)/demo")]


def test_disabled_twin_does_not_make_a_name_ambiguous():
    off = skill("demo", path="/off/demo", state="disabled")
    catalog = Catalog.of([off, TWINS[0], off], hides=False)
    assert only("$demo", catalog)[0].skill is TWINS[0]
    assert pick(catalog, "demo") is TWINS[0]
    assert only("[$demo](/off/demo)", catalog)[0].outcome == "disabled"
    spaced = Catalog.of([skill("demo", "ns", state="disabled"), skill("demo", "other")], hides=False)
    assert pick(spaced, "demo").full_name == "other:demo"


def test_twins_of_equal_state_are_ambiguous():
    assert only("$demo", Catalog.of(TWINS, hides=False))[0].outcome == "ambiguous"
    off = [skill("demo", path=f"/{each}/demo", state="disabled") for each in "ab"]
    assert only("$demo", Catalog.of(off, hides=False))[0].skill is None


def test_attack_a_twin_does_not_replace_a_disabled_locked_skill():
    locked = skill("demo", path="/a/demo", state="disabled", managed=True, source="team")
    catalog = Catalog.of([locked, TWINS[1]], hides=False)
    assert only("$demo", catalog)[0].outcome == "disabled"
    assert complete("$de", 3, catalog).names == ()


def test_completion_offers_only_names_that_resolve():
    odd = [skill("Ünïcode"), skill("two words"), skill("PATH"), skill("dem.o"), skill("demo-"), skill("a" * 300)]
    catalog = Catalog.of([*TWINS, *odd, skill("demo-two")], hides=False)
    found = complete("$de", 3, catalog)
    assert found.names == ("[$demo](/a/demo)", "[$demo](/b/demo)", "$demo-two")
    assert [each.path for each in found.skills] == ["/a/demo", "/b/demo", "/r/-/demo-two"]
    assert complete("/de", 3, catalog).names == ("/demo-two",)
    for text in ("$", "/", "/skill "):
        for name, each in zip((all_of := complete(text, len(text), catalog)).names, all_of.skills, strict=True):
            assert mentioned(name, catalog).skills == (each,)


def test_completion_of_slash_skill_offers_names():
    found = complete("/skill dep", 10, CATALOG)
    assert (found.start, found.end, found.names) == (0, 10, ("/skill deploy",))
    assert "/deploy" in complete("/", 1, CATALOG).names


def test_completion_offers_no_connector_and_no_unloadable_skill():
    assert complete("$dep", 4, CATALOG, MentionRules(connectors=("deploy",))).names == ()
    assert complete("$dep", 4, CATALOG, MentionRules(objection=lambda _: "drifted")).names == ()
    assert complete("$dep", 4, CATALOG, MentionRules(caller="model")).names == ()


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("deploy", "activated"),
        ("./deploy/SKILL.md", "activated"),
        (" ../-/deploy ", "activated"),
        ("/r/-/deploy", "activated"),
        ("skill://deploy", "activated"),
        ("../deploy", "missing-path"),
        ("../../../../etc/passwd", "missing-path"),
        ("/deploy", "missing-path"),
        (".", "missing-path"),
        ("deploy\0", "missing-path"),
        ("~/deploy", "missing-path"),
    ],
)
def test_link_may_be_relative_to_the_working_folder(path, outcome):
    assert only(f"[$x]({path})", rules=MentionRules(folder="/r/-"))[0].outcome == outcome
    if not path.startswith(("/", "~")):
        assert only(f"[$x]({path})")[0].outcome == "missing-path"


def test_names_that_no_mention_can_have_are_completed_in_linear_time():
    def completed(count):
        catalog = Catalog.of(skill(f"a\u4f1a{number}") for number in range(count))
        assert complete("use $a", 6, catalog).names == ()

    assert is_linear(completed, 250)


def test_twins_that_no_link_can_name_are_completed_in_linear_time():
    def completed(count):
        twins = [skill("abc", path=f"/programs (x86)/{number}/abc") for number in range(count)]
        assert complete("$a", 2, Catalog.of(twins, hides=False)).names == ()

    assert is_linear(completed, 400)


@pytest.mark.parametrize(("cursor", "names"), [(99, ("$release-notes",)), (-1, None)])
def test_a_cursor_outside_the_text_is_at_its_end_or_beginning(cursor, names):
    completed = complete("use $rel", cursor, Catalog.of([skill("release-notes")]))
    assert (completed and (completed.end, completed.names)) == (names and (8, names))


def test_a_skill_that_cannot_be_read_is_named_with_its_problem():
    catalog = Catalog.of([], [Problem("/skills/bad/SKILL.md", "expected YAML, found a bracket", 3)])
    (mention,) = mentioned("$bad", catalog).mentions
    assert (mention.outcome, mention.skill) == ("unknown", None)
    assert mention.message == "Skill 'bad' cannot be read: /skills/bad/SKILL.md: expected YAML, found a bracket."
    with pytest.raises(NotFound, match=r"there is no skill 'bad'; /skills/bad/SKILL\.md: expected YAML"):
        pick(catalog, "bad")
    warning = Catalog.of([], [Problem("/skills/bad/SKILL.md", "a long name", level="warning")])
    assert mentioned("$bad", warning).mentions[0].message.startswith("No skill named 'bad'")
