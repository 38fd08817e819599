"""basic.*: publish, consume, get, and settling deliveries."""

from __future__ import annotations

from collections.abc import Sequence

from leveret.core.model import reply_to
from leveret.core.model.errors import (
    AmqpError,
    CommandInvalid,
    InternalRefusal,
    NotAllowed,
    NotImplementedByBroker,
    PreconditionFailed,
)
from leveret.core.model.queues import queue_types
from leveret.core.model.queues.arguments import integer_of
from leveret.core.model.queues.consumer import Consumer
from leveret.core.protocol import publishing, settling
from leveret.core.protocol.channel import Channel, unknown_tag
from leveret.core.protocol.delivery import Delivery, DeliveryEncoder
from leveret.core.protocol.handlers.queue import leads_to_reply_queue, named
from leveret.core.protocol.receiving.assembler import Content
from leveret.core.protocol.shortcuts.repeated_method import repeated
from leveret.core.protocol.shortcuts.repeated_publish import remembered
from leveret.core.protocol.transaction import Settlement, Way
from leveret.core.wire import methods
from leveret.trace import events


def publish(channel: Channel, method: methods.BasicPublish, content: Content) -> None:
    """Route a message and enqueue it, at once or at commit. Hot: once per published message."""
    try:
        message = publishing.checked(channel, method, content)
    except AmqpError as error:
        if error.subject is None:
            error.about("publish", exchange=method.exchange, routing_key=method.routing_key)
        raise
    if publishing.publish(channel, message, is_mandatory=method.mandatory, client=channel) is None:
        return
    connection = channel.connection
    connection.repeated_method = repeated(channel, method, content.method_octets)
    connection.repeated_publish = remembered(channel, content, message)


def qos(channel: Channel, method: methods.BasicQos) -> None:
    """Limit unacknowledged deliveries: of each later consumer or, in versions that have it, of the whole channel.

    A limit of each consumer ends that of the channel.
    """
    if method.prefetch_size:
        raise NotImplementedByBroker(f"prefetch_size!=0 ({method.prefetch_size})")
    is_shared = method.global_ and channel.node.compat.global_qos == "shared"
    if not is_shared:
        channel.prefetch_count = method.prefetch_count
    had_limit = channel.is_limited
    channel.limit_together(method.prefetch_count if is_shared else 0)
    channel.tap(events.QOS, method.prefetch_count, is_shared, method.global_)
    channel.send(methods.BasicQosOk())
    if had_limit and channel.has_room():
        channel.resume()


def consume(channel: Channel, method: methods.BasicConsume) -> None:
    """Subscribe to a queue."""
    if (method.queue or channel.last_queue_name) == reply_to.NAME:
        _consume_replies(channel, method)
        return
    limit = channel.node.settings.consumer_max_per_channel
    if limit is not None and len(channel.consumers) >= limit:
        raise NotAllowed(f"reached maximum ({limit}) of consumers per channel")
    name = named(channel, method.queue)
    _refuse_used_tag(channel, method.consumer_tag)
    channel.rights.require("read", "queue", name)
    if leads_to_reply_queue(channel, name):
        refusal = "only creator channel may consume from"
        if channel.reply_queue is not None and channel.reply_queue.name == name:
            refusal = "multiple consumers are unsupported for"
        raise PreconditionFailed(f"{refusal} {channel.vhost.title_of('queue', name)}")
    queue = channel.vhost.queue(name, channel.connection)
    queue_types.refuse_invalid_consumer(queue.type, method.arguments, queue.title, channel.node.compat)
    queue.refuse_subscription(prefetch_count=channel.prefetch_count, no_ack=method.no_ack)
    if channel.shared_prefetch_count and not queue.shares_prefetch:
        raise NotImplementedByBroker(f"{queue.title} does not support global qos")
    consumer = Consumer(
        method.consumer_tag or channel.node.new_name("amq.ctag-"),
        queue,
        channel,
        connection_number=channel.connection.number,
        channel_number=channel.number,
        no_ack=method.no_ack,
        is_exclusive=method.exclusive,
        prefetch_count=channel.prefetch_count,
        priority=integer_of(method.arguments, "x-priority") or 0,
        arguments=method.arguments,
    )
    channel.encoders[consumer.tag] = DeliveryEncoder(consumer.tag, channel.number, channel.connection.frame_max)
    consumer = queue.add_consumer(consumer)
    queue.lost_client = None
    channel.vhost.lost_consumers.pop(consumer.tag, None)
    channel.consumers[consumer.tag] = consumer
    channel.tap(
        events.CONSUME,
        queue.name,
        consumer.tag,
        consumer.no_ack,
        consumer.is_exclusive,
        consumer.prefetch_count,
        consumer.arguments,
    )
    if not method.nowait:
        channel.send(methods.BasicConsumeOk(consumer.tag))
    queue.start_consumer(consumer)


