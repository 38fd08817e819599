"""Reading of what a peer sends: it cuts the stream into pieces in order, and passes each on.

Shortcuts come first and take what they recognise by its bytes. The rest goes frame by frame, through `FrameReader` and
`dispatch`. A channel may be held, so that nothing overtakes what a fault has delayed on it. Every refusal of what a
client sent goes through `Connection.refuse`. Any other exception is leveret's own error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leveret.core.model.errors import AmqpError
from leveret.core.model.node import Node
from leveret.core.protocol import handlers
from leveret.core.protocol.connection import Connection, Dirty
from leveret.core.protocol.receiving import dispatch
from leveret.core.protocol.shortcuts import single_acks
from leveret.core.protocol.state import ChannelState, State
from leveret.core.wire.constants import FRAME_HEADER_SIZE, PROTOCOL_HEADER
from leveret.core.wire.frames import BadFrameEnd, Frame, FrameReader, FrameTooLarge
from leveret.core.wire.methods import BasicAck, BasicPublish

# Host and port.
Address = tuple[str, int]

_METHOD_AT: Final = FRAME_HEADER_SIZE + 4
_PUBLISH: Final = BasicPublish.ID.to_bytes(4, "big")
_ACK: Final = BasicAck.ID.to_bytes(4, "big")


def accept(node: Node, *, number: int, peer: Address, local: Address, dirty: Dirty) -> Connection:
    """Return the connection of a peer that has just connected, ready for its first bytes.

    `number` is the connection's ordinal in its broker, `peer` and `local` are the two ends. The connection adds itself
    to `dirty` whenever it has something to send.
    """
    connection = Connection(node, number=number, peer=peer, local=local, dirty=dirty)
    connection.reader = ConnectionInput(connection)
    if connection.faults.accept is not None:
        connection.faults.accept(connection)
    return connection


class ConnectionInput:
    """The input of one connection."""

    __slots__ = ("_connection", "_header", "_held", "_reader")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._header = b""
        self._reader = FrameReader(connection.frame_max)
        # Frames that wait behind what a fault has delayed, by channel.
        self._held: dict[int, list[Frame]] = {}

    def limit(self, frame_max: int) -> None:
        """Accept payloads of at most `frame_max` bytes from now on."""
        self._reader.frame_max = frame_max

    def receive(self, octets: bytes = b"") -> None:
        """Handle what has arrived, and what was left while reading was paused."""
        # Hot: once per read, and once per frame that no shortcut takes.
        connection, reader = self._connection, self._reader
        if connection.state is State.HEADER:
            octets = self._take_protocol_header(octets)
        if octets:
            reader.feed(octets)
        end = len(reader.octets)
        while reader.at < end and not connection.is_reading_paused:
            at = reader.at
            if not (connection.faults.is_armed or self._held):
                method_id = reader.octets[at + FRAME_HEADER_SIZE : at + _METHOD_AT]
                if method_id == _PUBLISH:
                    repeat = connection.repeated_publish
                    if repeat is not None and repeat.take_from(reader):
                        continue
                    if self._publish_whole():
                        if connection.state is State.ENDING:
                            break
                        continue
                elif method_id == _ACK and single_acks.take_from(reader, connection):
                    continue
            try:
                frame = reader.next()
            except (FrameTooLarge, BadFrameEnd) as error:
                connection.refuse_frame(error)
                return
            if frame is None:
                break
            if self._held:
                self._handle_unless_held(frame)
            else:
                dispatch.on_frame(connection, *frame)
            if connection.state is State.ENDING:
                break
        if connection.confirming and not connection.is_behind:
            self._send_confirms()

    def _take_protocol_header(self, octets: bytes) -> bytes:
        """Handle the protocol header, and return the bytes behind it."""
        self._header += octets
        if len(self._header) < len(PROTOCOL_HEADER):
            return b""
        connection = self._connection
        header, rest = self._header[:8], self._header[8:]
        offer = handlers.connection.protocol_offer(header, connection.node.compat)
        if offer is not None:
            connection.note_stranger(header)
            connection.send(offer)
            connection.reset()
            return b""
        connection.state = State.START
        handlers.connection.start(connection)
        return rest

    def _publish_whole(self) -> bool:
        """Handle the next publish if it has arrived in one piece and has a known method. Return whether it has."""
        connection = self._connection
        shortcut = connection.repeated_method
        published = None if shortcut is None else shortcut.take_from(self._reader)
        if shortcut is None or published is None:
            return False
        try:
            dispatch.run(connection, shortcut.channel, *published)
        except AmqpError as error:
            connection.refuse(shortcut.channel.number, error)
        if connection.node.work:
            connection.do_work()
        return True

    def _send_confirms(self) -> None:
        for channel, confirms in self._connection.confirming.items():
            if channel.state not in (ChannelState.CLOSING, ChannelState.CLOSED):
                channel.confirm(confirms.pop_answers())
        self._connection.confirming = {}

    def _handle_unless_held(self, frame: Frame) -> None:
        waiting = self._held.get(frame[1])
        if waiting is None:
            dispatch.on_frame(self._connection, *frame)
        else:
            waiting.append(frame)

    def hold(self, channel_number: int) -> None:
        """Keep the frames of a channel until `release`, so that nothing overtakes what is delayed."""
        self._held[channel_number] = []

    def release(self, channel_number: int, act: Callable[[], None]) -> None:
        """Do what a fault has delayed, then handle the frames that waited behind it."""
        frames, connection = self._held.pop(channel_number, []), self._connection
        # These frames are handled in this turn, and so is what they cause.
        connection.node.finish_work()
        try:
            act()
        except AmqpError as error:
            connection.refuse(channel_number, error)
        for frame in frames:
            if connection.state is State.ENDING:
                break
            self._handle_unless_held(frame)
        self._send_confirms()
