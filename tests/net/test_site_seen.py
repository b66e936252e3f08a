"""What sites were seen to offer, as a command remembers it that only looks."""

from __future__ import annotations

import pytest

from skillhub.errors import TrustDowngrade
from skillhub.net.download import Seen

SITE = "https://skills.example/"


def test_who_only_looks_heeds_what_is_remembered_and_what_it_learns_and_writes_nothing(tmp_path):
    state, place = str(tmp_path), "https://skills.example/index.json"
    looking = Seen(state, remember=False)
    looking.promised(SITE)
    with pytest.raises(TrustDowngrade):
        looking.refuse_weaker([SITE], place)
    assert list(tmp_path.iterdir()) == []
    Seen(state).refuse_weaker([SITE], place)
    Seen(state).promised(SITE)
    with pytest.raises(TrustDowngrade):
        Seen(state, remember=False).refuse_weaker([SITE], place)
