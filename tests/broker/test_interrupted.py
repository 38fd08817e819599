"""A call of the test that the handler of a signal ends, as pytest-timeout does: the broker serves all others."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import _GeneratorContextManager
from types import FrameType, FunctionType

import pytest

from leveret import Broker
from leveret.server.loop import Loop

Call = Callable[[Broker], object]
CALLS: dict[str, Call] = {
    "publish": lambda broker: broker.publish("", "nowhere", b""),
    "declare": lambda broker: broker.declare_queue("orders"),
    "operator": lambda broker: broker.admin.add_vhost("shop"),
    "faults": lambda broker: broker.faults.drop("basic.ack", optional=True),
    "look": lambda broker: broker.queue("meals"),
}


class Interrupted(BaseException):
    """What the handler of a signal raises."""


def interrupt(call: Call, broker: Broker, event: str, function: FunctionType, about: str = "") -> None:
    """Raise in a call, at the first event of the interpreter in a function: about a C function of that name, if any."""

    def raise_there(frame: FrameType, what: str, detail: object) -> None:
        if what == event and frame.f_code is function.__code__ and getattr(detail, "__name__", "") == about:
            sys.setprofile(None)
            raise Interrupted

    sys.setprofile(raise_there)
    try:
        call(broker)
    finally:
        sys.setprofile(None)


def answers(broker: Broker) -> bool:
    """Return whether the broker's loop answers another thread."""
    asking = threading.Thread(target=broker.sync, daemon=True)
    asking.start()
    asking.join(60)
    return not asking.is_alive()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("event", "function", "about"),
    [
        pytest.param("c_return", _GeneratorContextManager.__enter__, "next", id="before the block begins"),
        pytest.param("call", _GeneratorContextManager.__exit__, "", id="when the block has ended"),
        pytest.param("c_call", _GeneratorContextManager.__exit__, "next", id="before its function goes on"),
    ],
)
def test_a_call_that_a_signal_ends_keeps_no_lock(
    broker: Broker, call: Call, event: str, function: FunctionType, about: str
) -> None:
    broker.declare_queue("meals")
    # The traceback keeps the frames, as that of a failed test does.
    with pytest.raises(Interrupted) as caught:
        interrupt(call, broker, event, function, about)

    assert answers(broker), caught


def test_a_call_that_a_signal_ends_before_it_wakes_the_loop_leaves_that_to_the_next_one(broker: Broker) -> None:
    with pytest.raises(Interrupted):
        interrupt(CALLS["declare"], broker, "c_call", Loop.wake, "send")

    assert answers(broker)
