"""A connection: bytes in, bytes out, and the conversation from the protocol header to the close.

What it is sent comes in by its reader, which `reading.accept` gives it; here is what it is, what it says, and how it
ends.
Sans I/O: the server hands it octets and takes octets, and closes the socket when told. Every error of a client goes
through `refuse`; any other exception is leveret's own, closes the connection with 541 and is kept for the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from leveret.core.model.errors import AmqpError, InternalRefusal
from leveret.core.model.node import Node
from leveret.core.model.vhost import VirtualHost
from leveret.core.protocol import refusals
from leveret.core.protocol.auth import Challenge
from leveret.core.protocol.liveness import DOOM_US, Liveness
from leveret.core.protocol.refusals import ChannelError
from leveret.core.protocol.rights import UserRights
from leveret.core.protocol.state import ChannelState, State
from leveret.core.wire.constants import (
    CHANNEL_MAX,
    FRAME_HEARTBEAT,
)
from leveret.core.wire.frames import BadFrameEnd, Encodable, FrameTooLarge, method_frame, wrap
from leveret.core.wire.methods import (
    ChannelClose,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
)
from leveret.core.wire.values import Table
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.protocol.channel import Channel
    from leveret.core.protocol.repeated_method import RepeatedMethod
    from leveret.core.protocol.repeated_publish import RepeatedPublish

_HANDSHAKE: Final = (State.HEADER, State.START, State.SECURE, State.TUNE)


class Dirty(Protocol):
    """Where a connection with output puts itself."""

    def append(self, connection: Connection, /) -> None:
        """Note that it has something to send."""


class Reader(Protocol):
    """What takes in what the peer sends."""

    def take(self, octets: bytes = b"") -> None:
        """Handle what has arrived, and what had to wait while the connection was not to be read."""

    def limit(self, frame_max: int) -> None:
        """Take frames of at most so many octets of payload from now on."""

    def hold(self, channel_number: int) -> None:
        """Handle nothing more of a channel until `release`."""

    def release(self, channel_number: int, act: Callable[[], None]) -> None:
        """Do what a fault has delayed, and then handle what waited behind it."""


class ByteFilter(Protocol):
    """What faults put between the bytes of a peer and its connection."""

    def received(self, octets: bytes, /) -> bytes:
        """What of it the broker hears now."""

    def to_send(self, chunks: list[bytes], /) -> list[bytes]:
        """What of it the peer hears now."""


class Connection:
    """One peer's conversation with the node."""

    # False for the peers that a test plays itself.
    is_client = True
    # Whether what it holds is under way: not what lies in the test's own hands.
    is_waited_for = True
    # Set where a peer is accepted. A connection that the test plays itself is sent nothing and has none.
    reader: Reader

    def __init__(
        self,
        node: Node,
        *,
        number: int,
        peer: tuple[str, int],
        local: tuple[str, int],
        dirty: Dirty,
    ) -> None:
        self.node = node
        # Its ordinal in this broker, from 1.
        self.number = number
        self.peer = peer
        self.local = local
        self.state = State.HEADER
        self.opened_at: int | None = None
        # The line of the user's code that waited for it to open, if anybody knows.
        self.opener: str | None = None
        self.client_properties = Table.EMPTY
        # Offered to this client, in this order.
        self.mechanisms = node.mechanisms
        self.mechanism = ""
        # Whom the client's certificate names, where it came through TLS with one.
        self.certificate_name: str | None = None
        self.is_secure = False
        self.challenge: Challenge | None = None
        self.user = ""
        # The vhost once connection.open has named it; until then the default one stands in.
        self.vhost: VirtualHost = node.vhosts.get("/") or next(iter(node.vhosts.values()))
        self.channels: dict[int, Channel] = {}
        # Octets of payload a frame may have, either way.
        self.frame_max = node.compat.min_frame_max
        self.channel_max = CHANNEL_MAX
        self.heartbeat_s = 0
        self.can_be_told_of_cancels = False
        self.can_be_told_of_blocking = False
        self.is_told_of_login_failure = False
        # What the server has to do: close the socket once all is sent, only its own side of it, or reset it; stop
        # reading meanwhile.
        self.is_closed = False
        self.is_half_closed = False
        self.is_reset = False
        self.is_reading_paused = False
        self.is_dirty = False
        # Channels that owe confirms at the end of this batch of input.
        self.confirming: dict[Channel, None] = {}
        # What the last publish came to, once it was repeated.
        self.repeated_publish: RepeatedPublish | None = None
        # The method of the last publish, once it was repeated.
        self.repeated_method: RepeatedMethod | None = None
        self.faults = node.hooks.faults
        # None while no fault concerns the bytes of this connection.
        self.byte_filter: ByteFilter | None = None
        self._dirty = dirty
        self._out: list[bytes] = []
        self._is_lost = False
        self._is_blocked = False
        self._liveness = Liveness(node, on_dead=self._reset, on_beat=self._beat)
        self.rights = UserRights("", self.vhost)

    @property
    def vhost_name(self) -> str:
        """The name of its virtual host."""
        return self.vhost.name

    @property
    def client_name(self) -> str:
        """What the client calls the connection, else its product, else where it comes from."""
        return self.named_by(self.client_properties)

    def named_by(self, client_properties: Table) -> str:
        """The name these properties give it."""
        for name in ("connection_name", "product"):
            field = client_properties.get(name)
            if field is not None and isinstance(field.value, bytes):
                return field.value.decode("utf-8", "replace")
        return f"{self.peer[0]}:{self.peer[1]}"

    @property
    def address_name(self) -> str:
        """What RabbitMQ calls it: both ends."""
        return f"{self.peer[0]}:{self.peer[1]} -> {self.local[0]}:{self.local[1]}"

    @property
    def channel_count(self) -> int:
        """How many channels are open."""
        return len(self.channels)

    def secured_by(self, certificate_name: str | None, *, asks_for_certificate: bool) -> None:
        """The client has come through TLS; where certificates are asked for, one may stand for a login."""
        self.certificate_name, self.is_secure = certificate_name, True
        if asks_for_certificate:
            self.mechanisms = (*self.mechanisms, "EXTERNAL")

    def receive_data(self, octets: bytes) -> None:
        """Take what the peer has sent; never raises for it. Hot: once per read."""
        if self.byte_filter is not None:
            octets = self.byte_filter.received(octets)
            if not octets:
                return
        self.take_octets(octets)

    def take_octets(self, octets: bytes) -> None:
        """Take what has come through. Hot: once per read."""
        self._liveness.received_at = self.node.wall_now
        try:
            self.reader.take(octets)
        except Exception as error:
            self.fail(error)

    def data_to_send(self) -> list[bytes]:
        """Take what has to be sent, in order."""
        self.is_dirty = False
        out, self._out = self._out, []
        if out:
            self._liveness.has_sent = True
        return out if self.byte_filter is None else self.byte_filter.to_send(out)

    @property
    def output_count(self) -> int:
        """How many pieces of output wait to be taken."""
        return len(self._out)

    @property
    def output_bytes(self) -> int:
        """How many octets of output wait to be taken."""
        return sum(map(len, self._out))

    def forget_output(self, first: int) -> None:
        """Send nothing of what was queued since there were `first` pieces: a fault has swallowed it."""
        del self._out[first:]

    def send(self, octets: bytes) -> None:
        """Queue octets for the peer. Hot: once per method."""
        self._out.append(octets)
        if not self.is_dirty:
            self.is_dirty = True
            self._dirty.append(self)

    def send_pieces(self, pieces: Iterable[bytes]) -> None:
        """Queue octets that lie in pieces: all output is joined at once. Hot: once per delivery."""
        self._out += pieces
        if not self.is_dirty:
            self.is_dirty = True
            self._dirty.append(self)

    def half_close(self) -> None:
        """Have the server end its side of the socket behind what waits to be sent, and listen on."""
        if not self.is_half_closed:
            self.is_half_closed = True
            self.mark_dirty()

    def mark_dirty(self) -> None:
        """Have the server look at this connection at the end of its turn."""
        if not self.is_dirty:
            self.is_dirty = True
            self._dirty.append(self)

    def send_control(self, method: Encodable) -> None:
        """Send a method on channel 0."""
        self._send_method(0, method)

    def _send_method(self, channel_number: int, method: Encodable) -> None:
        octets = method_frame(channel_number, method)
        reply = self.faults.reply
        if reply is None or not reply(self, channel_number, method, octets, None):
            self.send(octets)

    def fail(self, error: BaseException) -> None:
        """Keep an error of leveret's own for the test, and close with what RabbitMQ sends when it crashes."""
        self.node.internal_errors.append(error)
        if self.state in _HANDSHAKE:
            self.doom()
        elif self.state is not State.ENDING:
            self.close(InternalRefusal())

    def connection_lost(self) -> None:
        """The socket is gone; what the connection held goes back. May be called more than once."""
        if self._is_lost:
            return
        self._is_lost = True
        was_open = self.number in self.node.connections
        self._end("connection lost" if was_open and self.state is State.OPENED else None)
        self.state = State.ENDING
        self.is_closed = True
        self._liveness.stop()
        self.node.run_work()

    def out_of_place(self) -> ChannelError:
        """The refusal of a method that does not belong into this state of the conversation."""
        return ChannelError(f"unexpected method in connection state {self.state.value}")

    def hold(self, channel_number: int) -> None:
        """Handle nothing more of a channel until `release`: what was sent later may not overtake what is delayed."""
        self.reader.hold(channel_number)

    def release(self, channel_number: int, act: Callable[[], None]) -> None:
        """Do what a fault has delayed, and then handle what waited behind it."""
        if self.state in (State.CLOSING, State.ENDING):
            return
        try:
            self.reader.release(channel_number, act)
        except Exception as error:
            self.fail(error)

    def silence(self, *, is_silent: bool) -> None:
        """Listen for heartbeats no more, or again: a fault lets nothing through."""
        self._liveness.is_paused = is_silent
        self._liveness.received_at = self.node.wall_now

    def forget_channel(self, channel: Channel) -> None:
        """The channel has ended on both sides: what it still held goes back, and its number is free."""
        self.channels.pop(channel.number, None)
        channel.drop_consumers()
        channel.requeue_all()
        channel.state = ChannelState.CLOSED

    def block_publisher(self) -> None:
        """Read nothing more from a connection that publishes under an alarm, and tell a client that can be told."""
        # RabbitMQ stops reading a publisher's socket behind the first frame of a content under an alarm: a message
        # without a body is whole by then, and so is one whose last body frame it is (rabbit_reader, maybe_block).
        if self.state is not State.OPENED:
            return
        self.is_reading_paused = self._is_blocked = self._liveness.is_paused = True
        self.mark_dirty()
        if self.can_be_told_of_blocking:
            self.send_control(ConnectionBlocked(self.node.alarm_reason()))

    def block(self, reason: str) -> None:
        """An alarm is on: nothing happens until this connection publishes."""

    def unblock(self) -> None:
        """The last alarm has gone: go on reading."""
        if not self._is_blocked:
            return
        self.is_reading_paused = self._is_blocked = self._liveness.is_paused = False
        self._liveness.received_at = self.node.wall_now
        if self.can_be_told_of_blocking:
            self.send_control(ConnectionUnblocked())
        self.mark_dirty()
        try:
            self.reader.take()
        except Exception as error:
            self.fail(error)

    def refuse(self, channel_number: int, error: AmqpError) -> None:
        """Tell the peer that it did wrong: a soft error ends the channel, a hard one the connection."""
        self.tap_refusal(channel_number, error)
        if self.state in _HANDSHAKE:
            self.doom()
        elif error.is_hard or channel_number == 0:
            self.close(error)
        elif refusals.breaks_encoder(error, self.node.compat):
            self.close(InternalRefusal())
        else:
            channel = self.channels.get(channel_number)
            if channel is not None and channel.state is not ChannelState.CLOSING:
                channel.refuse(error)

    def close(self, error: AmqpError) -> None:
        """Send connection.close and wait for close-ok, at most as long as RabbitMQ does."""
        if self.state in (State.CLOSING, State.ENDING):
            return
        # A close ends a blocking too: the answer has to be read.
        self.is_reading_paused = self._is_blocked = self._liveness.is_paused = False
        self._end(error.reply_text)
        self.state = State.CLOSING
        self.send_control(ConnectionClose(*refusals.close_fields(error, self.node.compat)))
        self._liveness.limit_close()

    def shut_down(self, error: AmqpError) -> None:
        """Send connection.close and let the socket go without waiting."""
        if self.state is State.OPENED:
            self.close(error)
        self._reset()

    def send_channel_close(self, channel_number: int, error: AmqpError) -> None:
        """Send channel.close for an error."""
        self._send_method(channel_number, ChannelClose(*refusals.close_fields(error, self.node.compat)))

    def doom(self) -> None:
        """Look at nothing more, and reset the socket three seconds later: RabbitMQ's answer to a bad handshake."""
        self.state = State.ENDING
        self._end(None)
        self._liveness.limit(DOOM_US)

    def opened(self) -> None:
        """The handshake is over."""
        self.state = State.OPENED
        self.opened_at = self.node.now
        self._liveness.unlimit()
        self.rights = UserRights(self.user, self.vhost)
        self.node.connections[self.number] = self
        peer = f"{self.peer[0]}:{self.peer[1]}"
        self.opener = self._witnessed()
        self._tap(events.CONN_OPEN, peer, self.user, self.client_name)

    def closed_by_peer(self) -> None:
        """The client has closed the conversation; it closes the socket, or a limit does."""
        self._end(None)
        self.state = State.ENDING
        self._liveness.limit_close()

    def reset(self) -> None:
        """Have the socket reset at once."""
        self._reset()

    def _beat(self) -> None:
        self.send(wrap(FRAME_HEARTBEAT, 0, b""))

    def _reset(self) -> None:
        self._end("connection reset")
        self.state = State.ENDING
        self.is_reset = True
        self.mark_dirty()

    def _end(self, reason: str | None) -> None:
        """Give back what the connection holds. First all consumers, so that nothing comes back to a dying channel."""
        if self.node.connections.pop(self.number, None) is None:
            return
        self._tap(events.CONN_CLOSE, reason)
        channels, self.channels = list(self.channels.values()), {}
        for channel in channels:
            channel.drop_waiting_consumers()
        for channel in channels:
            channel.flush_confirms()
            channel.drop_consumers()
        for channel in channels:
            channel.requeue_all()
            channel.state = ChannelState.CLOSED
        self.confirming = {}
        self.vhost.connection_ended(self)
        self.node.run_work()

    def refuse_frame(self, error: FrameTooLarge | BadFrameEnd) -> None:
        """Tell the peer that it sent no frame; nothing that follows can be understood."""
        if self.state in _HANDSHAKE:
            self.doom()
            return
        self.close(refusals.of_frame(error, self.frame_max))
        self.state = State.ENDING
        self._liveness.limit(DOOM_US)

    def tune(self, *, frame_max: int, channel_max: int, heartbeat_s: int) -> None:
        """Take what was negotiated."""
        self.frame_max = frame_max
        self.reader.limit(frame_max)
        self.channel_max = channel_max
        self.heartbeat_s = heartbeat_s
        self._liveness.start_heartbeats(heartbeat_s)

    def _tap(self, kind: str, *fields: object) -> None:
        tap = self.node.hooks.tap
        if tap is not None:
            tap((kind, self.node.now, self.vhost.name, self.number, None, *fields))

    def tap_refusal(self, channel_number: int, error: AmqpError) -> None:
        """Record what the client did wrong, and whose line it was as far as the witness knows."""
        tap = self.node.hooks.tap
        if tap is not None and self.state not in (State.CLOSING, State.ENDING):
            where = (self.vhost.name, self.number, channel_number or None)
            told = (self.client_name, error.code, error.reply_text, self._witnessed(), self.opener)
            tap((events.REFUSED, self.node.now, *where, *told))

    def _witnessed(self) -> str | None:
        witness = self.node.hooks.witness
        return None if witness is None else witness()
