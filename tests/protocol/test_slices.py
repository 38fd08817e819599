"""Long work in turns: what others get meanwhile, and what the client that caused it waits for."""

from __future__ import annotations

from math import inf

from pamqp.commands import Basic, Confirm

from tests.protocol.peer import Peer, Server, declare, methods, names, publish_octets

LENGTH = 50
ALLOWANCE = 10


def chained(server: Server, name: str = "link") -> Peer:
    """Return a peer in confirm mode, after it has declared a chain of queues in which messages expire at once."""
    peer = server.peer()
    for number in range(LENGTH):
        later = {"dead_letter_exchange": "", "dead_letter_routing_key": f"{name}{number + 1}"}
        peer.send(1, declare(f"{name}{number}", message_ttl=0, **later))
    peer.call(1, declare(f"{name}{LENGTH}"), Confirm.Select())
    return peer


def message_counts(server: Server, name: str = "link") -> list[int]:
    queues = server.node.vhosts["/"].queues
    return [len(queues[f"{name}{number}"].ready) for number in range(LENGTH + 1)]


def test_another_client_is_answered_before_a_long_chain_has_ended() -> None:
    server = Server()
    publisher, witness = chained(server), server.peer()

    server.node.allowance = ALLOWANCE
    publisher.publish(1, b"1", "link0")
    replies = witness.call(1, declare("link0", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="link1"))

    assert names(replies) == ["Queue.DeclareOk"]
    assert message_counts(server)[-1] == 0
    server.node.finish_work()
    assert message_counts(server)[-1] == 1


def test_a_turn_makes_no_more_copies_than_it_is_allowed() -> None:
    server = Server()
    publisher = chained(server)

    copies = []
    server.node.allowance = ALLOWANCE
    publisher.publish(1, b"1", "link0")
    while server.node.left_over:
        before = server.node.last_copy
        server.node.allowance = ALLOWANCE
        server.node.go_on()
        copies.append(server.node.last_copy - before)

    assert max(copies) <= ALLOWANCE
    assert len(copies) >= LENGTH // ALLOWANCE


def test_a_client_is_read_on_once_the_work_of_its_frame_is_done() -> None:
    server = Server()
    publisher = chained(server)

    server.node.allowance = ALLOWANCE
    data = publish_octets(1, b"1", "link0") * 2
    publisher.send_octets(data)

    assert publisher.read() == []
    assert publisher.connection.is_reading_paused
    server.node.finish_work()
    assert [(ack.delivery_tag, ack.multiple) for ack in methods(publisher.read(), Basic.Ack)] == [(2, True)]
    assert not publisher.connection.is_reading_paused
    assert message_counts(server)[-1] == 2


def test_cascades_of_two_clients_take_turns() -> None:
    server = Server()
    publishers = {name: chained(server, name) for name in ("long", "late")}

    server.node.allowance = ALLOWANCE
    for name, publisher in publishers.items():
        publisher.publish(1, b"1", f"{name}0")
    server.trace.clear()
    server.node.allowance = 4 * ALLOWANCE
    server.node.go_on()

    assert {str(event.queue)[:4] for event in server.events("enqueued")} == {"long", "late"}


def test_what_a_lost_client_had_sent_is_handled() -> None:
    server = Server()
    publisher = chained(server)

    server.node.allowance = ALLOWANCE
    publisher.send_octets(publish_octets(1, b"1", "link0") * 2)
    publisher.connection.connection_lost()

    assert message_counts(server)[-1] == 2


def test_deadlines_beyond_the_allowance_are_kept_for_the_next_turn() -> None:
    server = Server()
    peer = server.peer()
    for number in range(20):
        peer.send(1, declare(f"q{number}", message_ttl=1000))
        peer.publish(1, b"1", f"q{number}")
    node, queues = server.node, server.node.vhosts["/"].queues

    node.allowance = 5
    node.advance(node.now + 2_000_000, node.wall_now)
    left = sum(len(queue.ready) for queue in queues.values())
    node.allowance = inf
    node.advance(node.now, node.wall_now)

    assert left == 15
    assert not any(queue.ready for queue in queues.values())


def test_moving_time_finishes_what_is_left_over_first() -> None:
    server = Server()
    publisher = chained(server)

    server.node.allowance = ALLOWANCE
    publisher.publish(1, b"1", "link0")
    server.node.allowance = inf
    server.elapse(1)

    assert message_counts(server)[-1] == 1
