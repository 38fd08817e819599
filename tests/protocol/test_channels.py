"""Channels: opening them, closing them from either side, and their independence of each other."""

from __future__ import annotations

import pytest
from pamqp import body, commands
from pamqp.commands import Basic, Channel, Exchange, Queue

from tests.protocol.peer import Peer, Server, contents, declare, methods, names, split, the


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def peer(server: Server) -> Peer:
    peer = server.peer(channels=(1, 2))
    peer.send(1, declare())
    peer.read()
    return peer


def test_a_channel_may_have_any_number(server: Server) -> None:
    peer = server.peer(channels=())

    assert peer.told(65535, Channel.Open()) == ["Channel.OpenOk"]


def test_the_number_of_channels_is_limited_and_not_their_numbers(server: Server) -> None:
    peer = server.peer(channels=(9, 5000), channel_max=2)

    close = the(peer.call(1, Channel.Open()), commands.Connection.Close)

    assert (close.reply_code, close.reply_text) == (
        530,
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)",
    )


def test_a_number_is_free_again_after_its_close(peer: Peer) -> None:
    assert peer.told(1, Channel.Close(200, "bye", 0, 0), Channel.Open()) == ["Channel.CloseOk", "Channel.OpenOk"]


def test_a_channel_can_not_be_opened_twice(peer: Peer) -> None:
    close = the(peer.call(1, Channel.Open()), commands.Connection.Close)

    assert (close.reply_code, close.reply_text) == (504, "CHANNEL_ERROR - second 'channel.open' seen")


def test_a_channel_begins_with_open(peer: Peer) -> None:
    close = the(peer.call(3, Queue.Purge(queue="q")), commands.Connection.Close)

    assert (close.reply_code, close.reply_text) == (504, "CHANNEL_ERROR - expected 'channel.open'")
    assert (close.class_id, close.method_id) == (50, 30)


def test_a_soft_error_ends_its_channel_and_no_other(peer: Peer) -> None:
    close = the(peer.call(1, Queue.Declare(queue="nowhere", passive=True)), Channel.Close)

    assert (close.reply_code, close.reply_text) == (404, "NOT_FOUND - no queue 'nowhere' in vhost '/'")
    assert (close.class_id, close.method_id) == (50, 10)
    assert peer.told(2, Queue.Purge(queue="q")) == ["Queue.PurgeOk"]


def test_methods_pipelined_after_a_soft_error_are_ignored(peer: Peer) -> None:
    told = peer.told(1, Basic.Ack(7), Queue.Delete(queue="q"), Queue.Purge(queue="q"))

    assert told == ["Channel.Close"]
    assert peer.told(2, Queue.Declare(queue="q", passive=True)) == ["Queue.DeclareOk"]


def test_a_closing_channel_waits_for_close_ok(peer: Peer) -> None:
    peer.send(1, Basic.Ack(7), Channel.CloseOk())

    assert peer.told(1, Channel.Open()) == ["Channel.Close", "Channel.OpenOk"][1:]


def test_opening_a_closing_channel_is_a_connection_error(peer: Peer) -> None:
    told = peer.call(1, Basic.Ack(7), Channel.Open())

    assert names(told) == ["Channel.Close", "Connection.Close"]
    assert the(told, commands.Connection.Close).reply_text == "CHANNEL_ERROR - second 'channel.open' seen"


def test_crossing_channel_closes_are_both_answered(peer: Peer) -> None:
    told = peer.told(1, Basic.Ack(7), Channel.Close(200, "bye", 0, 0), Channel.CloseOk(), Channel.Open())

    assert told == ["Channel.Close", "Channel.CloseOk", "Channel.OpenOk"]


def test_consumed_deliveries_return_at_the_error_and_fetched_ones_at_close_ok(peer: Peer) -> None:
    peer.send(2, declare("fetched"))
    for key in ("q", "fetched"):
        peer.publish(2, b"1", key)
    peer.send(1, Basic.Consume(queue="q"), Basic.Get(queue="fetched"), Basic.Ack(99))

    at_error = counts(peer)
    peer.send(1, Channel.CloseOk())

    assert at_error == {"q": 1, "fetched": 0}
    assert counts(peer) == {"q": 1, "fetched": 1}


def counts(peer: Peer) -> dict[str, int]:
    received = peer.call(2, *(Queue.Declare(queue=name, passive=True) for name in ("q", "fetched")))
    return {item.queue: item.message_count for item in methods(received, Queue.DeclareOk)}


def test_flow_can_not_be_switched_off(peer: Peer) -> None:
    assert the(peer.call(1, Channel.Flow(True)), Channel.FlowOk).active is True

    close = the(peer.call(1, Channel.Flow(False)), commands.Connection.Close)

    assert (close.reply_code, close.reply_text) == (540, "NOT_IMPLEMENTED - active=false")


