"""The responder of a test on a real server: a consumer of the test's own that answers requests.

It takes one request at a time, on a channel of the test's own connection, and answers on a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leveret.core.protocol import handlers
from leveret.core.wire import methods as amqp
from leveret.core.wire.frames import method_frame
from leveret.core.wire.values import Table
from leveret.errors import BrokerError
from leveret.observe.views.message_view import MessageView, entry_view
from leveret.scripted.own_connection import OwnConnection
from leveret.scripted.own_publisher import encoded
from leveret.scripted.responder import Reply, Responder, Script, error_reply, reply_of
from leveret.server import native
from leveret.trace import events
from pytest_leveret.real.mirror import MirroredChannel, Sighting
from pytest_leveret.real.proxy import deliver

if TYPE_CHECKING:
    from pytest_leveret.real.commands import Command
    from pytest_leveret.real.engine import RealEngine
    from pytest_leveret.real.own import OwnLine

_CONSUMER: Final = "leveret"


class RealResponder(Responder):
    """A consumer on a real server that answers requests."""

    _engine: RealEngine

    def __init__(self, engine: RealEngine, line: OwnLine, queue: str, script: Script, delay_s: float) -> None:
        """Consume from the queue, and declare it as durable if it is missing."""
        self.queue = queue
        self._engine = engine
        self._line = line
        self._script = script
        self._delay_s = delay_s
        self._requests: list[MessageView] = []
        if queue not in line.vhost.queues:
            line.do(amqp.QueueDeclare(queue, False, True, False, False, False, Table.EMPTY))
        with engine.lock:
            self._peer = OwnConnection(engine.node, line.vhost, is_waited_for=True)
            self._mirrored = MirroredChannel(self._peer, 1, engine.mirror)
            self._peer.channels[1] = self._mirrored
            self._mirrored.prefetch_count = 1
            handlers.basic.consume(self._mirrored, self._consume())
        self._number = line.listen(self._on_request)
        requests = (amqp.BasicQos(0, 1, False), self._consume())
        line.ask(self._number, b"".join(method_frame(self._number, method) for method in requests), count=2)

    def _consume(self) -> amqp.BasicConsume:
        return amqp.BasicConsume(self.queue, _CONSUMER, False, False, False, False, Table.EMPTY)

    def remove(self) -> None:
        """Stop answering. Removing it twice is fine."""
        if self._line.stop_listening(self._number):
            with self._engine.lock:
                self._peer.end(None)

    def _on_request(self, command: Command) -> None:
        method, consumer = command.method, self._mirrored.consumers.get(_CONSUMER)
        if not isinstance(method, amqp.BasicDeliver) or consumer is None:
            return
        content = Sighting(method.exchange, method.routing_key, command.properties, command.body, method.redelivered)
        queue, tag = consumer.queue, method.delivery_tag
        entry = self._engine.mirror.leave(queue, content)
        deliver(self._mirrored, tag, queue, entry, consumer, no_ack=False)
        # The message as it was delivered: the server may have given it another reply_to.
        request = entry_view(entry, queue, content.message(entry.message.id), consumer_tag=_CONSUMER)
        self._requests.append(request)
        native.start_new_thread(self._reply, (tag, request, self._script.next()))

    def _reply(self, tag: int, request: MessageView, answer: object) -> None:
        """Answer a request. This runs on a thread of its own."""
        errors = self._engine.script_errors
        try:
            is_function = callable(answer) and not isinstance(answer, type)
            reply = reply_of(answer(request) if is_function else answer)  # type: ignore[operator]
        except BaseException as error:
            errors.append(error)
            reply = error_reply(error)
        native.pause(self._delay_s)
        try:
            self._settle_request(tag, request, reply)
        except (BrokerError, TypeError, ValueError) as error:
            errors.append(error)

    def _settle_request(self, tag: int, request: MessageView, reply: Reply | None) -> None:
        if reply is not None and request.reply_to is not None:
            values = dict(reply.properties)
            if request.correlation_id is not None:
                values.setdefault("correlation_id", request.correlation_id)
            octets = encoded("respond()", "", request.reply_to, reply.body, values)
            self._line.publish("", request.reply_to, reply.body, octets, is_mandatory=True)
        is_last = self._script.left == 0
        ack = amqp.BasicAck(tag, False)
        last = [method_frame(self._number, amqp.BasicCancel(_CONSUMER, True))] if is_last else []
        with self._engine.lock:
            delivery = self._mirrored.unacked.pop(tag, None)
            if delivery is None:
                return
            self._engine.mirror.settle(self._mirrored, events.ACKED, [delivery], ack, way="ack")
            self._line.upstream.send(b"".join([*last, method_frame(self._number, ack)]))
            if is_last:
                self._peer.end(None)
        self._engine.loop.wake()
