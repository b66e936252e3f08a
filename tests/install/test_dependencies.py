"""Skills that need skills: resolved together, explained by their chain, removed when no skill needs them."""

from dataclasses import replace
from itertools import pairwise

import pytest

from skillhub.command.state import State
from skillhub.errors import Refused
from skillhub.formats.digest import Digest
from skillhub.install import resolve
from skillhub.install.apply import orphans
from skillhub.install.commit import decide
from skillhub.install.resolve import NeedConflict
from skillhub.model.lock import Lock, Locked
from skillhub.model.provenance import Records
from skillhub.project.intent import Intent
from tests.support.effort import at_most, calls
from tests.support.registry import Simulator
from tests.support.world import World, skill


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    simulator = Simulator(tmp_path_factory.mktemp("shelf"))

    def publish(name, version="1.0.0", needs=""):
        requires = f'  requires: "{needs}"\n' if needs else ""
        head = f'name: {name}\ndescription: Says hello.\nmetadata:\n  version: "{version}"\n{requires}'
        simulator.publish(name, version, **{"SKILL.md": f"---\n{head}---\n\n# {name}\n"})

    publish("base")
    publish("base", "1.2.0")
    publish("base", "2.0.0")
    publish("middle", needs="base@^1")
    publish("top", needs="middle")
    publish("modern", needs="base@^2")
    publish("old", needs="base@<1.1")
    publish("ring-a", needs="ring-b")
    publish("ring-b", needs="ring-c")
    publish("ring-c", needs="ring-a")
    publish("lonely", needs="nobody-has-it")
    publish("lonely-too", needs="nobody-has-it@^1")
    publish("leads-to-lonely", needs="lonely")
    publish("ahead", needs="base@^9")
    publish("ahead-too", needs="base@^9")
    publish("any-base", needs="base")
    publish("both", needs="middle, old")
    return simulator


@pytest.fixture
def world(tmp_path, shelf):
    world = World(tmp_path)
    world.add_source("acme", shelf)
    return world


def versions(world):
    return {name: entry.version for name, entry in world.lock().skills.items()}


def states(outcome):
    return {skill.name: skill.state for skill in outcome.skills}


def test_required_skills_are_installed_and_in_the_lock_only(world):
    outcome = world.install("acme:top")
    assert versions(world) == {"top": "1.0.0", "middle": "1.0.0", "base": "1.2.0"}
    assert {skill.state for skill in outcome.skills} == {"enabled"}
    assert list(world.project.intent().skills) == ["top"]
    assert world.lock().skills["top"].requires == ("skill:middle",)
    assert not world.install().changed


def test_a_version_that_all_dependents_allow_is_chosen(world):
    world.install("acme:both")
    assert versions(world)["base"] == "1.0.0"


def test_an_installed_version_within_the_range_is_kept(world):
    world.install("acme:base@1.0.0")
    world.install("acme:middle")
    assert versions(world)["base"] == "1.0.0"


@pytest.mark.parametrize("refs", [("acme:middle", "acme:modern"), ("acme:top", "acme:modern")])
def test_a_conflict_is_reported_with_its_chains(world, refs):
    with pytest.raises(NeedConflict) as caught:
        world.install(*refs)
    assert "middle needs base ^1" in caught.value.message
    assert "modern needs base ^2" in caught.value.message
    assert versions(world) == {}


def test_a_conflict_with_a_requested_version_is_reported(world):
    world.install("acme:base@^2")
    with pytest.raises(NeedConflict, match=r"middle needs base \^1, but base resolves to 2.0.0"):
        world.install("acme:middle")
    assert versions(world) == {"base": "2.0.0"}


def test_a_dependency_cycle_is_reported_with_its_links(world):
    with pytest.raises(NeedConflict, match="ring-a -> ring-b -> ring-c -> ring-a"):
        world.install("acme:ring-a")
    assert versions(world) == {}


def test_a_missing_dependency_is_reported_with_its_chain_and_disables_the_skill(world):
    outcome = world.install("acme:leads-to-lonely")
    (warning,) = outcome.warnings
    assert warning.startswith("leads-to-lonely -> lonely needs nobody-has-it, which was not found: ")
    assert warning.endswith("skillhub source show acme lists what it has")
    assert states(outcome) == {"leads-to-lonely": "disabled", "lonely": "disabled"}
    assert world.record("lonely").disabled_by == "needs"
    for act in (world.install, lambda: world.install(frozen=True), lambda: world.enable("lonely")):
        assert (act().changed, world.record("lonely").disabled_by) == (False, "needs")
    assert not world.sync().changed
    assert not world.update().changed
    assert world.problems() == []
    world.remove("leads-to-lonely")
    assert versions(world) == {}


