"""The engine of a broker in front of a real server: the loop, the recorder and the lock of leveret, and a mirror.

Its barrier reaches the server: what clients had sent is handled there, the firehose has reported it, and the mirror
shows what the queues hold. What needs leveret's own broker skips the test.
"""

from __future__ import annotations

import _socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from leveret.admin.definitions_export import export_vhost
from leveret.core.model.errors import Shutdown
from leveret.core.model.operators.access import FULL
from leveret.core.model.queues.classic import ClassicQueue
from leveret.core.model.queues.queue import Queue
from leveret.engine.engine import Engine, refuse_to_starve_clients
from leveret.errors import BrokerError
from leveret.recording.management import ManagementError
from leveret.server import native
from pytest_leveret.real.mirror import Mirror
from pytest_leveret.real.own import OwnLine
from pytest_leveret.real.proxy import ProxiedConnection, Upstream
from pytest_leveret.real.server import ServerNames, skip

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.core.protocol.connection import Connection, Dirty
    from pytest_leveret.real.server import Server

Address = tuple[str, int]

# How long the server may take for an answer.
_ANSWER_S: Final = 30
# How long a wait rests between two questions to the server.
_REST_S: Final = 0.02
# How much later than its deadline the server may notice that a message is due.
LATE_S: Final = 0.2
# How long a queue has to show something else than the mirror before it is looked into.
_STEADY_S: Final = 0.1


