"""The assertions of a broker about what happened to its messages.

An assertion returns what it matched: the first message, or with `times=` a list of exactly that many. Otherwise it
raises AssertionError with the messages that come closest. The first argument is the exchange for assertions about
publishers (published, returned, confirmed, nacked), and the queue for all others. The keywords of `matching` select the
messages. With `timeout=`, in seconds, an assertion waits for code that runs elsewhere. On a broker that serves several
tests, only events of the current test count.

Assertions read the trace and the model under the broker's lock and change neither. The modules that evaluate them are
imported with the first assertion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack, overload

from leveret.observe.views.names import existing_queue, find_queue

if TYPE_CHECKING:
    from re import Pattern

    from leveret.core.model.node import Node
    from leveret.observe.assertions.keywords import (
        AssertionOptions,
        DeadLetterReason,
        DropReason,
        QueueAssertionOptions,
        RequeueReason,
    )
    from leveret.observe.assertions.source import Source
    from leveret.observe.views.message_view import MessageView


class Assertions:
    """The assertions about the messages of a broker."""

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
        """Assert that a matching message was published to this exchange, or to any exchange if none is given.

        The default exchange is "". `times` is how many must match exactly; `times=0` asserts that none does. `timeout`
        is how many seconds to wait, `vhost` the virtual host. The other keywords select messages, by equality or a
        compiled regular expression: `routing_key` (with * or #, a topic pattern), `body`, `json` (the whole document),
        `json_contains` (a part of it), `headers` (some of them), `redelivered`, and the properties `content_type`,
        `content_encoding`, `delivery_mode`, `priority`, `correlation_id`, `reply_to`, `expiration`, `message_id`,
        `timestamp`, `type`, `user_id`, `app_id` and `cluster_id`.
        """
        __tracebackhide__ = True
        return self._assert("assert_published", exchange, options, times=times)

    def assert_not_published(self, exchange: str | None = None, **options: Unpack[AssertionOptions]) -> None:
        """Assert that no matching message was published to this exchange, or to any exchange if none is given.

        With `timeout=`, it waits that many seconds for one. Raises NotDeclaredError if the exchange has never existed,
        so that a misspelt name does not make a test pass.

        Keywords: `timeout`, and the others of `assert_published` without `times`.
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
        """Assert that a matching message was published to this exchange as mandatory and was returned.

        Keywords: `times` (0 for none), `timeout`, and the others of `assert_published`.
        """
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
        """Assert that a matching message was published to this exchange and confirmed to its publisher.

        Keywords: `times` (0 for none), `timeout`, and the others of `assert_published`.
        """
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
        """Assert that a matching message was published to this exchange and the broker nacked it to its publisher.

        For a message that a consumer nacked, use assert_requeued, assert_dead_lettered or assert_dropped.

        Keywords: `times` (0 for none), `timeout`, and the others of `assert_published`.
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
        """Assert that a matching message was delivered from this queue, to a consumer or by basic.get.

        Keywords: `times` (0 for none), `timeout`, `exchange`, and the others of `assert_published`.
        """
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
        """Assert that a client acknowledged a matching message of this queue; automatic acks (no_ack) do not count.

        Keywords: `times` (0 for none), `timeout`, `exchange`, and the others of `assert_published`.
        """
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
        """Assert that a matching message was requeued to this queue.

        `reason` is one of `RequeueReason`: nacked, rejected, recovered, channel_closed, ...

        Keywords: `times` (0 for none), `timeout`, `exchange`, and the others of `assert_published`.
        """
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
        """Assert that a matching message of this queue was dead-lettered, and return it as it arrived.

        The keywords match the message before it died. `to` is the queue it arrived in. `reason` is rejected, expired,
        maxlen or delivery_limit.

        Keywords: `times` (0 for none), `timeout`, `exchange`, and the others of `assert_published`.
        """
        __tracebackhide__ = True
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
        """Assert that a matching message was lost: from this queue, or published to this exchange and routed nowhere.

        `reason` is rejected, expired or maxlen if the queue has no dead-letter exchange, cycle if a dead letter may not
        enter the queue again, and "no route" for an exchange.

        Keywords: `times` (0 for none), `timeout`, `exchange`, and the others of `assert_published`.
        """
        __tracebackhide__ = True
        return self._assert("assert_dropped", queue_or_exchange, options, times=times, reason=reason)

    @overload
    def assert_ready(
        self, queue: str, *, times: None = None, **options: Unpack[QueueAssertionOptions]
    ) -> MessageView: ...
    @overload
    def assert_ready(
        self, queue: str, *, times: int, **options: Unpack[QueueAssertionOptions]
    ) -> list[MessageView]: ...
    def assert_ready(
        self, queue: str, *, times: int | None = None, **options: Unpack[QueueAssertionOptions]
    ) -> MessageView | list[MessageView]:
        """Assert that a matching message is ready in this queue now, or with `times` exactly that many.

        It does not matter how they came there, and it needs no trace. With `timeout`, it waits until that is so.

        Keywords: `times` (0 for none), `timeout`, `exchange`, and the others of `assert_published`.
        """
        __tracebackhide__ = True
        from leveret.observe.assertions.evaluation import evaluate_ready

        found = evaluate_ready(self._source, queue, options, times=times)
        self._note("assert_ready", found)
        return found

    def assert_empty(self, queue: str, *, timeout: float | None = None, vhost: str = "/") -> None:
        """Assert that this queue has no ready and no unacked messages now. It needs no trace."""
        __tracebackhide__ = True
        from leveret.observe.views.views import queue_view

        source = self._source
        if timeout is None or not source.wait_until(lambda: _is_empty(source.node, vhost, queue), timeout):
            source.sync()
        with source.lock:
            view = queue_view(find_queue(source.node, vhost, queue, timeout=timeout), source.node)
            if not view.ready and not view.unacked:
                self._note("assert_empty", [])
                return
            # Imported here because only a failing test needs it.
            from leveret.observe.assertions.failures import not_empty

            failure = not_empty(source, f"assert_empty({queue!r})", view, timeout)
        raise failure.error(source.report(failure.messages, failure.queues))

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
        from leveret.observe.assertions.evaluation import evaluate

        found = evaluate(self._source, call, place, options, times=times, to=to, reason=reason)
        self._note(call, found)
        return found

    def _note(self, call: str, found: MessageView | list[MessageView]) -> None:
        """Note that an assertion has returned these messages, or has passed because there are none."""


def _is_empty(node: Node, vhost: str, name: str) -> bool:
    queue = existing_queue(node, vhost, name)
    return queue is not None and not queue.ready and not queue.unacked
