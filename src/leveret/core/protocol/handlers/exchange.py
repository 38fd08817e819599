"""exchange.*: declare, delete, and bindings between exchanges."""

from __future__ import annotations

from leveret.core.model.errors import AccessRefused
from leveret.core.model.exchanges import exchange_type
from leveret.core.protocol.channel import Channel
from leveret.core.wire import methods


def stripped(name: str) -> str:
    """Return a name without CR and LF, as RabbitMQ reads it in declare, delete, bind and unbind."""
    return name.replace("\r", "").replace("\n", "") if "\n" in name or "\r" in name else name


def refuse_default(name: str) -> None:
    """Refuse to change the default exchange."""
    if not name:
        raise AccessRefused("operation not permitted on the default exchange")


def declare(channel: Channel, method: methods.ExchangeDeclare) -> None:
    """Declare an exchange, or check that it matches an existing one."""
    if not method.passive:
        # RabbitMQ checks the type first, even if the exchange exists or the user has no right on it (seen on 4.3).
        exchange_type(method.type, channel.node.compat)
    name = stripped(method.exchange)
    refuse_default(name)
    if method.passive:
        channel.rights.require_any("exchange", name)
        channel.vhost.exchange(name)
    else:
        channel.rights.require("configure", "exchange", name)
        channel.vhost.declare_exchange(
            name,
            method.type,
            durable=method.durable,
            auto_delete=method.auto_delete,
            internal=method.internal,
            arguments=method.arguments,
            rights=channel.rights.require,
            origin=channel.origin,
        )
    if not method.nowait:
        channel.send(methods.ExchangeDeclareOk())


def delete(channel: Channel, method: methods.ExchangeDelete) -> None:
    """Delete an exchange. A missing one is no error."""
    name = stripped(method.exchange)
    refuse_default(name)
    channel.rights.require("configure", "exchange", name)
    channel.vhost.delete_exchange(name, if_unused=method.if_unused, origin=channel.origin)
    if not method.nowait:
        channel.send(methods.ExchangeDeleteOk())


def bind(channel: Channel, method: methods.ExchangeBind) -> None:
    """Bind one exchange to another."""
    source_name, destination_name = stripped(method.source), stripped(method.destination)
    _refuse_without_rights(channel, source_name, destination_name, method.routing_key)
    source = channel.vhost.exchange(source_name)
    destination = channel.vhost.exchange(destination_name)
    channel.vhost.bind(source, destination, method.routing_key, method.arguments, channel.origin)
    if not method.nowait:
        channel.send(methods.ExchangeBindOk())


def unbind(channel: Channel, method: methods.ExchangeUnbind) -> None:
    """Remove a binding between exchanges. If any part is missing, that is no error."""
    source_name, destination_name = stripped(method.source), stripped(method.destination)
    _refuse_without_rights(channel, source_name, destination_name, method.routing_key)
    source = channel.vhost.exchanges.get(source_name)
    destination = channel.vhost.exchanges.get(destination_name)
    if source is not None and destination is not None:
        channel.vhost.unbind(source, destination, method.routing_key, method.arguments, channel.origin)
    if not method.nowait:
        channel.send(methods.ExchangeUnbindOk())


def _refuse_without_rights(channel: Channel, source_name: str, destination_name: str, routing_key: str) -> None:
    refuse_default(destination_name)
    refuse_default(source_name)
    channel.rights.require("write", "exchange", destination_name)
    channel.rights.require("read", "exchange", source_name)
    channel.rights.require_topic("read", source_name, (routing_key,))
