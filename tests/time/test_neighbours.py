"""The broker's time beside libraries that move or stop Python's clocks: they do not affect it."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from leveret import Broker
from tests.time.workers import FAILED, JOBS, PATIENCE, pika_worker

LONG_AGO = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)
Stop = Callable[[], AbstractContextManager[object]]


def stopped_by_freezegun() -> AbstractContextManager[object]:
    return pytest.importorskip("freezegun").freeze_time(LONG_AGO)


def stopped_by_time_machine() -> AbstractContextManager[object]:
    return pytest.importorskip("time_machine").travel(LONG_AGO, tick=False)


@pytest.fixture(params=[stopped_by_freezegun, stopped_by_time_machine])
def stop(request: pytest.FixtureRequest) -> Stop:
    return request.param


def test_time_is_advanced_while_pythons_clocks_stand_still(leveret: Broker, stop: Stop) -> None:
    with pika_worker(leveret.url), stop():
        started = leveret.clock.now
        leveret.publish("", JOBS)
        leveret.clock.advance(hours=2)

        leveret.assert_published("", routing_key=FAILED, times=1)
        assert leveret.clock.now - started >= 7200


def test_time_jumps_while_pythons_clocks_stand_still(leveret: Broker, stop: Stop) -> None:
    with pika_worker(leveret.url), stop(), leveret.clock.autojump():
        leveret.publish("", JOBS)

        leveret.assert_published("", routing_key=FAILED, timeout=PATIENCE)


def test_waits_end_while_pythons_clocks_stand_still(leveret: Broker, stop: Stop) -> None:
    leveret.declare_queue("orders")
    with stop(), pytest.raises(AssertionError):
        leveret.assert_published("", timeout=0.01)
