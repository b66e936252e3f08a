"""The program in the process of the tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.support.cli import Shell

Here = Shell


@pytest.fixture
def close_resources() -> Iterator[None]:
    """Close the resources that commands keep open, after a test that ignores ResourceWarnings."""
    yield
    gc.collect()
    gc.freeze()  # the next of these tests does not search the living objects again
