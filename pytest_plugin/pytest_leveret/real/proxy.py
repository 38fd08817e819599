"""A connection of a client to a real server, through leveret's own sockets.

The client's side is a `Connection` of leveret's, so faults on its bytes, views and reports work as always. What either
side says is passed on and noted: the mirror gets what the server has agreed to. Virtual hosts and users have names of
their own on the server, which are replaced on the way.

A `channel.flow` that the proxy asks for itself shows when the server has handled all that a channel had sent.
"""

from __future__ import annotations

import _socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from leveret.core.model.errors import AmqpError
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.queue import Queue
from leveret.core.model.reply_to import NAME as REPLY_TO
from leveret.core.protocol import handlers
from leveret.core.protocol.auth import MECHANISMS, Credentials
from leveret.core.protocol.confirms import Confirms
from leveret.core.protocol.connection import Connection, Dirty
from leveret.core.protocol.delivery import Delivery
from leveret.core.protocol.receiving import assembler
from leveret.core.protocol.state import State
from leveret.core.wire import methods as amqp
from leveret.core.wire.commands import Command, CommandReader, with_method
from leveret.core.wire.errors import WireError
from leveret.core.wire.frames import method_frame
from leveret.errors import BrokerError
from leveret.trace import events
from pytest_leveret.real.mirror import MirroredChannel, Sighting

if TYPE_CHECKING:
    from leveret.core.model.message import QueueEntry
    from leveret.core.model.node import Node
    from leveret.core.model.queues.stored_queue import StoredQueue
    from pytest_leveret.real.mirror import Mirror, Publish
    from pytest_leveret.real.server import ServerNames

_PROTOCOL_HEADER_SIZE: Final = 8
_NAMES: Final = frozenset(kind.NAME for kind in amqp.METHODS.values())


