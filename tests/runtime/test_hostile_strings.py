"""Every public name of the library for agents with hostile strings raises only documented errors."""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import replace
from threading import Event
from typing import Literal, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import skillhub.runtime as library
from skillhub import Answer
from skillhub.errors import FormatError, SkillhubError, StateError, UsageError
from skillhub.model.question import Question
from skillhub.runtime import (
    AgentFolder,
    Agreed,
    Bounds,
    Budget,
    Cache,
    Catalog,
    Commands,
    Display,
    Fork,
    Hit,
    Hits,
    HoldReason,
    Hook,
    HostStateFile,
    McpServer,
    MentionRules,
    Need,
    PermissionRule,
    Problem,
    Request,
    Root,
    Rules,
    SearchIndex,
    Session,
    Shadowed,
    Skill,
    Surroundings,
    answers,
    bring_system_skills,
    call_tool,
    catalog_of,
    changes,
    complete,
    context_inspect,
    display,
    inject,
    load,
    mentioned,
    open_needs,
    permission_profile,
    permitted,
    pick,
    preload,
    profile,
    profiles,
    pull,
    remember,
    rows_of,
    search,
    section,
    set_reach,
    skills_list,
    supply,
    tools,
    urls_of,
    values,
)

LONG = 1 << 17  # more than any path or name may have
HOSTILE = [
    "\0", "/a\0b", "\ud800", "/a\ud800/b", os.fsdecode(b"/\xff"), "/" + "x" * LONG, "a/" * 5000, "/" * 70_000,
    "\n", "\x1b[2J\u202e", "~\0", "", "$" * 5000, "[$demo] (\0)", "{" * 5000, "C:\\x", "%00",
]  # fmt: skip


