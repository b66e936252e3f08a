"""CodeWhale: `$name` invokes a skill; every outcome is one line in CodeWhale's words, and none is a guess."""

from __future__ import annotations

from skillhub.runtime import (
    Catalog,
    Mention,
    Request,
    Session,
    Surroundings,
    catalog_of,
    inject,
    load,
    mentioned,
    profile,
    section,
)

HOST = profile("codewhale")
WORDS = {
    "unknown": "No skill named '{name}'. Run /skill list to see available skills.",
    "suggested": "No exact skill '{name}'. Did you mean ${first}?",
    "ambiguous": "${name} matched {count} skills: {names} — use ${use}.",
    "disabled": "Skill '{name}' is disabled. Enable it with /skill enable {name}.",
}


class CodeWhale:
    """One conversation: what the transcript shows, and what the model gets."""

    def __init__(self, around: Surroundings) -> None:
        self.catalog: Catalog = catalog_of(HOST, around)
        self.session = Session("codewhale-1")

    def system_prompt(self) -> str:
        """Return the part of the system prompt that lists the skills."""
        return section(self.catalog, HOST).text

    def submit(self, text: str) -> tuple[list[str], list[str]]:
        """Return the lines of the transcript, and the messages for the model."""
        found = mentioned(text, self.catalog)
        loaded = [load(skill, Request(session=self.session)) for skill in found.skills]
        return [self.line(each) for each in found.mentions], [*(inject(each, HOST) for each in loaded), found.task]

    def line(self, mention: Mention) -> str:
        """Return what became of one mention, as CodeWhale says it."""
        names = mention.candidates
        if mention.outcome not in WORDS:
            return mention.message
        return WORDS[mention.outcome].format(
            name=mention.text.removeprefix("$"),
            first=names[0] if names else "",
            count=len(names),
            names=", ".join(names),
            use=next((name for name in names if ":" in name), names[0] if names else ""),
        )


# Each row of CodeWhale's table: what is typed, what is shown, what is left as the task.
RECORDED = [
    ("$systematic-debugging fix the auth bug", ["Using skill: systematic-debugging"], "fix the auth bug"),
    ("/skill systematic-debugging fix it", ["Using skill: systematic-debugging"], "fix it"),
    ("$github:gh-fix-ci inspect failing checks", ["Using skill: github:gh-fix-ci"], "inspect failing checks"),
    ("$nope do a thing", ["No skill named 'nope'. Run /skill list to see available skills."], "$nope do a thing"),
    (
        "$debugging why",
        [
            "$debugging matched 3 skills: systematic-debugging, root-cause-debugging, "
            "superpowers:systematic-debugging — use $superpowers:systematic-debugging."
        ],
        "$debugging why",
    ),
    ("$test-driven do", ["No exact skill 'test-driven'. Did you mean $test-driven-development?"], "$test-driven do"),
    ("$aleph search", ["Skill 'aleph' is disabled. Enable it with /skill enable aleph."], "$aleph search"),
    ("```\necho $PATH\n```", [], "```\necho $PATH\n```"),
]
