"""The memory of signed sites, as a command reads it that writes no state."""

from __future__ import annotations

import pytest

from skillhub.errors import TrustDowngrade
from skillhub.net.download import SiteMemory

SITE = "https://skills.example/"


def test_read_only_memory_refuses_a_downgrade_and_writes_no_file(tmp_path):
    state, place = str(tmp_path), "https://skills.example/index.json"
    looking = SiteMemory(state, remember=False)
    looking.promised(SITE)
    with pytest.raises(TrustDowngrade):
        looking.refuse_weaker([SITE], place)
    assert list(tmp_path.iterdir()) == []
    SiteMemory(state).refuse_weaker([SITE], place)
    SiteMemory(state).promised(SITE)
    with pytest.raises(TrustDowngrade):
        SiteMemory(state, remember=False).refuse_weaker([SITE], place)
