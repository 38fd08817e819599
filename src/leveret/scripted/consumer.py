"""The scripted consumer: it gets messages as any client's consumer does, and the test settles them.

To the queue it is one consumer among others. The same rules apply to it: an unknown delivery tag is refused, a restart
ends it, and messages it holds when it is closed return to the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Literal

from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.node import Node
from leveret.core.protocol import handlers
from leveret.core.wire.methods import BasicAck, BasicCancel, BasicConsume, BasicNack, BasicReject
from leveret.core.wire.values import Field, Table
from leveret.engine.elsewhere import Twins, twin
from leveret.engine.engine import Engine
from leveret.errors import BrokerError
from leveret.observe.calls.hinting import Hinting, checks_calls
from leveret.observe.views.message_view import MessageView
from leveret.observe.views.names import find_vhost
from leveret.scripted.own_connection import OwnChannel, OwnConnection

AckMode = Literal["manual", "auto"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """The options of a consumer."""

    queue: str
    vhost: str = "/"
    prefetch: int = 0
    ack: AckMode = "manual"
    priority: int | None = None
    exclusive: bool = False
    arguments: Mapping[str, object] | None = None
    tag: str = ""

    def subscribe(self, node: Node, channel: OwnChannel) -> str:
        """Consume as a client does and return the consumer tag. Raises AmqpError if RabbitMQ would refuse."""
        tag = self.tag or f"test-{-channel.connection.number}"
        arguments = Table.from_python(self.arguments or {})
        if self.priority is not None:
            arguments = arguments.with_entry("x-priority", Field("I", self.priority))
        channel.prefetch_count = self.prefetch
        no_ack = self.ack == "auto"
        handlers.basic.consume(channel, BasicConsume(self.queue, tag, False, no_ack, self.exclusive, False, arguments))
        return tag


@checks_calls
class Delivered(MessageView):
    """A message that a scripted consumer received and can settle."""

    __slots__ = ("_consumer", "delivery_tag")

    delivery_tag: int
    _consumer: ScriptedConsumer

    def ack(self) -> None:
        """Acknowledge the message."""
        self._consumer.ack(self)

    def nack(self, *, requeue: bool = True) -> None:
        """Refuse the message by basic.nack, which a quorum queue of RabbitMQ 4 does not count as a failed delivery."""
        self._consumer.nack(self, requeue=requeue)

    def reject(self, *, requeue: bool = True) -> None:
        """Refuse the message by basic.reject."""
        self._consumer.reject(self, requeue=requeue)


@checks_calls
class ScriptedConsumer(AbstractContextManager["ScriptedConsumer"], Hinting):
    """A consumer that a test controls, as `broker.consume` returns it."""

    _called = "a consumer of the test"

    def __init__(self, engine: Engine, subscription: Subscription) -> None:
        """Subscribe. Raises RefusedError if RabbitMQ would refuse."""
        if subscription.ack not in ("manual", "auto"):
            raise ValueError(f"ack={subscription.ack!r} is unknown; expected 'manual' or 'auto'")
        self._engine = engine
        self._subscription = subscription
        self._received: list[Delivered] = []
        self._taken_count = 0
        # The message that `ack()` settles by default.
        self._last: Delivered | None = None
        engine.refuse_not_running()
        with engine.acting() as node:
            vhost = find_vhost(node, subscription.vhost)
            self._connection = OwnConnection(node, vhost, is_waited_for=False)
            self._channel = OwnChannel(self._connection, self._receive)
            try:
                self.tag = subscription.subscribe(node, self._channel)
            except BaseException:
                self._connection.end(None)
                raise

    @property
    def queue(self) -> str:
        """The name of the queue it consumes from."""
        return self._subscription.queue

    @property
    def messages(self) -> list[Delivered]:
        """All messages it has received, oldest first."""
        with self._engine.looking():
            return list(self._received)

    @property
    def unacked(self) -> list[Delivered]:
        """The messages it has received and not settled."""
        with self._engine.looking():
            held = self._channel.unacked
            return [message for message in self._received if message.delivery_tag in held]

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled, by the test or by the broker, or closed. It then gets no more messages.

        A consumer that held messages too long counts as cancelled until it has acknowledged them.
        """
        with self._engine.looking():
            consumer = self._channel.consumers.get(self.tag)
            return consumer is None or consumer.late_count > 0

    @property
    def aio(self) -> AioConsumer:
        """The same consumer with a `next` to await, for use on a running event loop."""
        return AioConsumer(self)

    def next(self, timeout: float = 5) -> Delivered:
        """Return the next message, and wait for it if necessary.

        Raises WaitTimeoutError if none comes within `timeout` seconds; the error shows the state of the broker. Raises
        BrokerError if the consumer was cancelled or closed.
        """
        __tracebackhide__ = True
        self._engine.sync()
        if not self._has_more() and timeout > 0:
            self._engine.refuse_to_starve_clients("consumer.next(...)", "await consumer.aio.next(...)")
            self._engine.wait_until(lambda: self._has_more() or self._has_ended(), timeout)
        with self._engine.lock:
            if self._has_more():
                self._last = self._received[self._taken_count]
                self._taken_count += 1
                return self._last
        if self._has_ended():
            raise BrokerError(f"{self.tag} on {self.queue!r} gets no more messages: {self._end_reason()}")
        raise self._engine.timed_out(self._missing_text(timeout), queues=[self.queue])

    def _missing_text(self, timeout: float) -> str:
        from leveret.observe.texts.routes import ways_to

        with self._engine.lock:
            ways = ways_to(self._engine.node, self._channel.vhost.name, self.queue)
        return f"{self.tag} on {self.queue!r} got no message within {timeout:g} s{f'; {ways}' if ways else ''}"

    def ack(self, message: Delivered | None = None, *, multiple: bool = False) -> None:
        """Acknowledge a message, by default the last one that `next` returned, and with `multiple` all before it."""
        tag = self._tag_of(message)
        self._settle(lambda channel: handlers.basic.ack(channel, BasicAck(tag, multiple)))

    def nack(self, message: Delivered | None = None, *, multiple: bool = False, requeue: bool = True) -> None:
        """Refuse a message by basic.nack."""
        tag = self._tag_of(message)
        self._settle(lambda channel: handlers.basic.nack(channel, BasicNack(tag, multiple, requeue)))

    def reject(self, message: Delivered | None = None, *, requeue: bool = True) -> None:
        """Refuse a message by basic.reject."""
        tag = self._tag_of(message)
        self._settle(lambda channel: handlers.basic.reject(channel, BasicReject(tag, requeue)))

    def cancel(self) -> None:
        """Cancel the consumer. The messages it holds can still be settled."""
        with self._acting():
            handlers.basic.cancel(self._channel, BasicCancel(self.tag, False))

    def close(self) -> None:
        """Close the consumer and return the messages it holds to the queue. Closing twice is fine."""
        with self._engine.ending():
            self._connection.end(None)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.close()

    def __repr__(self) -> str:
        held = f"{len(self._channel.unacked)} unacked"
        return f"<ScriptedConsumer {self.tag!r} on {self.queue!r}: {len(self._received)} messages, {held}>"

    def _receive(self, tag: int, view: MessageView) -> None:
        message = Delivered(*(getattr(view, name) for name in MessageView.__match_args__))
        object.__setattr__(message, "delivery_tag", tag)
        object.__setattr__(message, "_consumer", self)
        self._received.append(message)

    def _has_more(self) -> bool:
        return len(self._received) > self._taken_count

    def _has_ended(self) -> bool:
        return self.tag not in self._channel.consumers

    def _end_reason(self) -> str:
        return self._connection.end_reason or "the test cancelled or closed it"

    def _tag_of(self, message: Delivered | None) -> int:
        chosen = self._last if message is None else message
        if chosen is None:
            raise BrokerError(f"{self.tag} on {self.queue!r} has no message to settle yet; take one with next()")
        return chosen.delivery_tag

    def _settle(self, settle: Callable[[OwnChannel], None]) -> None:
        with self._acting():
            if self._subscription.ack == "auto":
                raise PreconditionFailed("unknown delivery tag: this consumer acknowledges automatically")
            settle(self._channel)

    @contextmanager
    def _acting(self) -> Iterator[Node]:
        with self._engine.acting() as node:
            if not self._channel.connection.channels:
                raise BrokerError(f"the consumer {self.tag} on {self.queue!r} was closed: {self._end_reason()}")
            yield node


class AioConsumer(Twins):
    """The awaitable form of a scripted consumer, `consumer.aio`."""

    _called = "consumer.aio"

    next = twin(ScriptedConsumer.next)
