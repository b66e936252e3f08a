"""Outdated skills of places that are no registries, as in ``update --check``; no answer is no failure."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from skillhub.audit.audit import AuditRequest, audit
from skillhub.audit.report import Report
from skillhub.formats.digest import Digest
from skillhub.model.lock import Locked
from skillhub.model.reference import parse_remote
from skillhub.model.tree import SIGNATURE, File, Tree
from skillhub.project.intent import is_fixed, wanted_of
from skillhub.project.user_state import Trusted
from skillhub.trust import oms
from tests.support import oci
from tests.support.gitrepos import Content, Repo, link
from tests.support.reaching import Reaching
from tests.support.registry import key_of
from tests.support.site import JSON, WELL_KNOWN, current, entry, skill_md
from tests.support.web import Web, answer

REV = "a" * 40


def text(name: str, body: str = "Do it.", version: str = "") -> bytes:
    more = f'metadata:\n  version: "{version}"\n' if version else ""
    return f"---\nname: {name}\ndescription: Does {name}.\n{more}---\n{body}\n".encode()


def three(body: str = "Do it.", version: str = "") -> dict[str, Content]:
    return {f"skills/{name}/SKILL.md": text(name, body, version) for name in ("a", "b", "c")}


@pytest.fixture
def world(reaching: Reaching) -> Reaching:
    return reaching


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo(tmp_path / "repo.git")
    repo.commit(three(version="1.0.0"))
    return repo


def hand_out(web: Web, *names: str, body: str = "Do it.") -> None:
    """Serve a site with these one-file skills."""
    rows = []
    for name in names:
        web.at(f"/{name}.md", answer(skill_md(name, body), "Content-Type: text/markdown"))
        rows.append(entry(name, skill_md(name, body), f"/{name}.md"))
    web.at(WELL_KNOWN, answer(current(*rows), JSON))


def report(world: Reaching, **request: object) -> Report:
    return audit(AuditRequest(**request), world.ports())


def found(world: Reaching, **request: object) -> list[tuple[str, str | None]]:
    """Return rules and skills of the findings, except unsigned ones."""
    rows = report(world, **request).findings
    return [(each.rule, each.skill) for each in rows if each.rule not in ("unsigned", "source-http")]


def outdated(world: Reaching) -> list[str | None]:
    assert {rule for rule, _ in found(world)} <= {"outdated"}
    # Both commands agree.
    names = [skill for _, skill in found(world)]
    assert names == sorted(each.name for each in world.behind().skills)
    return names


def test_a_newer_commit_is_reported_for_the_changed_skill(world: Reaching, repo: Repo) -> None:
    world.install(f"git+{repo.url}", every=True)
    assert outdated(world) == []
    before = world.snapshot()
    rev = repo.commit({**three(version="1.0.0"), "skills/b/SKILL.md": text("b", "Better.", "1.1.0")})
    (only,) = [each for each in report(world).findings if each.rule == "outdated"]
    assert (only.skill, only.severity, only.path) == ("b", "low", "skillhub.lock")
    assert only.message == f"b is locked at 1.0.0, git+{repo.url} has 1.1.0"
    assert only.hint == "skillhub diff b shows what it changes, skillhub update b installs it"
    assert outdated(world) == ["b"]
    repo.commit({**three(version="1.0.0"), "skills/b/SKILL.md": text("b", "Other.", "1.0.0")})
    (only,) = [each for each in report(world).findings if each.rule == "outdated"]
    assert f"locked at {world.lock().skills['b'].short}," in only.message
    assert rev[:12] not in only.message
    assert world.snapshot() == before


def test_a_branch_and_a_tag_are_checked_and_a_commit_is_not(world: Reaching, repo: Repo, tmp_path: Path) -> None:
    rev = repo.commit(three())
    repo.point("refs/tags/v1", rev)
    world.install(f"git+{repo.url}@main#skills/a", f"git+{repo.url}@v1#skills/b", f"git+{repo.url}@{rev}#skills/c")
    repo.commit(three("Better."))
    assert outdated(world) == ["a"]
    repo.point("refs/tags/v1", repo.commit(three("Best.")))
    assert outdated(world) == ["a", "b"]
    shutil.rmtree(repo.path)
    notes = report(world).notes
    assert len(notes) == 2
    assert rev not in str(notes)


def test_a_commit_in_the_intent_is_never_outdated(world: Reaching, repo: Repo) -> None:
    """A user who wrote a commit into skillhub.toml wants it, whatever the branch has."""
    rev = repo.commit(three())
    world.install(f"git+{repo.url}", skills=("a",))
    repo.commit(three("Better."))
    path = world.base / "skillhub.toml"
    path.write_text(f'[skills]\na = {{ git = "{repo.url}", rev = "{rev}", path = "skills/a" }}\n')
    assert found(world) == []


def test_a_site_an_archive_a_file_and_an_artifact_are_checked_for_updates(world: Reaching) -> None:
    with Web() as web:

        def serve(body: str) -> None:
            hand_out(web, "a", body=body)
            web.at("/one/SKILL.md", answer(skill_md("one", body), "Content-Type: text/markdown"))
            artifact = oci.toolhive("packed", {"SKILL.md": skill_md("packed", body)})
            for name, data in {
                "1.0": artifact.manifest,
                artifact.digest: artifact.manifest,
                **artifact.below,
            }.items():
                web.at(f"/v2/team/packed/manifests/{name}", answer(data))
            for name, data in artifact.blobs.items():
                web.at(f"/v2/team/packed/blobs/{name}", answer(data))

        serve("First.")
        world.install(web.url(""), every=True)
        world.install(web.url("/one/SKILL.md"), f"oci://127.0.0.1:{web.port}/team/packed:1.0")
        assert outdated(world) == []
        serve("Second.")
        shutil.rmtree(world.home.cache)
        assert outdated(world) == ["a", "one", "packed"]


def test_a_local_folder_is_checked_offline_too(world: Reaching) -> None:
    folder = world.base / "mine" / "a"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(text("a"))
    world.install(str(folder))
    assert found(world, refresh=False) == []
    (folder / "SKILL.md").write_bytes(text("a", "Better."))
    assert found(world, refresh=False) == [("outdated", "a")]
    shutil.rmtree(folder)
    done = report(world, refresh=False)
    assert (done.ok, len(done.notes)) == (True, 1)
    assert "unknown for a:" in done.notes[0]


def test_a_missing_place_is_one_note_and_no_failure(world: Reaching, repo: Repo) -> None:
    world.install(f"git+{repo.url}", every=True)
    shutil.rmtree(repo.path)
    done = report(world, threshold="low")
    assert {each.rule for each in done.findings} == {"unsigned"}
    (only,) = done.notes
    assert only.startswith(f"git+{repo.url} could not be asked for newer versions: ")


def test_a_server_error_is_a_note(world: Reaching) -> None:
    with Web() as web:
        hand_out(web, "a", "b")
        world.install(web.url(""), every=True)
        web.at(WELL_KNOWN, answer(b"", status="503 Service Unavailable"))
        shutil.rmtree(world.home.cache)
        (only,) = report(world).notes
    assert "could not be asked" in only


def test_offline_a_note_replaces_the_check(world: Reaching, repo: Repo) -> None:
    world.install(f"git+{repo.url}", every=True)
    repo.commit(three("Better."))
    world.offline = True
    done = report(world, refresh=False)
    assert {each.rule for each in done.findings} == {"unsigned"}
    assert done.notes == (f"git+{repo.url} was not contacted: newer versions are unknown",)


def test_a_skill_removed_from_its_place_is_a_note(world: Reaching, repo: Repo) -> None:
    world.install(f"git+{repo.url}", every=True)
    repo.commit({"skills/a/SKILL.md": text("a", "Better."), "skills/c/SKILL.md": text("c", version="1.0.0")})
    assert found(world) == [("outdated", "a")]
    (only,) = report(world).notes
    assert "unknown for b:" in only


def test_attack_an_unsafe_version_is_no_newer_version(world: Reaching, repo: Repo) -> None:
    """The unsafe version is reported, others are checked, and the installed version stays valid."""
    world.install(f"git+{repo.url}", every=True)
    repo.commit({**three("Better."), "skills/b/x": link("/etc/passwd"), "skills/c/SKILL.md": b"---\nname: [\n---\n"})
    assert found(world) == [("newer-refused", "b"), ("newer-refused", "c"), ("outdated", "a")]
    assert report(world).ok
    assert world.problems() == []


def test_attack_a_version_of_another_signer_is_no_newer_version(world: Reaching, tmp_path: Path) -> None:
    key = key_of("one")("publisher", "p256")
    world.publishers.trust(Trusted((key.public.pem.decode(),), name="ann"))
    tree = Tree({"SKILL.md": File(text("plain"))})
    files: dict[str, Content] = {"plain/SKILL.md": text("plain"), f"plain/{SIGNATURE}": oms.sign(tree, "plain", key)}
    repo = Repo(tmp_path / "signed.git")
    repo.commit(files)
    world.install(f"git+{repo.url}")
    assert world.lock().skills["plain"].signed_by
    assert found(world) == []
    repo.commit({"plain/SKILL.md": text("plain", "Unsigned.")})
    assert found(world) == [("newer-refused", "plain")]


def test_a_place_that_only_a_lock_names_is_checked_with_restrictions(world: Reaching, repo: Repo) -> None:
    """A private server that only a lock names gets no request."""
    world.install(f"git+{repo.url}", skills=("a",))
    for path in (world.base / "skillhub.lock", world.base / "skillhub.toml"):
        path.write_text(path.read_text().replace(repo.url, "https://10.0.0.7/x"))
    other = world.as_cloned()
    done = audit(AuditRequest(), other.ports())
    assert "outdated" not in {each.rule for each in done.findings}
    assert any("could not be asked" in each for each in done.notes)
    other.close()


def test_a_forbidden_place_is_not_checked(world: Reaching, repo: Repo) -> None:
    world.install(f"git+{repo.url}", skills=("a",))
    repo.commit(three("Better."))
    path = world.base / "skillhub.toml"
    path.write_text(f'{path.read_text()}\n[policy]\nsources = ["https://skills.example/"]\n')
    assert found(world) == [("policy", "a")]
    assert any("unknown for a:" in each for each in report(world).notes)


def test_an_audit_of_sources_alone_reads_no_place(world: Reaching, repo: Repo) -> None:
    world.install(f"git+{repo.url}", skills=("a",))
    repo.commit(three("Better."))
    assert found(world, sources_alone=True) == []
    shutil.rmtree(repo.path)
    assert report(world, sources_alone=True).notes == ()


def test_a_site_is_checked_through_its_alias(world: Reaching) -> None:
    with Web() as web:
        hand_out(web, "a")
        world.sources.add("docs", web.url(""), None)
        world.install("docs:a")
        assert outdated(world) == []
        hand_out(web, "a", body="Second.")
        shutil.rmtree(world.home.cache)
        assert outdated(world) == ["a"]


@pytest.mark.parametrize(
    ("source", "is_never_newer"),
    [
        (f"github:acme/skills@{REV}", True),
        (f"git+https://git.example/skills.git@{REV}", True),
        (f"oci://registry.example/team/a@sha256:{'b' * 64}", True),
        ("github:acme/skills", False),
        ("github:acme/skills@v1", False),
        (f"github:acme/skills@{'c' * 40}", False),
        ("oci://registry.example/team/a:1.0", False),
        ("https://skills.example/a.zip", False),
    ],
)
def test_a_place_with_a_full_digest_is_never_outdated(source: str, *, is_never_newer: bool) -> None:
    is_git = source.startswith("git")
    origin = (
        {"git": "https://git.example/skills.git", "rev": REV, "path": "a"}
        if is_git
        else {"url": "https://x.example/"}
    )
    entry = Locked(source=source, tree=Digest("sha256:" + "d" * 64), size=1, **origin)
    assert is_fixed(wanted_of(entry), entry) == is_never_newer


def test_folders_of_one_repository_share_one_fetch(world: Reaching, repo: Repo) -> None:
    """Otherwise `update --check` of 333 skills of one catalogue would send 333 times as many requests."""
    open_place = world.ports().open_place
    first = open_place(parse_remote(f"git+{repo.url}#skills/a"))
    shutil.rmtree(repo.path)
    second = open_place(parse_remote(f"git+{repo.url}#skills/b"))
    assert (first.index().names, second.index().names) == (("a",), ("b",))
