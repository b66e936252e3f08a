"""The extent of the suite, and its shared fixtures: machines, a web server, registries made once.

Fault tests try a sample of steps by default, and all steps if ``SKILLHUB_EVERY_FAULT`` is set.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from inspect import isfunction
from itertools import count
from pathlib import Path
from random import Random
from shlex import quote

import pytest
from _pytest.runner import runtestprotocol
from _pytest.tmpdir import tmppath_result_key
from hypothesis import HealthCheck, find, settings
from hypothesis.strategies import none

from skillhub.disk.files import keeps_modes
from skillhub.disk.home import Home
from skillhub.net.client import Http
from skillhub.project.project import Project
from skillhub.sources.git_snapshot import open_git
from tests.attacks.scene import Scene
from tests.support import forked
from tests.support.cli import Shell
from tests.support.gitrepos import Repo
from tests.support.large_pages import use_large_pages
from tests.support.reaching import Reaching
from tests.support.registry import Simulator
from tests.support.rows import in_one
from tests.support.served import Served
from tests.support.site import AT_ONCE, Machine
from tests.support.upstream import Upstream
from tests.support.web import Web
from tests.support.world import World

if sys.platform != "win32":
    import resource

# The duration of an example on a busy machine says nothing about the code.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples every time, independent of earlier runs: a failure is reproducible.
settings.register_profile("sample", _PATIENT, max_examples=25, derandomize=True, database=None)
settings.register_profile("everything", _PATIENT, max_examples=500)
settings.load_profile("everything" if "SKILLHUB_EVERY_FAULT" in os.environ else "sample")


def place_folders(memory: str = "/dev/shm", disk: str = "/tmp") -> None:
    """Put temporary files where the user says, else in memory, if there is room and programs may run there.

    Commands in hints quote a path with a blank; the tests expect paths that need no quotes.
    """
    wanted = os.environ.get("TMPDIR")
    if wanted is not None and quote(wanted) == wanted:
        return
    about = os.statvfs(memory) if os.access(memory, os.W_OK) else None
    if about and not about.f_flag & os.ST_NOEXEC and about.f_bavail * about.f_frsize > 4 << 30:
        os.environ["TMPDIR"] = memory
    elif wanted is not None:
        os.environ["TMPDIR"] = disk
    tempfile.tempdir = None


place_folders()

# Settings of this machine's user, which would decide what is tested: a proxy does not reach the servers of the tests,
# and git may sign commits, run hooks or change the ends of lines.
for variable in [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith("GIT_")]:
    del os.environ[variable]
os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

# A suite in the background may have Ctrl-C ignored, and its programs would inherit this. With SIGCHLD ignored, no
# exit status of a program could be read.
signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform != "win32":
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)

# With a umask of zero, a test machine's home would be writable by others, and skillhub refuses such a home.
os.umask(0o022)


def pytest_addoption(parser):
    parser.addoption("--each-row", action="store_true", help="run each row of a table as a test of its own")
    parser.addoption(
        "--random-order", type=int, metavar="SEED", help="run files, and the tests of each, in any order"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Let all workers of a run fork programs from one process, since its start takes two seconds.

    A worker has its folders near the root: of each one above, a command asks whether it is a project or a link.
    """
    node.workerinput.update(nursery=forked.nursery(), near=tempfile.mkdtemp())


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    if hasattr(config, "workerinput"):
        forked.use(config.workerinput["nursery"])
        config.workerinput["kept"] = config.option.basetemp
        config.option.basetemp = config.workerinput["near"]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Put a worker's folders where pytest looks for them: it keeps those of failed tests, of the last three runs.

    In the end pytest collects garbage. The process that prints has only the reports of all tests, which are none.
    """
    _remove_passed()
    if found := getattr(session.config, "workerinput", {}):
        shutil.move(found["near"], found["kept"])
    elif session.config.pluginmanager.has_plugin("dsession"):
        gc.freeze()


# An audit hook slows down its process by a twentieth from then on.
_HEARING = {f"tests.support.{name}" for name in ("effort", "faults", "hearing", "killing", "swapping")}


def _hears(module):
    return any(getattr(each, "__module__", None) in _HEARING for each in vars(module).values())


def pytest_collection_modifyitems(config, items):
    hearing = {module for module in {item.module for item in items} if _hears(module)}
    items.sort(key=lambda item: item.module in hearing)
    if (seed := config.getoption("random_order")) is not None:
        chance = Random(seed)  # the same in each worker
        files = {item.path: chance.random() for item in items}
        items.sort(key=lambda item: (files[item.path], chance.random()))


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector, name, obj):
    """Make one item of a table of rows without fixtures: half of all items would cost more than their content."""
    if collector.config.getoption("each_row") or not (isinstance(collector, pytest.Module) and isfunction(obj)):
        return None
    whole = in_one(obj) if collector.funcnamefilter(name) else None
    if whole is None:
        return None
    setattr(collector.obj, name, whole)
    return list(collector._genfunctions(name, whole))


def pytest_collection():
    """Collect no garbage while tests are collected: there is none, and looking for it took a tenth of the time.

    Hypothesis does so when it is first used: it is used here, before there are tests to look through. It also looks
    for what refers to its generator, and would find nothing that is frozen.
    """
    find(none(), lambda _: True)
    gc.disable()


def pytest_collection_finish(session):
    """Exclude all present objects from garbage collection, and collect less often: one collection takes 0.15 s.

    All tests are compiled by now. Code compiled later is not cached: a test with a full disk, or with a kill at the
    Nth change of the disk, would keep half of it, or count one more change at its first run.
    """
    sys.dont_write_bytecode = True
    keeps_modes(tempfile.gettempdir())  # asked once: it is one change of the disk, too
    gc.freeze()
    gc.set_threshold(10_000, 20)
    gc.enable()
    if len(session.items) > 1000:  # it takes half a second
        use_large_pages()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Have a worker report a test once, not that it began or its fixtures were made and removed: most reports."""
    if not hasattr(item.config, "workerinput") or item.config.option.durations is not None:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    """Report a passed test without its keywords: nothing shows them, and they are most of what a worker sends."""
    if report.passed:
        report.keywords = {}