def _refuse_used_tag(channel: Channel, tag: str) -> None:
    if tag and tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")


def _consume_replies(channel: Channel, method: methods.BasicConsume) -> None:
    """Make this channel a requester, which receives direct replies."""
    _refuse_used_tag(channel, method.consumer_tag)
    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.reply_queue is not None:
        raise PreconditionFailed("reply consumer already set")
    channel.reply_consumer_tag = method.consumer_tag or channel.node.new_name("amq.ctag-")
    channel.reply_queue = channel.node.reply_queues.open(channel, channel.vhost)
    channel.reply_process = channel.reply_queue.process
    if not method.nowait:
        channel.send(methods.BasicConsumeOk(channel.reply_consumer_tag))


def cancel(channel: Channel, method: methods.BasicCancel) -> None:
    """End a subscription. An unknown tag is no error. Deliveries stay outstanding.

    The answer precedes what the next consumer of the channel gets (rabbit_amqqueue_process, seen on 3.10, 4.0 and 4.3).
    """
    if not method.nowait:
        channel.send(methods.BasicCancelOk(method.consumer_tag))
    _cancel(channel, method.consumer_tag)


def cancel_ok(channel: Channel, method: methods.BasicCancelOk) -> None:
    """Handle a cancel-ok that the client sends without having received a cancel (seen on 4.3)."""
    if not channel.node.compat.crashes_on_cancel_ok:
        raise CommandInvalid("unimplemented method")
    if method.consumer_tag not in channel.consumers:
        raise InternalRefusal()
    _cancel(channel, method.consumer_tag)


def _cancel(channel: Channel, tag: str) -> None:
    if channel.reply_queue is not None and tag == channel.reply_consumer_tag:
        channel.reply_queue.target = None
        channel.reply_queue = None
        return
    consumer = channel.consumers.pop(tag, None)
    if consumer is not None:
        channel.tap(events.CANCEL, consumer.queue.name, tag, None)
        consumer.queue.remove_consumer(consumer)


def get(channel: Channel, method: methods.BasicGet) -> None:
    """Fetch the head of a queue."""
    name = named(channel, method.queue)
    channel.rights.require("read", "queue", name)
    if leads_to_reply_queue(channel, name):
        raise NotImplementedByBroker(f"basic.get not supported by volatile {channel.vhost.title_of('queue', name)}")
    queue = channel.vhost.queue(name, channel.connection)
    entry = queue.get(channel, no_ack=method.no_ack)
    queue.is_polled = True
    if entry is None:
        channel.send(methods.BasicGetEmpty())
        return
    tag = channel.last_tag = channel.last_tag + 1
    if not method.no_ack:
        channel.unacked[tag] = Delivery(tag, entry, queue, None, channel.node.now)
    message = entry.message
    ok = methods.BasicGetOk(tag, entry.redelivered, message.exchange, message.routing_key, len(queue.ready))
    octets = queue.delivered_octets(entry, is_get=True)
    channel.send_message(ok, message, octets)
    if channel.vhost.firehose is not None:
        channel.vhost.firehose.delivered(entry, queue.name, receiver=channel, properties_octets=octets)
    channel.tap(events.GOT, queue.name, message, entry.copy, tag, entry.redelivered, entry.acquired_count)
    if method.no_ack:
        channel.tap(events.ACKED, queue.name, message, entry.copy, tag, False, None, "no_ack")


def ack(channel: Channel, method: methods.BasicAck) -> None:
    """Acknowledge deliveries. Hot: once per acknowledgement, unless `single_acks` has taken it."""
    if method.multiple or not settles_one_by_one(channel):
        deliveries = channel.pop_unacked(method.delivery_tag, multiple=method.multiple, is_ack=True)
        _settle(channel, ("ack", False), events.ACKED, deliveries, multiple=method.multiple)
        return
    delivery = channel.unacked.pop(method.delivery_tag, None)
    if delivery is None:
        raise unknown_tag(channel, method.delivery_tag)
    tap_acked(channel, delivery)
    delivery.queue.acknowledge(delivery.entry, delivery.consumer)


def settles_one_by_one(channel: Channel) -> bool:
    """Return whether one delivery can be settled without regard to the others."""
    return channel.transaction is None and not channel.has_stale and not channel.is_limited


def tap_acked(channel: Channel, delivery: Delivery) -> None:
    """Record that one delivery is acknowledged, unless its queue has been deleted, which ended its deliveries too."""
    queue, entry = delivery.queue, delivery.entry
    if not queue.is_deleted:
        channel.tap(events.ACKED, queue.name, entry.message, entry.copy, delivery.tag, False, None, None)


