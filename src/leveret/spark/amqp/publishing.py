"""A publisher with a window: it keeps publishing while up to a limit of messages await their confirm."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from leveret.errors import PublishError
from leveret.spark.amqp.options import WriteOptions

if TYPE_CHECKING:
    import pika
    from pika.channel import Channel

    from leveret.spark.amqp.link import Link

# Messages are passed to the connection's thread in chunks, so that waking it costs little per message.
_CHUNK_BYTES: Final = 65536
_CHUNK_MESSAGES: Final = 250
# The limit of unconfirmed bytes, whatever the window is: large messages must not fill the memory.
_BYTES_IN_FLIGHT: Final = 32 * 1024 * 1024


class SparkPublisher:
    """A link in confirm mode. Once `finish` returns, the broker has confirmed every message."""

    def __init__(self, link: Link, options: WriteOptions) -> None:
        self._link = link
        self._options = options
        self._changed = threading.Condition()
        self._chunk: list[bytes] = []
        self._chunk_bytes = 0
        self._published = 0
        # Every tag up to this one is confirmed, and above it those in `_early`.
        self._confirmed = 0
        self._early: set[int] = set()
        # The last tag and the size of each chunk that was sent, oldest first.
        self._sent: deque[tuple[int, int]] = deque()
        self._bytes_in_flight = 0
        self._refusal: PublishError | None = None
        link.confirm(self._on_confirm, self._on_return)

    def publish(self, frames: bytes) -> None:
        """Send one message, and wait for room in the window if needed.

        Raises PublishError if an earlier message was nacked, returned or not confirmed in time, and LinkError.
        """
        self._chunk.append(frames)
        self._chunk_bytes += len(frames)
        if self._chunk_bytes >= _CHUNK_BYTES or len(self._chunk) >= min(_CHUNK_MESSAGES, self._options.confirm_window):
            self._send_chunk()

    def finish(self) -> int:
        """Wait for every confirm, and return the number of messages. Raises as `publish` does."""
        if self._chunk:
            self._send_chunk()
        self._wait(lambda: self._confirmed == self._published)
        return self._published

    def _send_chunk(self) -> None:
        chunk, size = self._chunk, self._chunk_bytes
        self._chunk, self._chunk_bytes = [], 0
        room = self._options.confirm_window - len(chunk)
        self._wait(
            lambda: (
                self._published - self._confirmed - len(self._early) <= room
                and (not self._sent or self._bytes_in_flight + size <= _BYTES_IN_FLIGHT)
            )
        )
        with self._changed:
            self._published += len(chunk)
            self._sent.append((self._published, size))
            self._bytes_in_flight += size
        self._link.send(b"".join(chunk))

    def _wait(self, is_enough: Callable[[], bool]) -> None:
        """Wait until `is_enough`. Every confirm restarts the timeout."""
        timeout_s = self._options.confirm_timeout_s
        with self._changed:
            seen = self._confirmed + len(self._early)
            deadline = time.monotonic() + timeout_s
            while True:
                if self._refusal is not None:
                    raise self._refusal
                if is_enough():
                    return
                if self._link.failure is not None:
                    raise self._link.failure
                if self._confirmed + len(self._early) != seen:
                    seen = self._confirmed + len(self._early)
                    deadline = time.monotonic() + timeout_s
                left = deadline - time.monotonic()
                if left <= 0:
                    raise PublishError(self._late_text())
                # A link that fails does not notify this condition.
                self._changed.wait(min(left, 0.5))

    def _late_text(self) -> str:
        open_count = self._published - self._confirmed - len(self._early)
        text = f"{open_count} messages were not confirmed within {self._options.confirm_timeout_s:g} s"
        if self._link.blocked_because:
            return f"{text}: the broker has blocked this connection ({self._link.blocked_because}); clear its alarm"
        return f"{text}; raise the option confirmTimeoutSeconds if the broker is only slow"

    def _on_confirm(self, frame: Any) -> None:
        """Count a confirm. Runs on the link's thread."""
        tag, multiple = frame.method.delivery_tag, frame.method.multiple
        with self._changed:
            if frame.method.NAME == "Basic.Nack" and self._refusal is None:
                count = tag - self._confirmed if multiple else 1
                self._refusal = PublishError(
                    f"the broker nacked {f'up to {count} messages' if count > 1 else 'a message'}: "
                    "a queue is full (overflow reject-publish), or it could not store them"
                )
            if multiple:
                self._confirmed = max(self._confirmed, tag)
                self._early = {early for early in self._early if early > self._confirmed}
            else:
                self._early.add(tag)
            while self._confirmed + 1 in self._early:
                self._confirmed += 1
                self._early.discard(self._confirmed)
            while self._sent and self._sent[0][0] <= self._confirmed:
                self._bytes_in_flight -= self._sent.popleft()[1]
            self._changed.notify_all()

    def _on_return(
        self, channel: Channel, method: pika.spec.Basic.Return, properties: pika.BasicProperties, body: bytes
    ) -> None:
        """Refuse a returned message. Runs on the link's thread, before the confirm of the same message."""
        with self._changed:
            if self._refusal is None:
                self._refusal = PublishError(
                    f"message {properties.message_id} was returned ({method.reply_code} {method.reply_text}): no queue "
                    f"is bound to exchange {method.exchange!r} for routing key {method.routing_key!r}. Bind one, or "
                    "set onReturn to ignore, or to column with a boolean column mandatory"
                )
            self._changed.notify_all()
