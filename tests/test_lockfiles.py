"""The files in ``lockfiles/``: test data for decoders in other languages."""

import json
from pathlib import Path

import jsonschema
import pytest

from skillhub.answers.table import schema_of
from skillhub.errors import FormatError
from skillhub.model.lock import Lock

HERE = Path(__file__).parents[1] / "lockfiles"
VALID = sorted((HERE / "valid").glob("*.lock"))
REFUSED = json.loads((HERE / "refused.json").read_bytes())
SCHEMA = json.loads((HERE / "skillhub.lock.schema.json").read_bytes())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_the_schema_is_valid():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_is_generated_from_the_class():
    assert schema_of("lock") == SCHEMA, "run: make docs"


@pytest.mark.parametrize("file", VALID, ids=lambda file: file.stem)
def test_valid_is_read_and_written_byte_for_byte(file):
    data = file.read_bytes()
    lock = Lock.parse(data)
    assert lock.dump() == data
    assert Lock.parse(lock.dump()) == lock
    VALIDATOR.validate(json.loads(data))


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row["file"])
def test_a_refused_file_gives_its_place_and_code(row):
    data = (HERE / "refused" / row["file"]).read_bytes()
    with pytest.raises(FormatError) as caught:
        Lock.parse(data)
    error = caught.value
    assert (error.code, error.exit_code, error.where) == (row["code"], row["exit"], row["where"])
    assert "Error(" not in error.message
    assert error.message.isprintable(), "what was found is shown escaped"
    assert error.where.isprintable()


@pytest.mark.parametrize("row", [r for r in REFUSED if r["schema"]], ids=lambda row: row["file"])
def test_the_schema_refuses_the_files_marked_for_it(row):
    document = json.loads((HERE / "refused" / row["file"]).read_bytes())
    assert not VALIDATOR.is_valid(document)


def test_every_file_is_in_the_tables():
    table = {row["file"] for row in REFUSED}
    assert table == {file.name for file in (HERE / "refused").iterdir()}
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    for file in (*VALID, *(HERE / "refused").iterdir()):
        assert f"| `{file.parent.name}/{file.name}` |" in readme
    for row in REFUSED:
        assert f"| `refused/{row['file']}` | {row['why']} |" in readme
    assert readme.count("| `") == len(VALID) + len(REFUSED)


def test_a_newer_format_is_refused_with_a_hint_to_upgrade():
    with pytest.raises(FormatError, match="expected lock format 1, found '2'") as caught:
        Lock.parse((HERE / "refused" / "version-newer.lock").read_bytes())
    assert caught.value.hint == "a newer skillhub wrote it; upgrade skillhub"


@pytest.mark.parametrize("file", sorted((HERE / "refused").glob("conflict*")), ids=lambda file: file.stem)
def test_a_merge_conflict_is_reported_as_such(file):
    with pytest.raises(FormatError, match="merge conflict"):
        Lock.parse(file.read_bytes())