def test_one_command_enables_a_waiting_dependency_and_its_dependents(world):
    head = "metadata:\n  openclaw:\n    requires:\n      env: [BASE_TOKEN]\n"
    base = str(skill(world.base / "src", name="mine", head=head))
    heads = {"top-0": "metadata:\n  requires: top-1\n", "top-1": "metadata:\n  requires: mine\n"}
    tops = [str(skill(world.base / "src", name=name, head=head)) for name, head in heads.items()]
    outcome = world.install(*tops, base)
    assert {*states(outcome).values()} == {"disabled"}
    (need,) = outcome.skills[1].requires
    assert need.open
    assert outcome.remedies["top-1", "skill:mine"] == ("skillhub enable mine top-1",)
    assert states(world.enable("top-1")) == {"top-1": "disabled"}
    world.environ["BASE_TOKEN"] = "x"
    assert {*states(world.enable("top-0", "top-1", "mine")).values()} == {"enabled"}


def test_disabling_a_dependency_leaves_its_dependents_enabled(world):
    world.install("acme:middle")
    world.disable("base")
    assert not world.install().changed
    assert not world.sync().changed
    assert world.record("middle").enabled
    world.disable("middle")
    assert states(world.enable("middle")) == {"middle": "disabled"}
    assert states(world.enable("middle", "base")) == {"middle": "enabled", "base": "enabled"}


def test_enable_works_once_the_missing_dependency_is_installed(world):
    world.install("acme:lonely")
    world.install(str(skill(world.base / "src", name="nobody-has-it")))
    assert states(world.enable("lonely")) == {"lonely": "enabled"}
    with pytest.raises(Refused, match="lonely needs nobody-has-it"):
        world.remove("nobody-has-it")


def test_install_works_once_the_source_has_the_missing_dependency(world, shelf):
    world.install(str(skill(world.base / "src", name="mine", head="metadata:\n  requires: acme:later\n")))
    assert world.record("mine").disabled_by == "needs"
    head = "name: later\ndescription: Says hello.\nmetadata:\n  version: '1.0.0'\n"
    shelf.publish("later", **{"SKILL.md": f"---\n{head}---\n\nHi\n"})
    assert states(world.install()) == {"mine": "enabled", "later": "enabled"}


def test_the_same_missing_dependency_of_two_skills_is_no_conflict(world):
    outcome = world.install("acme:ahead", "acme:ahead-too")
    assert states(outcome) == {"ahead": "disabled", "ahead-too": "disabled"}
    assert "there are: 2.0.0, 1.2.0, 1.0.0" in outcome.warnings[0]
    assert states(world.install("acme:lonely", "acme:lonely-too")) == {"lonely": "disabled", "lonely-too": "disabled"}
    world.remove("ahead")
    world.install("acme:ahead")


@pytest.mark.parametrize("first", ["base", "any-base"], ids=["asked-for", "needed"])
def test_another_version_does_not_replace_the_missing_one(world, first):
    world.install(f"acme:{first}")
    with pytest.raises(NeedConflict, match=r"ahead needs base \^9, but base resolves to 2.0.0"):
        world.install("acme:ahead")
    world.remove(first)
    world.install("acme:ahead")
    with pytest.raises(NeedConflict, match="needs base"):
        world.install(f"acme:{first}")
    assert versions(world) == {"ahead": "1.0.0"}


@pytest.mark.parametrize("refs", [("acme:any-base", "acme:ahead"), ("acme:ahead", "acme:any-base")])
def test_a_version_that_no_source_has_conflicts_with_another_range(world, refs):
    with pytest.raises(NeedConflict, match=r"ahead needs base \^9"):
        world.install(*refs)
    assert versions(world) == {}


def test_a_missing_optional_dependency_does_not_restrict_another_skill(world):
    could = "dependencies:\n  tools:\n  - {type: skill, value: base@^9, required: false}\n"
    path = skill(world.base / "src", name="could", **{"agents/skillhub.yaml": could})
    outcome = world.install(str(path), "acme:any-base")
    assert set(states(outcome).values()) == {"enabled"}
    assert versions(world)["base"] == "2.0.0"


def test_remove_takes_unneeded_dependencies_and_keeps_requested_ones(world):
    world.install("acme:top")
    world.install("acme:base@^1")
    world.remove("top")
    assert versions(world) == {"base": "1.2.0"}


def test_remove_refuses_a_skill_that_another_needs(world):
    world.install("acme:top")
    with pytest.raises(Refused, match="top needs middle"):
        world.remove("middle")
    assert len(versions(world)) == 3
    world.remove("middle", "top")
    assert versions(world) == {}


