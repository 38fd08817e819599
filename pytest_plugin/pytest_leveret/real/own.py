"""The connection of the test itself to a virtual host of a real server.

It acts for the test, reads the firehose, and asks the server what its queues hold. It runs on the loop of the proxy;
the test's thread waits for the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from leveret.core.model.queues.queue import Queue
from leveret.core.protocol.delivery import with_content
from leveret.core.wire import methods as amqp
from leveret.core.wire.commands import Command, CommandReader
from leveret.core.wire.constants import PROTOCOL_HEADER
from leveret.core.wire.frames import method_frame
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Table
from leveret.errors import BrokerError, RefusedError
from leveret.scripted.own_publisher import tap_as_test
from leveret.server import native
from leveret.trace import events
from pytest_leveret.real.mirror import Sighting, decoded
from pytest_leveret.real.proxy import Upstream

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.core.model.vhost import VirtualHost
    from leveret.core.protocol.connection import Dirty
    from leveret.server.loop import Loop
    from pytest_leveret.real.mirror import Mirror
    from pytest_leveret.real.server import ServerNames

T = TypeVar("T")
# The channels: for what the test does, for the firehose, for counting, and for looking into queues.
ACTING: Final = 1
TRACING: Final = 2
COUNTING: Final = 3
LOOKING: Final = 4
_TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"
_NOT_FOUND: Final = 404


class Front(Protocol):
    """The engine in front of the server, as far as the test's connection needs it."""

    node: Node
    loop: Loop
    lock: native.ReentrantLock
    mirror: Mirror
    names: ServerNames

    def await_server(self, is_done: Callable[[], bool]) -> None:
        """Wait for an answer of the server. Raises BrokerError if none comes."""


