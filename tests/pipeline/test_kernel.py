"""The kernel's tables equal an independent computation, on random traces with planted faults. No Spark is needed.

For more traces, run `python -m tests.pipeline.kernel_campaign`.
"""

from __future__ import annotations

import pytest

from tests.pipeline import kernel_campaign, random_traces
from tests.pipeline.kernel_campaign import Compared, compare

SEED = 20260101
COUNT = 300


@pytest.fixture(scope="module")
def compared() -> Compared:
    return compare(random_traces.several(COUNT, seed=SEED))


@pytest.mark.parametrize("name", kernel_campaign.NAMES)
def test_table_equals_the_plain_computation(compared: Compared, name: str) -> None:
    expected, found = compared.expected[name], compared.found[name]

    assert expected, f"seed {SEED} makes no rows of {name}"
    assert found == expected
