import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.disk import files
from skillhub.errors import LinkLeavesProject, SkillhubError, StateError


def test_a_plain_path_is_joined_and_may_be_absent(tmp_path):
    (tmp_path / "a").mkdir()
    assert files.inside(str(tmp_path), "a/b/c") == str(tmp_path / "a/b/c")
    assert files.inside(str(tmp_path), "a") == str(tmp_path / "a")


def test_a_link_inside_the_root_is_followed(tmp_path):
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "absolute").symlink_to(tmp_path / "real")
    (tmp_path / "relative").symlink_to("absolute")
    assert files.inside(str(tmp_path), "relative/deep/x") == str(tmp_path / "real/deep/x")


def test_a_root_behind_a_link_is_accepted(tmp_path):
    (tmp_path / "real/a").mkdir(parents=True)
    (tmp_path / "real/link").symlink_to("a")
    (tmp_path / "alias").symlink_to("real")
    assert files.inside(str(tmp_path / "alias"), "link/x") == str(tmp_path / "alias/a/x")


def test_a_link_to_the_root_itself_is_followed(tmp_path):
    (tmp_path / "me").symlink_to(".")
    assert files.inside(str(tmp_path), "me") == str(tmp_path)
    assert files.inside(str(tmp_path), "me/x") == str(tmp_path / "x")


@pytest.mark.parametrize("target", ["..", "../outside", "/", "../project-2", "a/../../outside"])
@pytest.mark.parametrize("rest", ["", "/x"])
def test_a_link_out_of_the_project_is_refused(tmp_path, target, rest):
    project = tmp_path / "project"
    (project / "a").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "project-2").mkdir()
    (project / "link").symlink_to(target)
    with pytest.raises(LinkLeavesProject):
        files.inside(str(project), "link" + rest)


def test_a_dangling_link_out_of_the_project_is_refused(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "link").symlink_to("../not-there")
    with pytest.raises(LinkLeavesProject):
        files.inside(str(project), "link")


def test_a_second_link_behind_an_inner_one_is_refused(tmp_path):
    project = tmp_path / "project"
    (project / "real").mkdir(parents=True)
    (project / "first").symlink_to("real")
    (project / "real/second").symlink_to(tmp_path)
    with pytest.raises(LinkLeavesProject):
        files.inside(str(project), "first/second/x")


def test_a_link_loop_is_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(StateError):
        files.inside(str(tmp_path), "a/x")
    with pytest.raises(StateError):
        files.inside(str(tmp_path), "a")


@pytest.mark.parametrize("target", [".git", "sub/.GIT/hooks"])
def test_a_link_into_the_git_folder_is_refused(tmp_path, target):
    (tmp_path / target).mkdir(parents=True)
    (tmp_path / ".agents").symlink_to(target)
    with pytest.raises(LinkLeavesProject):
        files.inside(str(tmp_path), ".agents/hooks")
    assert files.inside(str(tmp_path), ".git/info/exclude") == str(tmp_path / ".git/info/exclude")


@pytest.mark.parametrize("relative", ["", "..", "a/../../b", "/etc", "a//b", "./a", "a/", "a\0b"])
def test_a_path_that_is_not_plain_is_refused(tmp_path, relative):
    with pytest.raises(LinkLeavesProject):
        files.inside(str(tmp_path), relative)


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(StateError) as caught:
        files.inside(str(tmp_path), "a/b")
    assert caught.value.where == str(tmp_path / "a/b")


@given(st.text())
def test_no_text_leads_out_of_the_root(tmp_path_factory, relative):
    root = str(tmp_path_factory.getbasetemp())
    try:
        path = files.inside(root, relative)
    except SkillhubError:
        return
    assert os.path.normpath(path) == path
    assert path.startswith(root + os.sep)


@pytest.mark.parametrize(
    ("path", "folder", "is_below"),
    [
        ("a", "a", True),
        ("a/b/c", "a", True),
        ("a/../a/b", "a", True),
        ("into/b", "a", True),
        ("a/b", "into", True),
        ("a/out", "a", False),
        ("a-2", "a", False),
        ("a/..", "a", False),
    ],
)
def test_is_within_follows_links(tmp_path, path, folder, is_below):
    (tmp_path / "a").mkdir()
    (tmp_path / "into").symlink_to("a")
    (tmp_path / "a/out").symlink_to("..")
    assert files.is_within(str(tmp_path / path), str(tmp_path / folder)) is is_below


def test_every_path_leads_below_the_root(tmp_path):
    assert files.is_within(str(tmp_path), tmp_path.anchor)
    assert not files.is_within(tmp_path.anchor, str(tmp_path))
