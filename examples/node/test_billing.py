"""The tests in JavaScript pass, on a broker of this process."""

from __future__ import annotations

import pytest

from examples.node.running import run_tests, why_not
from leveret import Broker


def test_the_ten_tests_of_the_service_pass() -> None:
    missing = why_not()
    if missing is not None:
        pytest.skip(missing)

    # They use leveret's control API, so this is a broker of leveret's own in any run.
    with Broker(management=True, checks="all=off") as broker:
        ran = run_tests(broker.management_url)

    assert ran.returncode == 0, ran.stdout
    assert "# pass 10" in ran.stdout
