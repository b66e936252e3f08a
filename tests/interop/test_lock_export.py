import json
from datetime import UTC, datetime

import pytest

from skillhub.formats.digest import Digest
from skillhub.model.lock import Lock, Locked, LockedSource

pytestmark = pytest.mark.interop
schemas = pytest.importorskip("cyclonedx.validation.json", reason="needs skillhub[sbom]")
spdx_parser = pytest.importorskip("spdx_tools.spdx.parser.json.json_parser", reason="needs skillhub[sbom]")
spdx_rules = pytest.importorskip("spdx_tools.spdx.validation.document_validator")
V1_6 = pytest.importorskip("cyclonedx.schema").SchemaVersion.V1_6
cyclonedx = pytest.importorskip("skillhub.exchange.sbom").cyclonedx
spdx = pytest.importorskip("skillhub.exchange.sbom").spdx

TREE, ARTIFACT = Digest.of(b"tree"), Digest.of(b"artifact")
SIGNER = f"key:{Digest.of(b'key')}:Acme: the publisher"
COMMIT = "b29e7cf65e5cb78a5ac33d582270551bc74a14eb"
WHEN = datetime(2026, 11, 20, 12, tzinfo=UTC)
LOCK = Lock(
    {
        "deploy": Locked(source="local", path="skills/deploy", tree=TREE, size=1),
        "gh-fix-ci": Locked(
            source="acme",
            version="1.2.0",
            url="https://skills.acme.example/archives/gh-fix-ci.zip",
            digest=ARTIFACT,
            tree=TREE,
            size=30331,
            capabilities=("network:api.github.com", "scripts"),
            requires=("program:gh", "skill:pdf", "skill:absent"),
            signed_by=(SIGNER,),
        ),
        "near": Locked(
            source="acme-local",
            version="1.0.0",
            url="http://127.0.0.1:8000/x.zip",
            digest=ARTIFACT,
            tree=TREE,
            size=1,
            signed_by=(SIGNER,),
        ),
        "pdf": Locked(
            source="github:anthropics/skills@main",
            git="https://github.com/anthropics/skills.git",
            rev=COMMIT,
            path="skills/pdf",
            tree=TREE,
            size=1,
        ),
        "ours": Locked(
            source="git+ssh://git@host.example/x.git",
            git="ssh://git@host.example/x.git",
            rev=COMMIT,
            tree=TREE,
            size=1,
        ),
    },
    {
        "acme": LockedSource(kind="registry", url="https://skills.acme.example", root=ARTIFACT),
        "acme-local": LockedSource(kind="registry", url="http://127.0.0.1:8000", root=ARTIFACT),
    },
)
LOCKS = pytest.mark.parametrize("lock", [LOCK, Lock()], ids=["full", "empty"])
TIMES = pytest.mark.parametrize("created", [None, WHEN], ids=["timeless", "timed"])


@LOCKS
@TIMES
def test_cyclonedx_obeys_its_schema(lock, created):
    data = cyclonedx(lock, created)
    assert schemas.JsonStrictValidator(V1_6).validate_str(data.decode()) is None
    assert json.loads(data)["specVersion"] == "1.6"


@pytest.mark.parametrize("path", ["50%off", "a`b", "a|b^c", "\U0001f600", "a\\b", "a b<>[]{}", "a#b#c", "%2Fü"])
def test_attack_an_odd_address_leaves_a_bill_of_materials_valid(path, tmp_path):
    url = f"https://h.example/{path}.zip"
    lock = Lock({"odd": Locked(source="https://h.example", url=url, digest=ARTIFACT, tree=TREE, size=1)})
    assert schemas.JsonStrictValidator(V1_6).validate_str(cyclonedx(lock, None).decode()) is None
    (tmp_path / "x.spdx.json").write_bytes(spdx(lock, None))
    document = spdx_parser.parse_from_file(str(tmp_path / "x.spdx.json"))
    assert spdx_rules.validate_full_spdx_document(document, "SPDX-2.3") == []


@LOCKS
@TIMES
def test_spdx_obeys_its_rules(lock, created, tmp_path):
    path = tmp_path / "lock.spdx.json"
    path.write_bytes(spdx(lock, created))
    document = spdx_parser.parse_from_file(str(path))
    assert spdx_rules.validate_full_spdx_document(document, "SPDX-2.3") == []
    assert document.creation_info.spdx_version == "SPDX-2.3"


@pytest.mark.parametrize("write", [cyclonedx, spdx])
def test_the_same_lock_gives_the_same_bytes(write):
    turned = Lock(dict(reversed(LOCK.skills.items())), LOCK.sources)
    assert write(LOCK, None) == write(LOCK, None)
    assert write(turned, None) == write(LOCK, None)
    other = Lock({"deploy": LOCK.skills["deploy"]})
    key = "serialNumber" if write is cyclonedx else "documentNamespace"
    assert json.loads(write(LOCK, None))[key] != json.loads(write(other, None))[key]


def test_cyclonedx_contains_the_facts_of_a_skill():
    document = json.loads(cyclonedx(LOCK, WHEN))
    skills = {each["name"]: each for each in document["components"]}
    assert set(skills) == set(LOCK.skills)
    fix = skills["gh-fix-ci"]
    assert (fix["version"], fix["publisher"]) == ("1.2.0", "'Acme: the publisher' by acme")
    assert fix["hashes"] == [{"alg": "SHA-256", "content": ARTIFACT.hex}]
    facts = {(each["name"], each["value"]) for each in fix["properties"]}
    assert {
        ("skillhub:tree", TREE),
        ("skillhub:source-root", ARTIFACT),
        ("skillhub:signed-by", f"'{SIGNER}' by acme"),
        ("skillhub:capability", "scripts"),
        ("skillhub:requires", "program:gh"),
    } <= facts
    assert skills["pdf"]["purl"] == f"pkg:github/anthropics/skills@{COMMIT}#skills/pdf"
    assert "purl" not in skills["deploy"]
    needs = {each["ref"]: each.get("dependsOn", []) for each in document["dependencies"]}
    assert needs["skill:gh-fix-ci"] == ["skill:pdf"]
    assert len(needs["skillhub.lock"]) == len(LOCK.skills)
    assert document["metadata"]["timestamp"].startswith("2026-11-20T12:00:00")
    assert "timestamp" not in json.loads(cyclonedx(LOCK, None))["metadata"]


def test_spdx_contains_the_facts_of_a_skill():
    packages = {each["name"]: each for each in json.loads(spdx(LOCK, WHEN))["packages"]}
    assert set(packages) == {"skillhub.lock", *LOCK.skills}
    fix, pdf = packages["gh-fix-ci"], packages["pdf"]
    assert fix["checksums"] == [{"algorithm": "SHA256", "checksumValue": ARTIFACT.hex}]
    assert fix["downloadLocation"] == LOCK.skills["gh-fix-ci"].url
    assert pdf["downloadLocation"].endswith(f"skills.git@{COMMIT}#skills/pdf")
    assert TREE in pdf["comment"]
    assert "signed by: nobody" in pdf["comment"]
    # The standard has no form for a bare path.
    assert packages["near"]["downloadLocation"] == "NOASSERTION"
