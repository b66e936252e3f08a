"""Reports in every form: text of a skill is shown literally and is no markup, link, mention or command."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.answers.skills import answer
from skillhub.audit.report import RULES, UNSEEN, Report, markdown, sarif, workflow_commands, worst_first
from skillhub.formats.json import members
from skillhub.model.finding import SEVERITIES, Finding
from tests.support.source import REPO

NASTY = "a|b\n::error::x\r\n@admin <img src=x> [l](https://evil.example) `c` *d* \x1b[31m \u202e www.evil.example"


def noted(rule="yanked", severity="medium", skill="hello", path="skillhub.lock", line=3, message="m", hint="h"):
    return Finding(rule, severity, path, line, message, hint, skill)


def report(*findings, threshold="high"):
    return Report(worst_first(findings), threshold, 1, ("as last seen",))


texts = st.text(max_size=40)
findings = st.builds(
    Finding,
    st.sampled_from(sorted(RULES)),
    st.sampled_from(SEVERITIES),
    st.none() | texts,
    st.integers(0, 9),
    texts,
    texts,
    st.none() | texts,
)


@pytest.mark.parametrize(("threshold", "ok"), [("low", False), ("medium", False), ("high", True), ("critical", True)])
def test_the_threshold_decides_whether_a_report_fails(threshold, ok):
    assert report(noted(), threshold=threshold).ok is ok


def test_findings_are_sorted_by_severity_without_duplicates():
    low, high = noted(severity="low"), noted(severity="high")
    assert worst_first([low, high, low]) == (high, low)


def test_a_report_has_the_documented_shape():
    document = answer("audit", members(report(noted()), "ok", "findings", "notes"))
    assert document.keys() >= {"ok", "findings"}
    (finding,) = document["findings"]
    keys = ["rule", "severity", "skill", "path", "line", "message", "hint", "accepted", "accepted_by"]
    assert list(finding) == keys


def test_the_summary_counts_findings_by_severity():
    assert report(noted(), noted("withdrawn", "critical")).summary == (
        "1 skill checked: 1 critical, 1 medium; 1 at high or over"
    )


def test_sarif_has_rules_levels_and_valid_locations():
    log = sarif(report(noted(), noted("source-http", "medium", None, None, 0), noted(path="a b/ü#.md")))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["source-http", "yanked"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"note", "warning", "error"}
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place.get("region", {"startLine": 1})["startLine"] >= 1
        assert not re.search(r"[ #ü]", place["artifactLocation"]["uri"])
    uris = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]}
    assert uris == {"skillhub.lock", "a%20b/%C3%BC%23.md"}


@pytest.mark.parametrize(
    ("path", "uri"), [("/a/b", "file:///a/b"), ("C:/a", "file:///C%3A/a"), ("x/y:z", "x/y%3Az"), ("\udcff", "%FF")]
)
def test_sarif_spells_paths_as_uris(path, uri):
    (result,) = sarif(report(noted(path=path)))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_attack_a_message_in_sarif_makes_no_link():
    found = noted(message="m (in the archive: [a](https://x.invalid)[b](1))")
    run = sarif(report(found, noted(rule="form", severity="low")))["runs"][0]
    assert not [each for each in run["results"] if re.search(r"\]\(", each["message"]["text"])]
    assert "[a] (https://x.invalid)[b] (1)" in json.dumps(run["results"])


def test_the_fingerprint_of_a_finding_does_not_depend_on_the_folder_of_the_store():
    tree = f"store/ab/{'ab' * 32}/scripts/run.sh"
    one, other, copy = (
        sarif(report(noted(path=path)))["runs"][0]["results"][0]["partialFingerprints"]["skillhub/v1"]
        for path in (f"/home/ben/data/{tree}", f"/home/runner/{tree}", ".agents/skills/x/scripts/run.sh")
    )
    assert one == other != copy


def test_the_fingerprint_of_a_finding_does_not_depend_on_its_line():
    prints = {
        sarif(report(noted(line=line)))["runs"][0]["results"][0]["partialFingerprints"]["skillhub/v1"]
        for line in (1, 2)
    }
    assert len(prints) == 1


def test_attack_markup_in_a_message_is_escaped():
    text = markdown(report(noted(message=NASTY, skill=NASTY, path=NASTY, hint=NASTY)))
    (row,) = [line for line in text.splitlines() if line.startswith("| medium")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 7
    for raw in ("<img", "@admin", "https://", "www.evil", "\x1b", "\u202e"):
        assert raw not in text
    assert not re.search(r"(?<!\\)[`*\[]", row)


def test_attack_a_workflow_command_in_a_message_is_escaped():
    lines = list(workflow_commands(report(noted(message=NASTY, path="a,b:c\n::error::d.md", skill=NASTY))))
    assert len(lines) == 1
    assert "\n" not in lines[0]
    assert lines[0].startswith("::warning file=a%2Cb%3Ac %3A%3Aerror%3A%3Ad.md,line=3,title=skillhub yanked::")


@pytest.mark.parametrize(
    ("severity", "command"), [("low", "notice"), ("medium", "warning"), ("high", "error"), ("critical", "error")]
)
def test_annotations_of_github(severity, command):
    (line,) = workflow_commands(report(noted(severity=severity, path=None, line=0)))
    assert line == f"::{command} title=skillhub yanked::hello: m; h"


def test_project_below_the_top_of_its_repository():
    made = report(noted(path="a.md"), noted(path="/abs"), noted(path="C:/x"), noted(path=None)).below("sub/dir")
    assert {each.path for each in made.findings} == {"sub/dir/a.md", "/abs", "C:/x", None}
    assert report(noted()).below("") == report(noted())


def test_a_finding_names_its_place():
    assert [noted(line=0).where, noted().where, noted(path=None).where] == ["skillhub.lock", "skillhub.lock:3", ""]


@given(st.lists(findings, max_size=4))
def test_any_report_is_printed_in_every_format(found):
    made = report(*found)
    json.dumps(sarif(made))
    json.dumps(answer("audit", members(made, "ok", "findings", "notes")))
    text = markdown(made)
    assert len(text.splitlines()) == 7 + (3 + len(made.findings) if found else 0)
    assert len(list(workflow_commands(made))) == len(made.findings)


def test_every_report_has_the_figures_of_attacks_in_prose_that_the_docs_have():
    table = (REPO / "docs/audit.md").read_text("utf-8").partition("figures: written by")[2].partition("| a scan,")[0]
    measured = re.findall(r"(?m)^\| attacks in prose alone.*?\| found \| (\d+)/(\d+) ", table)
    assert re.findall(r"(\d+) of (\d+)", UNSEEN) == measured != []
