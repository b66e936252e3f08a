"""The program in the process of the tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.support.cli import Shell

Here = Shell


@pytest.fixture
def let_go() -> Iterator[None]:
    """Close, after a test that lets ResourceWarnings pass, what commands keep open: elsewhere their process ends."""
    yield
    gc.collect()
    gc.freeze()  # what lives now is not looked through again by the next of these tests