_finished = count(1)
_passed: list[str] = []  # the folders of tests that passed


def _remove_passed() -> None:
    subprocess.run(["rm", "-rf", *_passed], check=False)
    _passed.clear()


def pytest_runtest_logfinish():
    """Close files that tests dropped before the limit of open files: cyclic references wait for the collector.

    It looks after every twentieth test: a look takes as long as a small test. A program that removes many folders
    takes a tenth of the time that Python takes.
    """
    if len(_passed) > 100:
        _remove_passed()
    if next(_finished) % 20 or sys.platform != "linux":
        return
    if len(os.listdir("/proc/self/fd")) > resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2:
        gc.collect()


_folder_numbers = count()


@pytest.fixture
def tmp_path(request, tmp_path_factory):
    """A folder for one test, as pytest's own, which looks more closely at its name, and removes it file by file."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_folder_numbers)}"
    folder.mkdir(mode=0o700)
    yield folder
    if request.node.stash[tmppath_result_key].get("call", True):
        _passed.append(str(folder))


@pytest.fixture
def web():
    with Web() as server:
        yield server


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A registry that offers ``hello``, to be copied; a module that needs another makes its own."""
    simulator = Simulator(tmp_path_factory.mktemp("made"))
    simulator.publish()
    return simulator


@pytest.fixture
def hub(made, tmp_path):
    """A copy of the made registry, for one test."""
    return made.copy(tmp_path)


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """A registry that offers ``hello`` and ``other``, to be copied."""
    simulator = Simulator(tmp_path_factory.mktemp("pair"))
    simulator.publish("hello")
    simulator.publish("other")
    return simulator


@pytest.fixture(scope="session")
def registry(tmp_path_factory):
    """A registry that offers ``greeting`` and ``parting`` of the publisher acme; read-only."""
    served = Served(tmp_path_factory.mktemp("operator"))
    served.publish("1.0.0")
    served.publish("1.0.0", "parting")
    return served


@pytest.fixture
def scene(pair, tmp_path):
    """A machine with a skill of a registry that offers two, and the network between them."""
    return Scene(tmp_path, pair.copy(tmp_path))


@pytest.fixture
def world(tmp_path):
    """A user's machine with an empty project, for flows."""
    return World(tmp_path)


@pytest.fixture
def shell(tmp_path):
    """An empty machine to run the program on."""
    return Shell(tmp_path)


@pytest.fixture
def reaching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reaching]:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))  # git's own settings of this machine's user
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
    """Opens repositories; asserts in the end that none of them ran a program."""
    yield partial(open_git, cache=str(tmp_path / "cache"), environ=environ)
    assert not (tmp_path / "PWNED").exists()
