"""From a frame to the handler it is meant for: what a connection does with each frame it is given.

Frames of channel 0 belong to the connection, all others to a channel, which the first of them opens. Whatever is out of
place is refused here; what a method does stands in `handlers`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from leveret.core.model.errors import AmqpError, CommandInvalid, NotAllowed
from leveret.core.protocol import handlers, refusals
from leveret.core.protocol.assembler import Command, decode
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.refusals import ChannelError, UnexpectedFrame
from leveret.core.protocol.state import ChannelState
from leveret.core.wire.constants import FRAME_BODY, FRAME_HEARTBEAT, FRAME_METHOD
from leveret.core.wire.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ClientMethod,
)

if TYPE_CHECKING:
    from leveret.core.protocol.connection import Connection

_CONNECTION_CLASS: Final = 10


def on_control_frame(connection: Connection, kind: int, channel_number: int, payload: bytes) -> None:
    """Handle a frame of channel 0, or one that comes before there are channels."""
    refusals.refuse_odd_frame(kind, payload)
    if kind == FRAME_HEARTBEAT:
        if channel_number:
            raise UnexpectedFrame(refusals.described(kind, payload)).at(0)
        return
    if kind != FRAME_METHOD or channel_number:
        raise UnexpectedFrame(refusals.described(kind, payload)).at(0)
    method = _decode_control(connection, payload)
    handle = handlers.CONTROL_HANDLERS.get(type(method))
    if handle is None:
        raise connection.out_of_place().at(method.ID)
    act = partial(handle, connection, method)
    try:
        if connection.faults.method is None or not connection.faults.method(connection, 0, method, None, act):
            act()
    except AmqpError as error:
        raise error if error.method_id is not None else error.at(method.ID) from None


def _decode_control(connection: Connection, payload: bytes) -> ClientMethod:
    try:
        return decode(payload)
    except CommandInvalid as error:
        # What only a server sends is merely out of place on channel 0.
        raise connection.out_of_place().at(error.method_id or 0) from None


def on_channel_frame(connection: Connection, kind: int, channel_number: int, payload: bytes) -> None:
    """Give a frame to its channel. Hot: once per frame of a channel."""
    if kind > FRAME_BODY or kind < FRAME_METHOD or (kind == FRAME_METHOD and len(payload) < 4):
        refusals.refuse_odd_frame(kind, payload)
    channel = connection.channels.get(channel_number)
    if channel is None:
        _open_channel(connection, kind, channel_number, payload)
    elif channel.state is ChannelState.CLOSING:
        _on_closing_channel(connection, channel, kind, payload)
    else:
        command = channel.assembler.feed(kind, payload)
        if command is not None:
            run(connection, channel, command)
        if kind != FRAME_METHOD and connection.node.alarms:
            connection.block_publisher()


def run(connection: Connection, channel: Channel, command: Command) -> None:
    """Run a command. Hot: once per method of a channel."""
    method, content = command
    try:
        goes_wrong = connection.faults.method
        if goes_wrong is not None:
            act = partial(run, connection, channel, command)
            if goes_wrong(connection, channel.number, method, content, act):
                return
        if content is not None:
            assert isinstance(method, BasicPublish)
            handlers.basic.publish(channel, method, content)
            return
        handle = handlers.HANDLERS.get(type(method))
        if handle is None:
            raise CommandInvalid("unimplemented method")
        handle(channel, method)
    except AmqpError as error:
        if error.method_id is None:
            error.method_id = method.ID
        raise


def _open_channel(connection: Connection, kind: int, channel_number: int, payload: bytes) -> None:
    if kind != FRAME_METHOD:
        raise UnexpectedFrame("expected method frame, got non method frame instead").at(0)
    method = decode(payload)
    if len(connection.channels) >= connection.channel_max:
        text = f"number of channels opened ({len(connection.channels)}) has reached the negotiated channel_max "
        raise NotAllowed(f"{text}({connection.channel_max})").at(0)
    connection.node.refuse_another_channel(connection.user)
    if not isinstance(method, ChannelOpen):
        if method.ID >> 16 == _CONNECTION_CLASS:
            raise CommandInvalid("unimplemented method").at(method.ID)
        raise ChannelError("expected 'channel.open'").at(method.ID)
    begin = partial(_begin_channel, connection, channel_number)
    if connection.faults.method is None or not connection.faults.method(
        connection, channel_number, method, None, begin
    ):
        begin()


def _begin_channel(connection: Connection, channel_number: int) -> None:
    channel = connection.channels[channel_number] = Channel(connection, channel_number)
    handlers.channel.opened(channel)


def _on_closing_channel(connection: Connection, channel: Channel, kind: int, payload: bytes) -> None:
    if kind != FRAME_METHOD:
        return
    method_id = int.from_bytes(payload[:4], "big")
    if method_id == ChannelOpen.ID:
        raise ChannelError("second 'channel.open' seen").at(method_id)
    if method_id == ChannelClose.ID:
        channel.send(ChannelCloseOk())
    elif method_id == ChannelCloseOk.ID:
        connection.forget_channel(channel)
