"""A connection: bytes in, bytes out, and the conversation from the protocol header to the close.

Its reader, which `reading.accept` sets, handles what the peer sends. This module holds what a connection is, what it
sends, and how it ends. It does no I/O: the server passes bytes in and takes bytes out, and closes the socket if the
connection asks for it. Every error of a client goes through `refuse`. Any other exception is leveret's own: it closes
the connection with 541 and is kept in `Node.internal_errors`, which `Broker.check` and the plugin raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from leveret.core.compat import EXTERNAL
from leveret.core.model.errors import AmqpError, InternalRefusal, Shutdown
from leveret.core.model.node import Node
from leveret.core.model.vhost import VirtualHost
from leveret.core.protocol import refusals
from leveret.core.protocol.liveness import RESET_DELAY_US, Liveness
from leveret.core.protocol.refusals import ChannelError
from leveret.core.protocol.rights import UserRights
from leveret.core.protocol.state import ChannelState, State
from leveret.core.wire.constants import (
    CHANNEL_MAX,
    FRAME_HEARTBEAT,
)
from leveret.core.wire.frames import BadFrameEnd, FrameTooLarge, method_frame, wrap
from leveret.core.wire.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReject,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    Method,
)
from leveret.core.wire.values import Table
from leveret.trace import events
from leveret.trace.caller import Caller

if TYPE_CHECKING:
    from leveret.core.model.queues.consumer import Consumer
    from leveret.core.protocol.channel import Channel
    from leveret.core.protocol.confirms import Confirms
    from leveret.core.protocol.reaction import Reaction
    from leveret.core.protocol.shortcuts.repeated_method import RepeatedMethod
    from leveret.core.protocol.shortcuts.repeated_publish import RepeatedPublish

_BEAT: Final = [wrap(FRAME_HEARTBEAT, 0, b"")]
# The methods that settle a delivery. They have no reply either.
_SETTLING: Final = (BasicAck.ID, BasicNack.ID, BasicReject.ID)
_HANDSHAKE: Final = (State.HEADER, State.START, State.TUNE)


class Dirty(Protocol):
    """The list to which a connection with output adds itself."""

    def append(self, connection: Connection, /) -> None:
        """Add a connection that has something to send."""


class Reader(Protocol):
    """The reader of what the peer sends."""

    def receive(self, octets: bytes = b"") -> None:
        """Handle what has arrived, and what was left while reading was paused."""

    def limit(self, frame_max: int) -> None:
        """Accept payloads of at most `frame_max` bytes from now on."""

    def hold(self, channel_number: int) -> None:
        """Keep the frames of a channel until `release`."""

    def release(self, channel_number: int, act: Callable[[], None]) -> None:
        """Do what a fault has delayed, then handle the frames that waited behind it."""


class ByteFilter(Protocol):
    """A filter that faults put between a peer's bytes and its connection."""

    def received(self, octets: bytes, /) -> None:
        """Take what the peer has sent, and pass to `take_octets` what the broker gets now."""

    def to_send(self, chunks: list[bytes], /) -> list[bytes]:
        """Take what the broker sends, and return the bytes that the peer gets now."""

    def connection_lost(self) -> None:
        """Forget all bytes, because the socket is gone."""


