"""The methods of `Broker` that start scripted peers: consumers and responders.

Their modules are imported with the first peer, because most tests need none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.engine.engine import Engine
    from leveret.scripted.consumer import AckMode, ScriptedConsumer
    from leveret.scripted.responder import Responder


class Peers:
    """The methods of `Broker` that start scripted consumers and responders."""

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
        """Consume from a queue and return the consumer, whose messages the test takes and settles.

        RabbitMQ's rules for consumers apply to it: turns, `prefetch` (0 means unlimited), priority, exclusive use,
        single active consumer. Used as a context manager, it is closed at the end. Raises RefusedError if RabbitMQ
        would refuse.
        """
        from leveret.scripted.consumer import ScriptedConsumer, Subscription

        subscription = Subscription(queue, vhost, prefetch, ack, priority, exclusive, arguments, tag)
        return ScriptedConsumer(self._engine, subscription)

    def respond(
        self,
        queue: str,
        with_: object,
        *,
        times: int | None = None,
        delay: float = 0,
        vhost: str = "/",
    ) -> Responder:
        """Answer the requests in a queue, and return the responder.

        A reply goes to the `reply_to` of its request and has its `correlation_id`. `with_` is the answer: bytes, text,
        a `Reply`, an exception (sent as an error reply), any other value (sent as JSON), or a function that takes the
        request and returns one of these. None takes the request and never replies. A list or a tuple gives one answer
        after another.

        `times` is how many requests to take. `delay` is the seconds of the broker's clock before each reply. A missing
        queue is declared as durable.
        """
        from leveret.scripted.responder import Responder, Script

        return Responder(
            self._engine,
            queue,
            Script(with_, times),
            delay_us=round(delay * 1_000_000),
            vhost=vhost,
            errors=self._engine.script_errors,
        )
