"""A local folder with several skills as a source."""

import json

import pytest

from skillhub.errors import NotFound, SourceError, UnsafeArchive
from skillhub.model.tree import File
from skillhub.sources.repository import FolderSnapshot, open_folder
from tests.support.snapshot import skill

MARKET = ".claude-plugin/marketplace.json"
ELSEWHERE = {"name": "p", "source": {"source": "url", "url": "https://git.example/other.git"}}


def written(folder, files):
    for path, text in files.items():
        full = folder / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
    return folder


def test_local_folder_offers_several_skills(tmp_path):
    files = {"skills/a/SKILL.md": skill("a"), "b/SKILL.md": skill("b"), "node_modules/x/SKILL.md": skill("x")}
    folder = written(tmp_path, files)
    (folder / ".claude").mkdir()
    (folder / ".claude" / "skills").symlink_to(folder / "skills")
    (folder / "skills" / "a" / "run").write_text("#!")
    (folder / "skills" / "a" / "run").chmod(0o755)
    place = open_folder(str(folder))
    index = place.index()
    assert {name: index.releases(name)[0].path for name in index.names} == {"a": "skills/a", "b": "b"}
    assert place.unpacked(index.releases("a")[0]).tree["run"] == File(b"#!", executable=True)
    assert FolderSnapshot(str(folder)).nodes["skills/a/run"].executable
    assert FolderSnapshot(str(folder)).nodes[".claude/skills"].kind == "link"


def test_attack_a_link_in_a_local_folder_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("x")
    folder = written(tmp_path / "many", {"skills/a/SKILL.md": skill("a")})
    (folder / "skills" / "a" / "x").symlink_to(tmp_path / "secret")
    (folder / "skills" / "b").mkdir()
    (folder / "skills" / "b" / "SKILL.md").symlink_to(folder / "skills" / "a" / "SKILL.md")
    place = open_folder(str(folder))
    index = place.index()
    assert index.names == ("a", "b")
    for name in index.names:
        with pytest.raises(UnsafeArchive) as caught:
            place.unpacked(index.releases(name)[0])
        assert caught.value.reason == "link"


def test_local_folder_without_a_skill_offers_none(tmp_path):
    assert open_folder(str(tmp_path)).index().skills == {}


def test_a_folder_that_is_gone_is_an_unreachable_source(tmp_path):
    with pytest.raises(SourceError, match="no such folder") as caught:
        open_folder(str(tmp_path / "gone")).index()
    assert (caught.value.code, caught.value.where) == ("source", str(tmp_path / "gone"))


def test_local_marketplace_opens_no_other_repository(tmp_path):
    folder = written(tmp_path, {MARKET: json.dumps({"plugins": [ELSEWHERE]}), "skills/a/SKILL.md": skill("a")})
    index = open_folder(str(folder)).index()
    assert index.names == ("a",)
    assert "another repository" in index.warnings[0]


def test_file_deleted_after_the_index_is_reported(tmp_path):
    place = open_folder(str(written(tmp_path, {"skills/a/SKILL.md": skill("a"), "skills/a/x": "1"})))
    (release,) = place.index().releases("a")
    (tmp_path / "skills" / "a" / "x").unlink()
    with pytest.raises(NotFound, match="gone"):
        place.unpacked(release)