class Upstream:
    """The server's side of a proxied connection: a conversation of the loop."""

    is_reset = False
    is_reading_paused = False
    is_closed = False

    def __init__(self, dirty: Dirty, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self.receive_data = on_data
        self.connection_lost = on_end
        self.is_half_closed = False
        # The server's name for the connection.
        self.line_name = ""
        self._out: list[bytes] = []
        self._dirty = dirty

    def meet(self, socket: _socket.socket) -> None:
        """Take the server's addresses from its socket."""
        near, far = socket.getsockname(), socket.getpeername()
        self.line_name = f"{near[0]}:{near[1]} -> {far[0]}:{far[1]}"

    def send(self, octets: bytes) -> None:
        """Send bytes to the server."""
        self._out.append(octets)
        self._dirty.append(self)  # type: ignore[arg-type]

    def data_to_send(self) -> list[bytes]:
        """Return what is to be sent, and forget it."""
        out, self._out = self._out, []
        return out

    def end(self) -> None:
        """Send nothing more. The server then closes the socket."""
        self.is_half_closed = True
        self._dirty.append(self)  # type: ignore[arg-type]


class Side:
    """What a proxied connection remembers of a channel, beside leveret's `Channel`."""

    def __init__(self, channel: MirroredChannel) -> None:
        self.channel = channel
        # Requests that the server has not answered.
        self.requests: deque[amqp.Method] = deque()
        self.unconfirmed: dict[int, Publish] = {}
        # Those of the proxy and those of the client, True for the proxy's.
        self.flows: deque[bool] = deque()
        # Whether the channel still takes methods.
        self.is_open = True


class ProxiedConnection(Connection):
    """A client's connection to a real server."""

    def __init__(
        self,
        node: Node,
        *,
        number: int,
        peer: tuple[str, int],
        local: tuple[str, int],
        dirty: Dirty,
        mirror: Mirror,
        names: ServerNames,
    ) -> None:
        super().__init__(node, number=number, peer=peer, local=local, dirty=dirty)
        # The server watches the client, and the client the server.
        self._liveness.stop()
        self.upstream = Upstream(dirty, self.receive_from_server, self.server_left)
        self._mirror = mirror
        self._names = names
        self._sides: dict[int, Side] = {}
        self._header = b""
        self._from_client = CommandReader()
        self._from_server = CommandReader()
        self._is_upstream_blocked = False

    # What the client sends.

    def take_octets(self, octets: bytes) -> None:
        """Pass on what the client has sent."""
        if len(self._header) < _PROTOCOL_HEADER_SIZE:
            missing = _PROTOCOL_HEADER_SIZE - len(self._header)
            self._header += octets[:missing]
            self.upstream.send(octets[:missing])
            octets = octets[missing:]
        try:
            for command in self._from_client.feed(octets):
                self._pass_to_server(command)
        except WireError:
            self.upstream.send(octets)
        except Exception as error:
            self.fail(error)

    def _pass_to_server(self, command: Command) -> None:
        fault = self.faults.method
        if fault is None or command.method is None:
            self._tell_server(command)
            return
        is_publish = isinstance(command.method, amqp.BasicPublish)
        content = assembler.Content(command.properties, command.body, b"") if is_publish else None
        act = partial(self._tell_server, command)
        if not fault(self, command.channel_number, command.method, content, act):
            act()

    def _tell_server(self, command: Command) -> None:
        method = command.method
        match method:
            case amqp.ConnectionStartOk():
                self.upstream.send(method_frame(0, self._logged_in(method)))
                return
            case amqp.ConnectionTuneOk():
                self.frame_max = method.frame_max or 2**31
            case amqp.ConnectionOpen():
                own = self._names.own_vhost(method.virtual_host)
                self.vhost = self.node.vhosts.get(own, self.vhost)
                self.upstream.send(method_frame(0, amqp.ConnectionOpen(self._names.vhost(own))))
                return
            case amqp.ConnectionClose():
                for side in self._sides.values():
                    side.is_open = False
        self.upstream.send(command.frames)
        if command.channel_number in self._sides and method is not None:
            self._note(self._sides[command.channel_number], method, command)

    def _logged_in(self, method: amqp.ConnectionStartOk) -> amqp.ConnectionStartOk:
        self.client_properties = method.client_properties
        read = MECHANISMS.get(method.mechanism)
        answer = None if read is None else read(method.response)
        if not isinstance(answer, Credentials):
            return method
        self.user = answer.user
        user, password = self._names.login(answer.user, answer.password)
        response = f"\0{user}\0{password}".encode()
        return amqp.ConnectionStartOk(method.client_properties, "PLAIN", response, method.locale)

    def _note(self, side: Side, method: amqp.Method, command: Command) -> None:
        """Note what a client asks for on an open channel."""
        channel, mirror = side.channel, self._mirror
        match method:
            case amqp.BasicPublish():
                self._note_publish(side, method, command)
            case amqp.BasicAck():
                self._settle(side, events.ACKED, method, method.multiple, "ack")
            case amqp.BasicNack():
                self._settle(side, events.NACKED, method, method.multiple, "requeue" if method.requeue else "discard")
            case amqp.BasicReject():
                self._settle(side, events.REJECTED, method, False, "requeue" if method.requeue else "discard")
            case amqp.BasicRecoverAsync():
                self._recover(side)
            case amqp.ChannelFlow():
                side.flows.append(False)
            case amqp.ChannelClose():
                side.is_open = False
            case amqp.ChannelCloseOk():
                mirror.node.run_work()
                del self._sides[channel.number]
            case _ if f"{method.NAME}-ok" in _NAMES:
                if getattr(method, "nowait", False):
                    self._agree(side, method, None)
                else:
                    side.requests.append(method)

    def _note_publish(self, side: Side, method: amqp.BasicPublish, command: Command) -> None:
        confirms, tag = side.channel.confirms, None
        if confirms is not None:
            confirms.last_sequence = tag = confirms.last_sequence + 1
        content = Sighting(method.exchange, method.routing_key, command.properties, command.body)
        line = (self.upstream.line_name, side.channel.number)
        fields = (*side.channel.origin, tag)
        publish = self._mirror.published(line, self.vhost, content, fields, is_mandatory=method.mandatory)
        if tag is not None:
            side.unconfirmed[tag] = publish

    def _settle(self, side: Side, kind: str, method: amqp.Method, multiple: bool, way: str) -> None:
        try:
            deliveries = side.channel.pop_unacked(method.delivery_tag, multiple=multiple)  # type: ignore[attr-defined]
        except AmqpError:
            # The server refuses it too.
            return
        self._mirror.settle(side.channel, kind, deliveries, method, way=way)

    def _recover(self, side: Side) -> None:
        deliveries = list(side.channel.unacked.values())
        side.channel.unacked.clear()
        for delivery in deliveries:
            self._mirror.let_go(delivery)
            self._mirror.requeue(delivery, "recovered")

    # What the server sends.

    def receive_from_server(self, octets: bytes) -> None:
        """Pass on what the server has sent."""
        try:
            for command in self._from_server.feed(octets):
                self._pass_to_client(command)
        except WireError:
            self.send(octets)
        except Exception as error:
            self.fail(error)

    def _pass_to_client(self, command: Command) -> None:
        side, method = self._sides.get(command.channel_number), command.method
        if command.channel_number == 0 or method is None:
            self._on_control(command)
        elif isinstance(method, amqp.ChannelOpenOk):
            self._sides[command.channel_number] = self._open_channel(command.channel_number)
            self._reply(command)
        elif side is None or self._on_channel(side, method, command):
            self._reply(command)

    def _reply(self, command: Command) -> None:
        fault = self.faults.reply
        if fault is None or not fault(self, command.channel_number, command.method, command.frames, None):
            self.send(command.frames)

    def _on_control(self, command: Command) -> None:
        method = command.method
        if isinstance(method, amqp.ConnectionClose):
            text = self._names.own_text(method.reply_text)
            self._tap_refusal(None, method.reply_code, text)
            self._end(text)
            self.state = State.CLOSING
            renamed = amqp.ConnectionClose(method.reply_code, text, method.class_id, method.method_id)
            command = command._replace(method=renamed, frames=method_frame(0, renamed))
        self._reply(command)
        match method:
            case amqp.ConnectionOpenOk():
                self.opened()
            case amqp.ConnectionCloseOk():
                self._end(None)
                self.state = State.CLOSED
            case amqp.ConnectionBlocked():
                self._is_upstream_blocked = True
            case amqp.ConnectionUnblocked():
                self._is_upstream_blocked = False

    def _open_channel(self, number: int) -> Side:
        channel = MirroredChannel(self, number, self._mirror)
        self.channels[number] = channel
        channel.tap(events.CHAN_OPEN)
        return Side(channel)

    def _on_channel(self, side: Side, method: amqp.Method, command: Command) -> bool:
        """Note what the server says on an open channel. Return whether the client is still to get it."""
        channel = side.channel
        match method:
            case amqp.ChannelFlowOk():
                return not (side.flows and side.flows.popleft())
            case amqp.ChannelClose():
                text = self._names.own_text(method.reply_text)
                self._tap_refusal(channel.number, method.reply_code, text)
                self._close_channel(side, text)
                renamed = amqp.ChannelClose(method.reply_code, text, method.class_id, method.method_id)
                self._reply(command._replace(method=renamed, frames=method_frame(channel.number, renamed)))
                return False
            case amqp.ChannelCloseOk():
                self._close_channel(side, None)
                del self._sides[channel.number]
            case amqp.BasicDeliver() | amqp.BasicGetOk():
                return self._on_delivery(side, method, command)
            case amqp.BasicReturn():
                self._on_return(side, method, command)
            case amqp.BasicAck() | amqp.BasicNack():
                self._on_confirm(side, method)
            case amqp.BasicCancel():
                consumer = channel.consumers.get(method.consumer_tag)
                if consumer is not None:
                    channel.cancelled(consumer, "queue deleted")
                    consumer.queue.remove_consumer(consumer)
            case _ if method.NAME.endswith(("-ok", "-empty")) and side.requests:
                self._agree(side, side.requests.popleft(), method)
        return True

    def _close_channel(self, side: Side, reason: str | None) -> None:
        side.is_open = False
        side.flows.clear()
        side.channel.tap(events.CHAN_CLOSE, reason)
        if side.channel.number in self.channels:
            self.forget_channel(side.channel)

    def _on_delivery(self, side: Side, method: amqp.BasicDeliver | amqp.BasicGetOk, command: Command) -> bool:
        channel, consumer, no_ack = side.channel, None, False
        content = Sighting(method.exchange, method.routing_key, command.properties, command.body, method.redelivered)
        if isinstance(method, amqp.BasicDeliver):
            consumer = channel.consumers.get(method.consumer_tag)
            if consumer is None:
                self._on_reply(side, method.consumer_tag, method.delivery_tag, content)
                return True
            queue, no_ack = consumer.queue, consumer.no_ack
        else:
            get = side.requests.popleft() if side.requests else None
            named = channel.queue(get.queue) if isinstance(get, amqp.BasicGet) else None
            if named is None or not isinstance(get, amqp.BasicGet):
                return True
            queue, no_ack = named, get.no_ack
        entry = self._mirror.leave(queue, content)
        if method.redelivered and not entry.redelivered:
            # Only the test itself has looked at it.
            method.redelivered = False
            command = command._replace(frames=with_method(command, method))
        if consumer is not None and self.faults.deliver is not None and self.faults.deliver(channel, consumer, entry):
            return False
        deliver(channel, method.delivery_tag, queue, entry, consumer, no_ack=no_ack)
        self._reply(command)
        return False

    def _on_reply(self, side: Side, consumer_tag: str, tag: int, content: Sighting) -> None:
        """Record a direct reply."""
        if side.channel.reply_queue is not None and consumer_tag == side.channel.reply_consumer_tag:
            entry = self._mirror.replied(self.vhost, content)
            where = (content.routing_key, entry.message, entry.copy)
            side.channel.tap(events.DELIVERED, *where, consumer_tag, tag, False, 0)
            side.channel.tap(events.ACKED, *where, tag, False, None, "no_ack")

    def _on_return(self, side: Side, method: amqp.BasicReturn, command: Command) -> None:
        content = Sighting(method.exchange, method.routing_key, command.properties, command.body)
        message = self._mirror.returned((self.upstream.line_name, side.channel.number), content)
        if message is not None:
            side.channel.tap(events.RETURNED, message, method.reply_text)

    def _on_confirm(self, side: Side, method: amqp.BasicAck | amqp.BasicNack) -> None:
        tag = method.delivery_tag
        settled = [number for number in side.unconfirmed if number == tag or (method.multiple and number <= tag)]
        kind = events.CONFIRMED if isinstance(method, amqp.BasicAck) else events.NACKED_CONFIRM
        for number in settled:
            side.channel.tap(kind, side.unconfirmed.pop(number).accept(), number, method.multiple)

    # What the server has agreed to.

    def _agree(self, side: Side, request: amqp.Method, answer: amqp.Method | None) -> None:
        try:
            agree(side.channel, request, answer)
        except AmqpError as error:
            text = f"{request.NAME}: the server accepts what leveret refuses: {error.reply_text}"
            self.node.internal_errors.append(BrokerError(text))
        if isinstance(request, amqp.BasicRecover):
            self._recover(side)
        self.node.run_work()

    # The barrier.

    def ask_flow(self) -> None:
        """Ask the server on each channel to answer once it has handled what came before."""
        if self._is_upstream_blocked or self.state is not State.OPENED:
            return
        for number, side in self._sides.items():
            if side.is_open and not self._from_client.is_amid(number):
                side.flows.append(True)
                self.upstream.send(method_frame(number, amqp.ChannelFlow(True)))

    @property
    def is_asking(self) -> bool:
        """Whether the server still owes an answer to `ask_flow`."""
        return self.state is State.OPENED and any(True in side.flows for side in self._sides.values())

    # How it ends.

    def connection_lost(self) -> None:
        """Leave the server, because the client has gone."""
        super().connection_lost()
        self.upstream.end()

    def server_left(self) -> None:
        """Close the client's socket, because the server has closed its own."""
        self._end("connection lost" if self.state is State.OPENED else None)
        self.state = State.ENDING
        self.is_closed = True
        self.mark_dirty()

    def _tap_refusal(self, channel_number: int | None, code: int, text: str) -> None:
        tap = self.node.hooks.tap
        if tap is not None:
            where = (self.vhost.name, self.number, channel_number)
            fields = (self.client_name, code, text, self._waiting_line(), self.opener, None, None)
            tap((events.REFUSED, self.node.now, *where, *fields))


def agree(channel: MirroredChannel, request: amqp.Method, answer: amqp.Method | None) -> None:
    """Do to the mirror what the server has done."""
    match request:
        case amqp.ConfirmSelect():
            channel.confirms = channel.confirms or Confirms()
        case amqp.BasicQos():
            channel.prefetch_count = request.prefetch_count
            channel.tap(events.QOS, request.prefetch_count, request.global_, request.global_)
        case amqp.BasicConsume() if request.queue == REPLY_TO or channel.queue(request.queue) is not None:
            if isinstance(answer, amqp.BasicConsumeOk):
                request.consumer_tag = answer.consumer_tag
            handlers.basic.consume(channel, request)
        case amqp.BasicCancel():
            handlers.basic.cancel(channel, request)
        case amqp.QueueDeclare():
            channel.last_queue_name = name = answer.queue if isinstance(answer, amqp.QueueDeclareOk) else request.queue
            if not (request.passive or name.startswith(REPLY_TO)):
                channel.vhost.declare_queue(
                    name,
                    durable=request.durable,
                    exclusive=request.exclusive,
                    auto_delete=request.auto_delete,
                    arguments=request.arguments,
                    connection=channel.connection,
                    origin=channel.origin,
                )
                channel.mirror.hold_queues()
        case amqp.QueueDelete() if (queue_to_delete := channel.queue(request.queue)) is not None:
            channel.vhost.remove_queue(queue_to_delete, None, channel.origin)
        case amqp.QueuePurge() | amqp.QueueBind() | amqp.QueueUnbind() if channel.queue(request.queue) is not None:
            handlers.HANDLERS[type(request)](channel, request)
        case amqp.ExchangeDeclare() if not request.passive:
            handlers.exchange.declare(channel, request)
        case amqp.ExchangeDelete() | amqp.ExchangeBind() | amqp.ExchangeUnbind():
            handlers.HANDLERS[type(request)](channel, request)


def deliver(
    channel: MirroredChannel,
    tag: int,
    queue: StoredQueue,
    entry: QueueEntry,
    consumer: Consumer | None,
    *,
    no_ack: bool,
) -> None:
    """Do to the mirror what a delivery of the server does."""
    channel.last_tag = tag
    message, count = entry.message, entry.acquired_count
    if consumer is None:
        channel.tap(events.GOT, queue.name, message, entry.copy, tag, entry.redelivered, count)
    else:
        where = (queue.name, message, entry.copy, consumer.tag, tag)
        channel.tap(events.DELIVERED, *where, entry.redelivered, count)
    if no_ack:
        channel.tap(events.ACKED, queue.name, message, entry.copy, tag, False, None, "no_ack")
        return
    channel.unacked[tag] = Delivery(tag, entry, queue, consumer, channel.node.now)
    if isinstance(queue, Queue):
        queue.unacked[entry.copy] = entry
    if consumer is not None:
        consumer.unacked_count += 1
