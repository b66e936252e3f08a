"""The cost of a large registry, in numbers that are the same on every machine: requests and bytes."""

import pytest

from tests.bench.registry_cost import SIZES, Size, measure


def test_the_cost_of_10_000_publishers_is_limited():
    cold, warm = measure(Size(10_000, 10, 8))
    assert cold.requests <= 11
    assert cold.size <= 100_000
    assert warm.requests == 3
    assert warm.size < 4_000


@pytest.mark.parametrize("size", [size for label, size in SIZES.items() if label.startswith("1,000,000")])
def test_the_cost_of_a_million_skills_is_limited(size):
    cold, warm = measure(size)
    assert cold.requests <= 11
    assert cold.size <= 150_000
    assert warm.size < 4_000