class Connection:
    """One peer's conversation with the node."""

    # False for the peers that a test plays itself.
    is_client = True
    # Whether its unacknowledged deliveries keep the broker from being idle. False for what the test itself holds.
    is_waited_for = True
    # Set by `reading.accept`. A connection that the test plays itself receives nothing and has no reader.
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
        # The line of the user's code that waited for it to open, if known.
        self.opener: Caller | None = None
        self.client_properties = Table.EMPTY
        self.mechanism = ""
        # The names in the client's certificate, by `ssl_cert_login_from`, if it connected through TLS with one.
        self.certificate_names: Mapping[str, str] = {}
        self.is_secure = False
        self.user = ""
        # The default vhost until connection.open has named one.
        self.vhost: VirtualHost = node.vhosts.get("/") or next(iter(node.vhosts.values()))
        self.channels: dict[int, Channel] = {}
        # The largest payload of a frame, in bytes, in both directions.
        self.frame_max = node.compat.min_frame_max
        self.channel_max = CHANNEL_MAX
        self.heartbeat_s = 0
        self.supports_cancel_notify = False
        self.supports_blocked = False
        self.supports_login_close = False
        # Requests to the server: close the socket once everything is sent, close only its own side, or reset it; and
        # stop reading meanwhile.
        self.is_closed = False
        self.is_half_closed = False
        self.is_reset = False
        self.is_reading_paused = False
        # Whether the work that one of its frames has caused is left over. What comes next waits for it, so that the
        # peer sees the same as if there were no turns.
        self.is_behind = False
        self.is_dirty = False
        # Channels that owe confirms at the end of this batch of input.
        self.confirming: dict[Channel, Confirms] = {}
        # The result of the last publish, once the publish has been repeated.
        self.repeated_publish: RepeatedPublish | None = None
        # The method of the last publish, once it has been repeated.
        self.repeated_method: RepeatedMethod | None = None
        # What the client does after errors of publishes.
        self.reactions: list[Reaction] = []
        self.faults = node.hooks.faults
        # None while no fault affects the bytes of this connection.
        self.byte_filter: ByteFilter | None = None
        self._dirty = dirty
        self._out: list[bytes] = []
        self._is_lost = False
        # Whether an alarm stops it.
        self.is_blocked = False
        # Whether a fault lets no heartbeats through.
        self._is_silent = False
        self._liveness = Liveness(node, on_dead=partial(self.reset, "missed heartbeats"), on_beat=self.beat)
        self.rights = UserRights("", self.vhost)

    @property
    def vhost_name(self) -> str:
        """The name of the virtual host."""
        return self.vhost.name

    @property
    def client_name(self) -> str:
        """The client's name for the connection, else its product, else its address."""
        return self.named_by(self.client_properties)

    def named_by(self, client_properties: Table) -> str:
        """Return the name that these client properties give the connection."""
        for name in ("connection_name", "product"):
            field = client_properties.get(name)
            if field is not None and isinstance(field.value, bytes):
                return field.value.decode("utf-8", "replace")
        return f"{self.peer[0]}:{self.peer[1]}"

    @property
    def address_name(self) -> str:
        """RabbitMQ's name for the connection: the addresses of both ends."""
        return f"{self.peer[0]}:{self.peer[1]} -> {self.local[0]}:{self.local[1]}"

    @property
    def channel_count(self) -> int:
        """The number of open channels."""
        return len(self.channels)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """What is offered to this client, in this order. RabbitMQ offers EXTERNAL without a certificate too."""
        offered = self.node.mechanisms
        return offered if self.is_secure else tuple(name for name in offered if name != EXTERNAL)

    def secured_by(self, names: Mapping[str, str]) -> None:
        """Note that the client has connected through TLS, and the names in its certificate."""
        self.certificate_names, self.is_secure = names, True

    def note_stranger(self, first: bytes, *, is_on_tls_port: bool = False) -> None:
        """Remember a peer whose first bytes show that it speaks another protocol, and the line that waits for it."""
        # Imported here because almost no test needs it.
        from leveret.core.protocol.receiving.strangers import stranger_of

        stranger = stranger_of(first, is_on_tls_port=is_on_tls_port)
        if stranger is not None:
            self.node.strangers[stranger] = self._waiting_line()

    def receive_data(self, octets: bytes) -> None:
        """Handle what the peer has sent. Never raises for it. Hot: once per read."""
        if self.byte_filter is None:
            self.take_octets(octets)
        else:
            self.byte_filter.received(octets)

    def take_octets(self, octets: bytes) -> None:
        """Handle what a byte filter has let through. Hot: once per read."""
        self._liveness.has_received = True
        try:
            self.reader.receive(octets)
        except Exception as error:
            self.fail(error)

    def data_to_send(self) -> list[bytes]:
        """Return what is to be sent, in order, and forget it."""
        self.is_dirty = False
        out, self._out = self._out, []
        if out and out != _BEAT:
            self._liveness.has_sent = True
        return out if self.byte_filter is None else self.byte_filter.to_send(out)

    @property
    def output_count(self) -> int:
        """The number of pieces of output that wait to be sent."""
        return len(self._out)

    @property
    def output_bytes(self) -> int:
        """The number of bytes of output that wait to be sent."""
        return sum(map(len, self._out))

    def forget_output(self, first: int) -> None:
        """Drop the output that was queued since there were `first` pieces, because a fault has swallowed it."""
        del self._out[first:]

    def send(self, octets: bytes) -> None:
        """Queue bytes for the peer. Hot: once per method."""
        self._out.append(octets)
        if not self.is_dirty:
            self.is_dirty = True
            self._dirty.append(self)

    def send_pieces(self, pieces: Iterable[bytes]) -> None:
        """Queue bytes in pieces; all output is joined when it is sent. Hot: once per delivery."""
        self._out += pieces
        if not self.is_dirty:
            self.is_dirty = True
            self._dirty.append(self)

    def beat(self) -> None:
        """Send a heartbeat, which may come at any time, if the client has agreed to them."""
        if self.heartbeat_s:
            self.send(_BEAT[0])

    def half_close(self) -> None:
        """Ask the server to close its side of the socket after what waits to be sent, and to keep reading."""
        if not self.is_half_closed:
            self.is_half_closed = True
            self.mark_dirty()

    def mark_dirty(self) -> None:
        """Ask the server to look at this connection at the end of its turn."""
        if not self.is_dirty:
            self.is_dirty = True
            self._dirty.append(self)

    def send_control(self, method: Method) -> None:
        """Send a method on channel 0."""
        octets = method_frame(0, method)
        reply = self.faults.reply
        if reply is None or not reply(self, 0, method, octets, None):
            self.send(octets)

    def fail(self, error: BaseException) -> None:
        """Keep an error of leveret's own for the test, and send the close that RabbitMQ sends when it crashes."""
        self.node.internal_errors.append(error)
        if self.state in _HANDSHAKE:
            self.reset_later()
        elif not self.state.is_over:
            self.close(InternalRefusal())

    def connection_lost(self) -> None:
        """Requeue what the connection held, because its socket is gone. May be called more than once."""
        if self._is_lost:
            return
        self._is_lost = True
        if self.byte_filter is not None:
            self.byte_filter.connection_lost()
        if self.is_behind:
            # What the peer had sent before it left counts.
            self.node.finish_work()
        was_open = self.number in self.node.connections
        self._end("connection lost" if was_open and self.state is State.OPENED else None)
        self.state = State.ENDING
        self.is_closed = True
        self._liveness.stop()
        self.node.run_work()

    def out_of_place(self) -> ChannelError:
        """Return the refusal of a method that does not belong in this state of the conversation."""
        return ChannelError(f"unexpected method in connection state {self.state.value}")

    def hold(self, channel_number: int) -> None:
        """Keep the frames of a channel until `release`, so that nothing overtakes what is delayed."""
        self.reader.hold(channel_number)

    def release(self, channel_number: int, act: Callable[[], None]) -> None:
        """Do what a fault has delayed, then handle the frames that waited behind it."""
        if self.state.is_ending:
            return
        try:
            self.reader.release(channel_number, act)
        except Exception as error:
            self.fail(error)

    def silence(self, *, is_silent: bool) -> None:
        """Stop checking for heartbeats while a fault lets nothing through, or check again."""
        self._is_silent = is_silent
        self._liveness.is_paused = is_silent or self.is_blocked
        self._liveness.has_received = True

    def forget_channel(self, channel: Channel) -> None:
        """Forget a channel that has ended on both sides: requeue what it still held, and free its number."""
        self.channels.pop(channel.number, None)
        channel.drop_consumers()
        channel.requeue_all(is_clean=True)
        channel.state = ChannelState.CLOSED

    def block_publisher(self) -> None:
        """Stop reading a connection that publishes under an alarm, and notify the client if it supports that."""
        # Under an alarm, RabbitMQ stops reading a publisher's socket after the first frame of a content. A message
        # without a body is whole by then, and so is one whose last body frame it is (rabbit_reader, maybe_block).
        if self.state is not State.OPENED:
            return
        self.is_reading_paused = self.is_blocked = self._liveness.is_paused = True
        self.mark_dirty()
        if self.supports_blocked:
            self.send_control(ConnectionBlocked(self.node.alarm_reason()))

    def do_work(self) -> None:
        """Do the work that a frame has caused. If a turn is too short for it, read on once it is done."""
        if not self.node.run_work(self._caught_up):
            self.is_behind = self.is_reading_paused = True
            self.mark_dirty()

    def _caught_up(self) -> None:
        self.is_behind = False
        self.is_reading_paused = self.is_blocked
        self.mark_dirty()
        if not self.state.is_over:
            self._read_on()

    def _read_on(self) -> None:
        """Handle what had arrived while reading was paused."""
        try:
            self.reader.receive()
        except Exception as error:
            self.fail(error)

    def unblock(self) -> None:
        """Resume reading, because the last alarm has ended."""
        if not self.is_blocked:
            return
        self.is_blocked = False
        self.is_reading_paused = self.is_behind
        self._liveness.is_paused = self._is_silent
        self._liveness.has_received = True
        if self.supports_blocked:
            self.send_control(ConnectionUnblocked())
        self.mark_dirty()
        self._read_on()

    def refuse(self, channel_number: int, error: AmqpError) -> None:
        """Report an error to the peer. A soft error ends the channel, a hard one the connection."""
        self.tap_refusal(channel_number, error)
        if self.state in _HANDSHAKE:
            self.reset_later()
        elif error.is_hard or channel_number == 0:
            self.close(error)
        elif refusals.breaks_encoder(error, self.node.compat):
            # What fails is the channel here, and in `close` the connection itself.
            self.close(InternalRefusal())
        else:
            channel = self.channels.get(channel_number)
            if channel is not None and channel.state is not ChannelState.CLOSING:
                is_publish = error.method_id == BasicPublish.ID and channel.confirms is None
                if is_publish or error.method_id in _SETTLING:
                    self._watch(channel, error)
                channel.refuse(error)

    def _watch(self, channel: Channel, error: AmqpError) -> None:
        """Watch how the client reacts to the error of a publish or an ack, which it does not wait for."""
        insight = self.node.hooks.insight
        if insight is not None:
            # Imported here because most tests need none.
            from leveret.core.protocol.reaction import Reaction

            channel.reaction = Reaction(insight(self._product, channel.number, error.reply_text))
            self.reactions.append(channel.reaction)
            self.node.reactions[self.number, channel.number, self.node.now] = channel.reaction

    def ignores_returns(self, channel_number: int) -> bool:
        """Return whether the client is known to drop what is returned to a channel."""
        insight = self.node.hooks.insight
        return insight is not None and insight(self._product, channel_number, "NO_ROUTE").ignores_returns

    @property
    def _product(self) -> object:
        return self.client_properties.to_python().get("product")

    def close(self, error: AmqpError) -> None:
        """Send connection.close and wait for close-ok, at most as long as RabbitMQ does; reset if it cannot be sent."""
        if self.state.is_ending:
            return
        if refusals.breaks_encoder(error, self.node.compat):
            self.reset()
            return
        # A close ends blocking too, because the answer must be read.
        self.is_blocked = False
        self.is_reading_paused = self.is_behind
        self._liveness.is_paused = self._is_silent
        self._end(error.reply_text, is_shutdown=isinstance(error, Shutdown))
        self.state = State.CLOSING
        self.send_control(ConnectionClose(*refusals.close_fields(error, self.node.compat)))
        self._liveness.limit_close()

    def shut_down(self, error: AmqpError) -> None:
        """Send connection.close and reset the socket without waiting."""
        if self.state is State.OPENED:
            self.close(error)
        self.reset()

    def reset_later(self) -> None:
        """Ignore further input, and reset the socket three seconds later. RabbitMQ reacts so to a bad handshake."""
        self.state = State.ENDING
        self._end(None)
        self._liveness.limit(RESET_DELAY_US)

    def opened(self) -> None:
        """Complete the handshake."""
        self.state = State.OPENED
        self.opened_at = self.node.now
        self._liveness.unlimit()
        self.rights = UserRights(self.user, self.vhost)
        self.node.connections[self.number] = self
        peer = f"{self.peer[0]}:{self.peer[1]}"
        self.opener = self._waiting_line()
        self._tap(events.CONN_OPEN, peer, self.user, self.client_name, self.opener)

    def closed_by_peer(self) -> None:
        """End the conversation, which the client has closed. The client closes the socket, or a time limit does."""
        self._end(None)
        self.state = State.CLOSED
        self._liveness.limit_close()

    def reset(self, reason: str = "connection reset") -> None:
        """Ask the server to reset the socket at once."""
        self._end(reason)
        self.state = State.ENDING
        self.is_reset = True
        self.mark_dirty()

    def _end(self, reason: str | None, *, is_shutdown: bool = False) -> None:
        """Requeue what the connection holds.

        All consumers go first, so that nothing comes back to a channel that is ending.
        """
        if self.node.connections.pop(self.number, None) is None:
            return
        for reaction in self.reactions:
            reaction.ended()
        self._tap(events.CONN_CLOSE, reason, is_shutdown or None)
        channels, self.channels = list(self.channels.values()), {}
        for channel in channels:
            channel.drop_waiting_consumers()
        for channel in channels:
            channel.flush_confirms()
            lost = list(channel.consumers.values())
            channel.drop_consumers()
            # Without a reason, the client itself has closed the connection.
            if reason is not None and self.is_client:
                self._note_loss(lost)
        for channel in channels:
            channel.requeue_all(is_clean=reason is None)
            channel.state = ChannelState.CLOSED
        self.confirming = {}
        self.vhost.connection_ended(self)
        self.node.run_work()

    def _note_loss(self, consumers: Iterable[Consumer]) -> None:
        client = (self.client_name or "a client", self.number)
        for consumer in consumers:
            queue = consumer.queue
            if not queue.consumers:
                queue.lost_client = client
                if self.node.hooks.insight is not None and (
                    queue.exclusive_owner is self or queue.auto_delete or not queue.durable
                ):
                    self.vhost.lost_consumers[consumer.tag] = client

    def refuse_frame(self, error: FrameTooLarge | BadFrameEnd) -> None:
        """Refuse input that is no frame. Nothing that follows it can be understood."""
        if self.state in _HANDSHAKE:
            self.reset_later()
            return
        self.close(refusals.of_frame(error, self.frame_max))
        self.state = State.ENDING
        self._liveness.limit(RESET_DELAY_US)

    def tune(self, *, frame_max: int, channel_max: int, heartbeat_s: int) -> None:
        """Apply the negotiated limits."""
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
        """Record what the client did wrong, and the line of code that did it if the witness knows it."""
        tap = self.node.hooks.tap
        if tap is not None and not self.state.is_ending:
            where = (self.vhost.name, self.number, channel_number or None)
            lines = (self._waiting_line(), self.opener)
            fields = (self.client_name, error.code, error.reply_text, *lines, error.cause, error.subject)
            tap((events.REFUSED, self.node.now, *where, *fields))

    def _waiting_line(self) -> Caller | None:
        witness = self.node.hooks.witness
        return None if witness is None else witness()
