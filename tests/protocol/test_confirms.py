"""Publisher confirms: numbering, one confirm for a batch of input, returns first, separate nacks."""

from __future__ import annotations

import pytest
from pamqp.commands import Basic, Channel, Confirm, Queue, Tx

from leveret.trace.events import Event, RawEvent
from tests.protocol.peer import Peer, Server, declare, methods, names, octets, publish_octets, select, the


@pytest.fixture
def peer() -> Peer:
    peer = Server().peer(channels=(1, 2))
    peer.send(1, select(), declare())
    peer.read()
    return peer


def confirms(peer: Peer) -> list[tuple[str, int, bool]]:
    return [
        (item.name.removeprefix("Basic."), item.delivery_tag, item.multiple)
        for _, item in peer.read()
        if isinstance(item, (Basic.Ack, Basic.Nack))
    ]


def test_a_lone_publish_is_confirmed_alone(peer: Peer) -> None:
    peer.publish(1, b"1")

    assert confirms(peer) == [("Ack", 1, False)]


def test_publishes_of_one_read_are_confirmed_by_one_method(peer: Peer) -> None:
    peer.send_octets(b"".join(publish_octets(1, b"%d" % number) for number in range(5)))

    assert confirms(peer) == [("Ack", 5, True)]


def test_every_read_is_confirmed_by_itself(peer: Peer) -> None:
    for number in range(3):
        peer.publish(1, b"%d" % number)

    assert confirms(peer) == [("Ack", 1, False), ("Ack", 2, False), ("Ack", 3, False)]


def test_each_channel_counts_for_itself(peer: Peer) -> None:
    peer.send(2, select())
    peer.read()
    peer.publish(1, b"1")
    peer.publish(1, b"2")

    peer.publish(2, b"3")

    assert confirms(peer) == [("Ack", 1, False), ("Ack", 2, False), ("Ack", 1, False)]


def test_publishes_before_select_do_not_count(peer: Peer) -> None:
    peer.publish(2, b"before")
    peer.send(2, select())
    peer.read()

    peer.publish(2, b"after")

    assert confirms(peer) == [("Ack", 1, False)]


def test_select_twice_goes_on_counting(peer: Peer) -> None:
    peer.publish(1, b"1")

    assert peer.told(1, select()) == ["Confirm.SelectOk"]
    peer.publish(1, b"2")

    assert confirms(peer) == [("Ack", 2, False)]


def test_select_without_an_answer_has_none(peer: Peer) -> None:
    assert peer.told(2, Confirm.Select(nowait=True)) == []


def test_a_refused_message_is_nacked_with_multiple(peer: Peer) -> None:
    peer.send(1, declare("full", max_length=0, overflow="reject-publish"))
    peer.read()

    peer.publish(1, b"1", "full")

    (nack,) = methods(peer.read(), Basic.Nack)
    assert (nack.delivery_tag, nack.multiple, nack.requeue) == (1, True, True)


def test_a_nack_covers_only_what_is_not_settled(peer: Peer) -> None:
    peer.send(1, declare("full", max_length=1, overflow="reject-publish"))
    peer.read()
    peer.send_octets(b"".join(publish_octets(1, b"%d" % number, key) for number, key in enumerate("ab")))
    keys = ("full", "full", "q", "full", "full", "q", "q")

    peer.send_octets(b"".join(publish_octets(1, key.encode(), key) for key in keys))

    settled: dict[int, str] = {}
    for name, last, is_multiple in confirms(peer):
        covered = [tag for tag in range(1, last + 1) if tag not in settled] if is_multiple else [last]
        settled.update(dict.fromkeys(covered, name))
    # The first two are unroutable, and the broker acks unroutable messages.
    expected = ["Ack", "Ack", "Ack", "Nack", "Ack", "Nack", "Nack", "Ack", "Ack"]
    assert [settled[tag] for tag in range(1, 10)] == expected


def test_an_unroutable_message_is_returned_and_then_confirmed(peer: Peer) -> None:
    peer.publish(1, b"1", "nowhere", mandatory=True)

    assert names(peer.read()) == ["Basic.Return", "Basic.Ack"]


