"""The URIs of files of skills, in both directions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skillhub.errors import NotFound
from skillhub.formats.digest import NO_FILES
from skillhub.model.skill import Skill
from skillhub.server.content import ServedFile, ServedSkill, located, mime_type_of, provenance, uri_of, why_not

SKILL = Skill(name="demo", path="/x", scope="project", state="enabled", tree=NO_FILES, source="a")


def served(skill=SKILL, **front):
    files = (ServedFile("SKILL.md", NO_FILES, 1),)
    return ServedSkill(skill, NO_FILES, files, {"name": "demo", "description": "d", **front})


@pytest.mark.parametrize(
    ("skill", "uri"),
    [
        (SKILL, "skill://demo"),
        (replace(SKILL, name="mine"), "skill://as.mine/demo"),
        (replace(SKILL, namespace="git"), "skill://of.git/demo"),
        (replace(SKILL, namespace="git", name="mine"), "skill://of.git/as.mine/demo"),
    ],
)
@pytest.mark.parametrize("path", ["", "SKILL.md", "a b/c#?%.md", "ü/✓", "as.x/of.y", "bad\udcff", "a+b&c=d;e:f@g~h"])
def test_uri_is_parsed_back_to_skill_and_path(skill, uri, path):
    found = uri_of(served(skill), path)
    assert found.startswith(f"{uri}/" if path else uri)
    assert found.isascii()
    assert located(found) == (skill.full_name, path)


@pytest.mark.parametrize(
    "uri", ["", "skill:", "skill://", "skill:///a", "file://a", "skill://a//b", "skill://a/?", "\n"]
)
def test_invalid_uri_is_not_found(uri):
    with pytest.raises(NotFound):
        located(uri)


def test_oversized_or_malformed_skill_is_no_resource():
    assert why_not(served()) is None
    assert why_not(replace(served(), front=None))
    for front in ({"name": 5}, {"name": "De mo"}, {"name": None}, {"description": None}, {"description": True}):
        assert why_not(served(**front))
    one = ServedFile("a", NO_FILES, 16 * 1024 * 1024)
    assert why_not(replace(served(), files=(one,))) is None
    assert why_not(replace(served(), files=(one, one)))
    assert why_not(replace(served(), files=(ServedFile("a", NO_FILES, 0),) * 512)) is None
    assert why_not(replace(served(), files=(ServedFile("a", NO_FILES, 0),) * 513))


def test_media_types_depend_only_on_the_name():
    assert [mime_type_of(name) for name in ("a.md", "A.MD", "a.py", "a.yaml", "a.png", "a", ".md", "x.tar.gz")] == [
        *("text/markdown", "text/markdown", "text/x-python", "application/yaml", "image/png"),
        *("application/octet-stream", "text/markdown", "application/octet-stream"),
    ]
    assert mime_type_of("LICENSE", is_text=True) == "text/plain"


def test_provenance_of_an_unlocked_skill_claims_no_verification():
    assert provenance(served())["verified"] == {"tree": True, "consent": True, "signature": False}
    loose = provenance(served(replace(SKILL, managed=False)))
    assert loose["locked"] is False
    assert set(loose["verified"].values()) == {False}
    secret = provenance(served(replace(SKILL, source="https://me:secret@host/x")))
    assert "secret" not in str(secret)
