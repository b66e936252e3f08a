"""A skill that was made to do harm to whoever packs, edits or updates it."""

from __future__ import annotations

import os

import pytest

from skillhub.flows.author import pack_skill
from tests.support.world import NOW, skill


@pytest.mark.parametrize("version", ["/../../../stolen", "../x", "1.0.0/..", "\\\\..\\\\x", "1" * 300])
def test_a_version_that_leads_an_archive_to_another_folder(tmp_path, version):
    folder = skill(tmp_path, head=f'metadata:\n  version: "{version}"\n')
    target = tmp_path / "a/b/c"
    target.mkdir(parents=True)
    packed = pack_skill(str(folder), str(target), "zip", NOW)
    assert os.path.dirname(packed.path) == str(target)
    assert [path.name for path in tmp_path.rglob("*.zip")] == ["plain.zip"]
