"""Every policy has to permit a skill, so that none loosens another."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError, SkillhubError
from skillhub.formats.digest import Digest
from skillhub.formats.toml import strict_toml
from skillhub.model.finding import SEVERITIES, Finding
from skillhub.model.lock import Signer
from skillhub.model.question import BEFOREHAND
from skillhub.policy.policy import AGREEABLE, EVERYTHING, Policies, Subject, parse_policy, rows
from skillhub.project.project import parse_intent

ROOT, OTHER = Digest.of(b"root"), Digest.of(b"other")
ACME = Signer("key", Digest.of(b"acme"), "acme")
HARMLESS = Subject(
    name="pdf",
    root=ROOT,
    urls=("https://skills.example/hub",),
    signer=ACME,
    vouched=True,
    capabilities=("scripts", "network:api.example.com"),
    findings=(Finding("SH301", "low", "SKILL.md", 3, "a thing", "look"),),
    age=timedelta(days=10),
)


def policy(text, level="user"):
    return parse_policy(text.encode(), level, f"/{level}.toml")


def of(*policies):
    return Policies(lambda: policies)


def against(subject, *texts, keys=EVERYTHING):
    levels = ("machine", "user", "project")
    policies = of(*(policy(text, level) for text, level in zip(texts, levels, strict=False)))
    return [(each.key, each.where) for each in policies.objections(subject, keys)]


def having(**changes):
    values = {name: getattr(HARMLESS, name) for name in Subject.__slots__}
    return Subject(**{**values, **changes})


PERMITTED = [
    "",
    f'publishers = ["{ROOT}/acme"]',
    f'sources = ["{ROOT}"]',
    'sources = ["https://skills.example/"]',
    f'publishers = ["{ACME.fingerprint}", "other"]',
    'signed = "required"',
    'signed = "ask"',
    'fail-on = "medium"',
    "min-age-days = 10",
    'capabilities = ["scripts", "network:*.example.com"]',
    'capabilities = ["SCRIPTS", "network"]',
    'deny-capabilities = ["hooks", "network:*.evil"]',
    "[policy]\nsigned = 'required'",
]
FORBIDDEN = [
    ("sources", "sources = []"),
    ("sources", f'sources = ["{OTHER}"]'),
    ("sources", 'sources = ["https://skills.example/hubs"]'),
    ("publishers", "publishers = []"),
    ("publishers", f'publishers = ["acm", "{OTHER}"]'),
    ("fail-on", 'fail-on = "low"'),
    ("min-age-days", "min-age-days = 11"),
    ("capabilities", 'capabilities = ["network:*"]'),
    ("capabilities", "capabilities = []"),
    ("deny-capabilities", 'deny-capabilities = ["scripts"]'),
    ("deny-capabilities", 'deny-capabilities = ["network"]'),
    ("deny-capabilities", 'deny-capabilities = ["Network:API.*"]'),
]


@pytest.mark.parametrize("text", PERMITTED)
def test_policy_permits_a_harmless_skill(text):
    assert against(HARMLESS, text) == []


@pytest.mark.parametrize(("key", "text"), FORBIDDEN)
def test_objection_names_its_file(key, text):
    assert against(HARMLESS, f"# why\n\n{text}\n") == [(key, "/machine.toml")]
    assert against(HARMLESS, "", f"[policy]\n{text}\n") == [(key, "/user.toml")]


@pytest.mark.parametrize(("key", "text"), FORBIDDEN)
@pytest.mark.parametrize("level", [0, 1, 2])
def test_no_policy_loosens_another(key, text, level):
    everything = [each for each in PERMITTED if "policy" not in each]
    for other in everything:
        texts = [other, other, other]
        texts[level] = text
        assert (key, f"/{('machine', 'user', 'project')[level]}.toml") in against(HARMLESS, *texts)


def test_attack_a_policy_has_at_most_a_thousand_patterns():
    """Each is compared with each capability of a skill; a project's policy of 64 kB took minutes for each skill."""
    for key in ("capabilities", "deny-capabilities"):
        assert policy(f"{key} = {['env:A'] * 1000}")
        with pytest.raises(FormatError, match="at most 1000 patterns, found 1001"):
            policy(f"{key} = {['env:A'] * 1001}", "project")


def test_attack_a_policy_denies_at_most_a_hundred_tools_by_pattern():
    """Each is compared with each command in each tool of a skill: a thousand took minutes for each skill."""
    starry = ["tool?:Bash(*a*b)"] * 101
    assert policy(f"deny-capabilities = {[*starry[1:], *(['tools', 'env:A'] * 400)]}")
    with pytest.raises(FormatError, match="at most 100 patterns for tools, found 101"):
        policy(f"deny-capabilities = {starry}", "project")
    assert policy(f"capabilities = {starry}")


