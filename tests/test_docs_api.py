"""The page on installing from Python: its examples run, and help() lists the names that they use."""

from __future__ import annotations

import json
import pickle
import pydoc
import re
from pathlib import Path

import pytest

import skillhub
import skillhub.runtime
from skillhub.api import open_project
from skillhub.errors import BadSignature, Drifted, FormatError, NotFound, RateLimited, Refused, UsageError
from skillhub.model.question import Answer
from tests.support.bare import run_bare
from tests.support.gitrepos import Repo, files

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def here(shell, monkeypatch):
    for name in ("HOME", "SKILLHUB_HOME"):
        monkeypatch.setenv(name, shell.environ[name])
    monkeypatch.chdir(shell.project)
    return shell


def test_the_examples_of_the_api_page_run_in_order(here):
    names = {"FOLDER": str(here.project)}
    assert len(BLOCKS) == 9
    for block in BLOCKS:
        exec(compile(block, "docs/api.md", "exec"), names)


def test_search_gives_the_hits_of_the_command(here):
    repo = Repo(here.folder / "public.git")
    repo.commit(files("Do it.\n"))
    here.write("home/.gitconfig", f'[url "{repo.url}"]\n\tinsteadOf = https://github.com/acme/skills\n')
    assert here.run("source", "add", "mine", "github:acme/skills", "--yes").status == 0
    asked = here.run("search", "deploy", "--json").json
    assert [each["source"] for each in asked["listings"]] == ["mine"]
    found = open_project(here.project).search("deploy")
    assert [each.source for each in found.hits] == [each["source"] for each in asked["hits"]]
    assert [each.refreshed for each in found.listings] == [each["refreshed"] for each in asked["listings"]]


@pytest.mark.parametrize("module", [skillhub, skillhub.runtime])
def test_help_lists_every_public_name(module):
    shown = pydoc.plain(pydoc.render_doc(module))
    for name in module.__all__:
        if name != "__version__":
            assert re.search(rf"^ {{4}}(?:class )?{name}\b", shown, re.MULTILINE), name


def test_imports_on_the_pages_are_exported():
    for page in ("api.md", "runtime.md"):
        text = (Path(__file__).resolve().parents[1] / "docs" / page).read_text(encoding="utf-8")
        for module, names in re.findall(r"^from (skillhub[\w.]*) import (.*)$", text, re.MULTILINE):
            assert module in ("skillhub", "skillhub.runtime"), (page, module)
            offered = skillhub if module == "skillhub" else skillhub.runtime
            assert set(names.split(", ")) <= {*offered.__all__}, names


def test_importing_skillhub_loads_no_module_of_it():
    loaded = run_bare("import sys, skillhub; print(*sys.modules)").split()
    assert [name for name in loaded if name.startswith("skillhub")] == ["skillhub"]


def test_open_project_loads_no_terminal_library():
    loaded = run_bare("import sys, skillhub; skillhub.open_project; print(*sys.modules)").split()
    assert not {"typer", "rich", "tuf", "httpx"} & {*loaded}


def test_a_callback_answers_with_a_value(here):
    needs = "dependencies:\n  tools:\n    - type: env_var\n      value: SOME_TOKEN\n"
    here.skill("project/needy", **{"agents/openai.yaml": needs})

    def answer(question):
        return "secret-value" if question.kind == "env" else True

    done = open_project(here.project, answer=answer).install("./needy")
    assert [skill.state for skill in done.skills] == ["enabled"]
    assert "secret-value" not in repr(done)


@pytest.mark.parametrize("reply", ["maybe", 1, Answer("no"), False, None])
def test_an_answer_other_than_yes_changes_nothing(here, reply):
    here.skill("project/plain")
    before = here.files()
    with pytest.raises((Refused, UsageError)):
        open_project(here.project, answer=lambda question: reply).install("./plain")
    after = {path: data for path, data in here.files().items() if not path.startswith(str(here.hub))}
    assert after == {path: data for path, data in before.items() if not path.startswith(str(here.hub))}


