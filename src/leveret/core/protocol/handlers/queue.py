"""queue.*: declare, delete, purge, and bindings of queues."""

from __future__ import annotations

from leveret.core.model import reply_to
from leveret.core.model.binding import binding_key
from leveret.core.model.errors import AccessRefused, InternalRefusal, NotFound
from leveret.core.model.queues.queue_declaration import QueueDeclaration
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.handlers.exchange import refuse_default, stripped
from leveret.core.wire import methods


def named(channel: Channel, name: str) -> str:
    """Return a queue's name. An empty name stands for the last queue declared on this channel."""
    if name:
        return name
    if channel.last_queue_name is None:
        raise NotFound("no previously declared queue")
    return channel.last_queue_name


def leads_to_reply_queue(channel: Channel, name: str) -> bool:
    """Return whether a name leads to a requester, in versions where that is a queue."""
    replies = channel.node.reply_queues
    return channel.node.compat.reply_names_are_queues and replies.find(name, channel.vhost) is not None


def declare(channel: Channel, method: methods.QueueDeclare) -> None:
    """Declare a queue, or check that it matches an existing one."""
    name = stripped(method.queue)
    if name == reply_to.NAME or name.startswith(reply_to.PREFIX):
        _declare_reply_to(channel, name, method)
        return
    queue = _existing(channel, name) if method.passive else _declared(channel, name, method)
    channel.last_queue_name = queue.name
    if not method.nowait:
        channel.send(methods.QueueDeclareOk(queue.name, len(queue.ready), queue.declared_consumer_count))


def _existing(channel: Channel, name: str) -> StoredQueue:
    channel.rights.require_any("queue", name)
    queue = channel.vhost.queue(name, channel.connection)
    queue.on_declared()
    return queue


def _declared(channel: Channel, name: str, method: methods.QueueDeclare) -> StoredQueue:
    if name.startswith("amq."):
        raise AccessRefused(f"queue name '{name}' contains reserved prefix 'amq.*'")
    if not name:
        name = channel.node.new_name("amq.gen-") if _may_be_named(channel, method) else ""
    channel.rights.require("configure", "queue", name)
    return channel.vhost.declare_queue(
        name,
        durable=method.durable,
        exclusive=method.exclusive,
        auto_delete=method.auto_delete,
        arguments=method.arguments,
        connection=channel.connection,
        rights=channel.rights.require,
        origin=channel.origin,
    )


def _may_be_named(channel: Channel, method: methods.QueueDeclare) -> bool:
    """Return whether the queue's type allows a server-named queue. Such a queue is refused under its empty name."""
    wanted = QueueDeclaration("", method.durable, method.exclusive, method.auto_delete, method.arguments)
    return wanted.type_in(channel.vhost) == "classic"


def _declare_reply_to(channel: Channel, name: str, method: methods.QueueDeclare) -> None:
    """Answer whether a requester is still connected. The bare name always exists."""
    if name != reply_to.NAME:
        replies = channel.node.reply_queues
        queue = replies.find(name, channel.vhost)
        if queue is None and replies.cannot_decode(name):
            raise InternalRefusal()
        # A channel of RabbitMQ cannot ask itself, for any key and also once it has cancelled.
        is_own = bool(channel.reply_process) and name.startswith(channel.reply_process)
        if is_own and channel.node.compat.crashes_on_own_reply_to:
            raise InternalRefusal()
        if queue is None or queue.target is None or is_own:
            raise channel.vhost.missing("queue", name)
    channel.last_queue_name = name
    if not method.nowait:
        channel.send(methods.QueueDeclareOk(name, 0, 1))


def bind(channel: Channel, method: methods.QueueBind) -> None:
    """Bind a queue to an exchange."""
    exchange_name = stripped(method.exchange)
    queue_name, routing_key = _binding_names(channel, method.queue, method.routing_key)
    _refuse_without_rights(channel, queue_name, exchange_name, routing_key)
    exchange = channel.vhost.exchange(exchange_name)
    queue = channel.vhost.queue(queue_name)
    # This check comes before the one for another connection's exclusive queue (seen on 4.3).
    exchange.check_binding(queue, routing_key, method.arguments, channel.node.compat)
    queue.refuse_others(channel.connection)
    channel.vhost.bind(exchange, queue, routing_key, method.arguments, channel.origin)
    if not method.nowait:
        channel.send(methods.QueueBindOk())


def unbind(channel: Channel, method: methods.QueueUnbind) -> None:
    """Remove a binding. If any part is missing, that is no error."""
    exchange_name = stripped(method.exchange)
    queue_name, routing_key = _binding_names(channel, method.queue, method.routing_key)
    _refuse_without_rights(channel, queue_name, exchange_name, routing_key)
    exchange = channel.vhost.exchanges.get(exchange_name)
    queue = channel.vhost.queues.get(queue_name)
    if exchange is not None and queue is not None:
        # Another connection's exclusive queue is locked only for an existing binding.
        if binding_key(queue, routing_key, method.arguments) in exchange.bindings:
            queue.refuse_others(channel.connection)
        channel.vhost.unbind(exchange, queue, routing_key, method.arguments, channel.origin)
    channel.send(methods.QueueUnbindOk())


def _binding_names(channel: Channel, queue_name: str, routing_key: str) -> tuple[str, str]:
    """Return queue and key of a binding. If both are empty, both are the last declared queue's name."""
    name = named(channel, queue_name)
    return stripped(name), routing_key if queue_name or routing_key else name


def _refuse_without_rights(channel: Channel, queue_name: str, exchange_name: str, routing_key: str) -> None:
    if queue_name.startswith(reply_to.PREFIX) and channel.node.compat.reply_names_are_queues:
        raise AccessRefused("cannot bind or unbind to a volatile (direct reply-to) queue")
    refuse_default(exchange_name)
    channel.rights.require("write", "queue", queue_name)
    channel.rights.require("read", "exchange", exchange_name)
    channel.rights.require_topic("read", exchange_name, (routing_key,))


def purge(channel: Channel, method: methods.QueuePurge) -> None:
    """Drop the ready messages of a queue."""
    name = named(channel, method.queue)
    channel.rights.require("read", "queue", name)
    count = 0 if leads_to_reply_queue(channel, name) else channel.vhost.queue(name, channel.connection).purge()
    if not method.nowait:
        channel.send(methods.QueuePurgeOk(count))


def delete(channel: Channel, method: methods.QueueDelete) -> None:
    """Delete a queue. A missing one is no error."""
    name = stripped(named(channel, method.queue))
    channel.rights.require("configure", "queue", name)
    count = channel.vhost.delete_queue(
        name,
        if_unused=method.if_unused,
        if_empty=method.if_empty,
        connection=channel.connection,
        origin=channel.origin,
    )
    if not method.nowait:
        channel.send(methods.QueueDeleteOk(count))
