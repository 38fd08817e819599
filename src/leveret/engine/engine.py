"""The engine of a broker: a node, the loop that feeds it, and the lock around both.

`Broker` reads and changes the node through it. Reading takes the barrier and then the lock. Changing takes the lock,
brings the node up to date, does the work that follows and wakes the loop to send. Every wait for a client has a limit,
and refuses to begin on the thread of a running event loop, where that client may live.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from leveret.clocks import HoldableClock, SystemClock
from leveret.core.compat import Compat
from leveret.core.hooks import Hooks
from leveret.core.model.errors import AmqpError, Shutdown
from leveret.core.model.message import Message
from leveret.core.model.node import Node
from leveret.core.model.operators.node_settings import NodeSettings
from leveret.core.protocol.connection import Connection, Dirty
from leveret.core.protocol.receiving.reading import accept
from leveret.engine.explaining import Explaining
from leveret.errors import BrokerError, RefusedError, WaitTimeoutError
from leveret.observe.calls.callers import calling_line, is_debugged, waiting_line
from leveret.observe.checks.table import Levels
from leveret.observe.texts.handle import MADE
from leveret.server import native
from leveret.server.listener import Address, Listener
from leveret.server.loop import WORK_PER_TURN, Loop
from leveret.server.transport import Conversation
from leveret.trace import events
from leveret.trace.ring import EventRing, RecordLevel
from leveret.wording import client_place_text

if TYPE_CHECKING:
    from random import Random
    from ssl import SSLContext

    from leveret.faults.plan import FaultPlan
    from leveret.faults.rule import Rule
    from leveret.observe.assertions.source import Source
    from leveret.observe.calls.insight import ClientInsight, RobustQueues
    from leveret.observe.checks.judge import Judge
    from leveret.observe.texts.report import Report
    from leveret.page.readings.reading import Reading
    from leveret.story.timeline import Timeline
    from leveret.trace.writer import TraceOptions, Writer

T = TypeVar("T")

EVENT_EXCHANGE: Final = "rabbitmq_event_exchange"

_REAL: Final = SystemClock()
# How long a wait that has timed out goes on before it checks again for a debugger.
_DEBUGGED_US: Final = 500_000
# How long a wait rests between two looks for each other wait, so that all together look some 500 times a second. A wait
# alone looks after each turn.
REST_US: Final = 2_000
# How often a wait for work checks that the loop still runs.
_UNNOTICED_S: Final = 0.1

_SHUTDOWN_REQUEUE_EVENTS: Final = frozenset(name for name, kind in events.TABLE.items() if kind.follows_requeue)

# The engines of this process that run, for the failure of a test that has mixed up its brokers.
_running: Final[list[Engine]] = []
_ports_so_far: Final[set[int]] = set()


class TimeMover(Protocol):
    """Something that moves a broker's time by itself."""

    @property
    def is_on(self) -> bool:
        """Whether it still moves it."""

    def stop(self) -> None:
        """Stop moving it."""


class Ending(Protocol):
    """What lives beside a broker and ends with it: a process of the user's."""

    name: str

    @property
    def lines(self) -> list[tuple[int, str]]:
        """What it has printed: the broker's time in microseconds since the epoch, and the line."""

    @property
    def end_code(self) -> int | None:
        """The exit code with which it has ended by itself; None if it has not."""

    @property
    def is_restarting(self) -> bool:
        """Whether a fault has killed it, and it is not ready again yet."""

    def end(self) -> None:
        """End it, and report it if it had ended by itself with an error."""


