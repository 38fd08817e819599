"""channel.* and access.request."""

from __future__ import annotations

from leveret.core.model.errors import NotImplementedByBroker
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.refusals import ChannelError
from leveret.core.wire import methods
from leveret.trace import events


def opened(channel: Channel) -> None:
    """Announce a channel that the connection has just created."""
    channel.tap(events.CHAN_OPEN)
    channel.send(methods.ChannelOpenOk())


def reopen(channel: Channel, method: methods.ChannelOpen) -> None:
    """Refuse to open a channel twice."""
    raise ChannelError("second 'channel.open' seen")


def flow(channel: Channel, method: methods.ChannelFlow) -> None:
    """Answer a flow that is on. RabbitMQ does not let a client switch it off."""
    if not method.active:
        raise NotImplementedByBroker("active=false")
    channel.send(methods.ChannelFlowOk(True))


def close(channel: Channel, method: methods.ChannelClose) -> None:
    """End the channel for the client."""
    channel.flush_confirms()
    channel.tap(events.CHAN_CLOSE, None)
    channel.connection.forget_channel(channel)
    channel.send(methods.ChannelCloseOk())


def access_request(channel: Channel, method: methods.AccessRequest) -> None:
    """Grant the access that AMQP 0-8 requires. Tickets have no meaning."""
    channel.send(methods.AccessRequestOk(1))
