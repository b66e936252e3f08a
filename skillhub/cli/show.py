"""``show``: shows one skill, installed or offered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

from skillhub.cli.common import Common
from skillhub.cli.options import argument
from skillhub.cli.terminal import Terminal, members
from skillhub.flows.show import Shown
from skillhub.model.changes import Delta
from skillhub.model.release import Release
from skillhub.model.text import Quoted, collapsed


def show(
    common: Common,
    ref: Annotated[str, argument("NAME|REF", "An installed skill, or a reference.")],
) -> int:
    """Show a skill: one installed, one in an agent's folder, else what the reference finds. Installs nothing.

    Example: skillhub show github:gh-fix-ci
    """
    from skillhub.flows.show import manifest_json
    from skillhub.flows.show import show as flow
    from skillhub.model.ref import parse_ref

    shown = flow(parse_ref(ref), common.ports())
    if common.json:
        common.terminal.answer(
            "show",
            {
                **shown.skill.to_json(),
                "manifest": manifest_json(shown.manifest),
                "files": [_file(path, shown) for path in shown.tree],
                "releases": [
                    members(each, "version", "published", "yanked", "withdrawn") for each in shown.releases
                ],
                "patched": asdict(shown.patched) if shown.patched else None,
                "warnings": list(shown.warnings),
            },
        )
    else:
        _draw(shown, common.terminal)
    return 0


def _file(path: str, shown: Shown) -> dict[str, object]:
    file = shown.tree[path]
    listed = shown.tree.listing[path]
    return {"path": path, "size": len(file.data), "sha256": listed.sha256, "executable": file.executable}


def _draw(shown: Shown, terminal: Terminal) -> None:
    skill = shown.skill
    terminal.out(f"{skill.name} {skill.version or ''}", "bold")
    terminal.out(Quoted(collapsed(skill.description)))
    signed = ", ".join(
        f"{one.named(skill.vouched_by)} ({one.kind} {one.fingerprint})" for one in skill.signed_by
    )
    is_found = not skill.managed and skill.state == "enabled"
    state = skill.state if skill.managed or is_found else "not installed"
    rows = [
        ("source", "(unmanaged)" if is_found else skill.source or ""),
        *((("url", skill.url),) if terminal.verbose and skill.url else ()),
        ("state", state),
        ("signed by", signed or "nobody"),
        *((("tree", skill.tree),) if skill.tree else ()),
        *(("" if number else "patched by", text) for number, text in enumerate(_patched(shown))),
        (
            "can",
            ", ".join(skill.capabilities) or "give instructions, which an agent follows with your rights",
        ),
        *(
            (f"needs {need.kind}", f"{need.name}{'' if need.satisfied else ' (missing)'}")
            for need in skill.requires
        ),
        *(("link", link) for link in skill.links),
        *(("release", _spelled(each)) for each in shown.releases),
    ]
    for warning in shown.warnings:
        terminal.warn(f"warning: {warning}")
    for label, text in rows:
        terminal.out(f"  {label:<14}{text}", hang=16)
    for path, file in shown.tree.items():
        terminal.out(f"  {'x' if file.executable else '-'} {len(file.data):>8}  {path}")


def _patched(shown: Shown) -> Iterator[str]:
    """Yield the project's patch, and each file that it touches."""
    if not shown.skill.patch:
        return
    yield f"{shown.skill.patch}, which nobody signed"
    touched = shown.patched or Delta()
    yield from (f"~ {path}" for path in touched.changed)
    yield from (f"+ {path}" for path in touched.added)
    yield from (f"- {path}" for path in touched.removed)


def _spelled(release: Release) -> str:
    """Return version and day, and whether it was taken back."""
    spelled = f"{release.version} {release.published or ''}"
    return f"{spelled} {release.taken_back}" if release.taken_back else spelled


COMMANDS = {"show": show}