class RealEngine(Engine):
    """The engine of a broker that a real server stands behind."""

    server: Server
    names: ServerNames

    def attach(self, server: Server, base: str) -> None:
        """Note the server, and the name of the virtual host "/" there."""
        self.server = server
        self.names = ServerNames(base, server, self._passwords)
        self.mirror = Mirror(self.node)
        self._own: dict[str, OwnLine] = {}
        self._proxied: list[ProxiedConnection] = []
        # Queues that show something else than the mirror, and since when.
        self._unlike: dict[StoredQueue, tuple[int, int, float]] = {}
        self._is_changed = False
        self._syncing = native.reentrant_lock()

    def _passwords(self) -> dict[str, str | None]:
        return {name: user.password for name, user in self.node.access.users.items()}

    # Coming and going.

    def open_server(self) -> None:
        """Create the virtual hosts and users of the test on the server, and connect to them."""
        ask, everything = self.server.management.ask, FULL._asdict()
        for name, password in self._passwords().items():
            if name != "guest":
                ask("PUT", "users", self.names.user(name), body={"password": password or "", "tags": ""})
        for vhost in self.node.vhosts.values():
            there = self.names.vhost(vhost.name)
            ask("PUT", "vhosts", there, body={"tracing": True, "default_queue_type": vhost.default_queue_type})
            ask("PUT", "permissions", there, self.server.user, body=everything)
            for name in self.node.access.users:
                rights = self.node.access.permissions.get((vhost.name, name))
                if name != "guest" and rights is not None:
                    ask("PUT", "permissions", there, self.names.user(name), body=rights._asdict())
        self._declare_beginning()
        for vhost in self.node.vhosts.values():
            self._own[vhost.name] = line = OwnLine(self, vhost, self.server.user, self.server.password)
            self.loop.ask(partial(self._dial, line.upstream))
            line.begin()

    def _declare_beginning(self) -> None:
        """Declare on the server what the broker begins with, as of its definitions, and hold the mirror's queues."""
        self.mirror.hold_queues()
        for vhost in self.node.vhosts.values():
            described = export_vhost(vhost)
            parts = {kind: described[kind] for kind in ("exchanges", "queues", "bindings", "policies")}
            if any(parts.values()):
                self.server.management.ask("POST", "definitions", self.names.vhost(vhost.name), body=parts)

    def leave_server(self) -> None:
        """Delete the virtual hosts and users of the test on the server."""
        self._own.clear()
        self._proxied.clear()
        self._unlike.clear()
        for kind, names in (
            ("vhosts", map(self.names.vhost, self.node.vhosts)),
            ("users", (self.names.user(name) for name in self.node.access.users if name != "guest")),
        ):
            for name in names:
                with suppress(ManagementError):
                    self.server.management.ask("DELETE", kind, name)

    def reset(self) -> None:
        """Close every connection, and begin again with empty virtual hosts on the server."""
        super().reset()
        self.leave_server()
        self.mirror = Mirror(self.node)
        self.open_server()

    def restart(self) -> None:
        """Close the clients' connections as a server does that stops. The server goes on, so all that it holds stays.

        Skip the test if a restart would lose something.
        """
        self.sync()
        with self.lock:
            lost = next(self._transient(), None)
        if lost is not None:
            skip(f"restart() to lose {lost}, and the server serves others too")
        self.ask(self._close_clients)

    def _transient(self) -> Iterator[str]:
        for vhost in self.node.vhosts.values():
            for queue in vhost.queues.values():
                if not (queue.durable or queue.is_exclusive):
                    yield f"queue {queue.name!r}, which is not durable"
                if not isinstance(queue, ClassicQueue):
                    continue
                for entry in [*queue.ready, *queue.unacked.values()]:
                    if not entry.message.is_persistent:
                        yield f"a message in {queue.name!r}, which is not persistent"

    def _close_clients(self) -> None:
        for connection in list(self.node.connections.values()):
            connection.shut_down(Shutdown())

    def _connection(self, peer: Address, local: Address, dirty: Dirty) -> Connection:
        connection = ProxiedConnection(
            self.node,
            number=self.connection_count,
            peer=peer,
            local=local,
            dirty=dirty,
            mirror=self.mirror,
            names=self.names,
        )
        self._dial(connection.upstream)
        self._proxied.append(connection)
        if connection.faults.accept is not None:
            connection.faults.accept(connection)
        return connection

    def _dial(self, upstream: Upstream) -> None:
        host, port = self.server.address
        family, kind, protocol, _, address = _socket.getaddrinfo(host, port, 0, _socket.SOCK_STREAM)[0]
        socket = native.Socket(family, kind, protocol)
        socket.connect(address)
        socket.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        socket.setblocking(False)
        upstream.meet(socket)
        self.loop.add(socket, upstream)

    # The barrier.

    def await_server(self, is_done: Callable[[], bool]) -> None:
        """Wait for an answer of the server. Raises BrokerError if none comes."""
        limit = time.monotonic() + _ANSWER_S
        while True:
            with self.lock:
                count = self.loop.turns.count
                if is_done() or not self.loop.is_running:
                    return
            if time.monotonic() > limit:
                raise BrokerError(f"the server at {self.server.parts.hostname} has not answered for {_ANSWER_S} s")
            self.loop.turns.wait_beyond(count, 0.1)

    def sync(self) -> None:
        """Pass the barrier: what clients had sent is handled by the server, and the mirror shows it."""
        super().sync()
        if not self.loop.is_running or self.loop.is_own_thread or not self._own:
            return
        with self._syncing:
            before = self.recorder.recorded_count
            while True:
                self._ask_flows()
                for line in list(self._own.values()):
                    line.hear()
                is_settled = self._look()
                self._ask_flows()
                super().sync()
                if is_settled:
                    break
                native.pause(_REST_S)
            self._is_changed = self.recorder.recorded_count != before

    def _ask_flows(self) -> None:
        with self.lock:
            for connection in self._proxied:
                connection.ask_flow()
        self.loop.wake()
        self.await_server(lambda: not any(connection.is_asking for connection in self._proxied))

    def _look(self) -> bool:
        """Compare the queues of the server with the mirror. Return whether they agree, or the reason is known."""
        is_settled = True
        for line in list(self._own.values()):
            with self.lock:
                queues = {queue.name: queue for queue in line.vhost.queues.values() if not queue.is_exclusive}
            counts = line.counts(list(queues))
            with self.lock:
                unlike = self._differing(line, queues, counts)
            now = time.monotonic()
            steady = [(queue, count) for queue, count, since in unlike if now - since >= _STEADY_S]
            shown = [(queue, line.contents(queue, count) if count else []) for queue, count in steady]
            with self.lock:
                if shown:
                    self.mirror.show(shown)
            is_settled = is_settled and len(steady) == len(unlike) == 0
        return is_settled

    def _differing(
        self, line: OwnLine, queues: dict[str, StoredQueue], counts: dict[str, int | None]
    ) -> list[tuple[Queue, int, float]]:
        """Return the queues that show another number of messages than the mirror, and since when they do."""
        unlike = []
        for name, queue in queues.items():
            count = counts.get(name, -1)
            if count is None and not queue.is_deleted:
                line.vhost.remove_queue(queue, "expired" if queue.settings.expires_us is not None else None)
            # Where there are consumers, what the queue holds will come out by itself.
            if not isinstance(queue, Queue) or queue.consumers or count is None or count in (-1, len(queue.ready)):
                self._unlike.pop(queue, None)
                continue
            known = self._unlike.get(queue)
            if known is None or known[:2] != (count, len(queue.ready)):
                self._unlike[queue] = known = (count, len(queue.ready), time.monotonic())
            unlike.append((queue, count, known[2]))
        return unlike

    # Waits.

    def wait_until(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Ask again behind the barrier until the predicate is true or time is up."""
        refuse_to_starve_clients()
        limit = time.monotonic() + timeout
        while True:
            self.sync()
            with self.lock:
                count = self.loop.turns.count
                if predicate():
                    return True
                self.raise_time_error()
            limit = self._beyond_jumps(limit)
            if time.monotonic() >= limit:
                return False
            self.loop.turns.wait_beyond(count, _REST_S)

    def wait_while(self, reasons: Callable[[], list[str]], timeout: float) -> list[str]:
        """Wait until there are no `reasons`, and return those left when time is up."""
        refuse_to_starve_clients()
        limit = time.monotonic() + timeout
        quiet_count = 0
        while True:
            self.sync()
            with self.lock:
                left = reasons()
            # What one queue passes on to another takes the server a moment.
            quiet_count = 0 if left or self._is_changed else quiet_count + 1
            if quiet_count > 1:
                return []
            limit = self._beyond_jumps(limit)
            if time.monotonic() >= limit:
                return left
            native.pause(_REST_S)

    def _beyond_jumps(self, limit: float) -> float:
        """Return the end of a wait, later if time is to jump and the server has to be waited for."""
        mover = self.time_mover
        if mover is None or not getattr(mover, "is_on", True):
            return limit
        with self.lock:
            left_s = max((due.left_s for due in self.mirror.deadlines()), default=0)
        if left_s > self.server.wait_s:
            wait = f"--leveret-real-wait={self.server.wait_s:g}"
            skip(f"{left_s:.0f} s of real time within clock.autojump(), more than {wait}")
        return max(limit, time.monotonic() + left_s + LATE_S) if left_s else limit

    def _why_not_idle(self, *, reconnects: bool) -> list[str]:
        reasons = super()._why_not_idle(reconnects=reconnects)
        for vhost in self.node.vhosts.values():
            for queue in vhost.queues.values():
                takers = [consumer.tag for consumer in queue.consumers if consumer.has_own_room()]
                if takers and len(queue.ready) and queue.type_name != "stream":
                    reasons.append(f"{len(queue.ready)} ready on {queue.name}, which {takers[0]} can take")
        return reasons

    # What only leveret can do.

    @contextmanager
    def acting(self) -> Iterator[Node]:
        """Skip the test: this would change the mirror, and not the server."""
        skip(_called())
        yield self.node

    def own(self, vhost: str) -> OwnLine:
        """Return the test's own connection to a virtual host."""
        from leveret.observe.views.names import find_vhost

        with self.lock:
            find_vhost(self.node, vhost)
        return self._own[vhost]


def _called() -> str:
    """Return the name of the call of the test that needs leveret."""
    frame: Any = sys._getframe(1)
    name = "this"
    while frame is not None and (
        frame.f_globals.get("__name__", "").startswith(("leveret.", "pytest_leveret.", "contextlib"))
    ):
        if not frame.f_code.co_name.startswith(("_", "checked_call")):
            name = frame.f_code.co_name
        frame = frame.f_back
    return f"{name}(), which changes leveret's own broker"