def test_update_keeps_a_dependency_within_the_range_of_its_dependents(world):
    world.install("acme:old")
    assert versions(world)["base"] == "1.0.0"
    assert not world.update().changed
    world.remove("old")
    world.install("acme:base@1.0.0", "acme:middle")
    (world.base / "skillhub.toml").write_text('[skills]\nbase = "*"\nmiddle = "*"\n')
    with pytest.raises(NeedConflict, match=r"middle needs base \^1, found 2.0.0"):
        world.update("base")


def test_a_dependency_of_a_local_skill_is_looked_for_in_the_sources(world):
    folder = world.base / "mine"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: mine\ndescription: Mine.\nmetadata:\n  requires: [acme:base@^1]\n---\n\nHi\n"
    )
    world.install(str(folder))
    assert versions(world) == {"mine": None, "base": "1.2.0"}


@pytest.mark.parametrize("gone", [1, 20_000])
def test_attack_a_long_chain_of_dependencies_is_handled_quickly(gone):
    tree = Digest.of(b"")
    names = [f"link-{number}" for number in range(20_000)]
    skills = {
        name: Locked(source="local", path=name, tree=tree, size=1, requires=(f"skill:{after}",))
        for name, after in pairwise(names)
    }
    state = State(Lock({**skills, names[-1]: replace(skills[names[0]], requires=())}), Intent(), Records())
    with at_most(3):
        assert orphans(names[:gone], state) == names[gone:]


def test_attack_many_paths_to_one_dependency_decide_each_need_once(world):
    def wanting(name, *wanted):
        tools = "".join(f"    - {{type: {kind}, value: {value}}}\n" for kind, value in wanted)
        files = {"agents/skillhub.yaml": f"dependencies:\n  tools:\n{tools}"}
        return str(skill(world.base / name, name=name, **files))

    refs, needs = [wanting("top-0", ("env_var", "NO_SUCH_TOKEN"))], 0
    for n in range(1, 9):
        refs += [wanting(f"{side}-{n}", ("skill", f"top-{n - 1}")) for side in ("left", "right")]
        refs.append(wanting(f"top-{n}", ("skill", f"left-{n}"), ("skill", f"right-{n}")))
        needs += 4
    done = []
    [decided] = calls(lambda: done.append(world.install(*refs)), decide)
    assert {each.state for each in done[0].skills} == {"disabled"}
    assert 0 < decided <= len(refs) + needs


def test_attack_skills_with_too_many_dependencies_are_refused(world):
    """Each search for one has a warning, so four hundred skills that lacked four hundred each took a minute."""

    def wanting(folder, count):
        tools = "".join(f"    - {{type: skill, value: n-{n}, required: false}}\n" for n in range(count))
        files = {"agents/skillhub.yaml": f"dependencies:\n  tools:\n{tools}"}
        return str(skill(world.base / folder, name=folder, **files))

    greedy = [wanting(f"greedy-{number}", 401) for number in range(5)]
    before = world.snapshot()
    with pytest.raises(NeedConflict, match="more than 2000 times"):
        world.install(*greedy)
    assert world.snapshot() == before
    assert len(world.install(wanting("modest", 20)).warnings) == 20


def test_attack_a_long_chain_is_shown_by_its_ends(tmp_path):
    """Each of a long chain's skills may lack many: whole chains took a gigabyte."""
    hub, world = Simulator(tmp_path / "hub"), World(tmp_path)
    for number in range(10):
        head = f'name: s-{number}\ndescription: Chained.\nmetadata:\n  version: "1.0.0"\n  requires: s-{number + 1}\n'
        hub.publish(f"s-{number}", **{"SKILL.md": f"---\n{head}---\n\nHi\n"})
    world.add_source("acme", hub)
    (warning,) = world.install("acme:s-0").warnings
    assert warning.startswith(
        "s-0 -> s-1 -> s-2 -> s-3 -> … -> s-6 -> s-7 -> s-8 -> s-9 needs s-10, which was not found"
    )


def test_a_range_is_checked_once_for_each_dependent(world):
    """Each dependent is checked against the dependency once, and not again for every later dependent."""
    heads = {f"top-{number}": 'metadata:\n  requires: "base@^1"\n' for number in range(40)}
    heads["base"] = 'metadata:\n  version: "1.2.0"\n'
    refs = [str(skill(world.base / "src", name, head=head)) for name, head in heads.items()]
    [asked] = calls(lambda: world.install(*refs), resolve.is_within)
    assert len(world.lock().skills) == 41
    assert 0 < asked <= 2 * 41