def test_unsigned_skill_fails_required_signatures_and_publishers():
    unsigned = having(signer=None)
    assert against(unsigned, 'signed = "required"') == [("signed", "/machine.toml")]
    assert against(unsigned, 'publishers = ["acme"]') == [("publishers", "/machine.toml")]
    assert against(unsigned, 'signed = "ask"') == []


def test_unvouched_name_is_not_accepted_as_a_publisher():
    stranger = having(signer=Signer("certificate", OTHER, "acme"), vouched=False)
    assert against(stranger, 'publishers = ["acme"]') == [("publishers", "/machine.toml")]
    assert against(stranger, f'publishers = ["{OTHER}"]') == []


@pytest.mark.parametrize(
    "line",
    [
        'publishers = ["acme"]',
        'publishers = ["Acme", "ACME"]',
        f'publishers = ["{OTHER}/acme"]',
        f'publishers = ["{ROOT}/acm"]',
        f'publishers = ["{ROOT}"]',
        f'publishers = ["{ACME.fingerprint}/acme"]',
        'publishers = ["acme by skills"]',
        'publishers = ["*"]',
    ],
)
def test_attack_a_name_from_the_registry_is_not_accepted_as_a_publisher(line):
    assert against(HARMLESS, line) == [("publishers", "/machine.toml")]


def test_publisher_is_accepted_by_the_name_under_which_the_user_trusts_it():
    known = having(known_as=frozenset({"acme", "acme-old"}))
    for line in ('publishers = ["acme"]', 'publishers = ["other", "acme-old"]'):
        assert against(known, line) == []
    assert against(known, 'publishers = ["other"]') == [("publishers", "/machine.toml")]


def test_every_source_must_be_allowed_and_a_skill_without_source_is_refused():
    redirected = having(root=None, urls=("https://skills.example/hub", "https://evil.example/x"))
    assert against(redirected, 'sources = ["https://skills.example/"]')
    assert against(having(root=None, urls=()), 'sources = ["https://skills.example/"]')


def test_unknown_or_negative_age_is_refused():
    assert against(having(age=None), "min-age-days = 0") == [("min-age-days", "/machine.toml")]
    assert against(having(age=timedelta(days=-1)), "min-age-days = 0") == [("min-age-days", "/machine.toml")]


@pytest.mark.parametrize("pattern", ["network:evil.example", "n*:evil.*", "network:x", "*:x"])
def test_unlisted_hosts_count_as_all_hosts(pattern):
    assert against(having(capabilities=("network:*",)), f'deny-capabilities = ["{pattern}"]')
    assert against(having(capabilities=("network:*",)), 'capabilities = ["network:evil.example"]')
    assert not against(having(capabilities=("network:*",)), 'deny-capabilities = ["env:*"]')


@pytest.mark.parametrize("pattern", ["env:AWS_*", "env", "e*:x"])
def test_unlisted_variables_count_as_all_variables(pattern):
    assert against(having(capabilities=("env:*",)), f'deny-capabilities = ["{pattern}"]')
    assert against(having(capabilities=("env:*",)), 'capabilities = ["env:AWS_*"]')
    assert not against(having(capabilities=("env:*",)), 'deny-capabilities = ["network:*"]')


def test_shortened_capability_matches_a_denial_of_its_kind():
    cut = having(capabilities=("tools:Bash(" + "a" * 80 + "…01234567",))
    assert against(cut, 'deny-capabilities = ["tools:Bash(*rm -rf*)"]')
    assert not against(cut, 'deny-capabilities = ["network:*rm*"]')


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("threshold", SEVERITIES)
def test_fail_on_compares_severities_and_allow_findings_exempts_a_rule(severity, threshold):
    found = having(findings=(Finding("SH999", severity, "a", 1, "b", "c"),))
    is_grave = SEVERITIES.index(severity) >= SEVERITIES.index(threshold)
    assert bool(against(found, f'fail-on = "{threshold}"')) == is_grave
    assert against(found, f'fail-on = "{threshold}"\nallow-findings = ["SH999"]') == []
    assert bool(against(found, f'fail-on = "{threshold}"', 'allow-findings = ["SH999"]')) == is_grave


def test_longest_minimum_age_counts():
    now = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    policies = of(policy("min-age-days = 3"), policy("min-age-days = 7"), policy(""))
    assert policies.latest_allowed_date(now) == "2026-11-13T12:00:00Z"
    assert of(policy("")).latest_allowed_date(now) is None


