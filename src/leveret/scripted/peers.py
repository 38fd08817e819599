"""The peers of a broker that a test plays itself: consumers in its hand, and responders.

What they are made of is imported when the first one is asked for: most tests need none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from leveret.engine.engine import Engine
    from leveret.scripted.consumer import AckMode, ScriptedConsumer
    from leveret.scripted.responder import Responder

_MISSING: Final = object()


class Peers:
    """Playing the other side, without a client."""

    _engine: Engine

    def consume(
        self,
        queue: str,
        *,
        prefetch: int = 0,
        ack: AckMode = "manual",
        priority: int | None = None,
        exclusive: bool = False,
        arguments: Mapping[str, object] | None = None,
        tag: str = "",
        vhost: str = "/",
    ) -> ScriptedConsumer:
        """Consume from a queue in the test's own hand; see `ScriptedConsumer`.

        It takes part in what RabbitMQ does with consumers: its turn, `prefetch` (0: unlimited), priority, exclusive
        use, single active consumer. As a context manager it is closed at the end.
        """
        from leveret.scripted.consumer import ScriptedConsumer, Subscription

        subscription = Subscription(queue, vhost, prefetch, ack, priority, exclusive, arguments, tag)
        return ScriptedConsumer(self._engine, subscription)

    def respond(
        self,
        queue: str,
        with_: object = _MISSING,
        *,
        times: int | None = None,
        delay: float = 0,
        timeout: bool = False,
        vhost: str = "/",
    ) -> Responder:
        """Answer the requests in a queue, to their `reply_to` and with their `correlation_id`; see `Responder`.

        `with_` is the answer: bytes, text, a `Reply`, an exception (an error reply), any other value (JSON), or a
        function of the request that returns one of these; None is no answer. A list or tuple is one after the other.
        `times` is how many requests are taken, `delay` seconds of the broker's clock pass before each reply, and
        with `timeout` requests are taken and never answered. The queue is declared, durable, if it is not there.
        """
        from leveret.scripted.responder import Responder, Script

        if timeout == (with_ is not _MISSING):
            raise TypeError("respond() takes with_=, the answer, or timeout=True for none")
        return Responder(
            self._engine,
            queue,
            Script(None if timeout else with_, times),
            delay_us=round(delay * 1_000_000),
            vhost=vhost,
            errors=self._engine.script_errors,
        )
