"""Dispatch of frames: what a connection does with each frame it reads.

A method on an open channel goes straight to its handler. Everything else takes one more step. Frames of channel 0
belong to the connection, the first frame of any other channel opens it, and the frames after a publish are assembled
into its content. A frame that is out of place is refused. `handlers` holds what each method does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from leveret.core.model.errors import AmqpError, CommandInvalid, NotAllowed
from leveret.core.protocol import handlers, refusals
from leveret.core.protocol.assembler import Content, UnknownMethod, decode
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.refusals import ChannelError, UnexpectedFrame
from leveret.core.protocol.state import ChannelState, State
from leveret.core.wire.constants import CLASS_BASIC, FRAME_BODY, FRAME_HEARTBEAT, FRAME_METHOD
from leveret.core.wire.errors import MalformedUtf8, Undecodable, UnknownFieldType
from leveret.core.wire.methods import (
    CLIENT_METHODS,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ClientMethod,
)

if TYPE_CHECKING:
    from leveret.core.protocol.connection import Connection

_CONNECTION_CLASS: Final = 10
# A method of RabbitMQ 3.x. The table of methods knows it only by its number.
_BASIC_CREDIT: Final = (CLASS_BASIC << 16) | 200
_ID_SIZE: Final = 4
# How a method of one frame is decoded and handled, by the bytes of its id.
_METHODS: Final = {
    method_id.to_bytes(_ID_SIZE, "big"): (method.decode, handlers.HANDLERS[method])
    for method_id, method in CLIENT_METHODS.items()
    if method in handlers.HANDLERS
}


def on_frame(connection: Connection, kind: int, channel_number: int, payload: bytes) -> None:
    """Handle one frame, and send the peer any refusal. Hot: once per frame."""
    # A connection has channels only while it is open.
    channel = connection.channels.get(channel_number)
    known = _METHODS.get(payload[:_ID_SIZE])
    method = None
    try:
        if known is None or kind != FRAME_METHOD or channel is None or channel.state is not ChannelState.OPEN:
            _on_other_frame(connection, channel, kind, channel_number, payload)
        else:
            decode_it, handle = known
            method = decode_it(payload)
            if connection.faults.method is None:
                handle(channel, method)
            else:
                run(connection, channel, method, None)
    except AmqpError as error:
        if error.method_id is None and method is not None:
            error.method_id = method.ID
        connection.refuse(channel_number, error)
    except (Undecodable, MalformedUtf8) as error:
        connection.refuse(channel_number, refusals.of_arguments(error, int.from_bytes(payload[:_ID_SIZE])))
    except (UnknownMethod, UnknownFieldType):
        connection.reset()
    if connection.node.work:
        connection.do_work()


def run(connection: Connection, channel: Channel, method: ClientMethod, content: Content | None) -> None:
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
    if kind > FRAME_BODY or kind < FRAME_METHOD or (kind == FRAME_METHOD and len(payload) < _ID_SIZE):
        refusals.refuse_unknown_frame(kind, payload)
    if channel is None:
        _open_channel(connection, kind, channel_number, payload)
    elif channel.state is ChannelState.CONTENT:
        published = channel.assembler.feed(kind, payload)
        if published is not None:
            channel.state = ChannelState.OPEN
            run(connection, channel, *published)
        if connection.node.alarms:
            connection.block_publisher()
    elif channel.state is ChannelState.CLOSING:
        _on_closing_channel(connection, channel, kind, payload)
    else:
        _begin_publish(channel, kind, payload)


def _begin_publish(channel: Channel, kind: int, payload: bytes) -> None:
    """Begin a publish, and refuse any other method: those that a channel accepts are already handled."""
    if kind != FRAME_METHOD:
        raise UnexpectedFrame("expected method frame, got non method frame instead").at(0)
    try:
        method = decode(payload)
    except CommandInvalid as error:
        if error.method_id == _BASIC_CREDIT and channel.node.compat.has_basic_credit:
            from leveret.core.model import unsupported

            raise unsupported.refusal("basic.credit").at(_BASIC_CREDIT) from None
        raise
    if not isinstance(method, BasicPublish):
        raise CommandInvalid("unimplemented method").at(method.ID)
    channel.assembler.begin(method, payload)
    channel.state = ChannelState.CONTENT


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


def _decode_control(connection: Connection, payload: bytes) -> ClientMethod:
    try:
        return decode(payload)
    except CommandInvalid as error:
        # On channel 0, a method that only a server sends is merely out of place.
        raise connection.out_of_place().at(error.method_id or 0) from None


def _open_channel(connection: Connection, kind: int, channel_number: int, payload: bytes) -> None:
    if kind != FRAME_METHOD:
        raise UnexpectedFrame("expected method frame, got non method frame instead").at(0)
    method: ClientMethod | None = None
    try:
        opened = decode(payload)
        method, method_id = opened, opened.ID
    except CommandInvalid as error:
        # A method that only a server sends is out of place before it is out of question.
        method_id = error.method_id or 0
    if len(connection.channels) >= connection.channel_max:
        text = f"number of channels opened ({len(connection.channels)}) has reached the negotiated channel_max "
        raise NotAllowed(f"{text}({connection.channel_max})").at(0)
    connection.node.refuse_another_channel(connection.user)
    if not isinstance(method, ChannelOpen):
        if method_id >> 16 == _CONNECTION_CLASS:
            raise CommandInvalid("unimplemented method").at(method_id)
        raise ChannelError("expected 'channel.open'").at(method_id)
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
