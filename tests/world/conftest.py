"""What most tests of places share: a server, a client in a hurry, a user's machine."""

import pytest

from skillhub.world.http import Http
from tests.support.site import HURRY, Machine


@pytest.fixture
def http():
    with Http(patience=HURRY) as fetcher:
        yield fetcher


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)
