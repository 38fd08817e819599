"""Streams of what happens in a broker: one thread feeds every stream of a kind.

The broker does nothing for a stream. A pump waits for a turn of the broker's loop, feeds its streams, and rests for a
moment, so that many events cost little. The live page has a pump of its own (see `live.feed`). What was recorded before
a stream of events began is sent in slices, as its client reads them, and the streams take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from leveret.engine.engine import Engine
from leveret.http.messages import Response
from leveret.server import native, threads
from leveret.trace.events import RawEvent

if TYPE_CHECKING:
    from leveret.http.conversation import HttpConversation

# The rest between two readings.
REST_S: Final = 0.02
# How many events of the past are sent at once, and the rest before the next ones.
_SLICE: Final = 250
_SHORT_REST_S: Final = 0.002
# How many events may wait for a client that still reads the past.
_BEHIND_MAX: Final = 200_000
# The longest wait for a turn. A stream that ends causes one.
_LONG_S: Final = 3600.0


S = TypeVar("S", bound="EventStream")


class Pump(Generic[S]):
    """The thread that feeds the subscribers of one broker, and ends them with it. It lives only while there is one."""

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._lock: Final = native.reentrant_lock()
        self._subscribers: list[S] = []
        self._is_running = False

    def _feed(self) -> tuple[float, float]:
        """Feed the subscribers. Return how many seconds to rest, and for how many to wait for a turn then.

        The caller holds the pump's lock.
        """
        raise NotImplementedError

    def _begin(self, subscriber: S) -> None:
        """Feed another subscriber from now on. The caller holds the pump's lock."""
        self._subscribers.append(subscriber)
        if not self._is_running:
            self._is_running = True
            native.start_new_thread(self._run, ())

    def unsubscribe(self, subscriber: S) -> None:
        """Feed a subscriber no more."""
        # No lock: the pump may hold it while it feeds this one, on its way to the server's thread that calls here.
        if subscriber in self._subscribers:
            self._subscribers.remove(subscriber)
        if not self._subscribers:
            self._engine.loop.wake()

    def _run(self) -> None:
        threads.register_thread()
        loop = self._engine.loop
        try:
            while True:
                # Read first: after its last turn, a loop has no turns, although its thread may still run.
                count = loop.turns.count
                if not self._is_wanted():
                    break
                with self._lock:
                    rest_s, wait_s = self._feed()
                native.pause(rest_s)
                if wait_s:
                    loop.turns.wait_beyond(count, wait_s)
            if not loop.has_turns:
                for subscriber in list(self._subscribers):
                    subscriber.end()
        except Exception as error:
            self._engine.node.internal_errors.append(error)
            self._is_running = False
        finally:
            threads.unregister_thread()

    def _is_wanted(self) -> bool:
        with self._lock:
            self._is_running = bool(self._subscribers) and self._engine.loop.has_turns
            return self._is_running


