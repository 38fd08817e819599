"""The tests in JavaScript pass, on a broker of this process."""

from __future__ import annotations

import pytest

from examples.node.running import run_tests, why_not
from leveret import Broker


@pytest.mark.leveret(management=True, checks="all=off")
def test_the_ten_tests_of_the_service_pass(leveret: Broker) -> None:
    missing = why_not()
    if missing is not None:
        pytest.skip(missing)

    ran = run_tests(leveret.management_url)

    assert ran.returncode == 0, ran.stdout
    assert "# pass 10" in ran.stdout