def test_a_client_may_not_send_a_server_method(peer: Peer) -> None:
    close = the(peer.call(1, Queue.DeclareOk("q", 0, 0)), commands.Connection.Close)

    assert (close.reply_code, close.reply_text) == (503, "COMMAND_INVALID - unimplemented method")
    assert (close.class_id, close.method_id) == (50, 11)


def test_a_connection_method_is_refused_on_a_channel(peer: Peer) -> None:
    close = the(peer.call(1, commands.Connection.Close(200, "bye", 0, 0)), commands.Connection.Close)

    assert (close.reply_code, close.reply_text) == (503, "COMMAND_INVALID - unimplemented method")


def test_delivery_tags_are_counted_by_channel_over_consumers_and_gets(peer: Peer) -> None:
    for number in range(4):
        peer.publish(2, b"%d" % number)

    first = peer.call(1, Basic.Get(queue="q"), Basic.Get(queue="q", no_ack=True))
    second = peer.call(2, Basic.Get(queue="q"))
    third = peer.call(1, Basic.Consume(queue="q", no_ack=True))

    assert [item.delivery_tag for item in methods(first, Basic.GetOk)] == [1, 2]
    assert the(second, Basic.GetOk).delivery_tag == 1
    assert the(third, Basic.Deliver).delivery_tag == 3


def test_a_tag_belongs_to_its_channel(peer: Peer) -> None:
    peer.publish(2, b"1")
    peer.send(1, Basic.Get(queue="q"))

    close = the(peer.call(2, Basic.Ack(1)), Channel.Close)

    assert (close.reply_code, close.reply_text) == (406, "PRECONDITION_FAILED - unknown delivery tag 1")


def test_multiple_settles_nothing_when_its_own_tag_is_unknown(peer: Peer) -> None:
    for number in range(2):
        peer.publish(2, b"%d" % number)
    peer.send(1, Basic.Get(queue="q"), Basic.Get(queue="q"))

    peer.send(1, Basic.Ack(3, multiple=True), Channel.CloseOk())

    assert the(peer.call(2, Queue.Declare(queue="q", passive=True)), Queue.DeclareOk).message_count == 2


def test_multiple_with_tag_zero_settles_all(peer: Peer) -> None:
    for number in range(3):
        peer.publish(2, b"%d" % number)
    peer.send(1, *(Basic.Get(queue="q") for _ in range(3)))

    peer.send(1, Basic.Ack(0, multiple=True))

    assert not peer.connection.channels[1].unacked


def test_consume_ok_comes_before_the_first_delivery(peer: Peer) -> None:
    peer.publish(2, b"1")

    assert peer.told(1, Basic.Consume(queue="q")) == ["Basic.ConsumeOk", "Basic.Deliver"]


def test_delete_ok_comes_before_the_cancel_of_a_consumer(peer: Peer) -> None:
    peer.send(1, Basic.Consume(queue="q", consumer_tag="c"))

    assert peer.told(1, Queue.Delete(queue="q")) == ["Queue.DeleteOk", "Basic.Cancel"]


def test_a_client_without_consumer_cancel_notify_gets_no_cancel(server: Server) -> None:
    peer = server.peer(capabilities={})
    peer.send(1, declare(), Basic.Consume(queue="q"))

    assert peer.told(1, Queue.Delete(queue="q")) == ["Queue.DeleteOk"]


def test_recover_ok_comes_before_the_redeliveries(peer: Peer) -> None:
    peer.publish(2, b"1")
    peer.send(1, Basic.Consume(queue="q"))

    received = peer.call(1, Basic.Recover(requeue=True))

    assert names(received) == ["Basic.RecoverOk", "Basic.Deliver"]
    assert the(received, Basic.Deliver).redelivered


def test_nowait_suppresses_the_answer(peer: Peer) -> None:
    assert peer.call(1, Queue.Declare(queue="q", durable=True, nowait=True)) == []
    assert peer.call(1, Exchange.Declare(exchange="x", nowait=True)) == []
    assert peer.call(1, Basic.Consume(queue="q", nowait=True, consumer_tag="c")) == []
    assert peer.call(1, Basic.Cancel(consumer_tag="c", nowait=True)) == []


@pytest.mark.parametrize("size", [0, 1, 8183, 8184, 8185, 20_000])
def test_bodies_are_split_by_the_frame_max_of_the_receiver(server: Server, size: int) -> None:
    narrow, wide = server.peer(frame_max=8192), server.peer()
    narrow.send(1, declare(), Basic.Consume(queue="q"))
    narrow.read()

    wide.publish(1, b"x" * size)
    received = narrow.read_octets()

    frames = list(split(received))
    pieces = [item.value for _, item in frames if isinstance(item, body.ContentBody)]
    assert contents(frames) == [b"x" * size]
    assert all(len(piece) == 8184 for piece in pieces[:-1])
