"""Which broker the tests use, and what each of them took: `PEER` and `DURATIONS` in the environment."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

COUNT = int(os.environ.get("COUNT", "51"))
# The seconds of each phase of each test, in order, and as "cpu" those of the processor, on all threads of this process.
_durations: dict[str, dict[str, float]] = defaultdict(dict)


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str | None:
    """Return the URL of a broker of leveret for one test, or None if the test is to use the peer."""
    return request.getfixturevalue("leveret").url if os.environ["PEER"] == "leveret" else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the test of each file several times."""
    metafunc.fixturenames.append("number")
    metafunc.parametrize("number", range(COUNT))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    started = time.process_time()
    result = yield
    _durations[item.nodeid]["cpu"] = time.process_time() - started
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _durations[report.nodeid][report.when] = report.duration


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish() -> Iterator[None]:
    yield
    Path(os.environ["DURATIONS"]).write_text(json.dumps(list(_durations.values())), encoding="utf-8")
