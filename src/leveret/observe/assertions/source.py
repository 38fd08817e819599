"""The source of an assertion: what assertions and checks need of a broker. The engine is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from leveret.core.model.node import Node
from leveret.errors import WaitTimeoutError
from leveret.trace.ring import KeptEvents

if TYPE_CHECKING:
    from leveret.observe.texts.handle import Handle
    from leveret.story.timeline import Timeline


class Source(Protocol):
    """What assertions need of a broker."""

    @property
    def recorder(self) -> KeptEvents:
        """The recorder of the trace."""

    def timeline(self) -> Timeline:
        """Return what the recorded events show. The caller holds the lock."""

    @property
    def node(self) -> Node:
        """The node, which holds the state."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The lock to hold while reading either."""

    @property
    def explaining(self) -> AbstractContextManager[object]:
        """The turn to explain a failure. Take it without the lock."""

    @property
    def handle(self) -> Handle:
        """How the tests can change the broker."""

    @property
    def name(self) -> str:
        """The broker in a sentence: "the broker on port 5672"."""

    def others(self) -> Sequence[Source]:
        """Return the other brokers that run in this process, once what had arrived there is handled."""

    def report(self, messages: Sequence[int] = (), queues: Sequence[str] = ()) -> str:
        """Return the state of the broker and its last events; those of the given messages and queues come first."""

    def timed_out(self, text: str, queues: Sequence[str] = ()) -> WaitTimeoutError:
        """Return the error of a wait that timed out, with the state of the broker as a note."""

    def sync(self) -> None:
        """Handle what has arrived and do the work that is due. Call it without the lock."""

    def wait_until(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Pass the barrier, then wait until the predicate is true, for at most `timeout` seconds; return whether it is.

        It holds the lock to call the predicate, first now and then after each event. Call it without the lock.
        """

    def wait_idle(self, timeout: float, *, reconnects: bool) -> None:
        """Wait until the broker is idle. Raises WaitTimeoutError with the reasons. Call it without the lock."""
