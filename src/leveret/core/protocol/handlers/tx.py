"""tx.*: transactions of publishes and acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence

from leveret.core.model.errors import HardError, InternalRefusal, PreconditionFailed
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.protocol import publishing
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.handlers import basic
from leveret.core.protocol.refusals import ResourceError
from leveret.core.protocol.transaction import HeldPublish, Transaction
from leveret.core.wire.methods import TxCommit, TxCommitOk, TxRollback, TxRollbackOk, TxSelect, TxSelectOk


def select(channel: Channel, method: TxSelect) -> None:
    """Switch transactions on. A second time changes nothing."""
    if channel.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
    channel.send(TxSelectOk())


def commit(channel: Channel, method: TxCommit) -> None:
    """Apply everything held back: first what was published, then what was settled.

    Quorum queues settle first. Acknowledgements to a classic queue come before publishes, too. Like RabbitMQ's channel,
    the commit waits only for queues that take publishes, so without any it is confirmed before it takes effect.
    """
    transaction = _transaction(channel)
    publishes = [publish.at_commit(channel.vhost) for publish in transaction.publishes]
    transaction.publishes = []
    _refuse_deleted_queues(channel, publishes)
    channel.transaction = Transaction()
    for publish in publishes:
        publishing.return_unroutable(channel, publish)
    has_to_wait = any(publish.queues for publish in publishes)
    if not has_to_wait:
        for settlement in transaction.take_at_once():
            basic.settle(channel, settlement)
        channel.send(TxCommitOk())
    for settlement in transaction.take_overtaking():
        basic.settle(channel, settlement)
    outcomes = [publishing.enqueue_held(channel, publish) for publish in publishes]
    for settlement in transaction.settlements:
        basic.settle(channel, settlement)
    for publish in publishes:
        _enqueue_late(channel, publish)
    if not all(outcomes):
        raise PreconditionFailed("partial tx completion")
    if has_to_wait:
        channel.send(TxCommitOk())


def _enqueue_late(channel: Channel, publish: HeldPublish) -> None:
    """Enqueue in queues that settle first. If such a queue is full and refuses, the client does not learn of it."""
    gone = publish.deleted_queues
    late = [queue for queue in publish.queues if queue.settles_first_at_commit and queue not in gone]
    if late:
        channel.vhost.put(publish.message, late, channel)


def _refuse_deleted_queues(channel: Channel, publishes: Sequence[HeldPublish]) -> None:
    """Refuse a commit at the first message for a deleted queue that ends it. Messages before it are enqueued."""
    refusal_of = _refusal_of_any if channel.node.compat.commit_to_deleted_queue_is_hard else _refusal_of_stream
    for index, publish in enumerate(publishes):
        for queue in publish.deleted_queues:
            refusal = refusal_of(queue)
            if refusal is not None:
                _enqueue_after_close(channel, publishes[:index])
                raise refusal


def _refusal_of_any(queue: StoredQueue) -> HardError | None:
    """Return the refusal of a deleted queue.

    A classic queue that was declared again does not get the message, which is a soft error later. If the new queue has
    another type, the error is hard.
    """
    anew = queue.vhost.queues.get(queue.name)
    if anew is not None:
        return None if anew.type is queue.type else InternalRefusal()
    resource = f'{{resource,<<"{queue.vhost.name}">>,queue,<<"{queue.name}">>}}'
    return ResourceError(f"failed to deliver message: {_not_found(resource)}")


def _refusal_of_stream(queue: StoredQueue) -> HardError | None:
    return ResourceError(f"Stream not found for {queue.title}") if queue.type_name == "stream" else None


def _enqueue_after_close(channel: Channel, publishes: Sequence[HeldPublish]) -> None:
    """Enqueue once this channel has ended, because its own consumers get none of it. Send returns at once."""

    def enqueue() -> None:
        for publish in publishes:
            gone = publish.deleted_queues
            channel.vhost.put(publish.message, [queue for queue in publish.queues if queue not in gone], channel)

    for publish in publishes:
        publishing.return_unroutable(channel, publish)
    channel.node.work.append(enqueue)


def _not_found(resource: str) -> str:
    """Return the term as Erlang prints it, broken if the line would be longer than 78 characters."""
    term = f"{{not_found,{resource}}}"
    column = len("failed to deliver message: ")
    return term if column + len(term) < 79 else f"{{not_found,\n{' ' * (column + 4)}{resource}}}"


def rollback(channel: Channel, method: TxRollback) -> None:
    """Forget everything held back."""
    _transaction(channel)
    channel.roll_back()
    channel.send(TxRollbackOk())


def _transaction(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise PreconditionFailed("channel is not transactional")
    return channel.transaction
