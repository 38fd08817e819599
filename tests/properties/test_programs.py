"""Random programs of several clients: nothing is lost or doubled, and the same program gives the same bytes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from leveret.core.model.queues.queue import Queue
from tests.properties.conservation import Ledger
from tests.properties.programs import Interpreter, Step, programs, random_program
from tests.protocol.peer import Server

SETTINGS = settings(suppress_health_check=[HealthCheck.too_slow])


def run(program: list[Step], version: str = "4.3") -> tuple[Server, Interpreter]:
    server = Server(version)
    interpreter = Interpreter(server)
    interpreter.run(program)
    interpreter.end()
    return server, interpreter


@settings(SETTINGS, max_examples=150)
@given(programs())
def test_short_programs_keep_the_rules(program: list[Step]) -> None:
    hold_to_the_rules(*run(program))


@pytest.mark.parametrize("seed", range(0, 240, 20))
def test_long_programs_keep_the_rules(seed: int) -> None:
    for number in range(seed, seed + 20):
        print("seed", number)
        hold_to_the_rules(*run(random_program(number, 120)))


@pytest.mark.parametrize("version", ["3.10", "3.13", "4.0", "4.2"])
def test_the_rules_hold_in_every_version(version: str) -> None:
    for number in range(15):
        print("seed", number)
        hold_to_the_rules(*run(random_program(number, 120), version))


@settings(SETTINGS, max_examples=30)
@given(programs())
def test_the_same_short_program_gives_the_same_bytes_and_the_same_trace(program: list[Step]) -> None:
    (one, first), (other, second) = run(program), run(program)

    assert first.octets == second.octets
    assert trace_of(one) == trace_of(other)


@pytest.mark.parametrize("seed", range(20))
def test_the_same_long_program_gives_the_same_bytes_and_the_same_trace(seed: int) -> None:
    program = random_program(seed, 120)

    (one, first), (other, second) = run(program), run(program)

    assert first.octets == second.octets
    assert trace_of(one) == trace_of(other)


def hold_to_the_rules(server: Server, interpreter: Interpreter) -> None:
    assert server.node.internal_errors == []
    every_copy_is_in_exactly_one_place(server)
    channels_and_queues_agree(server, interpreter)
    no_consumer_has_room_while_a_message_waits(server)


def every_copy_is_in_exactly_one_place(server: Server) -> None:
    ledger = Ledger()
    ledger.follow(server.trace)
    ledger.compare(server.node)


def channels_and_queues_agree(server: Server, interpreter: Interpreter) -> None:
    on_channels = sorted(
        delivery.entry.copy
        for client in interpreter.clients
        for channel in client.peer.connection.channels.values()
        for delivery in [*channel.unacked.values(), *(channel.transaction.deliveries if channel.transaction else ())]
        if not delivery.queue.is_deleted
    )
    assert on_channels == sorted(copy for queue in queues(server) for copy in queue.unacked)
    for queue in queues(server):
        for consumer in queue.consumers:
            assert 0 <= consumer.unacked_count <= len(queue.unacked)
            assert not consumer.prefetch_count or consumer.unacked_count <= consumer.prefetch_count


def no_consumer_has_room_while_a_message_waits(server: Server) -> None:
    for queue in queues(server):
        assert not (queue.ready and any(consumer.has_room() for consumer in queue.consumers)), queue.name


def queues(server: Server) -> list[Queue]:
    found = [queue for vhost in server.node.vhosts.values() for queue in vhost.queues.values()]
    return [queue for queue in found if isinstance(queue, Queue)]


def trace_of(server: Server) -> list[str]:
    """Return the trace without the addresses of objects."""
    return [repr(event) for event in server.events()]
