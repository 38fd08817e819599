"""The assertions and waits of a broker that inform its strict checks.

A test allows what a check would find with `allow`. The checks also do not report a refusal or a loss that the test
asserts.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Unpack

from leveret.errors import EventsMissingError
from leveret.observe.assertions.assertions import Assertions
from leveret.observe.checks.table import CheckName, known_check
from leveret.trace import events
from leveret.trace.events import Event
from leveret.wording import place_text

if TYPE_CHECKING:
    from leveret.observe.assertions.keywords import Places
    from leveret.observe.assertions.source import Source
    from leveret.observe.checks.finding import Allowance
    from leveret.observe.checks.judge import Judge
    from leveret.observe.views.message_view import MessageView
    from leveret.observe.views.views import ConsumerView


# The assertions about what a check might report: the test expects it.
_EXPECTING: Final = ("assert_dropped", "assert_returned", "assert_requeued", "assert_ready")


class Allowed(AbstractContextManager["Allowed"]):
    """What `allow` returns. Used as a context manager, it ends the allowance with the block."""

    def __init__(self, judge: Judge, allowance: Allowance) -> None:
        self._judge = judge
        self._allowance = allowance

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self._judge.disallow(self._allowance)


class CheckedAssertions(Assertions):
    """The assertions and waits of a broker, which inform its strict checks."""

    @property
    def _judge(self) -> Judge:
        """The judge, which collects the findings of the checks."""
        raise NotImplementedError

    def allow(self, check: CheckName, **places: Unpack[Places]) -> Allowed:
        """Allow what a strict check would find, from here on or inside a `with` block.

        `queue=`, `exchange=`, `routing_key=` (a topic pattern if it holds `*` or `#`), `client=` and `vhost=` limit the
        allowance to a place. A client's action is inside the block if it reaches the broker before the block ends.
        Raises ValueError if the check is unknown.
        """
        from leveret.observe.checks.finding import Allowance

        known_check(check)
        allowance = Allowance(check, dict(places))
        self._judge.allow(allowance)
        return Allowed(self._judge, allowance)

    def assert_refused(
        self, code: int | None = None, *, text: object = None, client: object = None, timeout: float | None = None
    ) -> Event:
        """Assert that the broker refused something to a client, and return the first matching refusal.

        `code` is the reply code, `text` a part of the reply text or a compiled regular expression, and `client` the
        name of the connection. The strict checks do not report the matching refusals.
        """
        __tracebackhide__ = True
        from leveret.observe.checks.finding import refusal_text

        source = self._source
        if not source.recorder.is_on:
            raise EventsMissingError(
                "assert_refused() needs a trace, but this broker records none; use Broker(record='recent')"
            )

        def matches() -> list[Event]:
            return [event for event in _refusals(source) if _is_match(event, code, text, client)]

        if timeout is None or not source.wait_until(lambda: bool(matches()), timeout):
            source.sync()
        with source.lock:
            matching, others = matches(), _refusals(source)
        if matching:
            self._judge.knows_refusals(refusal_text(event) for event in matching)
            return matching[0]
        asked = [f"{name}={value!r}" for name, value in (("code", code), ("text", text), ("client", client)) if value]
        seen = [f"  {refusal_text(event)}" for event in others] or ["  none"]
        call = f"assert_refused({', '.join(asked)})"
        title = f"{call}: expected at least 1 refusal, saw none that matches; all refusals:"
        error = AssertionError("\n".join([title, *seen]))
        error.add_note(source.report())
        raise error

    def wait_idle(self, timeout: float = 5, *, reconnects: bool = True) -> None:
        """Wait until the broker is idle: no consumer holds a message, none can take one, and nothing is due.

        If a queue has messages and its last consumer went with a lost connection, wait until one comes back, unless
        `reconnects=False`. `timeout` is in seconds. Raises WaitTimeoutError with the reasons why it is not idle.
        """
        __tracebackhide__ = True
        self._source.wait_idle(timeout, reconnects=reconnects)

    def wait_for_consumer(
        self, queue: str | None = None, *, client: str | None = None, timeout: float = 5, vhost: str = "/"
    ) -> ConsumerView:
        """Wait until this queue has a consumer, or the client of this name consumes, and return the first consumer.

        The queue need not exist yet: once a worker consumes, the test can publish to what the worker has declared.
        `client` is for queues whose names are generated. `timeout` is in seconds. Raises WaitTimeoutError with the
        state of the broker.
        """
        __tracebackhide__ = True
        from leveret.observe.texts.circumstances import Circumstances
        from leveret.observe.texts.routes import consumers_text
        from leveret.observe.texts.state import lost_clients
        from leveret.observe.views.views import consumer_view

        source = self._source
        consumers: list[ConsumerView] = []

        def look() -> bool:
            host = source.node.vhosts.get(vhost)
            queues = [] if host is None else [it for it in host.queues.values() if queue in (None, it.name)]
            views = [consumer_view(consumer, source.node) for it in queues for consumer in it.consumers]
            consumers[:] = [view for view in views if client in (None, view.connection)]
            return bool(consumers)

        if queue is None and client is None:
            raise TypeError("wait_for_consumer() needs queue or client, as in wait_for_consumer('orders')")
        if source.wait_until(look, timeout):
            return consumers[0]
        if client is not None:
            lost = [number for name, number in lost_clients(source.node) if name == client]
            why = f"; it lost its connection {place_text(lost[-1])}, and has not come back" if lost else ""
            where = "" if queue is None else f" of {queue!r}"
            raise source.timed_out(f"client {client!r} has no consumers{where} after {timeout:g} s{why}")
        assert queue is not None
        with source.lock:
            left = Circumstances(source.timeline()).consumer_left(vhost, queue, source.node.now)
            why = f"{f'; {left}' if left else ''}{consumers_text(source.node, vhost, queue)}"
        raise source.timed_out(f"{queue!r} has no consumers after {timeout:g} s{why}", [queue])

    def _note(self, call: str, found: MessageView | list[MessageView]) -> None:
        views = found if isinstance(found, list) else [found]
        if not views:
            self._judge.note_absence(call)
        elif call in _EXPECTING:
            self._judge.knows_messages(view.source.id for view in views)


def _refusals(source: Source) -> list[Event]:
    """Return the refusals since the test began."""
    raw_events = source.recorder.raw()
    began = events.began_at(raw_events)
    return [Event(raw) for raw in raw_events[began:] if raw[0] == events.REFUSED]


def _is_match(event: Event, code: int | None, text: object, client: object) -> bool:
    from leveret.observe.assertions.matching import is_equal

    is_text = text is None or (text in event.text if isinstance(text, str) else is_equal(text, event.text))
    return code in (None, event.code) and is_text and (client is None or is_equal(client, event.client))
