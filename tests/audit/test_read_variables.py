"""Variables that scripts read, from the question to the lock; older locks and registries without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillhub.audit.audit import AuditRequest, audit
from skillhub.errors import Forbidden, Refused
from skillhub.registry.check import check
from tests.support.registry import Simulator
from tests.support.world import Answers, World

SCRIPT = 'test -n "$AWS_SECRET_ACCESS_KEY" && curl https://api.acme.io/\n'
CAN = ("env:AWS_SECRET_ACCESS_KEY", "network:?", "network:api.acme.io", "scripts")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Simulator:
    hub = Simulator(tmp_path_factory.mktemp("made"))
    hub.publish("hello", "1.0.0", **{"run.sh": SCRIPT})
    return hub


@pytest.fixture
def world(hub: Simulator, tmp_path: Path) -> World:
    world = World(tmp_path)
    world.add_source("acme", hub)
    return world


def as_older_ones_wrote(world: World) -> None:
    """Write lock and record like a skillhub that did not read variables."""
    path = world.base / "skillhub.lock"
    path.write_text(path.read_text().replace('"env:AWS_SECRET_ACCESS_KEY",', ""))
    for record in Path(world.home.state).rglob("*"):
        if record.is_file() and b"env:AWS_SECRET_ACCESS_KEY" in record.read_bytes():
            text = record.read_text()
            short = text.replace('"env:AWS_SECRET_ACCESS_KEY",', "").replace('"env:AWS_SECRET_ACCESS_KEY", ', "")
            record.write_text(short)
            assert "AWS" not in short


def test_the_question_lists_variables_that_scripts_read(world: World) -> None:
    shy = Answers("unanswered")
    with pytest.raises(Refused, match="the question was not answered"):
        world.install("acme:hello", answers=shy)
    (asked,) = [question for question in shy.seen if question.kind == "install"]
    (line,) = [line for line in asked.details if line.startswith("it can: ")]
    assert line == (
        "it can: give instructions, which an agent follows with your rights; "
        "env:AWS_SECRET_ACCESS_KEY, network:? (unknown hosts), network:api.acme.io, scripts"
    )
    assert "Says hello." in asked.details
    assert not any("only for tests" in line for line in asked.details)
    done = world.install("acme:hello")
    assert done.skills[0].capabilities == CAN
    assert world.lock().skills["hello"].capabilities == CAN
    assert done.skills[0].requires == ()


def test_a_variable_that_a_script_reads_is_no_need(world: World) -> None:
    world.install("acme:hello")
    assert world.record("hello").enabled
    assert world.lock().skills["hello"].requires == ()


def test_an_update_that_reads_another_variable_asks_by_name(world: World, hub: Simulator) -> None:
    world.install("acme:hello")
    hub.publish("hello", "1.1.0", **{"run.sh": f"{SCRIPT}echo $GITHUB_TOKEN\n"})
    answers = Answers("yes")
    world.update(answers=answers)
    assert [each.subject for each in answers.seen if each.kind == "capability"] == ["env:GITHUB_TOKEN"]


def test_an_older_lock_without_variables_is_no_tampering(world: World) -> None:
    world.install("acme:hello")
    as_older_ones_wrote(world)
    assert world.lock().skills["hello"].capabilities == CAN[1:]
    assert world.problems() == []
    before = (world.base / "skillhub.lock").read_bytes()
    answers = Answers("unanswered")
    assert not world.sync(answers).changed
    for done in (
        world.install(answers=answers),
        world.install(answers=answers, frozen=True),
        world.update(answers=answers),
    ):
        assert (done.changed, answers.seen) == (False, [])
    assert (world.base / "skillhub.lock").read_bytes() == before
    other = world.on_another_machine().install(frozen=True)
    assert other.skills[0].capabilities == CAN
    assert any("env:AWS_SECRET_ACCESS_KEY" in warning for warning in other.warnings)
    found = audit(AuditRequest(refresh=False), world.ports())
    (only,) = found.findings
    assert only.rule == "capability-unsaid"
    assert "these capabilities: env:AWS_SECRET_ACCESS_KEY; an older version" in only.message
    assert found.ok


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("api.example.com", "capabilities: network:api.example.com; an older version"),
        ("evil.io", "capabilities: net"),
    ],
)
def test_a_documentation_host_missing_in_an_older_lock_is_a_medium_finding(
    host: str, words: str, world: World, hub: Simulator
) -> None:
    hub.publish("hello", "1.0.1", **{"run.sh": f"{SCRIPT}curl https://{host}/\n"})
    world.install("acme:hello")
    path = world.base / "skillhub.lock"
    text = path.read_text()
    path.write_text(text.replace(f'"network:{host}",', ""))
    assert path.read_text() != text
    (only,) = audit(AuditRequest(refresh=False), world.ports()).findings
    assert (only.rule, only.severity) == ("capability-unsaid", "medium")
    assert words in only.message


def test_the_command_in_the_hint_adds_the_variables_to_an_older_lock(world: World) -> None:
    world.install("acme:hello")
    as_older_ones_wrote(world)
    (only,) = audit(AuditRequest(refresh=False), world.ports()).findings
    assert only.hint == (
        "to accept it: skillhub remove hello, then skillhub install acme:hello@1.0.0; the lock then lists it"
    )
    world.remove("hello")
    answers = Answers("yes")
    world.install("acme:hello@1.0.0", answers=answers)
    (question,) = (each for each in answers.seen if each.kind == "install")
    assert any("AWS_SECRET_ACCESS_KEY" in line for line in question.details)
    assert world.lock().skills["hello"].capabilities == CAN
    assert audit(AuditRequest(refresh=False), world.ports()).findings == ()


def test_an_update_after_an_older_lock_asks_for_variables_read_before(world: World, hub: Simulator) -> None:
    world.install("acme:hello")
    as_older_ones_wrote(world)
    hub.publish("hello", "1.1.0", **{"run.sh": f"{SCRIPT}echo more\n"})
    answers = Answers("yes")
    world.update(answers=answers)
    assert [each.subject for each in answers.seen if each.kind == "capability"] == ["env:AWS_SECRET_ACCESS_KEY"]
    assert world.lock().skills["hello"].capabilities == CAN


def test_an_older_index_without_variables_does_not_hide_them(world: World, hub: Simulator) -> None:
    """Capabilities in an index are for lists; those of the files decide."""
    paths = [path for path in hub.files if path.startswith("targets/") and path.endswith(".json")]
    older = {}
    for path in paths:
        folder, _, name = path.removeprefix("targets/").rpartition("/")
        target = f"{folder}/{name.partition('.')[2]}".lstrip("/")
        if b"env:AWS" in hub.files[path]:
            older[target] = hub.files[path].replace(b'"env:AWS_SECRET_ACCESS_KEY",', b"")
    assert {"idx/acme.json"} <= set(older)
    hub.revise(older)
    done = world.install("acme:hello")
    assert done.skills[0].capabilities == CAN
    assert world.problems() == []
    assert not world.update().changed
    assert audit(AuditRequest(), world.ports()).findings == ()
    hub.publish("hello", "1.1.0", **{"run.sh": SCRIPT})
    (rows,) = [json.loads(hub.files[path]) for path in paths_of(hub, "idx/")]
    assert sorted(len(row["capabilities"]) for row in rows["releases"]) == [3, 4]


def paths_of(hub: Simulator, folder: str) -> list[str]:
    """Return the newest targets of a folder."""
    return [path for path in hub.files if path.startswith(f"targets/{folder}") and b'"1.1.0"' in hub.files[path]]


@pytest.mark.parametrize(("many", "first"), [(200, "env:V0"), (201, "env:*")])
def test_attack_too_many_variables_become_one_wildcard(tmp_path: Path, many: int, first: str) -> None:
    hub = Simulator(tmp_path)
    hub.publish("hello", "1.0.0", **{"run.sh": "".join(f"$V{number}\n" for number in range(many))})
    assert check(hub.dir.path, hub.when).problems == ()
    world = World(tmp_path)
    world.add_source("acme", hub)
    done = world.install("acme:hello")
    assert done.skills[0].capabilities[0] == first
    assert world.problems() == []


@pytest.mark.parametrize("pattern", ["env:AWS_*", "env", "env:*SECRET*"])
def test_a_policy_can_deny_variables_that_scripts_read(world: World, pattern: str) -> None:
    (world.base / "skillhub.toml").write_text(f'[policy]\ndeny-capabilities = ["{pattern}"]\n')
    with pytest.raises(Forbidden, match="AWS_SECRET_ACCESS_KEY"):
        world.install("acme:hello")