def test_agent_must_be_in_the_list_of_every_policy():
    policies = of(policy('agents = ["claude-code", "codex"]'), policy('agents = ["codex"]', "project"))
    assert policies.against_agent("codex") is None
    assert policies.against_agent("claude-code").where == "/project.toml"
    assert policies.against_agent("cursor").where == "/user.toml"


def test_long_line_is_shortened_in_a_refusal():
    many = ", ".join(['"env:X"'] * 900)
    (found,) = of(policy(f"capabilities = [{many}]")).objections(HARMLESS, EVERYTHING)
    assert len(found.message) < 300


@pytest.mark.parametrize(
    "text",
    [
        "sign = 'required'",
        "signed = 'yes'",
        "signed = true",
        "sources = 'https://skills.example'",
        "sources = ['skills.example']",
        "sources = ['sha256:12']",
        "sources = ['https://a\u202eb.example']",
        "publishers = ['']",
        "publishers = ['sha256:AB']",
        f"publishers = ['{OTHER}/']",
        f"publishers = ['{OTHER}/A B']",
        f"publishers = ['{OTHER}/a/b']",
        "trusted-sources = ['acme']",
        "trusted-sources = ['acme=']",
        f"trusted-sources = ['local={OTHER}']",
        f"trusted-sources = ['={OTHER}']",
        f"trusted-sources = '{OTHER}'",
        "fail-on = 'grave'",
        "min-age-days = -1",
        "min-age-days = true",
        "min-age-days = 1.5",
        "min-age-days = 99999999999",
        "capabilities = [1]",
        f'deny-capabilities = ["network:{":" * 293}"]',
        "agents = ['no-such-agent']",
        "allow-findings = ['*']",
        "agree = ['critical-finding']",
        "agree = ['publisher']",
        "agree = 'install'",
        "policy = 1",
        "[policy]\n[other]",
        "policy.signed.x = 1",
        "not toml",
    ],
)
def test_invalid_policy_is_refused_with_its_place(text):
    with pytest.raises(FormatError) as caught:
        policy(text)
    assert caught.value.where.startswith("/user.toml")


@pytest.mark.parametrize("line", ["agree = ['install']", "allow-findings = ['SH001']"])
def test_policy_of_a_project_cannot_consent(line):
    with pytest.raises(FormatError, match="only the machine's and the user's"):
        parse_intent(f"[policy]\n{line}\n".encode())
    policy(line, "machine")


def test_policies_can_consent_only_to_unsigned_skills_and_findings():
    beyond_yes = {kind for kind, each in BEFOREHAND.items() if "--yes" not in each.flags}
    assert set(AGREEABLE) & beyond_yes == {"unsigned", "finding"}


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(data):
    for level in ("machine", "project"):
        with suppress(SkillhubError):
            parse_policy(data, level, "p")


_KEYS = ("sources", "publishers", "signed", "fail-on", "min-age-days", "capabilities", "agents", "agree", "policy")
_VALUES = (
    '"required"',
    '"low"',
    "3",
    "[]",
    '["a"]',
    '["https://a.example"]',
    "{ a = 1 }",
    "1.5",
    '"""\na\n"""',
    "nan",
)


@given(st.lists(st.tuples(st.sampled_from(_KEYS), st.sampled_from(_VALUES)), max_size=4))
def test_any_lines_are_parsed_or_refused(lines):
    data = "\n".join(f"{key} = {value}" for key, value in lines).encode()
    try:
        found = parse_policy(data, "user", "p")
    except SkillhubError:
        return
    list(of(found).objections(HARMLESS, EVERYTHING))


def test_number_in_quotes_is_refused_with_the_expected_form():
    with pytest.raises(FormatError, match="0 to 3650 days, a number without quotes, found '3'"):
        parse_policy(b'min-age-days = "3"\n', "user", "policy.toml")


@pytest.mark.parametrize("value", ['permissions:say "a", "b"', "permissions:a\\b", "permissions:é"])
def test_rules_are_shown_as_toml(value):
    found = parse_policy(f"deny-capabilities = ['{value}']\nmin-age-days = 3\n".encode(), "user", "/user.toml")
    texts = [row.text for row in rows(of(found))]
    assert strict_toml("\n".join(texts).encode(), "") == {"deny-capabilities": [value], "min-age-days": 3}


@pytest.mark.parametrize("text", ['signed = "require"', "signed = required"])
def test_a_malformed_policy_has_a_hint(text):
    with pytest.raises(FormatError) as caught:
        parse_policy(text.encode(), "user", "policy.toml")
    assert caught.value.where.startswith("policy.toml:")
    assert 'signed = "required"' in caught.value.hint
