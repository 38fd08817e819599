"""Dispatch of frames: what a connection does with each frame it reads.

A method on an open channel goes straight to its handler. Everything else takes one more step. Frames of channel 0
belong to the connection, the first frame of any other channel opens it, and the frames after a publish are assembled
into its content. A frame that is out of place is refused. `handlers` holds what each method does.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from leveret.core.model.errors import AmqpError, CommandInvalid, InternalRefusal, NotAllowed
from leveret.core.protocol import handlers, refusals
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection
from leveret.core.protocol.receiving.assembler import (
    Content,
    UnknownMethod,
    decode,
    refuse_unknown_method,
    unimplemented,
)
from leveret.core.protocol.refusals import ChannelError, FrameError, UnexpectedFrame
from leveret.core.protocol.state import ChannelState, State
from leveret.core.wire.constants import CLASS_BASIC, FRAME_HEARTBEAT, FRAME_METHOD
from leveret.core.wire.errors import MalformedUtf8, Undecodable, UnknownFieldType
from leveret.core.wire.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    Method,
)

_NOT_OPEN: Final = "expected 'channel.open'"
# A method of RabbitMQ 3.x. The table of methods knows it only by its number.
_BASIC_CREDIT: Final = (CLASS_BASIC << 16) | 200
_ID_SIZE: Final = 4
# How a method of one frame is decoded and handled, by the bytes of its id.
_METHODS: Final = {
    method.ID.to_bytes(_ID_SIZE, "big"): (method.decode, handle) for method, handle in handlers.HANDLERS.items()
}


def on_frame(connection: Connection, kind: int, channel_number: int, payload: bytes) -> None:
    """Handle one frame, and send the peer any refusal. Hot: once per frame."""
    # A connection has channels only while it is open.
    channel = connection.channels.get(channel_number)
    handling = _METHODS.get(payload[:_ID_SIZE])
    method = None
    try:
        if handling is None or kind != FRAME_METHOD or channel is None or channel.state is not ChannelState.OPEN:
            _on_other_frame(connection, channel, kind, channel_number, payload)
        else:
            decode_it, handle = handling
            try:
                method = decode_it(payload)
            except (Undecodable, MalformedUtf8):
                method = decode(payload, connection.node.compat)
            if connection.faults.method is None:
                handle(channel, method)
            else:
                run(connection, channel, method, None)
    except AmqpError as error:
        if error.method_id is None and method is not None:
            error.method_id = method.ID
        connection.refuse(channel_number, error)
    except (UnknownMethod, UnknownFieldType):
        connection.reset()
    if connection.node.work:
        connection.do_work()


def run(connection: Connection, channel: Channel, method: Method, content: Content | None) -> None:
    """Run a publish, or a method that a fault may take over. Hot: once per publish that is not repeated whole."""
    try:
        fault = connection.faults.method
        if fault is not None:
            act = partial(run, connection, channel, method, content)
            if fault(connection, channel.number, method, content, act):
                return
        if content is None:
            handlers.HANDLERS[type(method)](channel, method)
        else:
            assert isinstance(method, BasicPublish)
            handlers.basic.publish(channel, method, content)
    except AmqpError as error:
        if error.method_id is None:
            error.method_id = method.ID
        raise


def _on_other_frame(
    connection: Connection, channel: Channel | None, kind: int, channel_number: int, payload: bytes
) -> None:
    """Handle any frame except a method of one frame on an open channel. Hot: once per frame of a publish."""
    if not channel_number or kind == FRAME_HEARTBEAT or connection.state is not State.OPENED:
        if not connection.state.is_ending or (kind == FRAME_METHOD and not channel_number):
            _on_control_frame(connection, kind, channel_number, payload)
        return
    least_size = refusals.LEAST_SIZES.get(kind)
    if least_size is None or len(payload) < least_size:
        refusals.refuse_unknown_frame(kind, payload)
    if channel is None or channel.state is ChannelState.UNOPENED:
        _on_unopened_channel(connection, channel, kind, channel_number, payload)
    elif channel.state is ChannelState.CLOSING:
        _on_closing_channel(connection, channel, kind, payload)
    else:
        _on_open_channel(connection, channel, kind, payload)
    if kind != FRAME_METHOD and connection.node.alarms:
        connection.block_publisher()


def _on_open_channel(connection: Connection, channel: Channel, kind: int, payload: bytes) -> None:
    """Handle a frame of a publish, and refuse any other method: those that a channel accepts are already handled."""
    try:
        whole = channel.assembler.feed(kind, payload)
    except CommandInvalid as error:
        if error.method_id == _BASIC_CREDIT and channel.node.compat.has_basic_credit:
            from leveret.core.model import unsupported

            raise unsupported.refusal("basic.credit").at(_BASIC_CREDIT) from None
        raise
    if whole is None:
        channel.state = ChannelState.CONTENT
        return
    channel.state = ChannelState.OPEN
    if whole[1] is None:
        raise unimplemented(whole[0].ID)
    run(connection, channel, *whole)


def _on_control_frame(connection: Connection, kind: int, channel_number: int, payload: bytes) -> None:
    """Handle a frame of channel 0, or one that arrives before there are channels."""
    # Before there are channels, RabbitMQ does not look into a frame of one (rabbit_reader, handle_frame/4).
    if not channel_number or connection.state is State.OPENED:
        refusals.refuse_unknown_frame(kind, payload)
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


def _decode_control(connection: Connection, payload: bytes) -> Method:
    try:
        return decode(payload, connection.node.compat)
    except CommandInvalid as error:
        # On channel 0, a method that only a server sends is merely out of place.
        raise connection.out_of_place().at(error.method_id or 0) from None
    except FrameError as error:
        # Here even a refusal of bad UTF-8 names the method (rabbit_reader, handle_method0).
        raise error.at(int.from_bytes(payload[:_ID_SIZE])) from None
    except UnknownFieldType:
        # RabbitMQ's reader crashes and answers itself, once the connection is open (seen on 4.3, 4.0 and 3.10).
        if connection.state is not State.OPENED:
            raise
        raise InternalRefusal() from None


def _on_unopened_channel(
    connection: Connection, channel: Channel | None, kind: int, channel_number: int, payload: bytes
) -> None:
    """Open a channel, and refuse any other method or content once it is whole."""
    if channel is None:
        refuse_unknown_method(kind, payload)
        if len(connection.channels) >= connection.channel_max:
            text = f"number of channels opened ({len(connection.channels)}) has reached the negotiated channel_max "
            raise NotAllowed(f"{text}({connection.channel_max})").at(0)
        connection.node.refuse_another_channel(connection.user)
        channel = Channel(connection, channel_number)
        channel.state = ChannelState.UNOPENED
    try:
        whole = channel.assembler.feed(kind, payload)
    except CommandInvalid as error:
        raise ChannelError(_NOT_OPEN).at(error.method_id or 0) from None
    if whole is None:
        connection.channels[channel_number] = channel
        return
    method = whole[0]
    if not isinstance(method, ChannelOpen):
        # A client may go on with a channel that an error has closed. This error then hides that one.
        for reaction in connection.reactions:
            reaction.sent(method.ID)
        raise ChannelError(_NOT_OPEN).at(method.ID)
    begin = partial(_begin_channel, connection, channel)
    if connection.faults.method is None or not connection.faults.method(
        connection, channel_number, method, None, begin
    ):
        begin()


def _begin_channel(connection: Connection, channel: Channel) -> None:
    for reaction in connection.reactions:
        reaction.opened_channel()
    channel.state = ChannelState.OPEN
    connection.channels[channel.number] = channel
    handlers.channel.opened(channel)


def _on_closing_channel(connection: Connection, channel: Channel, kind: int, payload: bytes) -> None:
    """Ignore whole methods and contents, except those that end the channel."""
    try:
        whole = channel.assembler.feed(kind, payload)
    except CommandInvalid:
        return
    method = None if whole is None else whole[0]
    if method is not None and channel.reaction is not None:
        channel.reaction.sent(method.ID)
    if isinstance(method, ChannelOpen):
        raise ChannelError("second 'channel.open' seen").at(method.ID)
    if isinstance(method, ChannelClose):
        channel.send(ChannelCloseOk())
    elif isinstance(method, ChannelCloseOk):
        connection.forget_channel(channel)
