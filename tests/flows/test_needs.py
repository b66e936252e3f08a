"""What to type about an open need: it works where the skill is that has it."""

import pytest

from skillhub.flows.needs import how_to_meet
from skillhub.model.skill import Need


@pytest.mark.parametrize("kind", ["skill", "mcp", "env", "program"])
@pytest.mark.parametrize("scope", ["project", "user"])
def test_what_is_typed_about_a_need_is_for_the_scope_of_the_skill(kind, scope):
    need = Need(kind, "base", "", required=True, satisfied=False)
    assert ("--global" in how_to_meet("top", need, scope)) is (scope == "user")
