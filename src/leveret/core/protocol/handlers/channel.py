"""channel.* and access.request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.core.model.errors import NotImplementedByBroker
from leveret.core.protocol.refusals import ChannelError
from leveret.core.wire.methods import (
    AccessRequest,
    AccessRequestOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
)
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.protocol.channel import Channel


def opened(channel: Channel) -> None:
    """Announce a channel that the connection has just created."""
    channel.tap(events.CHAN_OPEN)
    channel.send(ChannelOpenOk())


def reopen(channel: Channel, method: ChannelOpen) -> None:
    """Refuse to open a channel twice."""
    raise ChannelError("second 'channel.open' seen")


def flow(channel: Channel, method: ChannelFlow) -> None:
    """Answer a flow that is on. RabbitMQ does not let a client switch it off."""
    if not method.active:
        raise NotImplementedByBroker("active=false")
    channel.send(ChannelFlowOk(True))


def close(channel: Channel, method: ChannelClose) -> None:
    """End the channel for the client."""
    channel.flush_confirms()
    channel.tap(events.CHAN_CLOSE, None)
    channel.connection.forget_channel(channel)
    channel.send(ChannelCloseOk())


def access_request(channel: Channel, method: AccessRequest) -> None:
    """Grant the access that AMQP 0-8 requires. Tickets have no meaning."""
    channel.send(AccessRequestOk(1))
