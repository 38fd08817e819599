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

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Protocol, TypedDict, Unpack, overload

from leveret.observe.names import find_queue

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.observe.message_view import MessageView
    from leveret.trace.recorder import Recorder


class Options(TypedDict, total=False):
    """Which messages are meant, in which virtual host, and how many seconds to wait for them.

    A criterion may be any object that knows what it equals (see `matching`).
    """

    vhost: str
    timeout: float | None
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

        With `timeout=`, nor is one in so many seconds. The exchange has to exist or to have existed: a misspelt name
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
        if to is not None and not isinstance(to, str):
            raise TypeError(f"assert_dead_lettered(to={to!r}) takes the name of one queue")
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
        options: Options,
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
