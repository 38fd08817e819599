"""Awaitable twins of what waits for a client, for tests that share an event loop with it.

Each runs the blocking form on a thread of its own, so the loop goes on meanwhile; asyncio and trio are asked for only
when one of them runs. A twin that is cancelled leaves its thread to end by its own limit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from leveret.engine.elsewhere import elsewhere
from leveret.errors import did_you_mean

if TYPE_CHECKING:
    from datetime import timedelta

    from leveret.broker import Broker
    from leveret.observe.views import ConsumerView

T = TypeVar("T")


class Aio:
    """This is `broker.aio`: every `wait_...`, every `assert_...` and `clock.advance`, to be awaited."""

    def __init__(self, broker: Broker) -> None:
        """These are the twins of that broker."""
        self._broker = broker
        self.clock = AioClock(broker)

    async def wait_idle(self, timeout: float = 5) -> None:
        """This is `Broker.wait_idle`."""
        await elsewhere(partial(self._broker.wait_idle, timeout))

    async def wait_for_consumer(self, queue: str, *, timeout: float = 5, vhost: str = "/") -> ConsumerView:
        """This is `Broker.wait_for_consumer`."""
        return await elsewhere(partial(self._broker.wait_for_consumer, queue, timeout=timeout, vhost=vhost))

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """This is the twin of an assertion of that name."""
        if not name.startswith("assert_"):
            raise AttributeError(f"nothing on broker.aio is called {name!r}{did_you_mean(name, dir(self))}")
        act = getattr(self._broker, name)

        async def twin(*arguments: object, **options: object) -> Any:
            __tracebackhide__ = True
            return await elsewhere(partial(act, *arguments, **options))

        twin.__qualname__ = f"Broker.aio.{name}"
        return twin

    def __dir__(self) -> list[str]:
        return ["clock", *(name for name in dir(self._broker) if name.startswith(("wait_", "assert_")))]


class AioClock:
    """This is `broker.aio.clock`."""

    def __init__(self, broker: Broker) -> None:
        """It moves the clock of that broker."""
        self._broker = broker

    async def advance(self, seconds: float | timedelta | None = None, **options: Any) -> None:
        """This is `Broker.clock.advance`."""
        await elsewhere(partial(self._broker.clock.advance, seconds, **options))


# What Python says of a twin that was not awaited is said in the words in which it was called.
for _twin in (Aio.wait_idle, Aio.wait_for_consumer):
    _twin.__qualname__ = f"Broker.aio.{_twin.__name__}"
AioClock.advance.__qualname__ = "Broker.aio.clock.advance"