class Desk:
    """A host with one skill, and calls of every public name with one string."""

    def __init__(self, folder):
        self.folder = folder
        self.skills = folder / "project/.agents/skills/demo"
        self.skills.mkdir(parents=True)
        (folder / "project/.git").mkdir()
        (folder / "home").mkdir()
        (self.skills / "SKILL.md").write_text("---\nname: demo\ndescription: Good.\n---\nGo $ARGUMENTS.\n")
        self.environ = {"SKILLHUB_HOME": str(folder / "hub")}
        self.around = Surroundings(cwd=str(folder / "project"), home=str(folder / "home"), environ=self.environ)
        self.host = profile("agents")
        self.catalog = catalog_of(self.host, self.around)
        self.skill = pick(self.catalog, "demo")
        self.loaded = load(self.skill)
        self.index = SearchIndex.build(rows_of(self.catalog.skills))

    def close(self):
        self.index.close()

    def named(self, text):
        return Catalog.of([replace(self.skill, name=text, description=text, namespace=text)])

    def at(self, text):
        return Catalog.of([replace(self.skill, path=text, links=(text,))])

    def asking(self, text):
        """Load a skill that asks for a context of its own and for hooks, each value being this string."""
        quoted = json.dumps(text)
        group = f"{{matcher: {quoted}, hooks: [{{type: {quoted}, command: {quoted}, once: {quoted}}}]}}"
        head = f"context: fork\nagent: {quoted}\nmodel: {quoted}\nhooks: {{? {quoted}: [{group}]}}\n"
        folder = self.folder / "project/.agents/skills/asking"
        folder.mkdir(exist_ok=True)
        (folder / "SKILL.md").write_text(f"---\nname: asking\ndescription: Good.\n{head}---\nGo.\n")
        return load(Skill(name="asking", path=str(folder), scope="project", state="enabled", managed=False))

    def found(self, text):
        """Search for a word in the instructions of a skill with this name and description."""
        with closing(SearchIndex.build(rows_of(self.named(text).skills))) as index:
            return search("go", [index])

    def fetch(self, text):
        entry = {"name": text, "description": text, "files": [text, "SKILL.md"]}
        whole = json.dumps({"skills": [entry, {**entry, "name": "pdf"}]}).encode()
        return lambda url: whole if url.endswith("index.json") else text.encode("utf-8", "surrogatepass")

    def calls(self, text):
        """Yield the public names that a call covers, and the call."""
        around, host, catalog, skill = self.around, self.host, self.catalog, self.skill
        for key in ("cwd", "home", "state"):
            yield "Surroundings catalog_of", lambda key=key: catalog_of(host, replace(around, **{key: text}))
            yield "remember", lambda key=key: remember(skill, True, "project", host, replace(around, **{key: text}))
            yield "answers", lambda key=key: answers(host, replace(around, **{key: text}))
        more = [{"extra": (text,)}, {"plugins": {text: text}}, {"markers": (text,)}]
        more += [{"environ": {**self.environ, name: text}} for name in ("XDG_STATE_HOME", "SKILLHUB_HOME")]
        for other in more:
            yield "catalog_of", lambda other=other: catalog_of(host, replace(around, **other))
        for name, moved in (
            ("codex", "CODEX_HOME"),
            ("claude-code", "CLAUDE_CONFIG_DIR"),
            ("codelia", "CODELIA_AGENTS_ROOT"),
        ):
            environ = {**self.environ, moved: text}
            yield (
                "profile",
                lambda name=name, environ=environ: catalog_of(profile(name), replace(around, environ=environ)),
            )
        # A row is the program of its host; only what it shows is any text.
        limits = {
            "rules": Rules(),
            "bounds": Bounds(),
            "budget": Budget(),
            "states": (HostStateFile("gen", "x.json"),),
        }
        row = replace(host, id=text, name=text, places=(AgentFolder("project", "x", label=text),), **limits)
        yield "AgentFolder Bounds Budget HostStateFile Rules", lambda: catalog_of(row, around).root_rows()
        root = Root(text, "user", text, text)
        yield "Root Shadowed", lambda: (replace(catalog, roots=(root,)).root_rows(), Shadowed(skill, skill).to_json())
        held = replace(skill, state="disabled", held=HoldReason("disabled", text[:99], text, text))
        yield "HoldReason", lambda: (held.why, mentioned("$demo", Catalog.of([held])), load(held))
        need = Need("mcp", "x", text, required=True, satisfied=False)
        needing = Catalog.of([replace(skill, requires=(need,))])
        yield "Need McpServer", lambda: (context_inspect(needing), McpServer("stdio", (text,)))
        yield "skills_list", lambda: skills_list(host, [replace(around, extra=(text,))])
        yield "changes", lambda: list(changes(host, replace(around, extra=(text,)), stop=stopped(), interval=0.01))
        yield "Cache", lambda: catalog_of(host, around, cache=Cache(text))
        yield "profile Profile profiles", lambda: (profile(text), profiles())
        yield "Catalog", lambda: (catalog.named(text), catalog.at(text), catalog.root_rows())
        yield "Skill context_inspect", lambda: context_inspect(self.at(text), Session(text))
        yield "Skill context_inspect", lambda: context_inspect(self.named(text), Session(text))
        yield "Problem", lambda: Problem(text, text).to_json()
        yield "pick", lambda: pick(catalog, text)
        yield "pick", lambda: pick(catalog, path=text)
        for is_command in (False, True):
            found = {"scope": "project", "state": "enabled", "managed": False, "is_command": is_command}
            yield "load Skill", lambda found=found: load(Skill(name="x", path=text, **found))
            yield (
                "load Skill",
                lambda found=found: load(Skill(name=text, path=str(self.skills), links=(text,), **found)),
            )
        yield "load Request", lambda: load(replace(skill, path=text), Request(ignore_locks=True))
        yield "load Request Session", lambda: load(skill, Request(arguments=text, session=Session(text)))
        yield "Commands", lambda: load(skill, Request(commands=Commands(lambda *_: text, lambda *_: True)))
        yield "Agreed", lambda: load(skill, agreed=Agreed(text))
        yield "Agreed", lambda: load(skill, agreed=Agreed("sha256:" + "0" * 64, state=text))
        yield "Loaded", lambda: self.loaded.read(text)
        yield "Loaded", lambda: self.loaded.narrowed([text])
        yield "preload", lambda: preload(text.encode("utf-8", "surrogatepass"), catalog)
        yield "preload", lambda: preload(f"---\nskills: {text}\n---\n".encode("utf-8", "surrogatepass"), catalog)
        for before in ("", "$", "/", "/skill ", "[$demo] ("):
            yield "mentioned Resolved Mention", lambda before=before: mentioned(f"{before}{text})", catalog)
        rules = MentionRules(connectors=frozenset([text]))
        yield "MentionRules Selected", lambda: mentioned("$demo", catalog, [library.Selected(text, text)], rules)
        yield (
            "complete Completion",
            lambda: (complete(f"${text}", len(text) + 1, catalog), complete(text, 9**9, catalog)),
        )
        yield "Fork", lambda: Fork.to_json(self.asking(text).fork)
        yield "Hook", lambda: [Hook.to_json(hook) for hook in self.asking(text).hooks]
        yield "search SearchIndex", lambda: search(text, [self.index])
        yield "Hits Hit", lambda: [*map(Hit.to_json, self.found(text).hits), Hits.to_json(self.found(text))]
        yield "SearchIndex rows_of", lambda: SearchIndex.build(rows_of(self.named(text).skills)).close()
        for name in profiles():
            yield "section Section tools SkillTool", lambda name=name: (
                section(self.named(text), profile(name)).to_json(), tools(name, self.named(text)),
                section(self.at(text), profile(name)).text,
            )  # fmt: skip
        loaded = replace(self.loaded, body=text, front=text, arguments=text, notes=(text,))
        yield "inject display Display", lambda: (
            [inject(loaded, name) for name in profiles()], display(loaded), display(name=text, error=text), Display,
        )  # fmt: skip
        yield "inject", lambda: inject(self.loaded, text)
        yield "tools", lambda: tools(text, catalog)
        yield "call_tool", lambda: call_tool(text, catalog, text, text)
        yield "call_tool", lambda: call_tool("agents", catalog, text, {})
        for name, tool, key in (
            ("agents", "activate_skill", "name"),
            ("gencode", "Skill", "skill"),
            ("pegasus", "use_skill", "args"),
            ("codelia", "skill_search", "query"),
            ("codelia", "skill_load", "path"),
            ("codelia", "skill_load", "name"),
        ):
            arguments = {"skill": "demo", key: text} if key == "args" else {key: text}
            yield (
                "call_tool ToolResult",
                lambda name=name, tool=tool, arguments=arguments: call_tool(name, catalog, tool, arguments),
            )
        yield "call_tool", lambda: call_tool("agents", catalog, "activate_skill", text)
        yield "open_needs TurnNeeds", lambda: open_needs([loaded], Session(text), replace(around, cwd=text), [text])
        yield "permission_profile PermissionProfile", lambda: permission_profile(self.loaded, text)
        question = Question("env", "demo", text, (text,), text)
        yield (
            "supply values",
            lambda: (supply(loaded, question, Answer("yes", text), Session()), values(loaded, Session())),
        )
        yield "permitted PermissionRule", lambda: permitted(skill, [PermissionRule(text, "deny")], {text: True})
        yield "remember", lambda: remember(replace(skill, name=text), True, "user", host, around)
        for name in ("codex", "opencode", "gencode", "claude-code"):
            yield (
                "set_reach",
                lambda name=name: set_reach(replace(skill, name=text), "disabled", "user", profile(name), around),
            )
        yield "set_reach", lambda: set_reach(replace(skill, path=text), "disabled", "user", profile("codex"), around)
        yield (
            "pull Pulled",
            lambda: pull([text, f"https://x.example/{text}"], self.fetch(text), str(self.folder / "pull")),
        )
        yield "pull", lambda: pull(["https://x.example"], self.fetch("x"), text)
        yield "urls_of", lambda: urls_of(profile("opencode"), replace(around, cwd=text))
        yield "bring_system_skills", lambda: bring_system_skills(text, str(self.folder / "system"))
        yield "bring_system_skills", lambda: bring_system_skills(str(self.folder / "gone"), text)


