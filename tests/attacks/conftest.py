import pytest

from tests.attacks.scene import Scene
from tests.attacks.thief import Thief
from tests.support.registry import Simulator


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    hub = Simulator(tmp_path_factory.mktemp("made"))
    hub.publish("hello")
    hub.publish("other")
    return hub


@pytest.fixture
def scene(made, tmp_path):
    return Scene(tmp_path, made.copy(tmp_path))


@pytest.fixture
def hub(scene):
    return scene.hub


@pytest.fixture
def thief(scene):
    return Thief(scene)
