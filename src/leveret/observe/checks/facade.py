"""What a test says to the strict checks of a broker: allow this, and that it knows of a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from leveret.errors import EventsMissingError, unknown_keyword
from leveret.observe.assertions import Assertions, Options
from leveret.observe.checks.table import known_check
from leveret.trace import events
from leveret.trace.events import Event

if TYPE_CHECKING:
    from leveret.observe.assertions import Source
    from leveret.observe.checks.finding import Allowance
    from leveret.observe.checks.judge import Judge
    from leveret.observe.message_view import MessageView


class Allowed:
    """This is what `allow` returns: what it allows ends with the `with` block, if there is one."""

    def __init__(self, judge: Judge, allowance: Allowance) -> None:
        self._judge = judge
        self._allowance = allowance

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._judge.disallow(self._allowance)


class CheckedAssertions(Assertions):
    """The assertions, of which the strict checks take note."""

    @property
    def _judge(self) -> Judge:
        """Who keeps what the checks have found."""
        raise NotImplementedError

    def allow(self, check: str, **places: object) -> Allowed:
        """Allow what a strict check would find, from here on, or inside a `with` block.

        `queue=`, `exchange=`, `routing_key=` (a topic pattern when it holds `*` or `#`), `client=` and `vhost=` say
        where; without them it is allowed everywhere. What clients do is inside the block when it has reached the
        broker before its end. ValueError for a check that does not exist.
        """
        from leveret.observe.checks.finding import PLACES, Allowance

        known_check(check)
        for name in places:
            if name not in PLACES:
                raise unknown_keyword("allow()", name, PLACES)
        allowance = Allowance(check, dict(places))
        self._judge.allow(allowance)
        return Allowed(self._judge, allowance)

    def assert_refused(
        self, code: int | None = None, *, text: object = None, client: object = None, timeout: float | None = None
    ) -> Event:
        """A client was refused something: with this reply code, a text that contains this, or by this name.

        `text` may be a compiled regular expression. The strict checks say no more about the refusals it means.
        Returns the first of them.
        """
        __tracebackhide__ = True
        if code is not None and not isinstance(code, int):
            raise TypeError(f"code={code!r} is no reply code; give its number, as in assert_refused(404)")
        from leveret.observe.checks.finding import refusal_text

        source = self._source
        if not source.recorder.is_on:
            raise EventsMissingError(
                "assert_refused() needs a trace and this broker keeps none; use Broker(record='ring')"
            )

        def found() -> list[Event]:
            return [event for event in _refusals(source) if _is_meant(event, code, text, client)]

        if timeout is None or not source.wait_until(lambda: bool(found()), timeout):
            source.sync()
        with source.lock:
            meant, others = found(), _refusals(source)
        if meant:
            self._judge.knows_refusals(refusal_text(event) for event in meant)
            return meant[0]
        asked = [f"{name}={value!r}" for name, value in (("code", code), ("text", text), ("client", client)) if value]
        seen = [f"  {refusal_text(event)}" for event in others] or ["  nobody was refused anything"]
        with self._reporting(timeout):
            raise AssertionError("\n".join([f"assert_refused({', '.join(asked)}): saw none; refused were:", *seen]))

    def assert_empty(self, queue: str, *, timeout: float | None = None, vhost: str = "/") -> None:
        """Nothing is ready in this queue and nothing unacked from it. Asks the queue, not the trace."""
        __tracebackhide__ = True
        with self._reporting(timeout):
            super().assert_empty(queue, timeout=timeout, vhost=vhost)

    @contextmanager
    def _reporting(self, timeout: float | None) -> Iterator[None]:
        """Whatever waited in vain shows the state of the broker."""
        __tracebackhide__ = True
        try:
            yield
        except AssertionError as error:
            if timeout is None:
                raise
            raise AssertionError(f"{error}\n{self._report()}") from None

    def _report(self) -> str:
        from leveret.observe.report import report_text

        source = self._source
        with source.lock:
            return report_text(source.node, source.recorder, "the broker:")

    def _assert(
        self,
        call: str,
        place: str | None,
        options: Options,
        *,
        times: int | None,
        to: str | None = None,
        reason: object = None,
    ) -> MessageView | list[MessageView]:
        __tracebackhide__ = True
        with self._reporting(options.get("timeout")):
            found = super()._assert(call, place, options, times=times, to=to, reason=reason)
        if call == "assert_dropped":
            views = found if isinstance(found, list) else [found]
            self._judge.knows_messages(view.source.id for view in views)
        return found


def _refusals(source: Source) -> list[Event]:
    """What was refused since the test began."""
    raw_events = source.recorder.raw()
    began = max((at for at, raw in enumerate(raw_events) if raw[0] == events.TEST_START), default=0)
    return [Event(raw) for raw in raw_events[began:] if raw[0] == events.REFUSED]


def _is_meant(event: Event, code: int | None, text: object, client: object) -> bool:
    from leveret.observe.matching import is_equal

    is_text = text is None or (text in event.text if isinstance(text, str) else is_equal(text, event.text))
    return code in (None, event.code) and is_text and (client is None or is_equal(client, event.client))
