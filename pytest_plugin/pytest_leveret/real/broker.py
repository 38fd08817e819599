"""The broker that a test holds on a real server: `leveret.Broker` with another engine.

It declares and publishes through the test's own connection. Views, assertions and waits are leveret's own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from leveret import Broker
from leveret.core.compat import DEFAULT_VERSION
from leveret.server import native
from leveret.time.clock import Clock
from pytest_leveret.real.engine import LATE_S, RealEngine
from pytest_leveret.real.server import new_base, skip

if TYPE_CHECKING:
    from leveret.core.compat import RabbitMQVersion
    from leveret.core.model.vhost import VirtualHost
    from leveret.core.wire.methods import Method
    from leveret.engine.engine import Engine
    from leveret.engine.snapshots import Snapshot
    from leveret.faults import FaultPlan
    from leveret.recording.replay import TrafficReplay
    from pytest_leveret.real.mirror import Deadline
    from pytest_leveret.real.server import Server

T = TypeVar("T")
# The faults that a proxy can cause, and what belongs to no fault.
_ON_TCP: Final = frozenset(
    {
        *("reset_peer", "refuse_connections", "blackhole", "bandwidth", "slicer", "stall", "limit_data", "half_close"),
        *("clear", "remove", "rules", "active"),
    }
)
# How long clients may take for what a move of time has brought them.
_SETTLE_S: Final = 1
# How late a busy server may be.
_BUSY_S: Final = 3


class RealBroker(Broker):
    """A broker in front of a real server."""

    _engine: RealEngine
    _engine_type: type[Engine] = RealEngine

    def __init__(self, server: Server, **options: Any) -> None:
        super().__init__(rabbitmq=_version_of(server), **options)
        self._server = server
        self._engine.attach(server, new_base())

    def start(self) -> Self:
        """Open the port, and the virtual hosts on the server."""
        super().start()
        try:
            self._engine.open_server()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Close every connection and the port, and delete the virtual hosts on the server."""
        is_running = self._engine.loop.is_running
        super().stop()
        if is_running:
            self._engine.leave_server()

    def replay(self, *_: object, **__: object) -> TrafficReplay:
        """Skip the test: time cannot be held there."""
        skip("broker.replay()")

    def snapshot(self) -> Snapshot:
        """Skip the test: the server keeps the state."""
        skip("broker.snapshot()")

    def restore(self, snapshot: Snapshot) -> None:
        """Skip the test: the server keeps the state."""
        skip("broker.restore()")

    def __repr__(self) -> str:
        parts = self._server.parts
        where = f"{parts.hostname}:{parts.port or 5672}, virtual host {self._engine.names.base}"
        return f"<real RabbitMQ {self._server.version} at {where}>"

    @property
    def management_url(self) -> str:
        """The URL of the server's management API, without user and password."""
        return self._server.management.url

    def _url_at(
        self, port: int | None, vhost: str, user: str, password: str | None = None, scheme: str = "amqp"
    ) -> str:
        return super()._url_at(port, self._engine.names.vhost(vhost), user, password, scheme)

    @property
    def faults(self) -> FaultPlan:
        """The faults that the test adds. A fault of the broker skips the test."""
        return _TcpFaults(super().faults)  # type: ignore[return-value]

    @property
    def clock(self) -> Clock:
        """The clock, whose moves are waited for."""
        if self._the_clock is None:
            self._the_clock = RealClock(self._engine, self._server.wait_s)
        return self._the_clock

    # Acts of the test.

    def _publish(
        self, exchange: str, routing_key: str, body: bytes, properties: bytes, vhost: str, *, is_mandatory: bool
    ) -> bool:
        __tracebackhide__ = True
        line = self._engine.own(vhost)
        return line.publish(exchange, routing_key, body, properties, is_mandatory=is_mandatory)

    def _act(self, vhost: str, request: Method, act: Callable[[VirtualHost], T]) -> T:
        __tracebackhide__ = True
        self._engine.sync()
        return self._engine.own(vhost).act(request, act)


class RealClock(Clock):
    """The clock on a real server: what is due there is waited for, and what clients wait for is moved."""

    _engine: RealEngine

    def __init__(self, engine: RealEngine, wait_s: float) -> None:
        super().__init__(engine)
        self._wait_s = wait_s

    def _move(self, span_us: int, *, settle: float, heartbeats: bool, limit: int) -> None:
        """Move time on, and wait for the server where something is due there.

        Skip the test if that takes longer than the option allows.
        """
        __tracebackhide__ = True
        move = partial(super()._move, settle=settle, heartbeats=heartbeats, limit=limit)
        engine = self._engine
        self._settle()
        with engine.lock:
            target = engine.clock.now() + span_us
        waited_for: set[object] = set()
        waited_s = 0.0
        while due := self._next_due(target, waited_for):
            waited_for.add(due.about)
            waited_s += due.left_s
            if waited_s > self._wait_s:
                skip(
                    f"{waited_s:.0f} s of real time in clock.advance(), more than --leveret-real-wait={self._wait_s:g}"
                )
            native.pause(due.left_s + LATE_S)
            # A busy server is late. What is not at the head of its queue stays.
            engine.wait_while(partial(self._still_due, due), _BUSY_S)
            move(max(0, due.at - engine.clock.now()))
            self._settle()
        move(max(0, target - engine.clock.now()))
        self._settle()

    def _next_due(self, target: int, waited_for: set[object]) -> Deadline | None:
        with self._engine.lock:
            dues = self._engine.mirror.deadlines()
        return next((due for due in dues if due.at <= target and due.about not in waited_for), None)

    def _still_due(self, due: Deadline) -> list[str]:
        return [str(due.about)] if due.about in [other.about for other in self._engine.mirror.deadlines()] else []

    def _settle(self) -> None:
        engine = self._engine
        engine.wait_while(lambda: engine._why_not_idle(reconnects=False), _SETTLE_S)


class _TcpFaults:
    """The faults that a proxy can cause. Any other one skips the test."""

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan

    def __getattr__(self, name: str) -> Any:
        fault = getattr(self._plan, name)
        if name not in _ON_TCP and not name.startswith("_"):
            skip(f"faults.{name}(), a fault of the broker")
        return fault


def _version_of(server: Server) -> RabbitMQVersion:
    from leveret.core.compat import VERSIONS

    version: Any = ".".join(server.version.split(".")[:2])
    return version if version in VERSIONS else DEFAULT_VERSION