def stopped():
    event = Event()
    event.set()
    return event


@pytest.fixture
def desk(tmp_path, monkeypatch):
    for name in ("HOME", "SKILLHUB_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")  # calls create relative paths here
    desk = Desk(tmp_path)
    yield desk
    desk.close()


def call_all(desk, text):
    for names, call in desk.calls(text):
        try:
            call()
        except SkillhubError as error:
            assert len(error.message) < 10_000
        except Exception as error:
            error.add_note(f"in {names} with {text[:60]!r}")
            raise


def test_every_public_name_is_covered(desk):
    called = {name for names, _ in desk.calls("x") for name in names.split()}
    aliases = {name for name in library.__all__ if get_origin(getattr(library, name)) is Literal}
    assert {*library.__all__} - called - aliases == set()


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_attack_a_hostile_string_raises_only_documented_errors(desk, text):
    call_all(desk, text)


PIECES = st.sampled_from(
    ["\0", "\ud800", "\udcff", "/", "..", "~", "$demo", "[$demo] (", "\n---\n", "\\", ":", "*", "{", "'"]
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(PIECES, st.text(st.characters(), max_size=8)), max_size=6).map("".join))
def test_attack_any_string_raises_only_documented_errors(desk, text):
    call_all(desk, text)


@pytest.mark.parametrize("path", ["\0", "/a\0", "\ud800", "x" * LONG, "a/" * 500])
def test_attack_an_invalid_path_is_a_usage_error(path):
    with pytest.raises(UsageError, match="expected a path, found"):
        load(Skill(name="x", path=path, scope="project", state="enabled", managed=False))
    with pytest.raises(UsageError, match="expected a path, found"):
        Surroundings(cwd=path, home="/")
    with pytest.raises(UsageError, match="expected a path, found"):
        Cache(path)


