"""A channel: the deliveries, consumers, confirms and transaction of one conversation in a connection.

It keeps the state of a channel and offers it to the handlers of methods. `handlers` holds what each method does. To the
model, a channel is the subscriber of its consumers and the target of direct replies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING

from leveret.core.model.errors import AmqpError, PreconditionFailed
from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.ready import WaitingMessage
from leveret.core.model.reply_to import ReplyQueue
from leveret.core.protocol import refusals, settling
from leveret.core.protocol.confirms import Answer, Confirms
from leveret.core.protocol.delivery import Delivery, DeliveryEncoder, with_content
from leveret.core.protocol.receiving.assembler import Assembler
from leveret.core.protocol.state import ChannelState
from leveret.core.protocol.transaction import Transaction
from leveret.core.wire.frames import method_frame
from leveret.core.wire.methods import BasicAck, BasicCancel, BasicNack, BasicReturn, ChannelClose, Method
from leveret.core.wire.properties import Properties
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.model.firehose import Actor
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.core.model.vhost import Origin
    from leveret.core.protocol.connection import Connection
    from leveret.core.protocol.reaction import Reaction
    from leveret.trace.events import Tap


class Channel:
    """One channel of a connection."""

    __slots__ = (
        "__weakref__",
        "assembler",
        "confirms",
        "connection",
        "consumers",
        "encoders",
        "has_stale",
        "held_up",
        "ignores_returns",
        "is_limited",
        "last_properties",
        "last_publish_octets",
        "last_queue_name",
        "last_tag",
        "node",
        "number",
        "origin",
        "prefetch_count",
        "reaction",
        "reply_consumer_tag",
        "reply_process",
        "reply_queue",
        "rights",
        "shared_prefetch_count",
        "shared_unacked_count",
        "state",
        "transaction",
        "unacked",
        "vhost",
    )

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.node = connection.node
        self.vhost = connection.vhost
        self.rights = connection.rights
        self.number = number
        # Connection and channel number, as events name the sender.
        self.origin: Origin = (connection.number, number)
        self.state = ChannelState.OPEN
        self.assembler = Assembler(connection.node.compat)
        # Outstanding deliveries by tag, oldest first.
        self.unacked: dict[int, Delivery] = {}
        # Whether a queue has taken back any of them.
        self.has_stale = False
        self.last_tag = 0
        self.consumers: dict[str, Consumer] = {}
        # By consumer tag.
        self.encoders: dict[str, DeliveryEncoder] = {}
        # For consumers that are still to come; 0 is unlimited.
        self.prefetch_count = 0
        # One limit for all consumers of the channel, in versions that have it; 0 is no limit. What counts towards it is
        # counted only while there is a limit.
        self.shared_prefetch_count = 0
        self.shared_unacked_count = 0
        self.is_limited = False
        # The queues that found it reached, and wait until there is room again.
        self.held_up: dict[StoredQueue, None] = {}
        self.confirms: Confirms | None = None
        # Whether the client drops what is returned to it, once anything was; False if that cannot be known.
        self.ignores_returns: bool | None = None
        # What the client does after a publish has closed this channel.
        self.reaction: Reaction | None = None
        self.transaction: Transaction | None = None
        # The name that an empty queue name stands for. None if the client has declared none.
        self.last_queue_name: str | None = None
        self.reply_queue: ReplyQueue | None = None
        self.reply_consumer_tag = ""
        # How the last reply-to name that was generated for this channel begins.
        self.reply_process = ""
        # The properties of the last publish, as bytes and decoded. Publishers repeat themselves.
        self.last_properties: tuple[bytes, Properties] | None = None
        # The method and properties of the last publish, as they arrived.
        self.last_publish_octets = (b"", b"")

    def actor(self) -> Actor:
        """Return the channel and its user, for the firehose."""
        from leveret.core.model.firehose import Actor

        return Actor(self.connection.address_name, self.number, self.connection.user)

    def send(self, method: Method) -> None:
        """Send a method on this channel."""
        connection, octets = self.connection, method_frame(self.number, method)
        reply = connection.faults.reply
        if reply is None or not reply(connection, self.number, method, octets, None):
            connection.send(octets)

    def send_message(self, method: Method, message: Message, properties_octets: bytes | None = None) -> None:
        """Send a method followed by a message; `properties_octets` replace the message's own."""
        connection = self.connection
        frame = method_frame(self.number, method)
        octets = with_content(frame, message, self.number, connection.frame_max, properties_octets)
        reply = connection.faults.reply
        if reply is None or not reply(connection, self.number, method, octets, message):
            connection.send(octets)

    def send_return(self, method: BasicReturn, message: Message) -> None:
        """Return a message to the client, and note it if the client is known to drop it."""
        if self.ignores_returns is None:
            self.ignores_returns = self.connection.ignores_returns(self.number)
        if self.ignores_returns:
            self.node.ignored_returns[message.id] = None
        self.send_message(method, message)

    def tap(self, kind: str, *fields: object) -> None:
        """Record something this channel did."""
        tap = self.node.hooks.tap
        if tap is not None:
            tap((kind, self.node.now, self.vhost.name, *self.origin, *fields))

    def limit_together(self, count: int) -> None:
        """Let all consumers together hold at most `count` deliveries; 0 is no limit.

        A first limit counts everything outstanding, even what basic.get fetched, which is never taken off the count
        again. Another limit keeps the count (rabbit_limiter, seen on 3.10 and 4.0).
        """
        if not self.is_limited:
            self.shared_unacked_count = len(self.unacked)
        self.shared_prefetch_count = count
        self.is_limited = count > 0

    def has_room(self) -> bool:
        """Return whether a shared prefetch limit, if any, allows another delivery."""
        return not self.shared_prefetch_count or self.shared_unacked_count < self.shared_prefetch_count

    def has_room_for(self, consumer: Consumer) -> bool:
        """Return whether a shared prefetch limit, if the consumer obeys it, allows it another delivery."""
        queue = consumer.queue
        return not queue.shares_prefetch or (queue not in self.held_up and self.has_room())

    def hold_up(self, queue: StoredQueue) -> None:
        """Let a queue wait for room: it does not ask again before `resume` (rabbit_limiter, seen on 3.10 and 4.0)."""
        self.held_up[queue] = None

    def deliver(self, consumer: Consumer, entry: QueueEntry) -> None:
        """Send one entry to a consumer of this channel. Hot: once per delivered message."""
        connection, queue = self.connection, consumer.queue
        fault = connection.faults.deliver
        if fault is not None and fault(self, consumer, entry):
            return
        tag = self.last_tag = self.last_tag + 1
        if not consumer.no_ack:
            self.unacked[tag] = Delivery(tag, entry, queue, consumer, self.node.now)
            if self.is_limited and queue.shares_prefetch:
                self.shared_unacked_count += 1
        message, is_redelivered = entry.message, entry.redelivered
        octets = queue.delivered_octets(entry, is_get=False) if consumer.edits_deliveries else None
        connection.send_pieces(self.encoders[consumer.tag].encode(tag, is_redelivered, message, octets))
        vhost, tap = self.vhost, self.node.hooks.tap
        if vhost.firehose is not None:
            vhost.firehose.delivered(entry, queue.name, receiver=self, properties_octets=octets)
        if tap is not None:
            now, (number, channel_number) = self.node.now, self.origin
            where = (vhost.name, number, channel_number, queue.name, message, entry.copy)
            tap((events.DELIVERED, now, *where, consumer.tag, tag, is_redelivered, entry.acquired_count))
            if consumer.no_ack:
                tap((events.ACKED, now, *where, tag, False, None, "no_ack"))

    def takes_runs(self, consumer: Consumer) -> bool:
        """Return whether no fault, firehose, shared limit or queue header applies to a single delivery."""
        is_watched = self.connection.faults.deliver is not None or self.vhost.firehose is not None
        return not (is_watched or self.is_limited or consumer.edits_deliveries)

    def deliver_run(self, consumer: Consumer, waiting: Sequence[WaitingMessage], copies: Sequence[int]) -> None:
        """Send entries that were never handed out to a consumer with no_ack. Hot: once per run of deliveries."""
        first_tag = self.last_tag + 1
        self.last_tag += len(waiting)
        self.connection.send_pieces(self.encoders[consumer.tag].encode_run(first_tag, waiting))
        tap = self.node.hooks.tap
        if tap is not None:
            self._tap_run(tap, consumer, first_tag, waiting, copies)

    def _tap_run(
        self, tap: Tap, consumer: Consumer, first_tag: int, waiting: Sequence[WaitingMessage], copies: Sequence[int]
    ) -> None:
        now, queue_path = self.node.now, (self.vhost.name, self.connection.number, self.number, consumer.queue.name)
        for tag, (message_id, body, _, head, _), copy in zip(count(first_tag), waiting, copies, strict=False):
            message_path = (*queue_path, Message.from_head(message_id, head, body), copy)
            tap((events.DELIVERED, now, *message_path, consumer.tag, tag, False, 0))
            tap((events.ACKED, now, *message_path, tag, False, None, "no_ack"))

    def deliver_reply(self, message: Message) -> None:
        """Send a direct reply to the requester on this channel."""
        tag = self.last_tag + 1
        if not self.node.compat.replies_take_no_tag:
            self.last_tag = tag
        encoder = DeliveryEncoder(self.reply_consumer_tag, self.number, self.connection.frame_max)
        self.connection.send_pieces(encoder.encode(tag, False, message))
        tap = self.node.hooks.tap
        if tap is not None:
            self._tap_reply(tap, message, tag)

    def _tap_reply(self, tap: Tap, message: Message, tag: int) -> None:
        # A reply passes through no queue. It is recorded as if it had, so that its life ends like that of any other
        # message.
        assert self.reply_queue is not None
        node, name = self.node, self.reply_queue.name
        node.last_copy = copy = node.last_copy + 1
        tap((events.ENQUEUED, node.now, self.vhost.name, name, message, copy, None, None))
        self.tap(events.DELIVERED, name, message, copy, self.reply_consumer_tag, tag, False, 0)
        self.tap(events.ACKED, name, message, copy, tag, False, None, "no_ack")

    def cancelled(self, consumer: Consumer, reason: str) -> None:
        """Forget a consumer that the broker has cancelled, and notify the client if it supports that."""
        if self.consumers.pop(consumer.tag, None) is None:
            return
        self.tap(events.CANCEL, consumer.queue.name, consumer.tag, reason)
        if self.connection.supports_cancel_notify:
            self.send(BasicCancel(consumer.tag, True))

    def suspended(self, consumer: Consumer) -> None:
        """Notify the client of a cancelled consumer, and keep it: it may go on after late acknowledgements."""
        self.tap(events.CANCEL, consumer.queue.name, consumer.tag, "consumer timeout")
        if self.connection.supports_cancel_notify:
            self.send(BasicCancel(consumer.tag, True))

    def can_be_cancelled(self) -> bool:
        """Return whether one consumer can be cancelled for holding deliveries too long, and its client notified."""
        return self.connection.supports_cancel_notify and self.node.compat.consumer_timeout_is_quorum_only

    def held_too_long(self, entries: Sequence[QueueEntry]) -> None:
        """Mark deliveries that their queue takes back as stale."""
        for delivery in self.unacked.values():
            if delivery.entry in entries:
                delivery.is_stale = self.has_stale = True

    def end_for_timeout(self, limit_us: int) -> None:
        """Close the channel for a delivery held longer than the limit."""
        # RabbitMQ 4.3 prints -1 whatever the limit is.
        limit_ms = -1 if self.node.compat.consumer_timeout_is_quorum_only else limit_us // 1000
        text = (
            f"delivery acknowledgement on channel {self.number} timed out. Timeout value used: {limit_ms} ms. "
            "This timeout value can be configured, see consumers doc guide to learn more"
        )
        self.connection.refuse(self.number, PreconditionFailed(text).at(0).about("held_too_long"))

    def pop_unacked(self, tag: int, *, multiple: bool, is_ack: bool = False) -> list[Delivery]:
        """Return the deliveries a client settles, which are no longer outstanding, without those it held too long.

        Raises PreconditionFailed for an unknown tag.
        """
        taken = self._pop_unacked(tag, multiple=multiple)
        if not self.has_stale:
            return taken
        for delivery in taken:
            if is_ack and delivery.is_stale and delivery.consumer is not None:
                delivery.queue.on_late_ack(delivery.consumer)
        return [delivery for delivery in taken if not delivery.is_stale]

    def _pop_unacked(self, tag: int, *, multiple: bool) -> list[Delivery]:
        unacked = self.unacked
        if not multiple or tag not in unacked:
            if multiple and tag == 0:
                taken = list(unacked.values())
                unacked.clear()
                return taken
            delivery = unacked.pop(tag, None)
            if delivery is None:
                raise unknown_tag(self, tag)
            return [delivery]
        taken = []
        for outstanding in list(unacked):
            if outstanding > tag:
                break
            taken.append(unacked.pop(outstanding))
        return taken

    def take_back(self, deliveries: Iterable[Delivery]) -> None:
        """Make deliveries outstanding again, in the order of their tags."""
        again = {delivery.tag: delivery for delivery in deliveries}
        self.unacked = dict(sorted({**self.unacked, **again}.items()))

    def release(self, deliveries: Iterable[Delivery]) -> bool:
        """Take deliveries off the shared limit; return whether consumers must be resumed once these are settled.

        RabbitMQ's limiter knows of them before their queue asks it for room (seen on 3.10 and 4.0).
        """
        was_full = not self.has_room()
        if self.shared_unacked_count:
            self.shared_unacked_count -= sum(1 for delivery in deliveries if delivery.consumer is not None)
        return was_full and self.has_room()

    def resume(self) -> None:
        """Resume the queues that a shared limit held up."""
        queues = list(self.held_up)
        self.held_up.clear()
        for queue in queues:
            queue.resume_consumers(self)

    def requeue(self, deliveries: Iterable[Delivery], reason: str, *, is_failure: bool) -> None:
        """Requeue deliveries."""
        returned = [delivery for delivery in deliveries if not delivery.is_stale]
        is_making_room = self.release(returned)
        groups = settling.by_consumer(returned)
        for index, group in enumerate(groups):
            try:
                _requeue_to_one(group, reason, is_failure=is_failure)
            except AmqpError:
                # The error ends the channel, which gives back what it still holds.
                self.take_back(delivery for later in groups[index:] for delivery in later)
                raise
        if is_making_room:
            self.resume()

    def _requeue_ended(self, deliveries: Iterable[Delivery]) -> None:
        """Requeue what the channel held when it ended."""
        held = [delivery for delivery in deliveries if not delivery.is_stale]
        are_numbered = self.node.compat.quorum_consumers_are_numbered
        for group in settling.by_ended_queue(held, are_consumers_numbered=are_numbered):
            _requeue_to_one(group, "channel_closed", is_failure=True)

    def refuse(self, error: AmqpError) -> None:
        """End the channel with an error. Its number is free once the client has answered close-ok."""
        self.state = ChannelState.CLOSING
        self.flush_confirms()
        self.roll_back()
        queues = dict.fromkeys(consumer.queue for consumer in self.consumers.values())
        self.drop_consumers()
        self.send(ChannelClose(*refusals.close_fields(error, self.node.compat)))
        self.tap(events.CHAN_CLOSE, error.reply_text)
        # Deliveries fetched by basic.get go back only when the channel has ended (seen on 4.3).
        returned = [delivery for delivery in self.unacked.values() if delivery.queue in queues]
        for delivery in returned:
            del self.unacked[delivery.tag]
        self._requeue_ended(returned)

    def drop_consumers(self) -> None:
        """Remove all consumers from their queues, without notifying the client."""
        self.drop_waiting_consumers()
        for consumer in list(self.consumers.values()):
            # The next consumer gets requeued messages before ready ones, in the queue's order (seen on 4.3).
            consumer.queue.hold()
            consumer.queue.remove_consumer(consumer)
        self.consumers.clear()
        if self.reply_queue is not None:
            self.reply_queue.target = None
            self.reply_queue = None

    def drop_waiting_consumers(self) -> None:
        """Remove consumers that wait behind a single active one, so that none of them becomes active now."""
        for consumer in self.consumers.values():
            if not consumer.is_active:
                consumer.queue.remove_consumer(consumer)

    def requeue_all(self, *, is_clean: bool) -> None:
        """Requeue everything outstanding, because the channel has ended; `is_clean` if the client has closed it."""
        self.roll_back("uncommitted" if is_clean else "rolled_back")
        returned = list(self.unacked.values())
        self.unacked.clear()
        self._requeue_ended(returned)

    def roll_back(self, reason: str = "rolled_back") -> None:
        """Forget what a transaction held back. Its deliveries are outstanding again."""
        transaction = self.transaction
        if transaction is not None:
            self.take_back(transaction.deliveries)
            for publish in transaction.publishes:
                self.vhost.lost(publish.message, reason)
            self.transaction = Transaction()

    def owe_confirm(self, sequence: int, message: Message, is_taken: bool) -> None:
        """Settle a publish. Its publisher gets the confirm at the end of this batch of input. Hot: once per publish."""
        connection, confirms = self.connection, self.confirms
        assert confirms is not None
        fault = connection.faults.confirm
        if fault is None or not fault(self, message, sequence, is_taken):
            confirms.settle(sequence, message, is_taken)
            connection.confirming[self] = confirms

    def confirm_at_once(self, sequence: int, message: Message) -> None:
        """Confirm a publish that entered no queue. It may overtake earlier ones, for which queues answer."""
        fault = self.connection.faults.confirm
        if fault is None or not fault(self, message, sequence, True):
            self.confirm([(BasicAck(sequence, False), [(sequence, True, message)])])

    def flush_confirms(self) -> None:
        """Send the publisher the confirms it is owed."""
        if self.confirms is not None:
            self.confirm(self.confirms.pop_answers())

    def confirm(self, answers: Iterable[Answer]) -> None:
        """Send confirms. Hot: once per publish that arrives alone."""
        for method, outcomes in answers:
            if self.node.hooks.tap is not None:
                kind = events.NACKED_CONFIRM if isinstance(method, BasicNack) else events.CONFIRMED
                for sequence, _, message in outcomes:
                    self.tap(kind, message, sequence, method.multiple)
            self.send(method)


def _requeue_to_one(deliveries: Sequence[Delivery], reason: str, *, is_failure: bool) -> None:
    returns = [(delivery.entry, delivery.consumer) for delivery in deliveries]
    deliveries[0].queue.requeue(returns, reason, is_failure=is_failure)


def unknown_tag(channel: Channel, tag: int) -> PreconditionFailed:
    """Return the refusal of a delivery tag that is not outstanding on the channel."""
    refusal = PreconditionFailed(f"unknown delivery tag {tag}").about("unknown_tag", tag=str(tag))
    if 0 < tag <= channel.last_tag:
        return refusal.because("this channel has settled that delivery already; settle each delivery once")
    holder = next((other for other in channel.connection.channels.values() if tag in other.unacked), None)
    if holder is None:
        return refusal.because("no delivery of this channel had that tag")
    return refusal.because(f"channel {holder.number} got delivery {tag}; settle a delivery on the channel that got it")
