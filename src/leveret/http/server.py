"""The HTTP server of a broker: a loop of its own, with its own thread and lock, beside the broker's loop.

Sockets, slow peers and deadlines are the business of `leveret.server`, which knows no AMQP. The loop parses requests,
and each request is answered on a thread of its own, because an app may wait: for the broker's lock, or until a test's
clients are idle. `Site.handle` refuses foreign pages and picks the app. So HTTP holds up neither the broker nor other
requests. Deadlines here run in real time, whatever the test does with the broker's clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from leveret.clocks import ClockSource, HoldableClock, SystemClock
from leveret.core.model.timers import Timer, Timers
from leveret.http.messages import App, Request, Response, refusal
from leveret.observe.calls.callers import answering
from leveret.server import native, threads
from leveret.server.listener import Address, Listener
from leveret.server.loop import Loop

if TYPE_CHECKING:
    from leveret.http.conversation import HttpConversation

# What other threads want of the loop: a response, or a part of a stream.
Errand = Callable[[], None]


class Limits(NamedTuple):
    """What a peer may ask for. Times are microseconds of real time."""

    # RabbitMQ's own limit, `management.http.max_body_size`.
    body_bytes: int = 20_000_000
    head_bytes: int = 32 * 1024
    # From the first byte of a request to its last; also how long a refused body is still read.
    request_us: int = 20_000_000
    # How long a connection may stay without a request.
    idle_us: int = 120_000_000
    # What a client may leave unread of a stream before it is dropped.
    unread_bytes: int = 1024 * 1024
    # Each connection has one request at work at most, on a thread of its own.
    connections: int = 1000


class HttpServer:
    """A listening port and the app behind it. It is the `Host` of its loop."""

    def __init__(
        self,
        app: App,
        *,
        internal_errors: list[BaseException],
        limits: Limits | None = None,
        wall: ClockSource | None = None,
    ) -> None:
        """Create a server that is not running yet. Exceptions of app and server go to `internal_errors`."""
        self._app: Final = app
        self.internal_errors = internal_errors
        self.limits: Final = Limits() if limits is None else limits
        self._wall = SystemClock() if wall is None else wall
        self._timers = Timers()
        self._errands: deque[Errand] = deque()
        # Those that are open.
        self.conversations: set[HttpConversation] = set()
        # The loop's allowance of work, which HTTP does not need.
        self.allowance: float = inf
        self.left_over: tuple[object, ...] = ()
        self.lock = native.reentrant_lock()
        clock = HoldableClock(self._wall)
        self.loop = Loop(self, lock=self.lock, clock=clock, wall=self._wall, connect=self._connect)

    def start(self, host: str, port: int) -> Address:
        """Open the port and return its address. Raises OSError if that fails."""
        listener = Listener(host, port)
        self.loop.start(listener)
        return listener.address

    def stop(self) -> None:
        """Close the port and every connection. Requests at work end in vain."""
        self.loop.stop()

    def _connect(self, peer: Address, local: Address) -> HttpConversation:
        # Imported with the first connection, because h11 takes longer to import than a broker to start.
        from leveret.http.conversation import HttpConversation

        conversation = HttpConversation(self, peer[0], local[0])
        self.conversations.add(conversation)
        if len(self.conversations) > self.limits.connections:
            conversation.reset()
        return conversation

    def answer(self, conversation: HttpConversation, request: Request) -> None:
        """Answer a request on a thread of its own: it may wait for long, and others must not wait for it."""
        native.start_new_thread(self._work, (conversation, request))

    def _work(self, conversation: HttpConversation, request: Request) -> None:
        threads.register_thread()
        try:
            with answering(f"{request.method} {request.path}"):
                response = self._app.handle(request)
        except Exception as error:
            self.internal_errors.append(error)
            reason = f"leveret failed to answer {request.method} {request.path}: {type(error).__name__}: {error}"
            response = refusal(500, "internal_error", reason)
        finally:
            threads.unregister_thread()
        self.run_on_loop(lambda: self._respond(conversation, response))

    def _respond(self, conversation: HttpConversation, response: Response) -> None:
        try:
            conversation.respond(response)
        except Exception as error:
            self.internal_errors.append(error)
            conversation.fail(f"leveret failed to send its answer: {type(error).__name__}: {error}")

    def run_on_loop(self, errand: Errand) -> None:
        """Run something on the loop's thread soon. Every thread may call this."""
        self._errands.append(errand)
        self.loop.wake()

    def after(self, span_us: int, act: Callable[[], None]) -> Timer:
        """Call `act` on the loop's thread after a time."""
        return self._timers.add(self._wall.now() + span_us, act)

    def advance(self, now: int, wall_now: int) -> None:
        """Run the deadlines that have come."""
        while (timer := self._timers.pop_due(wall_now)) is not None:
            if timer.action is not None:
                timer.action()

    def go_on(self) -> None:
        """Run the errands of other threads."""
        while self._errands:
            try:
                self._errands.popleft()()
            except Exception as error:
                self.internal_errors.append(error)

    finish_work = go_on

    def next_deadline(self) -> int | None:
        """Return None: HTTP knows no clock that a test can hold."""
        return None

    def next_liveness_deadline(self) -> int | None:
        """Return the nearest deadline, in real time."""
        return self._timers.next_deadline()
