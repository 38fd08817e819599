"""The assertions of a broker: what happened to which messages, told from the trace.

Each asserts, raises AssertionError with the nearest things that did happen, and returns what it matched: without
`times` the first message, with `times=` a list of exactly so many. The first argument is the exchange for what a
publisher does or hears of (published, returned, confirmed, nacked), else the queue. The keywords of `matching` say
which messages are meant. `within=` seconds waits for code that runs elsewhere. On a broker that serves many tests what
happened before the present one began does not count.

They read the trace and the model under the broker's lock and change neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Protocol, TypedDict, Unpack, overload

from leveret.observe.errors import IncompleteTrace
from leveret.observe.failures import failure_text, not_empty_text
from leveret.observe.fates import Chronicle
from leveret.observe.matching import Matcher, nearest
from leveret.observe.message_view import MessageView
from leveret.observe.names import find_queue, refuse_unknown
from leveret.observe.searching import HAPPENINGS, Question, Search
from leveret.observe.views import QueueView

if TYPE_CHECKING:
    from leveret.model.node import Node
    from leveret.trace.recorder import Recorder

# Keywords of the calls that are no criteria, for the hint at a misspelt one.
_OTHER_KEYWORDS: Final = ("times", "within", "vhost", "reason", "to")


class Options(TypedDict, total=False):
    """Which messages are meant, in which virtual host, and how many seconds to wait for them.

    A criterion may be any object that knows what it equals (see `matching`).
    """

    vhost: str
    within: float | None
    routing_key: object
    body: object
    json: object
    headers: object
    redelivered: object
    content_type: object
    content_encoding: object
    delivery_mode: object
    priority: object
    correlation_id: object
    reply_to: object
    expiration: object
    message_id: object
    timestamp: object
    type: object
    user_id: object
    app_id: object
    cluster_id: object


class QueueOptions(Options, total=False):
    """The same, where the first argument is a queue and the exchange is one criterion more."""

    exchange: object


class Source(Protocol):
    """The broker, as the assertions need it."""

    @property
    def recorder(self) -> Recorder:
        """What happened."""

    @property
    def node(self) -> Node:
        """What is."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held while either is read."""

    def sync(self) -> None:
        """The barrier: what had arrived is handled and due work is done. Called without the lock."""

    def wait_until(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Ask the predicate, with the lock held, now and after whatever happens, until it is true or time is up.

        Returns its last answer. Begins with the barrier; called without the lock.
        """


class Assertions:
    """What a test can assert of one broker."""

    def __init__(self, source: Source) -> None:
        self._source: Final = source

    @overload
    def assert_published(
        self, exchange: str | None = None, *, times: None = None, **options: Unpack[Options]
    ) -> MessageView: ...
    @overload
    def assert_published(
        self, exchange: str | None = None, *, times: int, **options: Unpack[Options]
    ) -> list[MessageView]: ...
    def assert_published(
        self, exchange: str | None = None, *, times: int | None = None, **options: Unpack[Options]
    ) -> MessageView | list[MessageView]:
        """Such a message was published to this exchange; "" is the default one, and without a name any will do."""
        __tracebackhide__ = True
        return self._assert("assert_published", exchange, options, times=times)

    def assert_not_published(self, exchange: str | None = None, **options: Unpack[Options]) -> None:
        """No such message was published to this exchange, or without a name to any.

        With `within=`, nor is one in so many seconds. The exchange has to exist or to have existed: a misspelt name
        must not make a test pass.
        """
        __tracebackhide__ = True
        self._assert("assert_not_published", exchange, options, times=0)

    @overload
    def assert_returned(
        self, exchange: str | None = None, *, times: None = None, **options: Unpack[Options]
    ) -> MessageView: ...
    @overload
    def assert_returned(
        self, exchange: str | None = None, *, times: int, **options: Unpack[Options]
    ) -> list[MessageView]: ...
    def assert_returned(
        self, exchange: str | None = None, *, times: int | None = None, **options: Unpack[Options]
    ) -> MessageView | list[MessageView]:
        """Such a message was published to this exchange as mandatory and came back."""
        __tracebackhide__ = True
        return self._assert("assert_returned", exchange, options, times=times)

    @overload
    def assert_confirmed(
        self, exchange: str | None = None, *, times: None = None, **options: Unpack[Options]
    ) -> MessageView: ...
    @overload
    def assert_confirmed(
        self, exchange: str | None = None, *, times: int, **options: Unpack[Options]
    ) -> list[MessageView]: ...
    def assert_confirmed(
        self, exchange: str | None = None, *, times: int | None = None, **options: Unpack[Options]
    ) -> MessageView | list[MessageView]:
        """Such a message was published to this exchange, and the broker told its publisher that it has it."""
        __tracebackhide__ = True
        return self._assert("assert_confirmed", exchange, options, times=times)

    @overload
    def assert_nacked(
        self, exchange: str | None = None, *, times: None = None, **options: Unpack[Options]
    ) -> MessageView: ...
    @overload
    def assert_nacked(
        self, exchange: str | None = None, *, times: int, **options: Unpack[Options]
    ) -> list[MessageView]: ...
    def assert_nacked(
        self, exchange: str | None = None, *, times: int | None = None, **options: Unpack[Options]
    ) -> MessageView | list[MessageView]:
        """Such a message was published to this exchange, and the broker told its publisher that it does not have it.

        What a consumer nacks is another matter: assert_requeued, assert_dead_lettered or assert_dropped of its queue.
        """
        __tracebackhide__ = True
        return self._assert("assert_nacked", exchange, options, times=times)

    @overload
    def assert_delivered(self, queue: str, *, times: None = None, **options: Unpack[QueueOptions]) -> MessageView: ...
    @overload
    def assert_delivered(self, queue: str, *, times: int, **options: Unpack[QueueOptions]) -> list[MessageView]: ...
    def assert_delivered(
        self, queue: str, *, times: int | None = None, **options: Unpack[QueueOptions]
    ) -> MessageView | list[MessageView]:
        """Such a message was handed out from this queue, to a consumer or for a basic.get."""
        __tracebackhide__ = True
        return self._assert("assert_delivered", queue, options, times=times)

    @overload
    def assert_acked(self, queue: str, *, times: None = None, **options: Unpack[QueueOptions]) -> MessageView: ...
    @overload
    def assert_acked(self, queue: str, *, times: int, **options: Unpack[QueueOptions]) -> list[MessageView]: ...
    def assert_acked(
        self, queue: str, *, times: int | None = None, **options: Unpack[QueueOptions]
    ) -> MessageView | list[MessageView]:
        """Such a message of this queue was acknowledged by a client; no_ack (automatic) does not count."""
        __tracebackhide__ = True
        return self._assert("assert_acked", queue, options, times=times)

    @overload
    def assert_requeued(
        self, queue: str, *, times: None = None, reason: object = None, **options: Unpack[QueueOptions]
    ) -> MessageView: ...
    @overload
    def assert_requeued(
        self, queue: str, *, times: int, reason: object = None, **options: Unpack[QueueOptions]
    ) -> list[MessageView]: ...
    def assert_requeued(
        self, queue: str, *, times: int | None = None, reason: object = None, **options: Unpack[QueueOptions]
    ) -> MessageView | list[MessageView]:
        """Such a message went back to this queue; `reason` is nacked, rejected, recovered, channel_closed, ..."""
        __tracebackhide__ = True
        return self._assert("assert_requeued", queue, options, times=times, reason=reason)

    @overload
    def assert_dead_lettered(
        self,
        queue: str,
        *,
        times: None = None,
        to: str | None = None,
        reason: object = None,
        **options: Unpack[QueueOptions],
    ) -> MessageView: ...
    @overload
    def assert_dead_lettered(
        self, queue: str, *, times: int, to: str | None = None, reason: object = None, **options: Unpack[QueueOptions]
    ) -> list[MessageView]: ...
    def assert_dead_lettered(
        self,
        queue: str,
        *,
        times: int | None = None,
        to: str | None = None,
        reason: object = None,
        **options: Unpack[QueueOptions],
    ) -> MessageView | list[MessageView]:
        """Such a message died in this queue and was dead-lettered; returned as it arrived.

        The keywords say what it was like before it died. `to` names the queue it arrived in; `reason` is rejected,
        expired, maxlen or delivery_limit.
        """
        __tracebackhide__ = True
        return self._assert("assert_dead_lettered", queue, options, times=times, to=to, reason=reason)

    @overload
    def assert_dropped(
        self,
        queue_or_exchange: str | None = None,
        *,
        times: None = None,
        reason: object = None,
        **options: Unpack[QueueOptions],
    ) -> MessageView: ...
    @overload
    def assert_dropped(
        self,
        queue_or_exchange: str | None = None,
        *,
        times: int,
        reason: object = None,
        **options: Unpack[QueueOptions],
    ) -> list[MessageView]: ...
    def assert_dropped(
        self,
        queue_or_exchange: str | None = None,
        *,
        times: int | None = None,
        reason: object = None,
        **options: Unpack[QueueOptions],
    ) -> MessageView | list[MessageView]:
        """Such a message was lost for good: from this queue, or published to this exchange and routed nowhere.

        `reason` is rejected, expired or maxlen for a queue without a dead-letter exchange, cycle for a queue that a
        dead letter may not enter again, "no route" for an exchange.
        """
        __tracebackhide__ = True
        return self._assert("assert_dropped", queue_or_exchange, options, times=times, reason=reason)

    def assert_empty(self, queue: str, *, within: float | None = None, vhost: str = "/") -> None:
        """Nothing is ready in this queue and nothing unacked from it. Asks the queue, not the trace."""
        __tracebackhide__ = True
        source = self._source
        if within is None or not source.wait_until(lambda: _is_empty(source.node, vhost, queue), within):
            source.sync()
        with source.lock:
            view = QueueView.of(find_queue(source.node, vhost, queue, within=within))
        if view.ready or view.unacked:
            raise AssertionError(not_empty_text(f"assert_empty({queue!r})", view, within))

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
        _refuse_unknown_reason(call, reason)
        within, vhost = options.get("within"), options.get("vhost", "/")
        criteria = {name: value for name, value in options.items() if name not in ("within", "vhost")}
        matcher = Matcher(criteria, also_known=_OTHER_KEYWORDS)
        happening = HAPPENINGS["published" if call == "assert_not_published" else call.removeprefix("assert_")]
        asked = {"to": to, "reason": reason, "times": None if call == "assert_not_published" else times}
        question = Question(
            call=_call_text(call, place, matcher, {name: value for name, value in asked.items() if value is not None}),
            happening=happening,
            vhost=vhost,
            place=place,
            matcher=matcher,
            reason=reason,
            to=to,
            times=times,
        )
        found = _Inquiry(self._source, question).answer(within)
        return found[0] if times is None else found


# What `reason` can be; anything else is a slip of the pen, or an object with an `__eq__` of its own.
_REASONS: Final = {
    "assert_dead_lettered": ("rejected", "expired", "maxlen", "delivery_limit"),
    "assert_requeued": ("nacked", "rejected", "recovered", "channel_closed", "consumer_timeout"),
    "assert_dropped": (
        *("no route", "rejected", "expired", "maxlen", "delivery_limit", "restart", "retention"),
        *("cycle", "no requester", "rolled_back", "fault"),
    ),
}


def _refuse_unknown_reason(call: str, reason: object) -> None:
    __tracebackhide__ = True
    known = _REASONS.get(call, ())
    if isinstance(reason, str) and known and reason not in known:
        close = nearest(reason, known)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(map(repr, known))}"
        raise ValueError(f"{call} knows no reason {reason!r}; {hint}")


class _Inquiry:
    """One question on its way to an answer."""

    def __init__(self, source: Source, question: Question) -> None:
        self._source: Final = source
        self._question: Final = question
        self._search: Final = Search(question)

    def answer(self, within: float | None) -> list[MessageView]:
        """The messages found; raises AssertionError when they are not what was asked for."""
        __tracebackhide__ = True
        source, question = self._source, self._question
        if not source.recorder.is_on:
            raise IncompleteTrace(
                f"{question.call} needs a trace and this broker keeps none; use Broker(record='ring')"
            )
        # After waiting in vain the barrier again: nothing may have happened since, but time has passed.
        if within is None or not source.wait_until(self._is_decided, within):
            source.sync()
        with source.lock:
            self._catch_up()
            return self._conclude(within)

    def _conclude(self, within: float | None) -> list[MessageView]:
        __tracebackhide__ = True
        question, search = self._question, self._search
        found, times = search.found(), question.times
        if times is None and found:
            return [search.view(found[0])]
        if times is None or len(found) <= times:
            self._refuse_incomplete_trace()
        if not found:
            self._refuse_unknown_names(within)
        if len(found) == times:
            return [search.view(occurrence) for occurrence in found]
        chronicle = Chronicle(self._source.recorder.raw(), self._source.node)
        raise AssertionError(failure_text(search, chronicle, within))

    def _catch_up(self) -> None:
        self._search.feed(self._source.recorder.raw_after(self._search.last_seen))

    def _is_decided(self) -> bool:
        # "None at all" is decided by the first one. More than asked for may still come, and is not waited for.
        self._catch_up()
        return len(self._search.found()) >= max(1, self._question.times or 1)

    def _refuse_incomplete_trace(self) -> None:
        __tracebackhide__ = True
        recorder = self._source.recorder
        # What was dropped before the test began does not count anyway.
        if recorder.has_dropped and not self._search.has_seen_start:
            raise IncompleteTrace(
                f"{self._question.call} cannot be answered: the trace holds the last {recorder.size} events and older "
                "ones are gone; clear() it before the part that counts"
            )

    def _refuse_unknown_names(self, within: float | None) -> None:
        __tracebackhide__ = True
        question, node = self._question, self._source.node
        trace = self._source.recorder.raw()
        if question.place is not None:
            refuse_unknown(node, trace, question.vhost, question.happening.place, question.place, within=within)
        if question.to is not None:
            refuse_unknown(node, trace, question.vhost, "queue", question.to, within=within)


def _call_text(call: str, place: str | None, matcher: Matcher, asked: Mapping[str, object]) -> str:
    arguments = [] if place is None else [repr(place)]
    arguments += [f"{name}={value!r}" for name, value in asked.items()]
    arguments += [repr(matcher)] if matcher.criteria else []
    return f"{call}({', '.join(arguments)})"


def _is_empty(node: Node, vhost: str, name: str) -> bool:
    found = node.vhosts.get(vhost)
    queue = found.queues.get(name) if found is not None else None
    return queue is not None and not queue.ready and not queue.unacked