class OwnLine:
    """The test's connection to one virtual host."""

    def __init__(self, engine: Front, vhost: VirtualHost, user: str, password: str) -> None:
        self._engine = engine
        self.vhost = vhost
        self._login = f"\0{user}\0{password}".encode()
        self.upstream = Upstream(cast("Dirty", engine.loop.dirty), self._receive, self._end)
        self._reader = CommandReader()
        self._answers: dict[int, list[Command]] = {}
        self._open: set[int] = set()
        self._is_ready = False
        self._is_ended = False
        self._frame_max = 4096
        self._trace_queue = ""
        # One question at a time.
        self._lock = native.reentrant_lock()

    def begin(self) -> None:
        """Begin the conversation, wait until the server has let the test in, and listen to its firehose."""
        with self._engine.lock:
            self.upstream.send(PROTOCOL_HEADER)
        self._engine.loop.wake()
        self._engine.await_server(lambda: self._is_ready or self._is_ended)
        if self._is_ended:
            raise BrokerError(f"the server has closed the test's own connection to {self.vhost.name!r}")
        declare = amqp.QueueDeclare("", False, False, True, True, False, Table.EMPTY)
        (declared,) = self.ask(TRACING, method_frame(TRACING, declare))
        self._trace_queue = cast("amqp.QueueDeclareOk", declared.method).queue
        bind = amqp.QueueBind(self._trace_queue, _TRACE_EXCHANGE, "publish.#", False, Table.EMPTY)
        consume = amqp.BasicConsume(self._trace_queue, "", False, True, True, False, Table.EMPTY)
        self.ask(TRACING, method_frame(TRACING, bind) + method_frame(TRACING, consume), count=2)
        self.ask(ACTING, method_frame(ACTING, amqp.ConfirmSelect(False)))

    # Questions.

    def ask(self, number: int, octets: bytes, *, count: int = 1) -> list[Command]:
        """Send frames on a channel, and return the answers: `count`, or fewer if the last one closes the channel."""
        with self._lock:
            if number not in self._open:
                self._open.add(number)
                octets = method_frame(number, amqp.ChannelOpen()) + octets
                count += 1
            answers: list[Command] = []
            with self._engine.lock:
                self._answers[number] = answers
                self.upstream.send(octets)
            self._engine.loop.wake()
            self._engine.await_server(
                lambda: len(_final(answers)) >= count or number not in self._open or self._is_ended
            )
            return [answer for answer in answers if not isinstance(answer.method, amqp.ChannelOpenOk)]

    def act(self, request: amqp.Method, act: Callable[[VirtualHost], T]) -> T:
        """Have the server do something, and do it in the mirror. Raises RefusedError if the server refuses."""
        __tracebackhide__ = True
        answer = self._ask_acting(method_frame(ACTING, request))[-1].method
        with self._engine.lock:
            if isinstance(request, amqp.QueueDeclare) and isinstance(answer, amqp.QueueDeclareOk):
                request.queue = answer.queue
            done = act(self.vhost)
            self._engine.mirror.hold_queues()
            self._engine.node.run_work()
        return done

    def publish(self, exchange: str, routing_key: str, body: bytes, properties: bytes, *, is_mandatory: bool) -> bool:
        """Publish a message and return whether it reached a queue."""
        __tracebackhide__ = True
        content = Sighting(exchange, routing_key, properties, body)
        with self._engine.lock:
            mirror = self._engine.mirror
            fields = (None, None, None)
            publish = mirror.published(
                (self.upstream.line_name, ACTING), self.vhost, content, fields, is_mandatory=is_mandatory
            )
        method = amqp.BasicPublish(exchange, routing_key, True, False)
        frames = with_content(method_frame(ACTING, method), publish.message, ACTING, self._frame_max)
        is_returned = any(isinstance(answer.method, amqp.BasicReturn) for answer in self._ask_acting(frames))
        if is_returned and is_mandatory:
            with self._engine.lock:
                tap_as_test(self.vhost, events.RETURNED, publish.accept(), "NO_ROUTE")
        return not is_returned

    def _ask_acting(self, frames: bytes) -> list[Command]:
        __tracebackhide__ = True
        if ACTING not in self._open:
            self.ask(ACTING, method_frame(ACTING, amqp.ConfirmSelect(False)))
        answers = self.ask(ACTING, frames)
        if not answers:
            raise BrokerError("the server has closed the test's own connection")
        last = answers[-1].method
        if isinstance(last, amqp.ChannelClose):
            raise RefusedError(last.reply_code, self._engine.names.own_text(last.reply_text))
        return answers

    def hear(self) -> None:
        """Wait for all that the firehose has to say by now."""
        declare = amqp.QueueDeclare(self._trace_queue, True, False, False, False, False, Table.EMPTY)
        self.ask(TRACING, method_frame(TRACING, declare))

    def counts(self, names: list[str]) -> dict[str, int | None]:
        """Return how many messages are ready in queues; None for one that does not exist."""
        counted: dict[str, int | None] = {}
        while left := [name for name in names if name not in counted]:
            asked = [amqp.QueueDeclare(name, True, False, False, False, False, Table.EMPTY) for name in left]
            frames = b"".join(method_frame(COUNTING, method) for method in asked)
            answers = self.ask(COUNTING, frames, count=len(left))
            for name, answer in zip(left, answers, strict=False):
                method = answer.method
                counted[name] = method.message_count if isinstance(method, amqp.QueueDeclareOk) else None
                if isinstance(method, amqp.ChannelClose) and method.reply_code != _NOT_FOUND:
                    counted[name] = -1
            if not answers:
                break
        return counted

    def contents(self, queue: Queue, count: int) -> list[Sighting]:
        """Return the first messages of a queue, which the server takes out and puts back."""
        get = method_frame(LOOKING, amqp.BasicGet(queue.name, False))
        answers = self.ask(LOOKING, get * count, count=count)
        shown = [(answer, answer.method) for answer in answers if isinstance(answer.method, amqp.BasicGetOk)]
        if shown:
            with self._engine.lock:
                back = amqp.BasicNack(shown[-1][1].delivery_tag, True, True)
                self.upstream.send(method_frame(LOOKING, back))
            self._engine.loop.wake()
        return [
            Sighting(method.exchange, method.routing_key, answer.properties, answer.body, method.redelivered)
            for answer, method in shown
        ]

    # What the server sends.

    def _receive(self, octets: bytes) -> None:
        try:
            for command in self._reader.feed(octets):
                self._take(command)
        except Exception as error:
            self._engine.node.internal_errors.append(error)

    def _take(self, command: Command) -> None:
        method, number = command.method, command.channel_number
        match method:
            case amqp.ConnectionStart():
                properties = Table.from_python({"product": "leveret", "connection_name": "leveret"})
                self._control(amqp.ConnectionStartOk(properties, "PLAIN", self._login, "en_US"))
            case amqp.ConnectionTune():
                self._frame_max = method.frame_max or 131072
                self._control(amqp.ConnectionTuneOk(method.channel_max, method.frame_max, 0))
                self._control(amqp.ConnectionOpen(self._engine.names.vhost(self.vhost.name)))
            case amqp.ConnectionOpenOk():
                self._is_ready = True
            case amqp.ConnectionClose():
                self._control(amqp.ConnectionCloseOk())
                self._end()
            case amqp.BasicDeliver() if number == TRACING:
                self._on_trace(command)
            case amqp.ChannelClose():
                self.upstream.send(method_frame(number, amqp.ChannelCloseOk()))
                self._answers[number].append(command)
                self._open.discard(number)
            case _ if number in self._answers:
                self._answers[number].append(command)

    def _control(self, method: amqp.Method) -> None:
        self.upstream.send(method_frame(0, method))

    def _on_trace(self, command: Command) -> None:
        headers = decoded(command.properties).headers
        entry = {} if headers is None else headers.to_python()
        keys = [str(key) for key in cast("Iterable[object]", entry.get("routing_keys") or [""])]
        shown = entry.get("properties")
        names = ("message_id", "correlation_id")
        known = {name: str(shown[name]) for name in names if isinstance(shown, dict) and name in shown}
        properties = Properties.from_python(known).encode()
        content = Sighting(str(entry.get("exchange_name", "")), keys[0], properties, command.body)
        line = (str(entry.get("connection")), int(cast("int", entry.get("channel", 0))))
        routed = [str(name) for name in cast("Iterable[object]", entry.get("routed_queues") or ())]
        self._engine.mirror.routed(line, content, routed)

    def _end(self) -> None:
        self._is_ended = True


def _final(answers: list[Command]) -> list[Command]:
    """Return the answers but for returned messages, which a confirm follows."""
    return [answer for answer in answers if not isinstance(answer.method, amqp.BasicReturn)]
