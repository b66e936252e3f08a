"""What a person is told of skills once every question about them is answered: what is odd, and what they lack."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from skillhub.flows.candidate import Candidate
from skillhub.flows.gate import Gate, Survey
from skillhub.flows.hints import command
from skillhub.flows.needs import SKIP
from skillhub.model.dataclass import replace
from skillhub.model.question import UNANSWERED, Asked
from skillhub.model.skill import Scope, Skill
from skillhub.world import mcp


def warnings(candidates: Iterable[Candidate], gates: Iterable[Gate], asked: Iterable[Asked]) -> list[str]:
    """Return what a person should know of these skills and nothing refuses."""
    found = [f"{each.name}: {note}" for each in candidates for note in each.warnings]
    found += [note for gate in gates for note in gate.warnings]
    for question, answer in asked:
        skill = question.skill
        if question.kind == "finding":
            found += [f"{skill}: {line}" for line in question.details]
        elif question.kind == "local-edit" and answer == UNANSWERED:
            found += [f"{skill} was edited by hand: {path}" for path in question.details]
        elif question.kind == "mcp-conflict" and answer.said == "yes":
            found.append(
                f"{skill} uses the MCP server {question.subject} as it was configured before, unchanged"
            )
    return found


def as_given(skill: Skill, given: Collection[str]) -> Skill:
    """Return the skill, which waits for something else, with the variables that this very command gave it as met."""
    requires = tuple(
        replace(need, satisfied=True) if need.kind == "env" and need.spell() in given else need
        for need in skill.requires
    )
    return replace(skill, requires=requires)


def ways(gates: Iterable[Gate], scope: Scope) -> Mapping[tuple[str, str], str]:
    """Return by skill and need what to do about MCP servers of which ``--mcp configure`` does not make an end."""
    found = {
        (gate.name, survey.need.spell()): _way(gate.name, survey, scope)
        for gate in gates
        for survey in gate.surveys
    }
    return {key: way for key, way in found.items() if way}


def _way(skill: str, survey: Survey, scope: Scope) -> str:
    need, server, enable = survey.need, survey.need.server, command(scope, "enable", skill)
    theirs = ", ".join(survey.files[agent].path for agent in survey.where("different"))
    if not survey.states and survey.by_hand:
        return f"{'; '.join(survey.to_do)}; then {enable}  ({SKIP})"
    if not survey.states:
        agents = mcp.agents_with_file(scope)
        first, *others = (each for each in agents if server is None or mcp.is_spelled(each, server))
        named = f"no agent with a file of MCP servers was found here; {', '.join(others)} have one too"
        return f"{enable} --mcp configure --agent {first}  ({named}; {SKIP})"
    if server is None:
        files = ", ".join(survey.files[agent].path for agent in survey.absent)
        return f"add {need.name} to {files}, then {enable}  (the skill does not say how to run it; {SKIP})"
    if theirs:
        return f"{enable} --yes  (uses the server that is called {need.name} in {theirs} already; {SKIP})"
    if server.runs_shell:
        return f"{enable}, at a terminal  (it runs a shell, to which no flag agrees; {SKIP})"
    return ""