class EventPump(Pump["FedStream"]):
    """What feeds the streams of events of one broker."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        # For those who asked for the past, what they have yet to get, and the number of its first event. The first of
        # them gets the next slice.
        self._behind: dict[FedStream, tuple[list[RawEvent], int]] = {}
        # How many events were read.
        self._read_count = 0

    def subscribe(self, subscriber: FedStream, *, from_start: bool = False) -> None:
        """Feed a stream from now on; with `from_start`, first with everything that is recorded."""
        with self._lock:
            with self._engine.lock:
                new = self._read()
                past = numbered(self._engine) if from_start else None
            # The others get what they have not seen yet.
            self._hand_out(*new)
            if past is not None:
                self._behind[subscriber] = past
            self._begin(subscriber)

    def unsubscribe(self, subscriber: FedStream) -> None:
        """Feed a stream no more."""
        self._behind.pop(subscriber, None)
        super().unsubscribe(subscriber)

    def _feed(self) -> tuple[float, float]:
        self._hand_out(*self._read())
        if self._catch_up():
            return _SHORT_REST_S, 0
        return REST_S, 0 if self._behind else _LONG_S

    def _read(self) -> tuple[list[RawEvent], int]:
        raw_events, first = numbered(self._engine, self._read_count)
        self._read_count = first + len(raw_events) - 1
        return raw_events, first

    def _hand_out(self, raw_events: list[RawEvent], first: int) -> None:
        """Feed new events to the streams that have caught up, and keep them for the others."""
        for subscriber in list(self._subscribers):
            behind = self._behind.get(subscriber)
            if behind is None:
                subscriber.feed(raw_events, first)
                continue
            waiting, _ = behind
            waiting += raw_events
            if len(waiting) > _BEHIND_MAX and subscriber.is_full:
                subscriber.end()

    def _catch_up(self) -> bool:
        """Feed the next slice of the past to the next stream that can take it; return whether there was one."""
        for subscriber, (waiting, first) in list(self._behind.items()):
            if subscriber.is_full:
                continue
            subscriber.feed(waiting[:_SLICE], first)
            # It goes to the end of the row, unless its client has left meanwhile.
            if self._behind.pop(subscriber, None) is not None and len(waiting) > _SLICE:
                self._behind[subscriber] = waiting[_SLICE:], first + _SLICE
            return True
        return False


def numbered(engine: Engine, count: int = 0) -> tuple[list[RawEvent], int]:
    """Return the events after the first `count`, and the number that the broker gave the first of them."""
    with engine.lock:
        latest = engine.recorder.raw_after(count)
        return latest, engine.recorder.recorded_count - len(latest) + 1


class EventStream:
    """A body of server-sent events. What is sent before the head of the response has gone out waits for it."""

    def __init__(self, on_closed: Callable[[], None]) -> None:
        """`on_closed` runs once the client has left."""
        self._on_closed: Final = on_closed
        self._lock: Final = native.reentrant_lock()
        # Where it goes, once the head of the response has gone out.
        self._client: HttpConversation | None = None
        self._waiting: list[bytes] = []
        self.is_closed = False

    @property
    def response(self) -> Response:
        """The response with this body."""
        return Response(200, (("content-type", "text/event-stream"), ("cache-control", "no-cache")), self)

    @property
    def is_full(self) -> bool:
        """Whether the client has yet to read much of what was sent, or even the head."""
        return self._client is None or self._client.is_full

    def send(self, data: str, event: str | None = None) -> None:
        """Send one event. Its data is one line."""
        head = "" if event is None else f"event: {event}\n"
        self.send_bytes(f"{head}data: {data}\n\n".encode("utf-8", "surrogateescape"))

    def send_bytes(self, data: bytes) -> None:
        """Send events that are encoded already."""
        with self._lock:
            if self._client is None:
                self._waiting.append(data)
                return
        self._client.send_part(self, data)

    def end(self) -> None:
        """End the stream."""
        if self._client is not None:
            self._client.end_stream(self)

    def opened(self, client: HttpConversation) -> None:
        """Begin to send, on the server's thread."""
        with self._lock:
            self._client = client
            waiting, self._waiting = self._waiting, []
            client.send_part(self, b"".join(waiting))

    def closed(self) -> None:
        """Stop, because the client has left or reads too slowly, or the stream has ended."""
        if not self.is_closed:
            self.is_closed = True
            self._on_closed()


class FedStream(EventStream):
    """A stream of events, which the pump feeds without any lock of the broker."""

    def __init__(
        self, pump: EventPump, engine: Engine, vhost: str | None, lines_of: Callable[[list[RawEvent], int], list[str]]
    ) -> None:
        """`lines_of` makes lines of events, each with its newline, as `feed` gets them."""
        super().__init__(lambda: pump.unsubscribe(self))
        self._engine = engine
        self._vhost = vhost
        self._lines_of = lines_of

    def feed(self, raw_events: list[RawEvent], first: int) -> None:
        """Send the events since the last call, which may be none. The first of them is the broker's event `first`.

        End if the virtual host of the stream has been deleted.
        """
        lines = self._lines_of(raw_events, first)
        if lines:
            self.send_bytes("".join(f"data: {line}\n" for line in lines).encode("ascii"))
        if self._vhost is not None:
            with self._engine.lock:
                is_deleted = self._vhost not in self._engine.node.vhosts
            if is_deleted:
                self.end()
