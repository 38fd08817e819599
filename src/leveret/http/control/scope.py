"""One virtual host of a broker, as a broker of its own: the assertions, waits and pages see nothing else.

Tests in another language share a broker. Each has a virtual host, and no test must see, or wait for, what another one
does. The narrowing is done here, once: the node shows one virtual host and its connections, and the recorder holds only
its events. Time, faults without `vhost` and alarms belong to the whole broker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Final

from leveret.clocks import SystemClock
from leveret.observe.calls.hinting import Hinting, checks_calls
from leveret.observe.checks.checked_assertions import CheckedAssertions
from leveret.observe.texts.report import Facts, Report, report_text
from leveret.observe.texts.state import lost_consumers, why_not_idle
from leveret.observe.views.names import find_vhost
from leveret.scripted.actions import BrokerActions
from leveret.trace.ring import VhostEvents

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from leveret.core.model.node import Node
    from leveret.engine.engine import Engine
    from leveret.errors import WaitTimeoutError
    from leveret.observe.checks.judge import Judge
    from leveret.observe.texts.handle import Handle
    from leveret.page.readings.reading import PageFinding, Reading
    from leveret.story.timeline import Timeline
    from leveret.trace.ring import KeptEvents


@checks_calls
class Scope(BrokerActions, CheckedAssertions, Hinting):
    """What a test can do and assert in one virtual host. It is the `Source` of its own assertions."""

    _called: ClassVar[str] = "a virtual host"

    def __init__(self, engine: Engine, vhost: str) -> None:
        """Narrow the engine to a virtual host. Raises NotDeclaredError if it does not exist."""
        with engine.lock:
            find_vhost(engine.node, vhost)
        self._engine = engine
        self.vhost: Final = vhost
        self._recorder: Final = VhostEvents(engine.recorder, vhost)
        CheckedAssertions.__init__(self, self)

    @property
    def _judge(self) -> Judge:
        return self._engine.judge

    @property
    def recorder(self) -> KeptEvents:
        """The events of the virtual host, for one assertion or another reader."""
        return self._recorder

    @property
    def node(self) -> Node:
        """The node as it stands, with this virtual host and the connections to it only."""
        whole = self._engine.node
        node = copy(whole)
        node.vhosts = {name: vhost for name, vhost in whole.vhosts.items() if name == self.vhost}
        node.connections = {it.number: it for it in whole.connections_of(vhost_name=self.vhost)}
        return node

    def timeline(self) -> Timeline:
        """Return what the events of the virtual host show. The caller holds the lock."""
        return self._engine.explaining.timeline(self._recorder, self.vhost)

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The broker's lock."""
        return self._engine.lock

    @property
    def explaining(self) -> AbstractContextManager[object]:
        """The broker's turn to explain a failure."""
        return self._engine.explaining

    @property
    def handle(self) -> Handle:
        """How the tests can change the broker."""
        return self._engine.handle

    @property
    def name(self) -> str:
        """The virtual host in a sentence."""
        return f"virtual host {self.vhost!r} of {self._engine.name}"

    def others(self) -> Sequence[Any]:
        """Return nothing: what other tests do is no near miss."""
        return ()

    def report(self, messages: Sequence[int] = (), queues: Sequence[str] = (), since: int | None = None) -> Report:
        """Return the state of the virtual host and its last events, as they were then or later."""
        about = self.vhost, tuple(messages), tuple(queues)
        return self._engine.explaining.report(about, lambda: self._composed(messages, queues), since)

    def _composed(self, messages: Sequence[int], queues: Sequence[str]) -> Report:
        with self.lock:
            facts = Facts(self.node, self.recorder, self.timeline(), queues=queues, handle=self.handle)
        title = f"state of {self.name}, RabbitMQ {self._engine.compat.version}"
        return Report.about(report_text(facts, title, messages=messages), self.name, facts.recorded_count)

    def sync(self) -> None:
        """Pass the barrier."""
        self._engine.sync()

    def wait_until(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Wait until the predicate is true, and return whether it is."""
        return self._engine.wait_until(predicate, timeout)

    def wait_idle(self, timeout: float = 5, *, reconnects: bool = True) -> None:
        """Wait until no consumer of this virtual host holds a message, can take one, or has to come back for one.

        The last holds unless `reconnects` is False. Raises WaitTimeoutError.
        """
        limit = SystemClock().now() + round(timeout * 1_000_000)
        reasons = self._engine.wait_while(
            lambda: why_not_idle(self.node) + (lost_consumers(self.node) if reconnects else []), timeout
        )
        if reasons:
            raise self.timed_out(f"not idle after {timeout:g} s: {'; '.join(reasons)}", since=limit)

    def timed_out(self, text: str, queues: Sequence[str] = (), since: int | None = None) -> WaitTimeoutError:
        """Return the error of a wait that timed out, with the state of this virtual host since then as a note."""
        return self._engine.timed_out(text, report=self.report(queues=queues, since=since))

    def findings(self) -> list[PageFinding]:
        """Return what the strict checks have found in the virtual host."""
        from leveret.page.readings.live import checks_of

        with self.lock:
            return checks_of(self._judge, self.recorder.raw(), self.vhost)

    def reading(self) -> Reading:
        """Return what happened in the virtual host, for a page."""
        return self._engine.reading(None, self, self.vhost)
