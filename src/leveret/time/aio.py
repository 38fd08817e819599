"""The awaitable twins of a broker's calls that wait for clients, for tests that share an event loop with those clients.

Each has the signature of its blocking form. A waiting call in `CheckedAssertions` needs a line here, and
tests/house/test_types.py checks that the list is complete.
"""

from __future__ import annotations

from leveret.engine.elsewhere import Twins, twin
from leveret.engine.harness import HasEngine
from leveret.observe.calls.hinting import Hinting, checks_calls
from leveret.observe.checks.checked_assertions import CheckedAssertions
from leveret.time.clock import Clock


@checks_calls
class AioClock(Twins, Hinting):
    """The awaitable twin of moving time: `await broker.aio.clock.advance(30)`."""

    _called = "broker.aio.clock"

    advance = twin(Clock.advance)


@checks_calls
class Aio(Twins, Hinting):
    """The awaitable twins of a broker: `await broker.aio.wait_idle()`."""

    _called = "broker.aio"
    _parts = ("clock",)

    def __init__(self, broker: HasEngine, clock: Clock) -> None:
        super().__init__(broker)
        self.clock = AioClock(clock)

    wait_idle = twin(CheckedAssertions.wait_idle)
    wait_for_consumer = twin(CheckedAssertions.wait_for_consumer)
    assert_published = twin(CheckedAssertions.assert_published)
    assert_not_published = twin(CheckedAssertions.assert_not_published)
    assert_returned = twin(CheckedAssertions.assert_returned)
    assert_confirmed = twin(CheckedAssertions.assert_confirmed)
    assert_nacked = twin(CheckedAssertions.assert_nacked)
    assert_delivered = twin(CheckedAssertions.assert_delivered)
    assert_acked = twin(CheckedAssertions.assert_acked)
    assert_requeued = twin(CheckedAssertions.assert_requeued)
    assert_dead_lettered = twin(CheckedAssertions.assert_dead_lettered)
    assert_dropped = twin(CheckedAssertions.assert_dropped)
    assert_refused = twin(CheckedAssertions.assert_refused)
    assert_ready = twin(CheckedAssertions.assert_ready)
    assert_empty = twin(CheckedAssertions.assert_empty)
