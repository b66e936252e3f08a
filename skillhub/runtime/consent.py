"""The user's stored answers about skills for which a host's rules say ``ask``; a yes is for the files of then."""

from __future__ import annotations

from collections.abc import Iterable

from skillhub.model.hosts import Profile, Scope
from skillhub.model.hosts import profile as profile_of
from skillhub.model.skill import Skill
from skillhub.model.tree import Listing
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.folder import all_files, has_tree
from skillhub.runtime.state import Answer, state_folder, store_answer, stored_answers


def answers(profile: Profile | str, around: Surroundings, skills: Iterable[Skill] = ()) -> dict[str, bool]:
    """Return the stored answers of the user about skills with the permission ``ask``, by full name.

    A no is for every skill of its name. A yes is for the files that the user allowed: it is returned if each of
    ``skills`` with this name, and at least one, has these files now.

    Args:
        profile: The agent, or its id.
        around: Where the agent runs.
        skills: The skills that may be loaded.

    Raises:
        FormatError: a file of skillhub's state is malformed.
        StateError: a file cannot be read.
        UsageError: there is no such agent.
    """
    stored, state = stored_answers(profile_of(profile), around), state_folder(around)
    allowed = [(skill, tree) for skill in skills if (tree := stored.get(skill.full_name))]
    changed = {skill.full_name for skill, tree in allowed if not has_tree(skill, tree, state)}
    unchanged = {skill.full_name for skill, _ in allowed} - changed
    return {name: name in unchanged for name, answer in stored.items() if answer is False or name in unchanged}


def remember(skill: Skill, allowed: bool, scope: Scope, profile: Profile | str, around: Surroundings) -> None:
    """Store the user's answer about a skill with the permission ``ask``, in skillhub's state alone.

    A yes is for the tree of the skill: once its files change, the user is asked again. Nothing is stored if there is
    no folder for the state.

    Args:
        skill: The skill; as ``Request.ask`` got it, it has the tree that the user was asked about. Otherwise the
            answer is about the files that its folder has now.
        allowed: Whether the user allows it to be loaded.
        scope: Whether the answer is for the project or for all of the user's projects.
        profile: The agent, or its id.
        around: Where the agent runs.

    Raises:
        Drifted: the skill changes meanwhile.
        FormatError: the file is malformed.
        StateError: the file cannot be read or written; the skill has a link, or more files than an installed one may.
        UsageError: there is no such scope or agent.
    """
    answer: Answer = (skill.tree or Listing(all_files(skill).hashed()).digest) if allowed else False
    store_answer(skill.full_name, answer, scope, profile_of(profile), around)
