"""What to type about an open need: it works where the skill is that has it."""

import pytest

from skillhub.install.needs import how_to_satisfy
from skillhub.model.record import Need


def test_each_way_to_give_a_variable_is_a_line_that_ends_in_a_command():
    ways = how_to_satisfy("top", Need("env", "TOKEN", "", required=True, satisfied=False), "project")
    assert [way.rpartition(": ")[2] for way in ways] == [
        "skillhub enable top",
        "skillhub enable top --env TOKEN=…",
        "skillhub env set TOKEN",
    ]
    assert "the extra keyring" in ways[-1]


@pytest.mark.parametrize("kind", ["skill", "mcp", "env", "program"])
@pytest.mark.parametrize("scope", ["project", "user"])
def test_what_is_typed_about_a_need_is_for_the_scope_of_the_skill(kind, scope):
    need = Need(kind, "base", "", required=True, satisfied=False)
    assert all("--global" in way for way in how_to_satisfy("top", need, scope)) is (scope == "user")
