import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError, SkillhubError
from skillhub.exchange.other_locks import Origin, noted_by_gh, parse_other_lock
from skillhub.model.reference import parse_ref

COMMIT = "b29e7cf65e5cb78a5ac33d582270551bc74a14eb"


def read(document, folder="/work/project"):
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return parse_other_lock(data, folder, "a lock")


def refs(document):
    return {each.name: each.ref for each in read(document).origins}


def reasons(document):
    return {each.name: each.reason for each in read(document).unpinned}


def cli(version=1, **skills):
    return {"version": version, "skills": skills, "dismissed": {}, "lastSelectedAgents": ["codex"]}


def one(**entry):
    found = read(cli(pdf=entry))
    assert len(found.origins) + len(found.unpinned) == 1
    return (*found.origins, *found.unpinned)[0]


def test_a_project_lock_of_the_skills_cli_is_read():
    lock = cli(
        **{
            "pdf": {"source": "anthropics/skills", "sourceType": "github", "skillPath": "skills/pdf/SKILL.md"},
            "top": {"source": "acme/top", "sourceType": "github", "ref": "v2", "skillPath": "SKILL.md"},
            "old": {"source": "acme/many", "sourceType": "github", "computedHash": "ab" * 32},
            "lab": {"source": "group/sub", "sourceType": "gitlab", "skillPath": "x"},
            "near": {"source": "./skills/near", "sourceType": "local"},
            "site": {
                "source": "docs.acme.example",
                "sourceType": "well-known",
                "sourceUrl": "https://docs.acme.example/.well-known/skills/site/SKILL.md",
            },
            "npm": {"source": "left-pad", "sourceType": "node_modules"},
        }
    )
    found = read(lock)
    assert found.format == "skills-lock.json 1"
    assert refs(lock) == {
        "pdf": "github:anthropics/skills/skills/pdf",
        "top": "github:acme/top@v2",
        "old": "github:acme/many",
        "lab": "git+https://gitlab.com/group/sub.git#x",
        "near": "/work/project/skills/near",
        "site": "https://docs.acme.example",
    }
    taken = {each.name: each.skills for each in found.origins}
    assert taken["pdf"] == taken["top"] == ()
    assert (taken["old"], taken["site"]) == (("old",), ("site",))
    assert "node_modules" in reasons(lock)["npm"]


def test_an_origin_without_a_commit_has_a_note_about_its_pin():
    assert one(source="a/b", sourceType="github", ref="main").note == "pinned at the present commit of 'main'"
    assert one(source="a/b", sourceType="github").note == "pinned at the present commit of its default branch"
    assert one(source="a/b", sourceType="github", ref=COMMIT).note == ""


def test_a_user_lock_of_the_skills_cli_and_of_gh_is_read():
    lock = cli(
        3,
        herdr={
            "source": "ogulcancelik/herdr",
            "sourceType": "github",
            "sourceUrl": "https://github.com/ogulcancelik/herdr.git",
            "skillPath": "SKILL.md",
            "skillFolderHash": "e9b22084e03880f43d1f1daaf5d9f45c717b77c4",
            "installedAt": "2026-07-24T19:33:08.136Z",
            "pinnedRef": "v1.0.0",
        },
    )
    assert read(lock).format == ".skill-lock.json 3"
    assert refs(lock) == {"herdr": "github:ogulcancelik/herdr@v1.0.0"}


def test_the_other_form_of_skills_lock_json_is_read():
    lock = {
        "lockfileVersion": 1,
        "skills": {
            "frontend-design": {
                "spec": "anthropics/skills",
                "resolved": "https://github.com/anthropics/skills.git",
                "ref": None,
                "commit": COMMIT,
                "path": "skills/frontend-design",
                "integrity": "sha256-ZlxYVFXey8sCEWvJKK31FIuc0PZ7frSQjIwNZHwA9oo=",
            },
            "mirror": {"resolved": "https://git.acme.example/x.git", "commit": COMMIT, "path": "a/b"},
            "near": {"resolved": "file:../team-skills", "path": "near"},
        },
    }
    assert refs(lock) == {
        "frontend-design": f"github:anthropics/skills/skills/frontend-design@{COMMIT}",
        "mirror": f"git+https://git.acme.example/x.git@{COMMIT}#a/b",
        "near": "/work/team-skills/near",
    }
    assert [each.note for each in read(lock).origins] == ["", "", ""]


def test_folders_of_an_apm_lock_are_read_up_to_a_size_limit():
    package = f"- repo_url: acme/few\n  materialization_repo_url: Acme/Few\n  resolved_commit: {COMMIT}\n"
    package += "  package_type: skill_bundle\n  deployed_files:\n  - .agents/skills/one\n  - .agents/skills/two/\n"
    files = "".join(f"  - .agents/skills/one/{'x' * 80}{number}.md\n" for number in range(2000))
    (origin,) = read(f"lockfile_version: '1'\ndependencies:\n{package}{files}".encode()).origins
    assert (origin.ref, origin.skills) == (f"github:Acme/Few@{COMMIT}", ("one", "two"))
    with pytest.raises(FormatError, match="at most"):
        read(f"lockfile_version: '1'\ndependencies:\n{package}{files * 8}".encode())


