"""The number of Python calls that a message costs in the core: exact upper limits, and no wall time.

The figures count `call` events of sys.setprofile, so every run gives the same ones. A limit equals the current count.
Lower it when the code needs fewer calls, and raise it only for a reason.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType

import pytest
from pamqp.commands import Basic

from leveret.core.hooks import Hooks
from tests.protocol.peer import Peer, Server, declare, octets, publish_octets, select

BODY = b"x" * 1000
ROUNDS = 50


def calls(action: Callable[[], None]) -> Counter[str]:
    """Return the Python functions that the action called, by name."""
    counted: Counter[str] = Counter()

    def on_event(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            counted[frame.f_code.co_qualname] += 1

    # Do not collect other tests' garbage during this measurement.
    gc.disable()
    sys.setprofile(on_event)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    counted.pop(f"{action.__qualname__}", None)
    return counted


def peer_with(*, tap: bool) -> Peer:
    trace: list[object] = []
    peer = Server(hooks=Hooks(trace.append if tap else None)).peer(channels=(1, 2))
    peer.send(1, declare(), select())
    peer.read()
    return peer


def measure(peer: Peer, data: Callable[[int], bytes]) -> float:
    """Return the calls that one round costs, averaged over many rounds after a warm-up."""
    pieces = [data(number) for number in range(ROUNDS + 3)]
    connection = peer.connection
    for piece in pieces[:3]:
        connection.receive_data(piece)
    connection.data_to_send()

    def run() -> None:
        for piece in pieces[3:]:
            connection.receive_data(piece)
            connection.data_to_send()

    counted = calls(run)
    assert connection.node.internal_errors == []
    for name, count in counted.most_common():
        print(f"{count / ROUNDS:6.2f}  {name}")
    return counted.total() / ROUNDS


@pytest.mark.parametrize("tap", [False, True], ids=["tap off", "tap on"])
def test_publish_to_confirm_stays_within_its_calls(tap: bool) -> None:
    per_message = measure(peer_with(tap=tap), lambda number: publish_octets(1, BODY, message_id="1"))

    print(f"publish, route, enqueue, confirm: {per_message} calls")
    assert per_message <= PUBLISH_LIMIT[tap]


@pytest.mark.parametrize("tap", [False, True], ids=["tap off", "tap on"])
def test_publish_with_an_id_of_its_own_stays_within_its_calls(tap: bool) -> None:
    per_message = measure(peer_with(tap=tap), lambda number: publish_octets(1, BODY, message_id=str(number)))

    print(f"publish with a new message-id, confirm: {per_message} calls")
    assert per_message <= NUMBERED_LIMIT[tap]


@pytest.mark.parametrize("tap", [False, True], ids=["tap off", "tap on"])
def test_deliver_and_ack_stay_within_their_calls(tap: bool) -> None:
    peer = peer_with(tap=tap)
    peer.send(2, Basic.Qos(prefetch_count=1), Basic.Consume(queue="q"))
    peer.send_octets(publish_octets(1, BODY, message_id="1") * (ROUNDS + 4))

    per_message = measure(peer, lambda number: octets(2, Basic.Ack(number + 1)))

    print(f"ack and the next delivery: {per_message} calls")
    assert per_message <= DELIVER_LIMIT[tap]


@pytest.mark.parametrize("tap", [False, True], ids=["tap off", "tap on"])
def test_publish_to_ack_stays_within_its_calls(tap: bool) -> None:
    peer = peer_with(tap=tap)
    peer.send(2, Basic.Qos(prefetch_count=10), Basic.Consume(queue="q"))

    per_message = measure(
        peer, lambda number: publish_octets(1, BODY, message_id="1") + octets(2, Basic.Ack(number + 1))
    )

    print(f"publish to a waiting consumer, confirm, ack: {per_message} calls")
    assert per_message <= ROUND_TRIP_LIMIT[tap]


# With the tap off, and on.
PUBLISH_LIMIT = (18, 21)
NUMBERED_LIMIT = (54, 56)
DELIVER_LIMIT = (27, 29)
ROUND_TRIP_LIMIT = (30, 35)