def test_a_yes_is_no_value_of_a_variable(here):
    needs = "dependencies:\n  tools:\n    - type: env_var\n      value: SOME_TOKEN\n"
    here.skill("project/needy", **{"agents/openai.yaml": needs})
    with pytest.raises(UsageError, match="expected a value"):
        open_project(here.project, answer=lambda question: True).install("./needy")


def test_a_failing_callback_changes_nothing(here):
    here.skill("project/plain")

    def answer(question):
        raise KeyError(question.kind)

    with pytest.raises(KeyError):
        open_project(here.project, answer=answer).install("./plain")
    assert not (here.project / "skillhub.lock").exists()
    assert not (here.project / ".agents").exists()


def test_an_answer_as_json_is_what_the_command_prints(here):
    here.skill("project/plain")
    assert here.run("install", "./plain", "--yes", "--allow-unsigned").status == 0
    here.run("disable", "plain")
    project = open_project(here.project)
    for words, of_method in {
        ("list",): project.list(),
        ("show", "plain"): project.show("plain"),
        ("search", "plain"): project.search("plain"),
        ("verify",): project.verify(),
        ("audit",): project.audit(),
    }.items():
        assert json.loads(json.dumps(of_method.to_json())) == here.run(*words, "--json").json, words


def test_a_skill_that_is_not_held_back_has_no_reason_for_it(here):
    here.skill("project/plain")
    here.run("install", "./plain", "--yes", "--allow-unsigned")
    (row,) = open_project(here.project).catalog().skills
    assert (row.enabled, row.why) == (True, None)


@pytest.mark.parametrize("words", [("catalog",), ("load", "plain"), ("search", "plain")])
def test_an_unreadable_lock_is_an_error_of_the_method_as_of_the_command(here, words):
    here.skill("project/plain")
    assert here.run("install", "./plain", "--yes", "--allow-unsigned").status == 0
    here.write("project/skillhub.lock", "<<<<<<< ours\n")
    name, *args = words
    with pytest.raises(FormatError) as caught:
        getattr(open_project(here.project), name)(*args)
    assert here.run(*words, "--json").error["message"] == caught.value.message


def test_progress_goes_to_the_callback(here):
    here.skill("project/plain")
    steps = []
    project = open_project(here.project, answer=lambda question: True, report=lambda *step: steps.append(step))
    project.install("./plain")
    assert ("storing", 0, 1) in steps


def test_a_path_is_a_reference(here):
    here.skill("project/plain")
    done = open_project(here.project, answer=lambda question: True).install(here.project / "plain")
    assert [skill.name for skill in done.skills] == ["plain"]


def test_an_unknown_severity_is_refused_even_if_nothing_is_found(here):
    with pytest.raises(UsageError, match="expected a severity"):
        open_project(here.project).audit(fail_on="weird")


def test_a_folder_and_the_user_scope_exclude_each_other(here):
    with pytest.raises(UsageError, match="user_scope"):
        open_project(here.project, user_scope=True)


@pytest.mark.parametrize("name", ["My Skill", "", "\ud800", "a\x1b[0m"])
def test_a_name_in_an_error_is_quoted_if_it_is_no_plain_word(here, name):
    project = open_project(here.project)
    for method in (project.update, project.enable, project.disable, project.remove, project.verify):
        with pytest.raises(NotFound) as caught:
            method(name)
        assert "no skill named '" in caught.value.message
        assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    "error",
    [
        BadSignature("root", "expected this", where="file", hint="do that"),
        RateLimited("later", resets=5),
        Drifted("changed", where="x"),
    ],
)
def test_an_error_survives_the_way_from_another_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    "wrong",
    [
        {"link": "copies"},
        {"mcp": "zzz"},
        {"agents": "codex"},
        {"skills": "pdf"},
        {"env": {"A": 5}},
        {"env": {"A": "secret\0value"}},
        {"env": "A=5"},
    ],
)
def test_an_option_of_another_type_is_refused_before_anything_is_written(wrong):
    with pytest.raises(UsageError) as caught:
        skillhub.Options(**wrong)
    assert next(iter(wrong)) in caught.value.message or "'A'" in caught.value.message
    assert "secret" not in str(caught.value)