def test_an_unroutable_publish_is_confirmed_alone_before_the_rest_of_the_batch(peer: Peer) -> None:
    keys = ("q", "nowhere", "q")

    peer.send_octets(b"".join(publish_octets(1, b"1", key, mandatory=True) for key in keys))

    received = peer.read()
    assert names(received) == ["Basic.Return", "Basic.Ack", "Basic.Ack"]
    acks = [frame for _, frame in received if isinstance(frame, Basic.Ack)]
    assert [(ack.delivery_tag, ack.multiple) for ack in acks] == [(2, False), (3, True)]


def test_an_unroutable_publish_is_confirmed_before_an_earlier_one_that_a_full_queue_refuses(peer: Peer) -> None:
    peer.send(1, declare("full", max_length=0, overflow="reject-publish"))
    peer.read()
    keys = ("full", "nowhere")

    peer.send_octets(b"".join(publish_octets(1, b"1", key) for key in keys))

    assert confirms(peer) == [("Ack", 2, False), ("Nack", 1, True)]


def test_owed_confirms_are_sent_before_the_channel_closes(peer: Peer) -> None:
    peer.send_octets(publish_octets(1, b"1") + octets(1, Channel.Close(200, "bye", 0, 0)))

    assert names(peer.read()) == ["Basic.Ack", "Channel.CloseOk"]


def test_owed_confirms_are_sent_before_an_error_closes_the_channel(peer: Peer) -> None:
    peer.send_octets(publish_octets(1, b"1") + publish_octets(1, b"2", exchange="nowhere"))

    received = peer.read()
    assert names(received) == ["Basic.Ack", "Channel.Close"]
    assert the(received, Basic.Ack).delivery_tag == 1


def test_a_publish_to_a_missing_exchange_is_refused_after_its_body(peer: Peer) -> None:
    whole = publish_octets(1, b"1", exchange="nowhere")

    peer.send_octets(whole[:-1])
    before = peer.read()
    peer.send_octets(whole[-1:])

    assert before == []
    assert the(peer.read(), Channel.Close).reply_text == "NOT_FOUND - no exchange 'nowhere' in vhost '/'"


def test_confirm_and_transaction_exclude_each_other(peer: Peer) -> None:
    close = the(peer.call(1, Tx.Select()), Channel.Close)

    assert close.reply_text == "PRECONDITION_FAILED - cannot switch from confirm to tx mode"


def test_every_message_of_a_batch_is_in_the_trace(peer: Peer) -> None:
    server_trace: list[object] = []
    peer.connection.node.hooks.tap = server_trace.append
    peer.send_octets(b"".join(publish_octets(1, b"%d" % number) for number in range(3)))

    told = [raw for raw in server_trace if isinstance(raw, tuple) and raw[0] in ("published", "confirmed")]

    assert [raw[0] for raw in told] == ["published"] * 3 + ["confirmed"] * 3
    assert [raw[-2:] for raw in told[3:]] == [(1, True), (2, True), (3, True)]
    assert [raw[5] for raw in told[:3]] == [raw[5] for raw in told[3:]]


def test_a_queue_deleted_meanwhile_changes_no_confirm(peer: Peer) -> None:
    peer.send_octets(publish_octets(1, b"1") + octets(1, Queue.Delete(queue="q")) + publish_octets(1, b"2"))

    assert confirms(peer) == [("Ack", 2, False), ("Ack", 1, False)]


def test_an_unroutable_message_is_traced_as_returned_or_dropped(peer: Peer) -> None:
    trace: list[RawEvent] = []
    peer.connection.node.hooks.tap = trace.append

    for mandatory in (True, False):
        peer.publish(1, b"1", "nowhere", mandatory=mandatory)

    ends = [event for event in map(Event, trace) if event.kind in ("returned", "dropped")]
    assert [(event.kind, event.reason) for event in ends] == [("returned", "NO_ROUTE"), ("dropped", "no route")]
    assert (ends[1].queue, ends[1].copy) == (None, None)
