"""OpenOxide: metadata first, a skill by path or by a name that one alone has; no permission without a yes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skillhub.runtime import (
    MentionRules,
    PermissionProfile,
    Request,
    Selected,
    Session,
    Surroundings,
    catalog_of,
    inject,
    load,
    mentioned,
    permission_profile,
    profile,
    section,
    skills_list,
)

HOST = profile("openoxide")


class OpenOxide:
    """One session in one working folder."""

    def __init__(self, around: Surroundings, agree: Callable[[Sequence[str]], bool]) -> None:
        self.around, self.agree = around, agree
        self.session = Session("openoxide-1")
        self.catalog = catalog_of(HOST, around)
        self.allowed = PermissionProfile(preferences="none")

    def instructions(self) -> str:
        """Return names, descriptions and paths of the skills that the model may call."""
        return section(self.catalog, HOST).text

    def reload(self) -> None:
        """Answer `skills/reload`."""
        self.catalog = catalog_of(HOST, self.around, reload=True)

    def debug(self) -> list[tuple[str, str, list[str]]]:
        """Return the roots in their order with what each holds, for the debug view."""
        roots = skills_list(HOST, [self.around])["data"][0]["roots"]
        return [(each["scope"], each["path"], each["found"]) for each in roots if each["found"]]

    def turn(self, text: str, selected: Sequence[Selected] = ()) -> list[str]:
        """Return the user-role items of a turn: an envelope for each skill, or why there is none."""
        rules = MentionRules(leads=len(self.catalog.skills))
        found = mentioned(text, self.catalog, selected, rules)
        items = [each.message for each in found.mentions if each.outcome != "activated"]
        for skill in found.skills:
            loaded = load(skill, Request(session=self.session))
            asked = permission_profile(loaded, self.around.home)
            # The effective delta is shown before it is applied; without a yes nothing is widened.
            if asked and (delta := asked.beyond(self.allowed)) and self.agree(delta):
                self.allowed = asked
            items.append(inject(loaded, HOST))
        return items


# What is typed, and how each item of the turn begins.
RECORDED = [
    ("$deploy it", ["<skill>\n<name>deploy</name>\n<path>"]),
    ("[$one]({twin}/SKILL.md) please", ["<skill>\n<name>twin</name>\n<path>{twin}/SKILL.md</path>"]),
    ("$twin please", ["$twin matched 2 skills: "]),
    ("$secret now", ["<skill>\n<name>secret</name>"]),
    ("costs $5 in $HOME", []),
    ("$gone", ["No skill named 'gone'."]),
]
