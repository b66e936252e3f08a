"""Reads and writes how far each skill reaches: switched off, for the user alone, or for the model too.

Kept by skillhub for a project and for the user, and read from and written to the agent's own files where its
profile names some. The project's files decide before the user's, the agent's own before skillhub's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

from skillhub.disk import inside, read
from skillhub.errors import FormatError, StateError
from skillhub.model.hosts import expand
from skillhub.model.profile import Profile
from skillhub.model.skill import Reach, Scope, Skill
from skillhub.runtime.catalog import Problem
from skillhub.runtime.files import write_own
from skillhub.runtime.permission import Rule, permitted
from skillhub.runtime.roots import Surroundings, project_root
from skillhub.runtime.state_forms import CAP, FORMS, Layer, gen_answers, gen_remember

# What nobody can read is taken to switch everything off: somebody may have written it to do so.
_NONE = Layer(rules=(Rule("*", "deny"),))


@dataclass(frozen=True, slots=True)
class ReachFile:
    """A file that says how far skills reach; ``ours`` is skillhub's own."""

    path: str
    form: Literal["gen", "codex", "opencode"]
    scope: Scope
    ours: bool = False


def reach_files(profile: Profile, around: Surroundings) -> tuple[ReachFile, ...]:
    """Return the files that count here, those that decide first; they need not be there."""
    root = project_root(profile, around)
    found: dict[Scope, list[ReachFile]] = {"project": [], "user": []}
    for file in profile.states:
        if file.path.startswith("~/"):
            # Users may keep their own files elsewhere, behind a link; a repository's link is not followed.
            path = os.path.realpath(expand(file.path, around.home, around.environ, file.env))
            found["user"].append(ReachFile(path, file.form, "user"))
        else:
            found["project"].append(
                ReachFile(os.path.join(root, *file.path.split("/")), file.form, "project")
            )
    if around.state is not None:
        ours = os.path.join(around.state, "skills")
        # A repository can never bring its own: what is kept for a project lies with the user.
        key = sha256(root.encode("utf-8", "surrogateescape")).hexdigest()
        found["project"].append(ReachFile(os.path.join(ours, f"{key}.json"), "gen", "project", ours=True))
        found["user"].append(ReachFile(os.path.join(ours, "user.json"), "gen", "user", ours=True))
    return (*found["project"], *found["user"])


def layers(profile: Profile, around: Surroundings) -> tuple[tuple[Layer, ...], tuple[Problem, ...]]:
    """Return what these files say, and what is wrong with those that cannot be read."""
    known: list[Layer] = []
    problems: list[Problem] = []
    for file in reach_files(profile, around):
        try:
            text = _text(file)
            if text is not None:
                known.append(FORMS[file.form].parse(text, file.path))
        except (FormatError, StateError) as error:
            known.append(_NONE)
            problems.append(
                Problem(file.path, f"{error.message}; every skill is disabled until it can be read")
            )
    return tuple(known), tuple(problems)


def settled(skills: Iterable[Skill], known: Sequence[Layer]) -> Iterator[Skill]:
    """Yield each skill as far as it reaches here: no further than it says itself, nor than a layer lets it.

    | the skill says | nothing | ``disable-model-invocation`` | ``user-invocable: false`` |
    |---|---|---|---|
    | active | user, model | user | model |
    | enabled | user | user | nobody |
    | disabled | nobody | nobody | nobody |
    """
    rules = [rule for layer in known for rule in layer.rules]
    for skill in skills:
        reach = next((found for layer in known if (found := layer.reach(skill))), "active")
        if rules and permitted(skill, rules) == "deny":
            reach = "disabled"
        if reach == "disabled":
            yield replace(skill, state="disabled")
        elif reach == "enabled":
            yield replace(skill, invocation="user")
        else:
            yield skill


def set_reach(skill: Skill, reach: Reach, scope: Scope, profile: Profile, around: Surroundings) -> None:
    """Keep how far a skill reaches, in skillhub's state and in the agent's own file of that scope, if it has one.

    An agent's file that knows on and off alone is told of these; the rest is in skillhub's.

    Raises:
        FormatError: a file is malformed, or written so that it cannot be edited.
        LinkLeavesProject: a file of the project lies behind a link out of it.
        StateError: a file cannot be read or written, or another rule in it says the contrary.
    """
    root = project_root(profile, around)
    for file in _written(profile, around, scope):
        path = file.path
        if scope == "project" and not file.ours:
            path = inside(root, os.path.relpath(path, root).replace(os.sep, "/"))
        form = FORMS[file.form]
        before = _text(file)
        after = form.edit(before or "", skill, reach, file.path)
        said = next(settled([replace(skill, state="enabled")], [form.parse(after, file.path)]))
        if (said.state == "disabled") != (reach == "disabled"):
            hint = "a rule in this file is about several skills; change it there"
            raise StateError(f"{skill.full_name} stays {said.state}", where=file.path, hint=hint)
        if after != (before or ""):
            write_own(path, after.encode("utf-8"))


def answers(profile: Profile, around: Surroundings) -> dict[str, bool]:
    """Return what the user answered when asked for a skill and wants to be remembered, by full name.

    Raises:
        FormatError: a file of the state is malformed.
        StateError: it cannot be read.
    """
    found: dict[str, bool] = {}
    for file in reversed(reach_files(profile, around)):
        if file.ours:
            found |= gen_answers(_text(file) or "", file.path)
    return found


def remember(skill: Skill, allowed: bool, scope: Scope, profile: Profile, around: Surroundings) -> None:
    """Keep an answer, in skillhub's state alone; without a folder for that it is forgotten.

    Raises:
        FormatError: the file is malformed.
        StateError: it cannot be read or written.
    """
    for file in reach_files(profile, around):
        if file.scope == scope and file.ours:
            text = gen_remember(_text(file) or "", skill.full_name, allowed, file.path)
            write_own(file.path, text.encode("utf-8"))


def _written(profile: Profile, around: Surroundings, scope: Scope) -> Iterator[ReachFile]:
    """Yield one file of each form: of an agent's several the first that is there, else the first."""
    mine = [file for file in reach_files(profile, around) if file.scope == scope]
    own = [file for file in mine if not file.ours]
    if own:
        yield next((file for file in own if os.path.lexists(file.path)), own[0])
    yield from (file for file in mine if file not in own)


def _text(file: ReachFile) -> str | None:
    data = read(file.path, CAP)
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("expected UTF-8 text", where=file.path) from error
