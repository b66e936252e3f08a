import contextlib
import os
import shutil
import subprocess
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.archive.limits import Entry
from skillhub.archive.unpack import gather
from skillhub.errors import UnsafeArchive
from skillhub.formats.digest import Digest
from skillhub.model.tree import SKILL_MD, File, ListedFile, Listing, Tree, lines_at

# Word for word as in the documentation of the format.
PIPELINE = r"""
cd SKILL && find . -type f -printf '%P\n' | LC_ALL=C sort | while IFS= read -r f; do
  [ -x "$f" ] && x=x || x=-; printf '%s %s  %s\n' $x "$(sha256sum < "$f" | cut -c1-64)" "$f"; done | sha256sum
"""
ODD = {
    SKILL_MD: File(b"---\nname: odd\n---\n"),
    "-n": File(b"a leading dash"),
    "--help": File(b""),
    "-rf/x": File(b"in a folder with a dash"),
    "a b/c  d": File(b"blanks"),
    "a.b": File(b"sorts before a/b"),
    "a/b": File(b"."),
    "a-b": File(b"."),
    "A": File(b"upper case sorts before lower"),
    "$(touch x)": File(b"no shell ever sees it"),
    "`id`;&'": File(b"quotes", executable=True),
    "%s%n": File(b"a format"),
    "~": File(b"home"),
    "ünï/東京.md": File("é".encode()),
    "😀": File(b"outside of the basic plane: sorts after U+FFxx by bytes, before by UTF-16"),
    "ｆ": File(b"U+FF46"),
    "scripts/run.sh": File(b"#!/bin/sh\n", executable=True),
    "scripts/empty": File(b"", executable=True),
}


@pytest.mark.skipif(shutil.which("sha256sum") is None or os.name == "nt", reason="no coreutils here")
def test_digest_equals_that_of_a_shell_pipeline(tmp_path):
    folder = tmp_path / "SKILL"
    tree = Tree(ODD)
    for path, file in tree.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)
        place.chmod(0o755 if file.executable else 0o644)
    (folder / "no file in it").mkdir()
    probe = subprocess.run(["find", ".", "-maxdepth", "0", "-printf", ""], cwd=tmp_path, capture_output=True)
    if probe.returncode:
        pytest.skip("find has no -printf here")
    done = subprocess.run(["bash", "-c", PIPELINE], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "sha256:" + done.stdout.split()[0] == tree.digest
    assert not (folder / "x").exists()


def test_listing_has_mode_digest_and_path():
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    tree = Tree({"b": File(b"", executable=True), "a": File(b"")})
    assert tree.listing.text == f"- {empty}  a\nx {empty}  b\n".encode()
    assert tree.digest == Digest.of(tree.listing.text)
    assert list(tree) == ["a", "b"]
    assert Tree({}).digest == Digest.of(b"")


paths = st.text(st.characters(blacklist_characters="\n", blacklist_categories=["Cs"]), min_size=1, max_size=9)
files = st.dictionaries(paths, st.builds(File, st.binary(max_size=4), st.booleans()), max_size=5)


@given(files, st.randoms(use_true_random=False))
def test_listing_is_read_back_and_does_not_depend_on_order(content, random):
    items = list(content.items())
    random.shuffle(items)
    tree = Tree(items)
    assert tree.digest == Tree(content).digest
    assert list(tree) == sorted(content, key=str.encode)
    parsed = Listing.parse(tree.listing.text)
    assert parsed == tree.listing
    assert parsed.text == tree.listing.text
    assert tree.size == sum(len(file.data) for file in content.values())


@given(files, files)
def test_different_trees_have_different_digests(one, other):
    assert (Tree(one).digest == Tree(other).digest) == (one == other)


@given(st.binary(max_size=200))
def test_any_bytes_of_a_listing_are_parsed_or_refused(data):
    with contextlib.suppress(ValueError):
        assert Listing.parse(data).digest


LINE = "- " + "0" * 64 + "  a\n"


@pytest.mark.parametrize(
    "text",
    [
        LINE[:-1],
        LINE + "\n",
        "\n",
        LINE.replace("- ", "? "),
        LINE.replace("- ", "xx"),
        LINE.replace("  a", " a"),
        LINE.replace("  a", "  "),
        LINE.replace("0", "G"),
        LINE.replace("0", "A"),
        LINE + LINE[:40],
    ],
)
def test_invalid_listing_is_refused(text):
    with pytest.raises(ValueError, match="not a listing"):
        Listing.parse(text.encode())


def forged():
    """Return two files, and one whose name spells the second line of their listing."""
    honest = Tree({"a": File(b"1"), "b": File(b"2")})
    return honest, {f"a\n- {honest.listing['b'].sha256}  b": File(b"1")}


def test_attack_a_line_feed_in_a_path_cannot_forge_a_listing():
    """gather refuses such a path, and a tree with such a path on the disk has another digest."""
    honest, forgery = forged()
    assert Tree(forgery).digest != honest.digest
    for around in ("{}", "folder/{}", "{}/file"):
        entries = [Entry(SKILL_MD, File(b"x")), *(Entry(around.format(p), file) for p, file in forgery.items())]
        with pytest.raises(UnsafeArchive) as caught:
            gather(entries)
        assert caught.value.reason == "name-hidden"


@given(st.text(st.characters(categories=["Cc", "Zl", "Zp"]), min_size=1, max_size=1), st.text(max_size=4))
def test_path_with_any_line_end_is_refused(end, rest):
    for path in (f"a{end}{rest}", f"{rest}{end}", f"{end}/a"):
        with pytest.raises(UnsafeArchive):
            gather([Entry(SKILL_MD, File(b"x")), Entry(path, File(b""))])


def test_without_removes_paths_and_repr_counts_files():
    tree = Tree(ODD)
    less = tree.without(["-n", "absent"])
    assert set(tree) - set(less) == {"-n"}
    assert repr(Tree({"a": File(b"12")})).endswith("1 files, 2 bytes)")
    assert tree.listing["scripts/run.sh"] == ListedFile(Digest.of(b"#!/bin/sh\n").hex, True)


def test_lines_of_places_are_those_of_their_files():
    files = {"a": File(b"one\r\ntwo\n\nlast"), "b": File(b"")}
    places = [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("a", 5), ("a", 0), ("b", 1), ("c", 1), (None, 1)]
    assert lines_at(places, files) == {("a", 1): b"one\r", ("a", 2): b"two", ("a", 3): b"", ("a", 4): b"last"}


def test_attack_a_line_of_a_file_takes_no_memory_for_the_others():
    files = {"a": File(b"first\n" + b"\n" * (1 << 20))}
    tracemalloc.start()
    try:
        assert lines_at([("a", 1), ("a", 1 << 20)], files)["a", 1] == b"first"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