def test_a_lock_of_clawhub_gives_versions_without_a_place():
    lock = {"version": 1, "skills": {"sonoscli": {"version": "1.0.0", "installedAt": 1772959553855}}}
    assert read(lock).format == ".clawhub/lock.json 1"
    assert reasons(lock)["sonoscli"].startswith("its lock says version '1.0.0'")
    assert refs(lock) == {}


APM = f"""\
lockfile_version: '1'
generated_at: '2026-07-27T16:08:41.640885+00:00'
apm_version: 0.24.0
dependencies:
- repo_url: anthropics/skills
  name: skills
  host: github.com
  resolved_commit: {COMMIT}
  virtual_path: skills/skill-creator
  is_virtual: true
  package_type: claude_skill
  deployed_files:
  - .agents/skills/skill-creator
  - .agents/skills/skill-creator/SKILL.md
- repo_url: emil/skills
  host: github.com
  resolved_commit: {COMMIT}
  package_type: skill_bundle
  deployed_files:
  - .claude/skills/apple-design/SKILL.md
  - .agents/skills/apple-design/SKILL.md
  - .claude/skills/review-animations/SKILL.md
  - .claude/skills/review-animations/STANDARDS.md
- repo_url: acme/few
  host: git.acme.example
  port: 8443
  resolved_ref: v1
  package_type: skill_bundle
  skill_subset: [one, two]
- repo_url: acme/prompts
  package_type: apm_package
- repo_url: acme/shelf/tools
  host: dev.azure.com
  resolved_commit: {COMMIT}
  package_type: claude_skill
- repo_url: site/skill
  name: from-site
  resolved_url: https://skills.example/hub
  package_type: claude_skill
- acme/no-package
- repo_url: acme/plain
  package_type: claude_skill
  is_insecure: true
- repo_url: _local/near
  package_type: claude_skill
  source: local
  local_path: ./packages/near
mcp_servers:
- github
"""


def test_a_lock_of_apm_is_read():
    found = read(APM.encode())
    assert found.format == "apm.lock.yaml 1"
    assert [(each.name, each.ref, each.skills) for each in found.origins] == [
        ("skill-creator", f"github:anthropics/skills/skills/skill-creator@{COMMIT}", ()),
        ("emil/skills", f"github:emil/skills@{COMMIT}", ("apple-design", "review-animations")),
        ("acme/few", "git+https://git.acme.example:8443/acme/few@v1", ("one", "two")),
        ("acme/shelf/tools", f"git+https://dev.azure.com/acme/shelf/_git/tools@{COMMIT}", ()),
        ("from-site", "https://skills.example/hub", ()),
        ("_local/near", "/work/project/packages/near", ()),
    ]
    assert {each.name for each in found.unpinned} == {"acme/prompts", "acme/plain", "'acme/no-package'", "'github'"}


def test_the_origin_noted_by_gh_is_read():
    noted = {
        "github-repo": "https://github.com/acme/skills",
        "github-ref": "refs/tags/v1.0.0",
        "github-path": "skills/pdf/SKILL.md",
        "github-tree-sha": COMMIT,
        "github-pinned": "true",
    }
    assert noted_by_gh("pdf", noted).ref == "github:acme/skills/skills/pdf@v1.0.0"
    assert noted_by_gh("pdf", {"version": "1"}) is None
    assert not isinstance(noted_by_gh("pdf", {"github-repo": "--upload-pack=x"}), Origin)


@pytest.mark.parametrize(
    ("place", "ref"),
    [
        ("git@github.com:acme/x.git", "git+ssh://git@github.com/acme/x.git"),
        ("ssh://git@host.example/acme/x", "git+ssh://git@host.example/acme/x"),
        ("https://github.com/acme/x/", "github:acme/x"),
        ("file:///srv/x.git", "git+file:///srv/x.git"),
    ],
)
def test_repository_addresses_are_normalized(place, ref):
    assert one(source="x", sourceUrl=place, sourceType="git", skillPath="SKILL.md").ref == ref


