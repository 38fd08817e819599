"""A connection with one channel, on a thread of its own.

The thread keeps heartbeats going however long a batch takes. Callers of the link send a request and wait for the reply;
deliveries gather meanwhile. A link that failed stays failed: every later call raises the first failure.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pika
from pika.adapters.select_connection import IOLoop
from pika.adapters.utils.selector_ioloop_adapter import SelectorIOServicesAdapter
from pika.channel import Channel
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from leveret.core.wire.constants import ACCESS_REFUSED, NOT_ALLOWED, NOT_FOUND, RESOURCE_LOCKED
from leveret.errors import LinkError, LinkLostError
from leveret.spark.amqp.deliveries import Delivery, DeliveryTap
from leveret.spark.amqp.options import BrokerLogin

# The longest that a working broker may take to reply.
ANSWER_S: Final = 60.0
# If nothing arrives for this long, the queue is asked whether it has more.
_GAP_S: Final = 0.1
# A quorum queue stops counting a message as ready before it sends it. So messages may still arrive for this long after
# the last one, although the queue reports that it has no more.
_ON_ITS_WAY_S: Final = 2.0
_REFUSALS: Final = (NOT_FOUND, ACCESS_REFUSED, NOT_ALLOWED, RESOURCE_LOCKED)


class Link:
    """One connection to a broker. The constructor opens it, and raises LinkError if that fails."""

    def __init__(self, endpoint: BrokerLogin) -> None:
        # The failure that ended the link, or None while it works.
        self.failure: LinkError | None = None
        # The broker's reason for blocking this connection; empty while it is not blocked.
        self.blocked_because = ""
        self._parameters = endpoint.parameters()
        self._place = f"{self._parameters.host}:{self._parameters.port}"
        self._changed = threading.Condition()
        self._deliveries: deque[Delivery] = deque()
        # How many deliveries the reader waits for. Waking it for each one costs more than handling it.
        self._wanted = 1
        self._channel: Channel | None = None
        self._consumers: list[str] = []
        self._services = _Services(self._keep)
        self._connection: pika.SelectConnection | None = None
        # pika's failures are raised here, so its log records are dropped unless the program has set up logging.
        logging.getLogger("pika").addHandler(logging.NullHandler())
        self._thread = threading.Thread(target=self._run, name="leveret-amqp", daemon=True)
        self._thread.start()
        try:
            self._await(lambda: self._channel)
        except LinkError:
            self.close()
            raise

    @property
    def frame_max(self) -> int:
        """The largest size of a frame, in bytes."""
        assert self._connection is not None
        size: int = self._connection.params.frame_max
        return size

    def queue_counts(self, queue: str) -> tuple[int, int]:
        """Return the numbers of ready messages and of consumers of a queue.

        When it returns, the broker has handled everything that was sent before.
        """
        answer = self._ask(lambda channel, done: channel.queue_declare(queue, passive=True, callback=done))
        return answer.method.message_count, answer.method.consumer_count

    def consume(self, queue: str, prefetch: int, *, exclusive: bool) -> None:
        """Start a consumer of a queue that holds at most `prefetch` unacknowledged messages.

        Each further consumer has a prefetch of its own.
        """
        self._ask(lambda channel, done: channel.basic_qos(prefetch_count=prefetch, callback=done))
        answer = self._ask(
            lambda channel, done: channel.basic_consume(queue, _never, exclusive=exclusive, callback=done)
        )
        self._consumers.append(answer.method.consumer_tag)

    def take(self, queue: str, limit: int, patience_s: float, *, owed: int) -> list[Delivery]:
        """Take deliveries from the head of a queue: `limit`, or fewer if it has no more or they do not arrive in time.

        `owed` is how many messages were in the queue.
        """
        messages: list[Delivery] = []
        arrived_at = time.monotonic()
        deadline = arrived_at + patience_s
        look_at = 0.0
        at_least = 1
        while len(messages) < limit:
            arrived = self._take(limit - len(messages), _GAP_S, at_least)
            messages += arrived
            now = time.monotonic()
            if arrived:
                arrived_at = now
                if now < look_at or len(messages) == limit:
                    continue
            look_at = now + _GAP_S
            ready, _ = self.queue_counts(queue)
            # Messages that were ready before this reply have arrived, or wait for room that only an ack makes.
            arrived = self._take(limit - len(messages), 0.0)
            messages += arrived
            are_on_their_way = len(messages) < owed and now < arrived_at + _ON_ITS_WAY_S
            if (not ready and not arrived and not are_on_their_way) or now >= deadline:
                break
            # More messages are on their way.
            at_least = limit - len(messages)
        return messages

    def _take(self, limit: int, timeout_s: float, at_least: int = 1) -> list[Delivery]:
        """Return at most `limit` deliveries, oldest first.

        Wait until `at_least` have arrived, or `timeout_s` seconds. Raises the link's failure once it has failed and no
        deliveries are left.
        """
        with self._changed:
            self._wanted = at_least
            self._changed.wait_for(lambda: len(self._deliveries) >= at_least or self.failure, timeout_s)
            if not self._deliveries:
                self._raise_failure()
            count = min(limit, len(self._deliveries))
            return [self._deliveries.popleft() for _ in range(count)]

    def put_back(self, deliveries: list[Delivery]) -> None:
        """Put deliveries back, so that `take` returns them before all others."""
        with self._changed:
            self._deliveries.extendleft(reversed(deliveries))

    def ack_up_to(self, delivery_tag: int, queue: str) -> None:
        """Acknowledge a delivery and all before it, and wait until the broker has handled that.

        Without waiting, the ack could be lost with this process, which may be killed at any time.
        """
        self._act(lambda channel: channel.basic_ack(delivery_tag, multiple=True))
        self.queue_counts(queue)

    def confirm(
        self,
        on_confirm: Callable[[Any], None],
        on_return: Callable[[Channel, pika.spec.Basic.Return, pika.BasicProperties, bytes], None],
    ) -> None:
        """Turn on confirms. The link's thread calls these for each confirm and each return, as pika does."""
        self._act(lambda channel: channel.add_on_return_callback(on_return))
        self._ask(lambda channel, done: channel.confirm_delivery(on_confirm, callback=done))

    def send(self, frames: bytes) -> None:
        """Send complete frames. Raises LinkError if the link has failed."""
        self._act(lambda _: self._services.write(frames))

    def close(self) -> None:
        """Close the connection; what is unacknowledged goes back to its queue."""
        with suppress(LinkError):
            self._requeue_unacked()
        with suppress(RuntimeError):
            self._services.loop.add_callback_threadsafe(self._leave)
        self._thread.join(timeout=5)

    def _requeue_unacked(self) -> None:
        """Nack what is unacknowledged, because RabbitMQ 4.3 counts the end of a channel as a failed delivery."""
        consumers, self._consumers = self._consumers, []
        for tag in consumers:
            self._cancel(tag)
        if consumers:
            self._act(lambda channel: channel.basic_nack(0, multiple=True, requeue=True))

    def _cancel(self, tag: str) -> None:
        self._ask(lambda channel, done: channel.basic_cancel(tag, callback=done))

    def _keep(self, deliveries: list[Delivery]) -> None:
        """Keep deliveries that have arrived. Runs on the link's thread."""
        with self._changed:
            self._deliveries.extend(deliveries)
            if len(self._deliveries) >= self._wanted:
                self._changed.notify_all()

    def _run(self) -> None:
        """Run pika's loop. This is the thread's function."""
        try:
            self._connection = pika.SelectConnection(
                self._parameters,
                on_open_callback=self._on_open,
                on_open_error_callback=lambda _, error: self._fail(self._opening_failure(error)),
                on_close_callback=lambda _, error: self._fail(self._closing_failure(error)),
                custom_ioloop=self._services.loop,
            )
            self._services.loop.run()
        except Exception as error:
            # pika raises a ValueError here if the peer resets a connection that was just opened.
            lost = LinkLostError(f"the connection to {self._place} failed: {error!r}")
            self._fail(self._opening_failure(error) if self._channel is None else lost)
        finally:
            self._fail(LinkLostError(f"the connection to {self._place} is closed"))
            self._services.loop.close()

    def _on_open(self, connection: pika.SelectConnection) -> None:
        connection.add_on_connection_blocked_callback(lambda _, frame: self._block(frame.method.reason))
        connection.add_on_connection_unblocked_callback(lambda *_: self._block(""))
        connection.channel(on_open_callback=self._on_channel)

    def _on_channel(self, channel: Channel) -> None:
        channel.add_on_close_callback(lambda _, error: self._fail(self._closing_failure(error)))
        channel.add_on_cancel_callback(
            lambda _: self._fail(LinkLostError("the broker cancelled the consumer: the queue was deleted or moved"))
        )
        with self._changed:
            self._channel = channel
            self._changed.notify_all()

    def _block(self, reason: str) -> None:
        self.blocked_because = reason

    def _leave(self) -> None:
        connection = self._connection
        if connection is None or connection.is_closed:
            self._services.loop.stop()
        elif not connection.is_closing:
            connection.close()

    def _fail(self, failure: LinkError) -> None:
        """Set the failure, unless there was an earlier one, and close. Runs on the link's thread."""
        with self._changed:
            self.failure = self.failure or failure
            self._changed.notify_all()
        self._leave()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _ask(self, ask: Callable[[Channel, Callable[[Any], None]], object]) -> Any:
        """Call a method of the channel on the link's thread, and wait for the broker's reply."""
        replies: list[Any] = []

        def reply(frame: Any) -> None:
            with self._changed:
                replies.append(frame)
                self._changed.notify_all()

        self._act(lambda channel: ask(channel, reply))
        self._await(lambda: replies)
        return replies[0]

    def _await(self, is_there: Callable[[], object]) -> None:
        """Wait for what the link's thread gets from the broker. Raises LinkError if the link fails before."""
        with self._changed:
            if not self._changed.wait_for(lambda: is_there() or self.failure, ANSWER_S):
                raise LinkLostError(
                    f"timed out after {ANSWER_S:.0f} s of waiting for a reply from {self._place}; check that the "
                    "broker is not overloaded"
                )
            if not is_there():
                self._raise_failure()

    def _act(self, act: Callable[[Channel], object]) -> None:
        """Call a method of the channel on the link's thread, without waiting for a reply."""

        def run() -> None:
            if self.failure is not None:
                return
            assert self._channel is not None
            try:
                act(self._channel)
            except Exception as error:
                self._fail(LinkLostError(f"the connection to {self._place} failed: {error!r}"))

        self._raise_failure()
        try:
            self._services.loop.add_callback_threadsafe(run)
        except RuntimeError:
            self._raise_failure()

    def _opening_failure(self, error: BaseException) -> LinkError:
        """Return an error that says why a connection could not be opened, and what to do about it."""
        causes, user = _causes(error), self._parameters.credentials.username
        for cause in causes:
            if isinstance(cause, ProbableAuthenticationError) or _has_code(cause, ACCESS_REFUSED):
                return LinkError(
                    f"{self._place} refuses the login of user {user!r} ({cause}): check the user and the password, in "
                    "the option url or in the options user and password"
                )
            if isinstance(cause, ProbableAccessDeniedError) or _has_code(cause, NOT_ALLOWED):
                return LinkError(
                    f"{self._place} has no virtual host {self._parameters.virtual_host!r} that user {user!r} may use "
                    f"({cause}): check the path of the option url, in which the virtual host / is written as %2F"
                )
            if isinstance(cause, socket.gaierror):
                return LinkLostError(f"the host of {self._place} cannot be resolved ({cause}): check the option url")
        text = next((str(cause) for cause in reversed(causes) if str(cause)), repr(error))
        return LinkLostError(
            f"no broker answers at {self._place} ({text}): check that it is running, and that this is its AMQP port"
        )

    def _closing_failure(self, error: BaseException) -> LinkError:
        """Return an error that says why a channel or a connection ended."""
        if not isinstance(error, ChannelClosedByBroker | ConnectionClosedByBroker):
            return LinkLostError(f"the connection to {self._place} is lost: {error}")
        reply = f"{self._place} replied {error.reply_code} {error.reply_text}"
        if error.reply_code == NOT_FOUND:
            return LinkError(f"{reply}: format amqp declares nothing, so declare it before the job starts")
        return LinkError(reply) if error.reply_code in _REFUSALS else LinkLostError(reply)


