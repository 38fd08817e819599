"""The assertions of a broker: what happened to which messages, told from the trace.

Each asserts, raises AssertionError with the nearest things that did happen, and returns what it matched: without
`times` the first message, with `times=` a list of exactly so many. The first argument is the exchange for what a
publisher does or hears of (published, returned, confirmed, nacked), else the queue. The keywords of `matching` say
which messages are meant. `timeout=` seconds waits for code that runs elsewhere. On a broker that serves many tests what
happened before the present one began does not count.

They read the trace and the model under the broker's lock and change neither. What answers them is imported with the
first one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack, overload

from leveret.observe.names import find_queue

if TYPE_CHECKING:
    from re import Pattern

    from leveret.core.model.node import Node
    from leveret.observe.inquiry import Source
    from leveret.observe.keywords import (
        AssertionOptions,
        DeadLetterReason,
        DropReason,
        QueueAssertionOptions,
        RequeueReason,
    )
    from leveret.observe.message_view import MessageView


class Assertions:
    """What a test can assert of one broker."""

    def __init__(self, source: Source) -> None:
        self._source: Final = source

    @overload
    def assert_published(
        self, exchange: str | None = None, *, times: None = None, **options: Unpack[AssertionOptions]
    ) -> MessageView: ...
    @overload
    def assert_published(
        self, exchange: str | None = None, *, times: int, **options: Unpack[AssertionOptions]
    ) -> list[MessageView]: ...
    def assert_published(
        self, exchange: str | None = None, *, times: int | None = None, **options: Unpack[AssertionOptions]
    ) -> MessageView | list[MessageView]:
        """Such a message was published to this exchange; "" is the default one, and without a name any will do."""
        __tracebackhide__ = True
        return self._assert("assert_published", exchange, options, times=times)

    def assert_not_published(self, exchange: str | None = None, **options: Unpack[AssertionOptions]) -> None:
        """No such message was published to this exchange, or without a name to any.

        With `timeout=`, nor is one in so many seconds. The exchange has to exist or to have existed: a misspelt name
        must not make a test pass.
        """
        __tracebackhide__ = True
        self._assert("assert_not_published", exchange, options, times=0)

    @overload
    def assert_returned(
        self, exchange: str | None = None, *, times: None = None, **options: Unpack[AssertionOptions]
    ) -> MessageView: ...
    @overload
    def assert_returned(
        self, exchange: str | None = None, *, times: int, **options: Unpack[AssertionOptions]
    ) -> list[MessageView]: ...
    def assert_returned(
        self, exchange: str | None = None, *, times: int | None = None, **options: Unpack[AssertionOptions]
    ) -> MessageView | list[MessageView]:
        """Such a message was published to this exchange as mandatory and came back."""
        __tracebackhide__ = True
        return self._assert("assert_returned", exchange, options, times=times)

    @overload
    def assert_confirmed(
        self, exchange: str | None = None, *, times: None = None, **options: Unpack[AssertionOptions]
    ) -> MessageView: ...
    @overload
    def assert_confirmed(
        self, exchange: str | None = None, *, times: int, **options: Unpack[AssertionOptions]
    ) -> list[MessageView]: ...
    def assert_confirmed(
        self, exchange: str | None = None, *, times: int | None = None, **options: Unpack[AssertionOptions]
    ) -> MessageView | list[MessageView]:
        """Such a message was published to this exchange, and the broker told its publisher that it has it."""
        __tracebackhide__ = True
        return self._assert("assert_confirmed", exchange, options, times=times)

    @overload
    def assert_nacked(
        self, exchange: str | None = None, *, times: None = None, **options: Unpack[AssertionOptions]
    ) -> MessageView: ...
    @overload
    def assert_nacked(
        self, exchange: str | None = None, *, times: int, **options: Unpack[AssertionOptions]
    ) -> list[MessageView]: ...
    def assert_nacked(
        self, exchange: str | None = None, *, times: int | None = None, **options: Unpack[AssertionOptions]
    ) -> MessageView | list[MessageView]:
        """Such a message was published to this exchange, and the broker told its publisher that it does not have it.

        What a consumer nacks is another matter: assert_requeued, assert_dead_lettered or assert_dropped of its queue.
        """
        __tracebackhide__ = True
        return self._assert("assert_nacked", exchange, options, times=times)

    @overload
    def assert_delivered(
        self, queue: str, *, times: None = None, **options: Unpack[QueueAssertionOptions]
    ) -> MessageView: ...
    @overload
    def assert_delivered(
        self, queue: str, *, times: int, **options: Unpack[QueueAssertionOptions]
    ) -> list[MessageView]: ...
    def assert_delivered(
        self, queue: str, *, times: int | None = None, **options: Unpack[QueueAssertionOptions]
    ) -> MessageView | list[MessageView]:
        """Such a message was handed out from this queue, to a consumer or for a basic.get."""
        __tracebackhide__ = True
        return self._assert("assert_delivered", queue, options, times=times)

    @overload
    def assert_acked(
        self, queue: str, *, times: None = None, **options: Unpack[QueueAssertionOptions]
    ) -> MessageView: ...
    @overload
    def assert_acked(
        self, queue: str, *, times: int, **options: Unpack[QueueAssertionOptions]
    ) -> list[MessageView]: ...
    def assert_acked(
        self, queue: str, *, times: int | None = None, **options: Unpack[QueueAssertionOptions]
    ) -> MessageView | list[MessageView]:
        """Such a message of this queue was acknowledged by a client; no_ack (automatic) does not count."""
        __tracebackhide__ = True
        return self._assert("assert_acked", queue, options, times=times)

    @overload
    def assert_requeued(
        self,
        queue: str,
        *,
        times: None = None,
        reason: RequeueReason | Pattern[str] | None = None,
        **options: Unpack[QueueAssertionOptions],
    ) -> MessageView: ...
    @overload
    def assert_requeued(
        self,
        queue: str,
        *,
        times: int,
        reason: RequeueReason | Pattern[str] | None = None,
        **options: Unpack[QueueAssertionOptions],
    ) -> list[MessageView]: ...
    def assert_requeued(
        self,
        queue: str,
        *,
        times: int | None = None,
        reason: RequeueReason | Pattern[str] | None = None,
        **options: Unpack[QueueAssertionOptions],
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
        reason: DeadLetterReason | Pattern[str] | None = None,
        **options: Unpack[QueueAssertionOptions],
    ) -> MessageView: ...
    @overload
    def assert_dead_lettered(
        self,
        queue: str,
        *,
        times: int,
        to: str | None = None,
        reason: DeadLetterReason | Pattern[str] | None = None,
        **options: Unpack[QueueAssertionOptions],
    ) -> list[MessageView]: ...
    def assert_dead_lettered(
        self,
        queue: str,
        *,
        times: int | None = None,
        to: str | None = None,
        reason: DeadLetterReason | Pattern[str] | None = None,
        **options: Unpack[QueueAssertionOptions],
    ) -> MessageView | list[MessageView]:
        """Such a message died in this queue and was dead-lettered; returned as it arrived.

        The keywords say what it was like before it died. `to` names the queue it arrived in; `reason` is rejected,
        expired, maxlen or delivery_limit.
        """
        __tracebackhide__ = True
        if to is not None and not isinstance(to, str):
            raise TypeError(f"assert_dead_lettered(to={to!r}) takes the name of one queue")
        return self._assert("assert_dead_lettered", queue, options, times=times, to=to, reason=reason)

    @overload
    def assert_dropped(
        self,
        queue_or_exchange: str | None = None,
        *,
        times: None = None,
        reason: DropReason | Pattern[str] | None = None,
        **options: Unpack[QueueAssertionOptions],
    ) -> MessageView: ...
    @overload
    def assert_dropped(
        self,
        queue_or_exchange: str | None = None,
        *,
        times: int,
        reason: DropReason | Pattern[str] | None = None,
        **options: Unpack[QueueAssertionOptions],
    ) -> list[MessageView]: ...
    def assert_dropped(
        self,
        queue_or_exchange: str | None = None,
        *,
        times: int | None = None,
        reason: DropReason | Pattern[str] | None = None,
        **options: Unpack[QueueAssertionOptions],
    ) -> MessageView | list[MessageView]:
        """Such a message was lost for good: from this queue, or published to this exchange and routed nowhere.

        `reason` is rejected, expired or maxlen for a queue without a dead-letter exchange, cycle for a queue that a
        dead letter may not enter again, "no route" for an exchange.
        """
        __tracebackhide__ = True
        return self._assert("assert_dropped", queue_or_exchange, options, times=times, reason=reason)

    def assert_empty(self, queue: str, *, timeout: float | None = None, vhost: str = "/") -> None:
        """Nothing is ready in this queue and nothing unacked from it. Asks the queue, not the trace."""
        __tracebackhide__ = True
        from leveret.observe.failures import not_empty_text
        from leveret.observe.views import QueueView

        source = self._source
        if timeout is None or not source.wait_until(lambda: _is_empty(source.node, vhost, queue), timeout):
            source.sync()
        with source.lock:
            view = QueueView.of(find_queue(source.node, vhost, queue, timeout=timeout), source.node)
        if view.ready or view.unacked:
            raise AssertionError(not_empty_text(f"assert_empty({queue!r})", view, timeout))

    def _assert(
        self,
        call: str,
        place: str | None,
        options: AssertionOptions,
        *,
        times: int | None,
        to: str | None = None,
        reason: object = None,
    ) -> MessageView | list[MessageView]:
        __tracebackhide__ = True
        from leveret.observe.inquiry import answer

        return answer(self._source, call, place, options, times=times, to=to, reason=reason)


def _is_empty(node: Node, vhost: str, name: str) -> bool:
    found = node.vhosts.get(vhost)
    queue = found.queues.get(name) if found is not None else None
    return queue is not None and not queue.ready and not queue.unacked