@pytest.mark.parametrize(
    "entry",
    [
        {"sourceType": "git", "sourceUrl": "http://host.example/x.git"},
        {"sourceType": "git", "sourceUrl": "https://joe:hunter2@host.example/x.git"},
        {"sourceType": "git", "sourceUrl": "ext::sh -c touch% x"},
        {"sourceType": "git", "sourceUrl": "--upload-pack=touch x"},
        {"sourceType": "git", "sourceUrl": "https://host.example/x.git", "ref": "--output=x"},
        {"sourceType": "git", "sourceUrl": "https://host.example/x.git", "ref": "a..b"},
        {"sourceType": "github", "source": "a/b", "skillPath": "../../x/SKILL.md"},
        {"sourceType": "github", "source": "../x"},
        {"sourceType": "well-known", "sourceUrl": "http://127.0.0.1/skills"},
        {"sourceType": "well-known", "sourceUrl": "https://joe:hunter2@host.example"},
        {"sourceType": "local", "source": "a\u202eb"},
        {"sourceType": "local", "source": ""},
        {"sourceType": ["github"], "source": 7},
        {},
    ],
)
def test_a_lock_entry_with_an_unsafe_source_gives_no_origin(entry):
    found = one(**entry)
    assert not isinstance(found, Origin), found
    assert "hunter2" not in found.reason


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"{",
        b"hello",
        b"\xff",
        b'{"version": 2, "skills": {}}',
        b'{"version": true, "skills": {}}',
        b'{"version": 1, "skills": []}',
        b"lockfile_version: '9'\n",
    ],
)
def test_an_invalid_lock_is_refused(data):
    with pytest.raises(FormatError) as caught:
        read(data)
    assert caught.value.where.startswith("a lock")


leaf = st.text(max_size=12) | st.integers() | st.none() | st.booleans()
value = st.recursive(leaf, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3))
entry = st.fixed_dictionaries(
    {},
    optional={
        key: value | st.sampled_from(["github", "git", "local", "well-known", "a/b", "https://h.example/x.git"])
        for key in ("source", "sourceType", "sourceUrl", "ref", "skillPath", "commit", "resolved", "path")
    },
)


@given(
    st.binary()
    | st.builds(
        lambda kind, skills: json.dumps({kind: 1, "skills": skills}).encode(),
        st.sampled_from(["version", "lockfileVersion"]),
        st.dictionaries(st.text(max_size=5), entry, max_size=3),
    )
)
def test_any_bytes_give_valid_references_or_our_error(data):
    try:
        found = read(data)
    except SkillhubError:
        return
    for each in found.origins:
        parse_ref(each.ref)


@pytest.mark.parametrize("path", ["x" * 256, "é" * 128, "x/" * 600])
def test_attack_a_path_too_long_for_the_disk_leaves_out_its_skill_alone(path):
    found = read(cli(pdf={"source": path, "sourceType": "local"}, near={"source": "./near", "sourceType": "local"}))
    assert [each.name for each in found.origins] == ["near"]
    assert found.unpinned[0].reason.endswith("is not a path on this machine")


@pytest.mark.parametrize("lock", [json.dumps(cli(pdf={"source": "a/b", "sourceType": "github"})), APM])
def test_a_byte_order_mark_at_the_start_is_skipped(lock):
    assert read(f"\ufeff{lock}".encode()) == read(lock.encode())


@pytest.mark.parametrize("value", [[], {}, ["a"], {"a": "b"}])
@pytest.mark.parametrize("key", ["ref", "pinnedRef", "source", "sourceUrl", "skillPath", "sourceType"])
def test_attack_an_invalid_pin_does_not_become_the_newest_version(key, value):
    entry = {"source": "o/r", "sourceType": "github", "ref": "v1", "skillPath": "a/SKILL.md", key: value}
    assert one(**entry).reason.startswith(f"its entry is malformed: {key}: expected")


@pytest.mark.parametrize("key", ["commit", "ref", "path", "resolved"])
def test_attack_an_invalid_commit_does_not_become_the_newest_version(key):
    entry = {"resolved": "o/r", "commit": COMMIT, key: []}
    (found,) = read({"lockfileVersion": 1, "skills": {"a": entry}}).unpinned
    assert found.reason.startswith(f"its entry is malformed: {key}: expected a text")


def test_a_numeric_ref_is_read_as_text():
    assert one(source="o/r", sourceType="github", ref=2, skillPath="a/SKILL.md").ref == "github:o/r/a@2"
    assert one(source="o/r", sourceType="github", ref=None, skillPath="a/SKILL.md").ref == "github:o/r/a"


@pytest.mark.parametrize(
    ("spelled", "reason"),
    [
        ("true", "plain http"),
        ("yes", "plain http"),
        ("TRUE", "plain http"),
        ("1", "plain http"),
        ("maybe", "malformed: is_insecure"),
        ("[]", "malformed: is_insecure"),
        ("no", ""),
        ("false", ""),
        ("~", ""),
        ("", ""),
    ],
)
def test_attack_plain_http_in_any_spelling_is_refused(spelled, reason):
    data = (
        "lockfile_version: '1'\ndependencies:\n  - name: a\n    repo_url: o/r\n    package_type: claude_skill\n"
        f"    is_insecure: {spelled}\n"
    )
    found = read(data.encode())
    assert [reason in each.reason for each in found.unpinned] == [True] * bool(reason)
    assert len(found.origins) == (not reason)
