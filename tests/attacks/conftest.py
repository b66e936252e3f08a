import pytest

from tests.attacks.thief import Thief


@pytest.fixture
def hub(scene):
    return scene.hub


@pytest.fixture
def thief(scene):
    return Thief(scene)
