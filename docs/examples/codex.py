"""Codex: skills in the instructions, mentions by path before names, what they need asked once, `<skill>` items."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skillhub.model.question import Answer, Question
from skillhub.runtime import (
    MentionRules,
    Request,
    Selected,
    Session,
    Surroundings,
    catalog_of,
    inject,
    load,
    mentioned,
    open_needs,
    permission_profile,
    profile,
    section,
    supply,
)

HOST = profile("codex")


class Codex:
    """One session in one working folder."""

    def __init__(self, around: Surroundings, ask: Callable[[Question], Answer], apps: Sequence[str] = ()) -> None:
        self.around, self.ask = around, ask
        self.session = Session("codex-1")
        self.catalog = catalog_of(HOST, around)
        self.rules = MentionRules(leads=len(self.catalog.skills), connectors=apps)

    def instructions(self) -> str:
        """Return the section that stands behind AGENTS.md."""
        return section(self.catalog, HOST).text

    def turn(self, text: str, selected: Sequence[Selected] = ()) -> list[dict[str, str]]:
        """Return the items of a turn: a user's message for each skill that is meant, then what was typed."""
        found = mentioned(text, self.catalog, selected, self.rules)
        loaded = [load(skill, Request(session=self.session)) for skill in found.skills]
        for question in open_needs(loaded, self.session, self.around).questions:
            answer = self.ask(question)
            for each in loaded:
                supply(each, question, answer, self.session)
        return [{"role": "user", "content": each} for each in (*(inject(one, HOST) for one in loaded), text)]

    def sandbox(self, name: str) -> str | None:
        """Return the sandbox that a skill's permissions come to; None if it declares none."""
        (skill,) = self.catalog.named(name)
        asked = permission_profile(load(skill), self.around.home)
        return asked.sandbox if asked else None


# What is typed; what the items begin with. `twin` is there twice, `slack` is an app, `off` is disabled.
RECORDED = [
    (
        "$deploy it and $review",
        ["<skill>\n<name>deploy</name>\n<path>", "<skill>\n<name>review</name>\n<path>", "$de"],
    ),
    ("$twin", ["$twin"]),
    ("$slack hello", ["$slack hello"]),
    ("$off", ["$off"]),
    ("pay $5 with $HOME", ["pay $5"]),
    ("$deploy again", ["<skill>\n<name>deploy</name>\n<path>", "$deploy again"]),
]
