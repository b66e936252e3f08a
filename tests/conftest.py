"""How hard the suite tries, and what most of it shares: machines, a web server, registries that were made once.

A sample is tried by default, everything where ``SKILLHUB_EVERY_FAULT`` is set.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from inspect import isfunction
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, find, settings
from hypothesis.strategies import none

from skillhub.disk.home import Home
from skillhub.net.client import Http
from skillhub.project.project import Project
from skillhub.sources.git_snapshot import open_git
from tests.attacks.scene import Scene
from tests.support import forked
from tests.support.cli import Shell
from tests.support.gitrepos import Repo
from tests.support.reaching import Reaching
from tests.support.registry import Simulator
from tests.support.rows import in_one
from tests.support.site import AT_ONCE, Machine
from tests.support.upstream import Upstream
from tests.support.web import Web
from tests.support.world import World

if sys.platform != "win32":
    import resource

# How long an example takes on a busy machine says nothing of the code.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples every time, whatever an earlier run found: what fails, fails for everybody.
settings.register_profile("sample", _PATIENT, max_examples=25, derandomize=True, database=None)
settings.register_profile("everything", _PATIENT, max_examples=500)
settings.load_profile("everything" if "SKILLHUB_EVERY_FAULT" in os.environ else "sample")


def in_memory(place: str = "/dev/shm") -> None:
    """Put temporary files where no disk is waited for, if there is room for them and programs may run."""
    if "TMPDIR" in os.environ or not os.access(place, os.W_OK):
        return
    about = os.statvfs(place)
    if not about.f_flag & os.ST_NOEXEC and about.f_bavail * about.f_frsize > 4 << 30:
        os.environ["TMPDIR"] = place
        tempfile.tempdir = None


in_memory()

# A suite that is run in the background may find Ctrl-C ignored, and so would every program that it starts. Where the
# end of children is ignored, nobody is told how a program ended.
signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform != "win32":
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)

# Where all may write what somebody makes, a machine of the tests has a home that others may write: it is refused.
os.umask(0o022)


def pytest_addoption(parser):
    parser.addoption("--each-row", action="store_true", help="run each row of a table as a test of its own")
    parser.addoption(
        "--random-order", type=int, metavar="SEED", help="run files, and the tests of each, in any order"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Have all workers of a run fork programs from one process: it takes two seconds to start."""
    node.workerinput["nursery"] = forked.nursery()


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        forked.use(config.workerinput["nursery"])


# Whoever hears of what the interpreter does makes all that its process does from then on a twentieth slower.
_HEARING = {f"tests.support.{name}" for name in ("effort", "faults", "hearing", "killing", "swapping")}


def _hears(item):
    return any(getattr(each, "__module__", None) in _HEARING for each in vars(item.module).values())


def pytest_collection_modifyitems(config, items):
    hearing = {item.path for item in items if _hears(item)}
    items.sort(key=lambda item: item.path in hearing)
    if (seed := config.getoption("random_order")) is not None:
        chance = Random(seed)  # the same in each worker
        files = {item.path: chance.random() for item in items}
        items.sort(key=lambda item: (files[item.path], chance.random()))


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector, name, obj):
    """Make one test of a table of rows that needs no fixture: half of all items cost more than what they do."""
    if collector.config.getoption("each_row") or not (isinstance(collector, pytest.Module) and isfunction(obj)):
        return None
    whole = in_one(obj) if collector.funcnamefilter(name) else None
    if whole is None:
        return None
    setattr(collector.obj, name, whole)
    return list(collector._genfunctions(name, whole))


def pytest_collection_finish():
    """Spare every later search for garbage what is none, ten thousand tests: one took 0.15 s; and have fewer.

    All of the tests is compiled by now. What is compiled later is not kept: a test in which the disk is full, or work
    is killed at the Nth change of the disk, would keep half of it, or count one change more the first time.
    """
    sys.dont_write_bytecode = True
    find(none(), lambda _: True)  # hypothesis looks for what refers to its generator: not where that is frozen
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20)


def pytest_runtest_logfinish():
    """Close what tests let go of before no more files may be open: what refers to itself waits for the collector."""
    if (
        sys.platform == "linux"
        and len(os.listdir("/proc/self/fd")) > resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
    ):
        gc.collect()


@pytest.fixture
def web():
    with Web() as server:
        yield server


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A registry that offers ``hello``, to be copied; a module that wants another makes its own."""
    simulator = Simulator(tmp_path_factory.mktemp("made"))
    simulator.publish()
    return simulator


@pytest.fixture
def hub(made, tmp_path):
    """A copy of what was made, for one test."""
    return made.copy(tmp_path)


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """A registry that offers ``hello`` and ``other``, to be copied."""
    simulator = Simulator(tmp_path_factory.mktemp("pair"))
    simulator.publish("hello")
    simulator.publish("other")
    return simulator


@pytest.fixture
def scene(pair, tmp_path):
    """A machine with a skill of a registry that offers two, and the road between."""
    return Scene(tmp_path, pair.copy(tmp_path))


@pytest.fixture
def world(tmp_path):
    """A user's machine with an empty project, for flows."""
    return World(tmp_path)


@pytest.fixture
def shell(tmp_path):
    """A machine with nothing on it, to run the program on."""
    return Shell(tmp_path)


@pytest.fixture
def reaching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reaching]:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))  # git's own settings of whoever runs this
    reaching = Reaching(tmp_path)
    yield reaching
    reaching.close()


@pytest.fixture
def upstream(tmp_path: Path, web: Web) -> Upstream:
    return Upstream(tmp_path, web)


@pytest.fixture
def http():
    with Http(patience=AT_ONCE) as fetcher:
        yield fetcher


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def home(tmp_path):
    return Home.of({"SKILLHUB_HOME": str(tmp_path / "home")})


@pytest.fixture
def project(tmp_path, home):
    (tmp_path / "project").mkdir()
    return Project(str(tmp_path / "project"), "project", home)


@pytest.fixture
def repo(tmp_path):
    return Repo(tmp_path / "repo")


@pytest.fixture
def environ(tmp_path):
    (tmp_path / "home").mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}


@pytest.fixture
def opened(tmp_path, environ):
    """Opens a repository; whatever it makes run leaves a mark, and there is none in the end."""
    yield partial(open_git, cache=str(tmp_path / "cache"), environ=environ)
    assert not (tmp_path / "PWNED").exists()