class Engine:
    """One broker without its public face."""

    def __init__(
        self,
        *,
        compat: Compat,
        seed: int,
        permit: frozenset[str],
        record: RecordLevel,
        trace: TraceOptions | None = None,
        redact: str | Iterable[str] = (),
        begin: Callable[[Node], None] | None = None,
        plugins: frozenset[str] = frozenset(),
        tls: SSLContext | None = None,
        settings: NodeSettings | None = None,
        levels: Levels | None = None,
        loop_type: type[Loop] = Loop,
    ) -> None:
        """Create a broker that is not running yet.

        `begin` gives a new node what the broker begins with. With `tls` the broker opens a second port.
        `redact` names more headers whose values no page shows.
        """
        self.compat = compat
        self.seed = seed
        self.permit = permit
        self._begin = begin
        self.redact = redact
        self.plugins = plugins
        self.tls = tls
        self.settings = settings
        self._levels = levels
        # Created when it is needed, which in many tests is never.
        self._judge: Judge | None = None
        # The addresses for clients: the plain one, then the one for TLS. None before the first start.
        self.addresses: list[Address] = []
        # Those of workers, and the workers.
        self._worker_addresses: list[Address] = []
        self.workers: list[Ending] = []
        # The port for HTTP, None if there is none.
        self.management_port: int | None = None
        self.lock = native.reentrant_lock()
        self.explaining = Explaining()
        # Taken before the lock by a thread that waits, so that the loop has one rival for the lock and not hundreds.
        self._turn_to_look = native.reentrant_lock()
        # The broker's clock, which a test may hold, and the clock of heartbeats, which can only skip ahead.
        self.clock = HoldableClock(_REAL)
        self.wall = HoldableClock(_REAL)
        writer = None if trace is None else self._new_writer(trace)
        self.recorder = EventRing(
            record,
            writer=writer,
            pack=Message.packed,
            unpack=Message.from_head,
            lock=self.lock,
        )
        # What moves time by itself, if anything does. A clock that moves time otherwise stops it first.
        self.time_mover: TimeMover | None = None
        # How often a client was woken from a wait that the broker's clock measures.
        self.wake_count = 0
        # Threads of the test's process that such a wait has woken and that do not wait again yet, a sentence each.
        self.awake: list[str] = []
        # Why autojump gave up. The next call that waits or moves time raises it.
        self.time_error: BrokerError | None = None
        # Exceptions of the test's own responders that have not been reported yet.
        self.script_errors: list[BaseException] = []
        # The test that the broker belongs to, if a plugin has set it.
        self.owner: str | None = None
        # How the tests can change it.
        self.handle = MADE
        # What the test calls the broker.
        self.given_name: str | None = None
        # The test that runs, on a broker that serves several.
        self.test: str | None = None
        # The environment variables that hold its URL.
        self.url_variables: Sequence[str] = ()
        # Whether the port was open and is closed.
        self._is_stopped = False
        # How often the test read, changed or waited for something.
        self.call_count = 0
        # Whether anything has asked where clients connect to.
        self.is_url_read = False
        # How many threads wait for something to happen.
        self._wait_count = 0
        # How many clients have connected.
        self.connection_count = 0
        self._faults: FaultPlan | None = None
        # What has been found of clients that reconnect by themselves.
        self._robust_queues: RobustQueues | None = None
        # Called on the loop's thread behind the barrier, before what the test asks.
        self.before_answer: Callable[[], None] | None = None
        self.node = self._new_node()
        self.loop = loop_type(self.node, lock=self.lock, clock=self.clock, wall=self.wall, connect=self._connect)
        if self.recorder.tap is not None:
            self.loop.after_turn = self.recorder.turned

    def _new_node(self) -> Node:
        node = Node(
            compat=self.compat,
            dice=_SeededDice(self.seed),
            now=self.clock.now(),
            hooks=self.new_hooks(),
            permit=self.permit,
            settings=self.settings,
        )
        # A test may have moved the broker's clock ahead of the wall clock.
        node.wall_now = self.wall.now()
        if EVENT_EXCHANGE in self.plugins:
            from leveret.core.model.event_exchange import EventExchange

            node.event_exchange = EventExchange(node)
        if self._begin is not None:
            self._begin(node)
        return node

    def new_hooks(self) -> Hooks:
        """Return what a new node needs to be recorded."""
        return Hooks() if self.recorder.tap is None else Hooks(self.recorder.tap, waiting_line, _insight)

    def require_known(self, fields: Mapping[str, object]) -> None:
        """Raise NotDeclaredError if a query names a virtual host, a queue or an exchange that has never existed."""
        __tracebackhide__ = True
        from leveret.observe.views.names import require_known_somewhere

        with self.lock:
            require_known_somewhere(self.node, self.recorder.raw(), fields)

    @property
    def judge(self) -> Judge:
        """The judge of this broker, which holds the findings of its strict checks."""
        if self._judge is None:
            from leveret.observe.checks.judge import Judge

            self._judge = Judge(self, self._levels or Levels(()), self.fault_rules)
        return self._judge

    def resume_judging(self) -> None:
        """Judge again after a stop, if anything was judged before."""
        if self._judge is not None:
            self._judge.resume()

    @property
    def faults(self) -> FaultPlan:
        """What should go wrong. Created on first use."""
        if self._faults is None:
            from random import Random

            from leveret.faults.plan import FaultPlan, attach

            # A random generator of its own, so that a fault does not change the names the node generates.
            self._faults = FaultPlan(
                self._changing_faults,
                lambda: Random(self.seed),
                ending=self._ending_faults,
                test=lambda: self.test,
                on_unused=self.judge.refuse_unused,
            )
            attach(self._faults, self.node)
        return self._faults

    def fault_rules(self, vhost: str | None = None) -> list[Rule]:
        """Return the rules for faults, spent or not: all, or those that were added for a virtual host."""
        rules = [] if self._faults is None else self._faults.rules
        return [rule for rule in rules if vhost in (None, rule.places.get("vhost"))]

    def kept_back(self) -> list[str]:
        """Return what faults hold back, a sentence each."""
        if self._faults is None:
            return []
        from leveret.faults.plan import kept_back

        return kept_back(self._faults)

    def _faults_text(self) -> str:
        """Return what a report says about faults, below everything else."""
        if self._faults is None:
            return ""
        from leveret.faults.plan import report

        return report(self._faults)

    def timeline(self) -> Timeline:
        """Return what the recorded events show. The caller holds the lock."""
        return self.explaining.timeline(self.recorder)

    def reading(self, test: str | None, part: Source | None = None, vhost: str | None = None) -> Reading:
        """Return what happened since a test began, for a page; since the last one began if `test` is None.

        `part` is the broker narrowed to a virtual host, if only that matters. The caller has passed the barrier if what
        clients sent last matters.
        """
        from leveret.page.readings.live import reading_of
        from leveret.page.readings.reading import PageFault

        own = f"broker on port {self.addresses[0][1]}" if self.addresses else "broker"
        with self.lock:
            source = part or self
            return reading_of(
                source.node,
                source.recorder,
                source.timeline(),
                test=test,
                title=own if part is None else part.name,
                seed=self.seed,
                moves=self.clock.moves,
                redact=self.redact,
                faults=[
                    PageFault(repr(it), it.on, repr(it.fault), it.fired)
                    for it in self.fault_rules(vhost)
                    if it.concerns(test or self.test)
                ],
                judge=self.judge,
                vhost=vhost,
            )

    def _new_writer(self, trace: TraceOptions) -> Writer:
        # Imported late: a broker without a trace file needs nothing that compresses or calls git.
        from leveret.trace.version import __version__
        from leveret.trace.writer import Writer

        facts = {"broker": f"leveret {__version__}", "profile": self.compat.version, "seed": self.seed}
        return Writer(trace, lock=self.lock, clock=self.clock, facts=facts)

    def _connect(self, peer: Address, local: Address) -> Conversation:
        self.connection_count += 1
        dirty = cast("list[object]", self.loop.dirty)
        if self.tls is None or local[1] != self.addresses[1][1]:
            return self._connection(peer, local, dirty)
        from leveret.server.tls import TlsConversation

        secured = TlsConversation(self.tls, dirty)
        secured.inner = self._connection(peer, local, secured)
        return secured

    def _connection(self, peer: Address, local: Address, dirty: Dirty) -> Connection:
        return accept(self.node, number=self.connection_count, peer=peer, local=local, dirty=dirty)

    def start(self, host: str, *ports: int) -> list[Address]:
        """Open ports, the second of them for TLS, and return their addresses.

        Raises OSError if a port cannot be opened, and ValueError if no trace file can be written in the given folder.
        """
        self.refuse_forked_child()
        self._open_trace()
        self._is_stopped = False
        self._open([(host, port) for port in ports], self.loop.start)
        _running.append(self)
        return self.addresses

    def _open_trace(self) -> None:
        writer = self.recorder.writer
        if writer is None:
            return
        try:
            writer.open()
        except OSError as error:
            raise ValueError(
                f"trace_dir={writer.options.directory!r}: cannot write a file there: {error.strerror}"
            ) from None

    def _open(self, addresses: list[Address], serve: Callable[..., None]) -> None:
        listeners: list[Listener] = []
        try:
            for address in addresses:
                listeners.append(self.loop.listener_type(*address))
        except OSError:
            for listener in listeners:
                listener.close()
            raise
        self.addresses = [listener.address for listener in listeners]
        _ports_so_far.update(port for _, port in self.addresses)
        serve(*listeners)

    @property
    def port(self) -> int | None:
        """The plain port, or None before the first start."""
        return self.addresses[0][1] if self.addresses else None

    def open_port(self) -> int:
        """Open one more port for clients, at the same address, and return it. Raises OSError if there is none."""
        self.refuse_not_running()
        listener = Listener(self.addresses[0][0], 0)
        self._worker_addresses.append(listener.address)
        self.ask(lambda: self.loop.listen(listener))
        return listener.address[1]

    def close_port(self, port: int) -> None:
        """Close a port that `open_port` has opened."""
        for address in [address for address in self._worker_addresses if address[1] == port]:
            self._worker_addresses.remove(address)
            if self.loop.is_running:
                self.ask(partial(self.loop.close_port, address))

    def close_ports(self) -> None:
        """Accept no connections until `reopen_ports`."""
        self.ask(self.loop.close_ports)

    def reopen_ports(self) -> None:
        """Open the same ports again. Raises OSError if another process has taken one meanwhile."""
        self.ask(self._reopen_ports)

    def _reopen_ports(self) -> None:
        if self.loop.is_running and not self.loop.is_listening:
            self._open(self.addresses, self.loop.listen)
            self.loop.listen(*(self.loop.listener_type(*address) for address in self._worker_addresses))

    def stop(self) -> None:
        """Close the port and every connection, and end the workers. The state can still be inspected."""
        for worker in self.workers:
            worker.end()
        self._worker_addresses.clear()
        self._is_stopped = self._is_stopped or self.loop.is_running
        if self in _running:
            _running.remove(self)
        # A client's exception on a thread left behind may surface in another test than its own.
        suffix = "" if self.owner is None else f": the end of {self.owner}"
        self.loop.stop(lambda: self._shut_down(Shutdown(suffix)))
        if self.recorder.writer is not None and not self.loop.is_abandoned:
            with self.lock:
                self.recorder.writer.close()

    def _shut_down(self, error: Shutdown) -> None:
        """End every connection.

        Requeues caused by it are not recorded, because the test did not cause them. The trace shows what the test left
        unacked.
        """
        hooks = self.node.hooks
        tap = hooks.tap
        if tap is not None:
            hooks.tap = lambda event: None if event[0] in _SHUTDOWN_REQUEUE_EVENTS else tap(event)
        try:
            for connection in list(self.node.connections.values()):
                connection.shut_down(error)
        finally:
            hooks.tap = tap

    def reset(self) -> None:
        """Close every connection, forget all state and start over on the same port. Findings so far are kept."""
        self.begin_anew(self._empty_node)

    def begin_anew(self, new_node: Callable[[], Node]) -> None:
        """Close every connection and go on with another node on the same port. Findings so far are kept."""
        self.ask(partial(self._begin_anew, new_node))

    def _empty_node(self) -> Node:
        self.recorder.begin_anew()
        self.judge.begin_anew()
        self.clock.release()
        self.connection_count = 0
        return self._new_node()

    def _begin_anew(self, new_node: Callable[[], Node]) -> None:
        self.judge.read_to_the_reset()
        self._shut_down(Shutdown())
        self.loop.reset_all()
        self.time_error = None
        internal_errors = self.node.internal_errors
        self.node = self.loop.host = new_node()
        # The wall clock never goes back, and a reset does not forget leveret's own errors.
        self.node.wall_now, self.node.internal_errors = self.wall.now(), internal_errors
        if self._faults is not None:
            from leveret.faults.plan import attach

            attach(self._faults, self.node)

    def restart(self) -> None:
        """Stop and start the node on the same port. What is durable stays."""
        self.ask(self._restart)

    def _restart(self) -> None:
        self.node.restart()
        self.loop.reset_all()

    def refuse_forked_child(self) -> None:
        """Raise BrokerError in a forked child: connections, thread and lock belong to the parent."""
        if self.loop.is_abandoned:
            raise BrokerError(
                f"this broker belongs to process {self.loop.process}, from which this process was forked; "
                "connect to its URL, or start a broker here"
            )

    def refuse_inline(self, what: str) -> None:
        """Raise BrokerError on an inline broker, which has no port and no thread for that."""
        if self.loop.is_inline:
            raise BrokerError(f"{what} needs a broker with a port and a thread; leave out inline=True")

    def refuse_to_starve_clients(self, name: str | None = None, way: str | None = None) -> None:
        """Raise BrokerError on the thread of a running event loop, unless all clients live on this thread anyway."""
        if not self.loop.is_inline:
            refuse_to_starve_clients(name, way)

    @contextmanager
    def acting(self) -> Iterator[Node]:
        """Change something. The node's refusals are raised as RefusedError, and output is sent.

        A call that raises before anything happened leaves no event.
        """
        __tracebackhide__ = True
        self.refuse_stopped()
        with self.ending() as node:
            yield node

    @contextmanager
    def ending(self) -> Iterator[Node]:
        """Do what `acting` does, also on a broker that has stopped: end or remove something."""
        __tracebackhide__ = True
        self.refuse_forked_child()
        self.call_count += 1
        with self.lock:
            node = self.node
            node.advance(self.clock.now(), self.wall.now())
            call = None if node.hooks.tap is None else (events.CALLED, node.now, *calling_line())
            if call is not None and node.hooks.tap is not None:
                node.hooks.tap(call)
            try:
                yield node
            except BaseException as error:
                self.recorder.take_back(call)
                if isinstance(error, AmqpError):
                    raise self.refusal(error) from None
                raise
            finally:
                done = self._begin_work(node)
        self.loop.wake()
        self._await_work(done)

    def _begin_work(self, node: Node) -> list[bool]:
        """Do a turn's work of what a call has caused. The list that is returned gets an item once all is done."""
        done: list[bool] = []
        allowance, node.allowance = node.allowance, WORK_PER_TURN
        if node.run_work(partial(done.append, True)):
            done.append(True)
        node.allowance = allowance
        if not self.loop.is_running:
            self.recorder.turned(None)
        return done

    def _await_work(self, done: list[bool]) -> None:
        """Wait until the loop has done the rest. It serves clients in between."""
        while True:
            count = self.loop.turns.count
            if done:
                return
            if self.loop.is_own_thread or not self.loop.is_running or native.is_held(self.lock):
                with self.lock:
                    self.node.finish_work()
            else:
                self.loop.turns.wait_beyond(count, _UNNOTICED_S)

    def refuse_not_running(self) -> None:
        """Raise BrokerError unless the broker runs: without it no message has a way."""
        self.refuse_forked_child()
        self.refuse_stopped()
        if not self.loop.is_running:
            raise BrokerError("this broker was not started; use it in a with statement, or call start()")

    def refuse_stopped(self) -> None:
        """Raise BrokerError if the broker has stopped: nothing can happen any more."""
        if self._is_stopped:
            raise BrokerError("this broker was stopped; its state can still be read. To use it again, call start()")

    @contextmanager
    def _changing_faults(self) -> Iterator[Node]:
        """Change faults behind the barrier, so that new rules do not apply to what clients sent before."""
        self.refuse_stopped()
        with self._ending_faults() as node:
            yield node

    @contextmanager
    def _ending_faults(self) -> Iterator[Node]:
        self.sync()
        with self.ending() as node:
            yield node

    @contextmanager
    def looking(self) -> Iterator[Node]:
        """Read something, once everything that clients had sent is handled."""
        self.sync()
        with self.lock:
            yield self.node

    def ask(self, action: Callable[[], T]) -> T:
        """Run `action` behind the barrier on the loop's thread, and return its result."""
        self.refuse_forked_child()
        self.call_count += 1
        catch_up = self.before_answer
        if catch_up is None:
            return self.loop.ask(action)

        def answer() -> T:
            catch_up()
            return action()

        return self.loop.ask(answer)

    def sync(self) -> None:
        """Pass the barrier: what had arrived is handled, due work is done, and output was offered."""
        self.ask(lambda: None)

    def wait_until(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Call the predicate, under the lock, now and after every event, until it is true or time is up.

        Begins with the barrier and returns the predicate's last result.
        """
        self.refuse_to_starve_clients()
        limit = _limit(timeout)
        self.sync()
        with self._waiting():
            while True:
                with self._turn_to_look, self.lock:
                    count = self.loop.turns.count
                    if predicate():
                        return True
                    self.raise_time_error()
                if not self._wait_beyond(count, limit):
                    self.sync()
                    with self._turn_to_look, self.lock:
                        return predicate()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Count this thread among those that wait."""
        with self._turn_to_look:
            self._wait_count += 1
        try:
            yield
        finally:
            with self._turn_to_look:
                self._wait_count -= 1

    def _wait_beyond(self, count: int, limit: int) -> bool:
        """Wait for something to happen. Return False if time is up, or nothing can happen any more."""
        left_us = limit - _REAL.now()
        if left_us <= 0 and is_debugged():
            # The user is at a breakpoint. Check again from time to time.
            left_us = _DEBUGGED_US
        if left_us <= 0 or not self.loop.has_turns:
            return False
        rest_us = min(left_us, (self._wait_count - 1) * REST_US)
        if rest_us > 0:
            native.pause(rest_us / 1_000_000)
        self.loop.turns.wait_beyond(count, (left_us - rest_us) / 1_000_000)
        return True

    def wait_while(self, reasons: Callable[[], list[str]], timeout: float) -> list[str]:
        """Wait until there are no `reasons` behind the barrier, and return those left when time is up."""
        self.refuse_to_starve_clients()
        limit = _limit(timeout)
        with self._waiting():
            while True:
                count, left = self.ask(lambda: (self.loop.turns.count, reasons()))
                if not left:
                    return []
                while left:
                    if not self._wait_beyond(count, limit):
                        return self.ask(reasons)
                    # A check without the barrier is enough to go on waiting, but not to stop.
                    with self._turn_to_look, self.lock:
                        self.raise_time_error()
                        count, left = self.loop.turns.count, reasons()

    def raise_time_error(self) -> None:
        """Raise, once, the reason why autojump gave up."""
        error, self.time_error = self.time_error, None
        if error is not None:
            raise error

    def wait_idle(self, timeout: float, *, reconnects: bool) -> None:
        """Wait until nothing is in flight and nothing is due. Raises WaitTimeoutError with what is left.

        `reconnects`: whether to wait for consumers that have lost their connection.
        """
        __tracebackhide__ = True
        reasons = self.wait_while(partial(self._why_not_idle, reconnects=reconnects), timeout)
        if reasons:
            from leveret.observe.texts.redelivery import loops
            from leveret.story.causes import sentence

            with self.lock:
                reasons += map(sentence, loops(self.node))
            raise self.timed_out(f"not idle after {timeout:g} s: {'; '.join(reasons)}")

    def timed_out(self, text: str, queues: Sequence[str] = (), report: Report | None = None) -> WaitTimeoutError:
        """Return the error of a wait that timed out, with a report as a note: by default, that of the broker."""
        stands_still = self.clock.is_held and not self.is_jumping
        error = WaitTimeoutError(f"{text}; the clock is held" if stands_still else text)
        error.add_note(report or self.report(queues=queues))
        return error

    def _why_not_idle(self, *, reconnects: bool) -> list[str]:
        from leveret.observe.texts.state import lost_consumers, why_not_idle

        reasons = why_not_idle(self.node) + self.kept_back() + self.unread_by_peers() + self.awake
        reasons += [f"worker {it.name!r} was killed and starts again" for it in self.workers if it.is_restarting]
        return reasons + lost_consumers(self.node) + self._returning() if reconnects else reasons

    def _returning(self) -> list[str]:
        """Return the lost consumers whose client in this process is certain to come back, a sentence each."""
        lost = {tag: client for vhost in self.node.vhosts.values() for tag, client in vhost.lost_consumers.items()}
        if not lost:
            return []
        from leveret.observe.calls.insight import RobustQueues

        if self._robust_queues is None or not self._robust_queues.lost.issuperset(lost):
            self._robust_queues = RobustQueues(lost, [address[1] for address in self.addresses])
        return [
            f"{client_place_text(*lost[tag])} consumed from a queue that went with its lost connection. It reconnects "
            "by itself, but has not come back (reconnects=False does not wait for it)"
            for tag in self._robust_queues.expected(lost)
        ]

    @property
    def is_jumping(self) -> bool:
        """Whether autojump is on."""
        return self.time_mover is not None and self.time_mover.is_on

    def unread_by_peers(self) -> list[str]:
        """Return the peers that do not take what is sent to them, a sentence each."""
        return [
            f"{transport.outbox_bytes} bytes not read by {getattr(transport.conversation, 'client_name', 'a peer')}"
            for transport in self.loop.transports
            if transport.outbox_bytes
        ]

    @property
    def name(self) -> str:
        """The broker in a sentence, with the port that no other broker of the test has."""
        where = f"on port {self.addresses[0][1]}" if self.addresses else "without a port"
        return f"the broker {where}" if self.given_name is None else f"{self.given_name}, the broker {where}"

    def others(self) -> list[Engine]:
        """Return the other brokers that run in this process, once what had arrived there is handled."""
        others = [engine for engine in list(_running) if engine is not self and engine.is_readable]
        for engine in others:
            engine.sync()
        return others

    @property
    def is_readable(self) -> bool:
        """Whether the broker runs in this process and records what happens."""
        return self.loop.is_running and not self.loop.is_abandoned and self.recorder.is_on

    def refusal(self, error: AmqpError) -> RefusedError:
        """Return the refusal a client would have received, with the ways out if a denied feature is the reason."""
        from leveret.observe.texts.advice import own_advice, ways_out_of_version

        subject = error.subject or {}
        feature = subject.get("feature")
        notes = [*getattr(error, "__notes__", ()), *([] if error.cause is None else [f"because {error.cause}"])]
        notes += [] if feature is None else ["\n".join(ways_out_of_version(feature, self.handle))]
        notes += own_advice(subject, self.node)
        return RefusedError(error.code, error.reply_text, notes)

    def report(self, messages: Sequence[int] = (), queues: Sequence[str] = (), *, later_count: int = 0) -> Report:
        """Return what helps if something did not happen: state, refusals, last events, faults, seed.

        What is about these messages, by number, and about these queues comes first. The last `later_count` events came
        after the failure.
        """
        compose = partial(self._composed, messages, queues, later_count)
        if native.is_held(self.lock):
            return compose()
        return self.explaining.report((None, tuple(messages), tuple(queues), later_count), compose)

    def _composed(self, messages: Sequence[int], queues: Sequence[str], later_count: int) -> Report:
        from leveret.observe.texts.report import Facts, Report, report_text

        with self.lock:
            later_count = 0 if self.recorder.has_dropped else later_count
            facts = Facts(
                self.node, self.recorder, self.timeline(), queues=queues, later_count=later_count, handle=self.handle
            )
            faults = self._faults_text()
        seed = f", seed {self.seed}" if self.seed else ""
        text = report_text(
            facts,
            f"state of {self.name}, RabbitMQ {self.compat.version}{seed}",
            messages=messages,
            url_variables=self.url_variables,
            is_url_read=self.is_url_read,
            is_clock_held=self.clock.is_held,
            is_jumping=self.is_jumping,
        )
        return Report.about(text + faults, self.name, facts.recorded_count)


def ports_so_far() -> set[int]:
    """Return the ports of all brokers that have run in this process. A client may still look for one that stopped."""
    return _ports_so_far


def ports_in_use() -> list[int]:
    """Return the ports of the brokers that run in this process."""
    return [port for engine in _running for _, port in engine.addresses]


def _insight(product: object, channel_number: int, text: str) -> ClientInsight:
    # Imported here because few tests make such a mistake.
    from leveret.observe.calls.insight import ClientInsight

    return ClientInsight(product, channel_number, text, ports_in_use())


def _limit(timeout: float) -> int:
    __tracebackhide__ = True
    return _REAL.now() + round(timeout * 1_000_000)


def refuse_to_starve_clients(name: str | None = None, way: str | None = None) -> None:
    """Raise BrokerError on the thread of a running event loop, because the client to wait for may need that thread.

    `name` is the call, and `way` what to write instead: by default, the method of `broker.aio`.
    """
    if is_in_event_loop():
        name = name or _blocking_call()
        raise BrokerError(
            f"{name} would block the event loop that the client it waits for may need; "
            f"use: {way or f'await broker.aio.{name}'}"
        )


def is_in_event_loop() -> bool:
    """Return whether an event loop runs on this thread, without importing one.

    eventlet's hub may be such a loop. It does not run while a greenlet does, and a greenlet that waits gives way to it.
    """
    asyncio_events = sys.modules.get("asyncio.events")
    running = None if asyncio_events is None else asyncio_events._get_running_loop()
    if running is not None and running is not getattr(native.hub(), "loop", None):
        return True
    trio_lowlevel = sys.modules.get("trio.lowlevel")
    return trio_lowlevel is not None and bool(trio_lowlevel.in_trio_run())


def _blocking_call() -> str:
    """Return the name of the broker's method that was called, for the text of the refusal."""
    shown, frame = "...", sys._getframe(1).f_back
    while frame is not None and frame.f_globals.get("__name__", "").startswith("leveret."):
        name = frame.f_code.co_name
        if name.startswith(("assert_", "wait_")):
            shown = f"{name}(...)"
        elif name == "advance":
            shown = "clock.advance(...)"
        frame = frame.f_back
    return shown


class _SeededDice:
    """The dice of a node, its only source of chance: the same seed gives the same choices.

    Most brokers need none, so the generator is created on first use.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def choice(self, seq: Sequence[T], /) -> T:
        """Return one of `seq`, each with equal probability."""
        return self._random.choice(seq)

    def randbytes(self, n: int, /) -> bytes:
        """Return `n` random bytes."""
        return self._random.randbytes(n)

    @cached_property
    def _random(self) -> Random:
        from random import Random

        return Random(self._seed)