def reject(channel: Channel, method: methods.BasicReject) -> None:
    """Requeue or dead-letter one delivery."""
    deliveries = channel.pop_unacked(method.delivery_tag, multiple=False)
    _requeue_or_discard(channel, events.REJECTED, deliveries, multiple=False, requeue=method.requeue)


def nack(channel: Channel, method: methods.BasicNack) -> None:
    """Requeue or dead-letter deliveries."""
    deliveries = channel.pop_unacked(method.delivery_tag, multiple=method.multiple)
    _requeue_or_discard(channel, events.NACKED, deliveries, multiple=method.multiple, requeue=method.requeue)


def _requeue_or_discard(
    channel: Channel, kind: str, deliveries: Sequence[Delivery], *, multiple: bool, requeue: bool
) -> None:
    way = "requeue" if requeue else "discard"
    is_failure = not requeue if channel.node.compat.counts_every_return else kind == events.REJECTED
    _settle(channel, (way, is_failure), kind, deliveries, multiple=multiple)


def _settle(channel: Channel, way: Way, kind: str, deliveries: Sequence[Delivery], *, multiple: bool) -> None:
    up_to_tag = deliveries[-1].tag if multiple and deliveries else None
    settlement = Settlement(way, [(kind, deliveries, up_to_tag)])
    if channel.transaction is not None:
        channel.transaction.hold(settlement)
    else:
        settle(channel, settlement)


def settle(channel: Channel, settlement: Settlement) -> None:
    """Settle deliveries for good."""
    for kind, deliveries, up_to_tag in settlement.methods:
        _tap_settled(channel, kind, deliveries, up_to_tag, *((None,) if kind == events.ACKED else ()))
    deliveries = settlement.deliveries
    way, is_failure = settlement.way
    if way == "requeue":
        channel.requeue(deliveries, settlement.methods[0][0], is_failure=is_failure)
        return
    is_making_room = channel.release(deliveries)
    if way == "ack":
        for delivery in settling.in_order(deliveries):
            delivery.queue.acknowledge(delivery.entry, delivery.consumer)
    else:
        _discard(channel, settling.in_order_of_discard(deliveries), is_failure=is_failure)
    if is_making_room:
        channel.resume()


def _discard(channel: Channel, deliveries: Sequence[Delivery], *, is_failure: bool) -> None:
    for index, delivery in enumerate(deliveries):
        try:
            delivery.queue.discard(delivery.entry, delivery.consumer, is_failure=is_failure)
        except AmqpError:
            # The error ends the channel, which gives back what it still holds.
            channel.take_back(deliveries[index:])
            raise


def _tap_settled(
    channel: Channel, kind: str, deliveries: Sequence[Delivery], up_to_tag: int | None, *fields: object
) -> None:
    if channel.node.hooks.tap is None:
        return
    method = (up_to_tag is not None, up_to_tag)
    for delivery in deliveries:
        if delivery.queue.is_deleted:
            # The copy ended with its queue, and is recorded as purged.
            continue
        entry = delivery.entry
        channel.tap(kind, delivery.queue.name, entry.message, entry.copy, delivery.tag, *method, *fields)


def recover(channel: Channel, method: methods.BasicRecover) -> None:
    """Requeue everything outstanding on the channel, and answer before it is redelivered."""
    later = _recover_at_once(channel, requeue=method.requeue)
    channel.send(methods.BasicRecoverOk())
    _requeue_recovered(channel, later)


def recover_async(channel: Channel, method: methods.BasicRecoverAsync) -> None:
    """Requeue everything outstanding without an answer."""
    _requeue_recovered(channel, _recover_at_once(channel, requeue=method.requeue))


def _recover_at_once(channel: Channel, *, requeue: bool) -> list[Delivery]:
    """Requeue the deliveries that take effect before the answer is sent, and return the others."""
    if not requeue:
        raise NotImplementedByBroker("requeue=false")
    deliveries = list(channel.unacked.values())
    at_once = [delivery for delivery in deliveries if delivery.queue.settles_at_once]
    later = [delivery for delivery in deliveries if not delivery.queue.settles_at_once]
    for delivery in at_once:
        del channel.unacked[delivery.tag]
    # A refusal ends the channel, which then still holds the others.
    _requeue_recovered(channel, at_once)
    for delivery in later:
        del channel.unacked[delivery.tag]
    return later


def _requeue_recovered(channel: Channel, deliveries: Sequence[Delivery]) -> None:
    channel.requeue(deliveries, "recovered", is_failure=False)