@pytest.mark.parametrize("home", ["", ".", "~", "home"])
def test_attack_a_relative_home_folder_is_refused_as_it_would_be_in_the_repository(home):
    with pytest.raises(UsageError, match="expected the absolute path of the user's home folder, found"):
        Surroundings(cwd="/", home=home)


def test_skill_of_unknown_origin_is_not_loaded_without_a_home_folder(desk, monkeypatch):
    monkeypatch.setenv("HOME", "")
    with pytest.raises(StateError, match="your home folder"):
        load(Skill(name="x", path=desk.skill.path, scope="project", state="enabled", managed=False))


@pytest.mark.parametrize("text", ['[[skills.config]]\npath = "/a\\u0000b"\nenabled = false\n'])
def test_attack_an_invalid_path_in_settings_is_ignored(desk, text):
    place = desk.folder / "home/.codex/config.toml"
    place.parent.mkdir()
    place.write_text(text)
    assert catalog_of(profile("codex"), desk.around).skills
    set_reach(desk.skill, "disabled", "user", profile("codex"), desk.around)
    (desk.folder / "project/opencode.json").write_text(
        '{"skills": {"paths": ["/a\\u0000b", "x"], "urls": ["\\u0000"]}}'
    )
    assert catalog_of(profile("opencode"), desk.around).skills


def test_attack_a_name_that_is_not_utf8_is_not_written(desk):
    for name in ("gencode", "codex", "opencode"):
        with pytest.raises(FormatError):
            set_reach(
                replace(desk.skill, name="\ud800", path="/\udcff"), "disabled", "user", profile(name), desk.around
            )
    with pytest.raises(FormatError):
        remember(replace(desk.skill, name="\ud800"), True, "user", desk.host, desk.around)
