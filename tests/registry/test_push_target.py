from pathlib import Path

import pytest

from skillhub.errors import FormatError, StateError
from skillhub.registry.outputs import cache_control, media_type
from skillhub.registry.push_targets import FolderTarget, SiteFile
from skillhub.server.site import find_page
from skillhub.sources.configured import _FOLDER

FIXED = f"targets/{'0' * 64}.index.json"
LISTING = ".well-known/agent-skills/index.json"


def file(path, data):
    return SiteFile(path, lambda: data)


def test_files_have_the_type_and_lifetime_of_registry_serve():
    site = Path(_FOLDER)
    paths = [path.relative_to(site).as_posix() for path in site.rglob("*") if path.suffix in (".json", ".zip")]
    assert len(paths) > 40
    for path in paths:
        page = find_page(str(site), f"/{path}")
        page.opened().close()
        assert (media_type(path), cache_control(path)) == (page.type, page.cache), path


@pytest.mark.parametrize(
    ("path", "fixed"),
    [
        ("metadata/1.root.json", True),
        (FIXED, True),
        (f"archives/hello/1.0.0/{'a' * 64}.zip", True),
        ("metadata/timestamp.json", False),
        (LISTING, False),
        ("1/.well-known/agent-skills/index.json", False),
        (f"{'0' * 64}.x/index.json", False),
        (f"{'A' * 64}.zip", False),
    ],
)
def test_fixed_files_have_a_version_or_hash_in_their_name(path, fixed):
    assert file(path, b"").fixed is fixed


def test_fixed_file_is_not_overwritten(tmp_path):
    target = FolderTarget(str(tmp_path))
    target.publish([], [file(FIXED, b"one")])
    with pytest.raises(StateError, match="other content"):
        target.holds(file(FIXED, b"two"))
    with pytest.raises(StateError, match="another writer"):
        target.publish([], [file(FIXED, b"two")])
    assert (tmp_path / FIXED).read_bytes() == b"one"
    assert FolderTarget(str(tmp_path)).holds(file(FIXED, b"one"))


def test_changeable_file_is_overwritten_only_if_unchanged_since_reading(tmp_path):
    target, other = FolderTarget(str(tmp_path)), FolderTarget(str(tmp_path))
    assert not target.holds(file(LISTING, b"mine"))
    other.publish([], [file(LISTING, b"theirs")])
    assert target.read(LISTING) is None
    with pytest.raises(StateError, match="another writer"):
        target.publish([], [file(LISTING, b"mine")])
    assert (tmp_path / LISTING).read_bytes() == b"theirs"


def test_link_at_the_target_is_not_written_through(tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    place = tmp_path / "place"
    place.mkdir()
    (place / "index.json").symlink_to(outside)
    target = FolderTarget(str(place))
    with pytest.raises(StateError):
        target.holds(file("index.json", b"new"))
    assert outside.read_bytes() == b"precious"


def test_huge_file_at_the_target_is_refused(tmp_path):
    with open(tmp_path / "index.json", "wb") as huge:
        huge.truncate(65 * 1024 * 1024)
    with pytest.raises(FormatError):
        FolderTarget(str(tmp_path)).read("index.json")


def test_written_files_are_readable_by_a_server(tmp_path):
    FolderTarget(str(tmp_path)).publish([], [file(LISTING, b"{}")])
    assert (tmp_path / LISTING).stat().st_mode & 0o777 == 0o644
