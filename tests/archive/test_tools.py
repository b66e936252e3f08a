"""Archives of common tools are read, and ours are read by these tools."""

import io
import os
import shutil
import stat
import subprocess
import tarfile
import zipfile

import pytest

from skillhub.archive.unpack import pack, unpack
from skillhub.errors import UnsafeArchive
from skillhub.model.tree import File, Tree, kind_of

TREE = Tree(
    {
        "SKILL.md": File(b"---\nname: demo\n---\n" * 20),
        "scripts/run.sh": File(b"#!/bin/sh\necho hello\n", True),
        "scripts/__init__.py": File(b""),
        "näive 🎉.md": File(b"x"),
        "noise.bin": File(bytes(number * number % 251 for number in range(5000))),
        "/".join(["folder" * 8] * 4) + "/deep.txt": File(b"deep\n" * 200),
    }
)


def needs(tool):
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"no {tool} here")


@pytest.fixture
def skill(tmp_path):
    folder = tmp_path / "skill"
    for path, file in TREE.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(file.data)
        (folder / path).chmod(0o755 if file.executable else 0o644)
    (folder / "empty").mkdir()
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, 0o755)
    return folder


def written(command, folder):
    """Return the file ``../out`` or else the output of a shell command that runs in ``folder``."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    run = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, check=True, capture_output=True)
    out = folder.parent / "out"
    return out.read_bytes() if out.exists() else run.stdout


def check(data, kind, executables=True, warnings=0):
    unpacked = unpack(data, kind)
    assert {path: file.data for path, file in unpacked.tree.items()} == {p: f.data for p, f in TREE.items()}
    if executables:
        assert unpacked.tree.digest == TREE.digest
    assert len(unpacked.warnings) == warnings


@needs("zip")
@pytest.mark.parametrize(
    ("command", "wrapped"),
    [
        ("zip -qr ../out.zip . && mv ../out.zip ../out", 0),
        ("zip -q0rX ../out.zip . && mv ../out.zip ../out", 0),
        ("zip -qrD9 ../out.zip * && mv ../out.zip ../out", 0),
        ("zip -qr -fz ../out.zip . && mv ../out.zip ../out", 0),
        ("cd .. && zip -qr out.zip skill && mv out.zip out", 1),
        ("zip -qr - . | cat", 0),
    ],
)
def test_info_zip(skill, command, wrapped):
    check(written(command, skill), "zip", warnings=wrapped)


@needs("zip")
@pytest.mark.parametrize(("option", "reason"), [("-y", "link"), ("-P secret", "zip-encrypted")])
def test_info_zip_links_and_encryption(skill, option, reason):
    (skill / "link").symlink_to("SKILL.md")
    with pytest.raises(UnsafeArchive) as caught:
        unpack(written(f"zip -qr {option} ../out.zip link && mv ../out.zip ../out", skill), "zip")
    assert (caught.value.reason, caught.value.where) == (reason, "link")


@needs("jar")
def test_java(skill):
    check(written("jar -cfM ../out.jar . && mv ../out.jar ../out", skill), "zip", executables=False)


@needs("7zz")
@pytest.mark.parametrize("options", ["", "-mx0", "-mx9 -mcu=on", "-mm=Deflate"])
def test_7_zip(skill, options):
    check(written(f"7zz a -bd {options} ../out.zip . && mv ../out.zip ../out", skill), "zip")


@needs("bsdtar")
def test_bsdtar_zip(skill):
    check(written("bsdtar -cf ../out --format zip *", skill), "zip")


@needs("bsdtar")
@pytest.mark.parametrize("form", ["pax", "ustar", "gnutar"])
def test_bsdtar(skill, form):
    check(written(f"bsdtar -czf ../out --format {form} .", skill), "tar.gz")


@needs("tar")
@pytest.mark.parametrize(
    ("command", "wrapped"),
    [
        ("tar -czf ../out .", 0),
        ("tar -czf ../out *", 0),
        ("tar -czf ../out -C .. skill", 1),
        ("tar -cf - --format=gnu . | gzip -9n", 0),
        ("tar -cf - --format=posix . | gzip", 0),
        ("tar -cf - --format=ustar --exclude=folder* . | gzip", 0),
        ("tar -cf - --format=oldgnu -b 128 . | gzip", 0),
        ("tar -cf - --owner=someone:4000000000 --mtime=@-1 . | gzip", 0),
    ],
)
def test_gnu_tar(skill, command, wrapped):
    probe = subprocess.run(["tar", "--version"], check=True, capture_output=True)
    if b"GNU" not in probe.stdout:
        pytest.skip("the tar here is not GNU's")
    data = written(command, skill)
    if "--exclude" in command:
        assert len(unpack(data, "tar.gz").tree) == len(TREE) - 1
    else:
        check(data, "tar.gz", warnings=wrapped)


@needs("tar")
@pytest.mark.parametrize("link", ["ln -s SKILL.md b", "ln SKILL.md b"])
def test_tar_links(skill, link):
    with pytest.raises(UnsafeArchive) as caught:
        unpack(written(f"{link} && tar -czf ../out .", skill), "tar.gz")
    assert caught.value.reason == "link"


@needs("git")
@pytest.mark.parametrize(("form", "kind"), [("zip", "zip"), ("tar.gz", "tar.gz")])
@pytest.mark.parametrize("prefix", ["", "--prefix=demo-1.0/"])
def test_git_archive(skill, form, kind, prefix):
    commit = "git init -q . && git add . && git -c user.name=x -c user.email=x@x.invalid commit -qm x"
    data = written(f"{commit} && git archive --format={form} {prefix} -o ../out HEAD", skill)
    check(data, kind, warnings=bool(prefix))


@needs("unzip")
@pytest.mark.parametrize("compress", [True, False])
def test_unzip_reads_ours(tmp_path, compress):
    (tmp_path / "a.zip").write_bytes(pack(TREE, "zip", compress))
    subprocess.run(["unzip", "-qq", "a.zip", "-d", "out"], cwd=tmp_path, check=True)
    assert on_disk(tmp_path / "out") == TREE.digest


@needs("tar")
@pytest.mark.parametrize("compress", [True, False])
def test_tar_reads_ours(tmp_path, compress):
    (tmp_path / "a.tar.gz").write_bytes(pack(TREE, "tar.gz", compress))
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "-xzf", "a.tar.gz", "-C", "out"], cwd=tmp_path, check=True)
    assert on_disk(tmp_path / "out") == TREE.digest


def on_disk(folder):
    files = {}
    for path in folder.rglob("*"):
        if path.is_file():
            runs = bool(path.stat().st_mode & stat.S_IXUSR)
            files[path.relative_to(folder).as_posix()] = File(path.read_bytes(), runs)
    return Tree(files).digest


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_the_standard_library_reads_the_same_files(name):
    data = pack(TREE, kind_of(name))
    if name.endswith("zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            theirs = {info.filename: archive.read(info) for info in archive.infolist()}
    else:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            theirs = {info.name: archive.extractfile(info).read() for info in archive}
    assert theirs == {path: file.data for path, file in unpack(data, kind_of(name)).tree.items()}
