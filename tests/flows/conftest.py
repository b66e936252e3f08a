"""What tests of places share: a machine that reaches them, and a skill that each kind of place has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.reaching import Reaching
from tests.support.upstream import Upstream
from tests.support.web import Web


@pytest.fixture
def reaching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reaching]:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))  # git's own settings of whoever runs this
    reaching = Reaching(tmp_path)
    yield reaching
    reaching.close()


@pytest.fixture
def upstream(tmp_path: Path, web: Web) -> Upstream:
    return Upstream(tmp_path, web)
