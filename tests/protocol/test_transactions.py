"""Transactions: the operations they hold back, the effects of commit and rollback, and how they end."""

from __future__ import annotations

import pytest
from pamqp import commands
from pamqp.commands import Basic, Channel, Queue, Tx

from tests.protocol.peer import Peer, Server, contents, declare, names, the


@pytest.fixture
def peer() -> Peer:
    """A peer with a transaction on channel 1 and none on channel 2."""
    peer = Server().peer(channels=(1, 2))
    peer.send(2, declare())
    peer.send(1, Tx.Select())
    peer.read()
    return peer


def ready(peer: Peer, name: str = "q") -> int:
    return the(peer.call(2, Queue.Declare(queue=name, passive=True)), Queue.DeclareOk).message_count


def test_a_publish_waits_for_its_commit(peer: Peer) -> None:
    peer.publish(1, b"1")
    before = ready(peer)

    assert peer.told(1, Tx.Commit()) == ["Tx.CommitOk"]
    assert (before, ready(peer)) == (0, 1)


def test_a_rollback_forgets_what_was_published(peer: Peer) -> None:
    peer.publish(1, b"1")

    assert peer.told(1, Tx.Rollback(), Tx.Commit()) == ["Tx.RollbackOk", "Tx.CommitOk"]
    assert ready(peer) == 0


def test_a_return_comes_before_commit_ok(peer: Peer) -> None:
    peer.publish(1, b"1", "nowhere", mandatory=True)
    before = peer.read()

    assert (before, peer.told(1, Tx.Commit())) == ([], ["Basic.Return", "Tx.CommitOk"])


def test_a_missing_exchange_is_refused_at_once(peer: Peer) -> None:
    peer.publish(1, b"1", exchange="nowhere")

    assert names(peer.read()) == ["Channel.Close"]


def test_the_route_is_that_of_the_publish_and_not_of_the_commit(peer: Peer) -> None:
    peer.publish(1, b"1", "later")
    peer.send(2, declare("later"))

    peer.send(1, Tx.Commit())

    assert ready(peer, "later") == 0


def test_an_ack_waits_for_its_commit(peer: Peer) -> None:
    peer.publish(2, b"1")
    peer.publish(2, b"2")
    peer.send(1, Basic.Qos(prefetch_count=1), Basic.Consume(queue="q"))
    peer.read()

    held = peer.told(1, Basic.Ack(1))
    done = peer.told(1, Tx.Commit())

    assert held == []
    assert sorted(done) == ["Basic.Deliver", "Tx.CommitOk"]


def test_an_ack_in_a_transaction_cannot_be_repeated(peer: Peer) -> None:
    peer.publish(2, b"1")
    peer.send(1, Basic.Get(queue="q"), Basic.Ack(1))
    peer.read()

    close = the(peer.call(1, Basic.Ack(1)), Channel.Close)

    assert close.reply_text == "PRECONDITION_FAILED - unknown delivery tag 1"


def test_an_ack_can_be_repeated_after_a_rollback(peer: Peer) -> None:
    peer.publish(2, b"1")
    peer.send(1, Basic.Get(queue="q"), Basic.Ack(1))
    peer.read()

    assert peer.told(1, Tx.Rollback(), Basic.Ack(1), Tx.Commit()) == ["Tx.RollbackOk", "Tx.CommitOk"]
    assert not peer.connection.node.vhosts["/"].queues["q"].unacked


def test_a_rollback_keeps_tags_in_order_for_multiple(peer: Peer) -> None:
    for number in range(3):
        peer.publish(2, b"%d" % number)
    peer.send(1, *(Basic.Get(queue="q") for _ in range(3)), Basic.Ack(1), Tx.Rollback())

    peer.send(1, Basic.Ack(2, multiple=True), Tx.Commit())

    assert list(peer.connection.channels[1].unacked) == [3]


def test_a_nack_waits_for_its_commit(peer: Peer) -> None:
    peer.publish(2, b"1")
    peer.send(1, Basic.Get(queue="q"), Basic.Nack(1, requeue=True))
    before = ready(peer)

    peer.send(1, Tx.Commit())

    assert (before, ready(peer)) == (0, 1)


def test_the_end_of_a_channel_rolls_back_and_requeues(peer: Peer) -> None:
    peer.publish(2, b"1")
    peer.send(1, Basic.Get(queue="q"), Basic.Ack(1))
    peer.publish(1, b"2")

    peer.send(1, Channel.Close(200, "bye", 0, 0))

    received = peer.call(2, Basic.Get(queue="q"), Basic.Get(queue="q"))
    assert contents(received) == [b"1"]
    assert the(received, Basic.GetOk).redelivered


def test_a_refused_publish_fails_the_commit_and_the_others_stay(peer: Peer) -> None:
    peer.send(2, declare("full", max_length=0, overflow="reject-publish"))
    peer.publish(1, b"1", "full")
    peer.publish(1, b"2")

    close = the(peer.call(1, Tx.Commit()), Channel.Close)

    assert close.reply_text == "PRECONDITION_FAILED - partial tx completion"
    assert ready(peer) == 1


def test_a_queue_deleted_before_the_commit_ends_the_connection(peer: Peer) -> None:
    peer.publish(1, b"1")
    peer.send(2, Queue.Delete(queue="q"))

    close = the(peer.call(1, Tx.Commit()), commands.Connection.Close)

    assert close.reply_text == (
        'RESOURCE_ERROR - failed to deliver message: {not_found,{resource,<<"/">>,queue,<<"q">>}}'
    )


@pytest.mark.parametrize("method", [Tx.Commit(), Tx.Rollback()])
def test_commit_and_rollback_need_a_transaction(peer: Peer, method: Tx.Commit) -> None:
    close = the(peer.call(2, method), Channel.Close)

    assert close.reply_text == "PRECONDITION_FAILED - channel is not transactional"


def test_a_transaction_can_be_selected_twice(peer: Peer) -> None:
    peer.publish(1, b"1")

    assert peer.told(1, Tx.Select(), Tx.Commit()) == ["Tx.SelectOk", "Tx.CommitOk"]
    assert ready(peer) == 1


def test_confirms_can_not_join_a_transaction(peer: Peer) -> None:
    close = the(peer.call(1, commands.Confirm.Select()), Channel.Close)

    assert close.reply_text == "PRECONDITION_FAILED - cannot switch from tx to confirm mode"


def test_what_a_refused_commit_held_for_a_deleted_queue_enters_no_queue() -> None:
    server = Server()
    peer = server.peer(channels=(1, 2))
    peer.send(2, declare(), declare("log", queue_type="stream"))
    peer.send(1, Tx.Select())
    peer.publish(1, b"1")
    peer.publish(1, b"2", "log")
    peer.send(2, Queue.Delete(queue="q"), declare(), Queue.Delete(queue="log"))
    peer.read()

    assert peer.told(1, Tx.Commit()) == ["Connection.Close"]
    assert server.events("enqueued") == []