class _Services:
    """pika's loop, with a tap on the stream of the one connection that is made in it."""

    def __init__(self, keep: Callable[[list[Delivery]], None]) -> None:
        self._keep = keep
        self._transport: Any = None
        self.loop = SelectorIOServicesAdapter(IOLoop())
        self._make_stream = self.loop.create_streaming_connection
        self.loop.create_streaming_connection = self._make_tapped_stream

    def write(self, frames: bytes) -> None:
        """Send complete frames between two frames of pika's own."""
        self._transport.write(frames)

    def _make_tapped_stream(
        self, protocol_factory: Callable[[], Any], sock: Any, on_done: Callable[[Any], None], *tls: Any, **named: Any
    ) -> Any:
        """Create a stream as pika does, but give its protocol only what the tap passes on."""

        def tapped() -> Any:
            protocol = protocol_factory()
            protocol.data_received = DeliveryTap(protocol.data_received, self._keep).feed
            return protocol

        def done(result: Any) -> None:
            if not isinstance(result, BaseException):
                self._transport = result[0]
            on_done(result)

        return self._make_stream(tapped, sock, done, *tls, **named)


def _never(*_: object) -> None:
    """Fail: pika requires a callback for deliveries, but the tap passes none on."""
    raise AssertionError("a delivery passed the tap")


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and the errors that it wraps: pika wraps one for each step of connecting."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        one = waiting.pop()
        if isinstance(one, BaseException) and one not in found:
            found.append(one)
            waiting += [*one.args, *getattr(one, "exceptions", ()), getattr(one, "exception", None), one.__cause__]
    return found


def _has_code(error: BaseException, code: int) -> bool:
    return isinstance(error, ConnectionClosedByBroker) and error.reply_code == code
