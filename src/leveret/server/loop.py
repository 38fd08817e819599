"""The loop: one daemon thread that moves bytes between sockets and conversations and runs what is due.

It sleeps until a socket is ready, another thread wakes it or the next deadline comes. A broker without traffic costs
nothing. The loop knows no AMQP. It has a `Conversation` for each socket, and one `Host`, the node, whose deadlines it
keeps. It touches both only under the broker's lock. At the end of each turn it flushes once every conversation with
output.

No peer and no cascade of work holds up the others for long. A turn reads each peer once, a peer whose bytes are costly
to handle in smaller pieces, and does a limited amount of the work that other work has caused. What is left goes on in
the next turn.

An exception of leveret's own is kept with the host. It ends the one conversation it came from, never the loop.

Other threads use it in three ways. `wake` makes it look for work. `ask` runs an action on its thread behind a barrier:
what clients had sent before is read, what is due is done, output is offered. `Turns` reports when a turn has ended.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sized
from contextlib import suppress
from math import inf
from typing import Protocol, TypeVar

from leveret.clocks import ClockSource, CpuClock, HoldableClock, thread_cpu_ns
from leveret.server import native, threads
from leveret.server.listener import Address, Listener
from leveret.server.pollers import READABLE, Poller, new_poller
from leveret.server.rendezvous import LoopAction, Turns
from leveret.server.transport import Conversation, Transport

T = TypeVar("T")
# Longer sleeps are split up, because the system refuses very long ones.
LONGEST_SLEEP_S = 3600.0
# This many turns in a row that only read are a stream. Its sender waits for nothing, and if it lives in this process,
# the pause lets it have the interpreter's lock.
STREAM_TURNS = 32
STREAM_PAUSE_S = 0.001
# The pieces of work, and copies of messages that they make, in one turn: a few milliseconds at most. What the frames of
# a turn cause and what is left over from earlier turns count separately, so that neither starves the other.
WORK_PER_TURN = 100
# The longest sleep before the next turn of such work. Any input ends it. It lets clients of this process have the
# interpreter's lock, for which they would otherwise wait 5 ms each time.
WORK_PAUSE_S = 0.001

# The running loops of this process, which a forked child must be cut off from.
_running: list[Loop] = []


class Host(Protocol):
    """What the loop needs of a node."""

    internal_errors: list[BaseException]
    # How many more pieces of work the turn may do.
    allowance: float

    @property
    def left_over(self) -> Sized:
        """The work for later turns."""
        ...

    def advance(self, now: int, wall_now: int) -> None:
        """Run what is due."""
        ...

    def go_on(self) -> None:
        """Go on with the work that is left over, as far as the allowance goes."""
        ...

    def finish_work(self) -> None:
        """Do all work that is left. From now on the allowance has no limit."""
        ...

    def next_deadline(self) -> int | None:
        """Return the next instant on the broker's clock at which something is due."""
        ...

    def next_liveness_deadline(self) -> int | None:
        """Return the next instant in real time at which something is due."""
        ...


Connect = Callable[[Address, Address], Conversation]


class Loop:
    """The thread that serves the conversations of one broker."""

    # Whether clients live on the thread that serves them, so that a wait for them can only be in vain.
    is_inline = False
    # What listens at an address.
    listener_type: type[Listener] = Listener

    def __init__(
        self,
        host: Host,
        *,
        lock: native.ReentrantLock,
        clock: HoldableClock,
        wall: ClockSource,
        connect: Connect,
        new_poller: Callable[[], Poller] = new_poller,
        cpu_clock: CpuClock = thread_cpu_ns,
    ) -> None:
        """Create a loop that is not running yet.

        `connect` makes the conversation for a socket from the peer's address and the broker's. `cpu_clock` returns the
        processor time of the loop's thread in nanoseconds.
        """
        self.host = host
        self._new_poller = new_poller
        self.connect = connect
        self.turns = Turns()
        # How often a client was active: it connected, sent something, took pending output, or left.
        self.arrival_count = 0
        # The process this loop belongs to. A forked child has a copy without a thread.
        self.process = os.getpid()
        self.is_abandoned = False
        self._lock = lock
        self._clock = clock
        self._wall = wall
        self._cpu_clock = cpu_clock
        self._transports: dict[int, Transport] = {}
        self._by_conversation: dict[Conversation, Transport] = {}
        # Conversations with output since the last flush. They add themselves, each once.
        self.dirty: list[Conversation] = []
        # Whether this turn sent anything, and whether it left any input for the next.
        self._has_sent = False
        self._has_unread = False
        # A poller that sees only wake-ups.
        self._wake_poller: Poller | None = None
        self._requests: deque[LoopAction[object]] = deque()
        self._listeners: dict[int, Listener] = {}
        # Called at the end of a turn with the seconds to sleep. Returns the seconds the loop may sleep.
        self.after_turn: Callable[[float | None], float | None] | None = None
        self._last_act: Callable[[], None] | None = None
        self._is_stopping = False
        self._is_ended = False
        self._is_woken = False
        self._thread: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None

    @property
    def has_turns(self) -> bool:
        """Whether another turn may come. After the last one, the thread still runs for a moment."""
        return self.is_running and not self._is_ended

    @property
    def is_own_thread(self) -> bool:
        """Whether the calling thread is the loop's."""
        return native.thread_ident() == self._thread

    @property
    def transports(self) -> list[Transport]:
        """The open sockets, in order of opening."""
        return list(self._transports.values())

    def start(self, *listeners: Listener) -> None:
        """Start the thread, which serves connections to `listeners`."""
        assert not self.is_running
        try:
            self._poller = self._new_poller()
            self._open_own()
            self.listen(*listeners)
        except Exception:
            # Such as a process that has no descriptors left. Nothing was started.
            for listener in listeners:
                listener.close()
            raise
        self._is_stopping = self._is_ended = self._is_woken = False
        self.process = os.getpid()
        self._finished = native.allocate_lock()
        self._finished.acquire()
        _running.append(self)
        self._thread = self._begin()

    def _open_own(self) -> None:
        """Open the sockets by which other threads wake this one."""
        self._wake_read_end, self._wake_write_end = native.socket_pair()
        self._wake_read_fd = self._wake_read_end.fileno()
        self._poller.watch(self._wake_read_fd, READABLE)

    def _begin(self) -> int:
        """Begin to serve, and return the number of the thread that does it."""
        # The thread empties the list, so that its last frame keeps no reference to the loop.
        return native.start_new_thread(_run, ([self], self._finished))

    def listen(self, *listeners: Listener) -> None:
        """Serve connections to these listeners. Call it on the loop's thread once there is one."""
        for listener in listeners:
            self._listeners[listener.fd] = listener
            listener.watch(self._poller)

    def close_ports(self) -> None:
        """Accept no more connections; those that are open stay. Call it on the loop's thread."""
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()

    def close_port(self, address: Address) -> None:
        """Accept no more connections at one address. Call it on the loop's thread."""
        for fd in [fd for fd, listener in self._listeners.items() if listener.address == address]:
            self._listeners.pop(fd).close()

    @property
    def is_listening(self) -> bool:
        """Whether the loop accepts connections."""
        return bool(self._listeners)

    def unsent_bytes(self, conversation: Conversation) -> int:
        """Return how much of a conversation's output its peer has not taken yet. Call it on the loop's thread."""
        transport = self._by_conversation.get(conversation)
        return 0 if transport is None else transport.outbox_bytes

    def stop(self, last_act: Callable[[], None] | None = None) -> None:
        """Do `last_act`, flush, close every socket and end the thread."""
        if not self.is_running or self.is_abandoned:
            return
        self._last_act = last_act
        self._is_stopping = True
        self.wake()
        # A broker may be garbage-collected on its own thread.
        if not self.is_own_thread:
            # Released again for other threads that stop the loop at the same time.
            self._finished.acquire()
            self._finished.release()
        self._thread = None

    def wake(self) -> None:
        """Make the loop look again for output, a nearer deadline or a request."""
        if self._is_woken or self._thread is None:
            return
        try:
            self._is_woken = True
            self._wake_write_end.send(b"\0")
        except BaseException as error:
            # The handler of a signal may raise here. The next call must not take the loop for woken.
            self._is_woken = False
            # An OSError means that the loop has just ended.
            if not isinstance(error, OSError):
                raise

    def ask(self, action: Callable[[], T]) -> T:
        """Run `action` on the loop's thread behind a barrier, and return or raise what it does.

        Before it runs, the loop reads every socket up to what it held at the call, and does what is due. Before the
        answer, it offers output to every socket until the socket would block. It never waits for a peer that does not
        read. If no loop runs, the action runs on this thread at once. So it does if this thread holds the lock, as in
        the handler of a signal that interrupts a call: the loop could not run then.
        """
        if not self.is_running or self.is_own_thread or native.is_held(self._lock):
            with self._lock:
                return action()
        request = LoopAction(action)
        self._requests.append(request)  # type: ignore[arg-type]
        self.wake()
        if self._is_ended:
            self._finish_requests()
        return request.outcome()

    def run_beside(self, work: Callable[[], None]) -> None:
        """Run code of the test outside the lock, while clients are served."""
        native.start_new_thread(work, ())

    def reset_all(self) -> None:
        """Offer every socket its queued output, then reset it. Call it on the loop's thread."""
        self._flush()
        for transport in self.transports:
            transport.reset()
            self._forget(transport)
        self.dirty.clear()

    def run(self) -> None:
        """Serve until the loop is stopped. This is the whole life of its thread."""
        try:
            self._serve()
        except Exception as error:
            self.host.internal_errors.append(error)
        self._conclude()

    def _conclude(self) -> None:
        with self._lock:
            self._end()
        # From here on, `ask` serves requests on the caller's thread. Earlier requests are served here.
        self._is_ended = True
        self._finish_requests()
        self.turns.complete()

    def _serve(self) -> None:
        lock, wait, turns = self._lock, self._poller.wait, self.turns
        events: list[tuple[int, int]] = []
        stream_turns = 0
        while not self._is_stopping:
            with lock:
                arrival_count = self.arrival_count
                timeout = self._whole_turn(events)
                has_only_read = self.arrival_count != arrival_count and not (self._has_sent or self._has_unread)
            turns.complete()
            stream_turns = stream_turns + 1 if has_only_read else 0
            if stream_turns >= STREAM_TURNS and (timeout is None or timeout > STREAM_PAUSE_S):
                self._pause()
            events = wait(timeout)

    # Hot: once per wake-up.
    def _whole_turn(self, events: list[tuple[int, int]]) -> float | None:
        """Do a turn and what follows each. Return the seconds to sleep, or None for no limit."""
        self._has_sent = self._has_unread = False
        self.host.allowance = WORK_PER_TURN
        timeout = self._turn(events)
        self.host.allowance = inf
        return timeout if self.after_turn is None else self._guarded_after(self.after_turn, timeout)

    def _pause(self) -> None:
        """Pause to let more input arrive, until another thread wakes the loop."""
        if self._wake_poller is None:
            # If the process has no descriptors left, do not pause.
            with suppress(OSError):
                self._wake_poller = self._new_poller()
                self._wake_poller.watch(self._wake_read_fd, READABLE)
        if self._wake_poller is not None:
            self._wake_poller.wait(STREAM_PAUSE_S)

    # Hot: once per wake-up.
    def _turn(self, events: list[tuple[int, int]]) -> float | None:
        """Do what there is to do. Return the seconds to sleep, or None for no limit."""
        wall_now = self._wall.now()
        self._guarded_work(self.host.advance, self._clock.now(), wall_now)
        for fd, mask in events:
            transport = self._transports.get(fd)
            if transport is not None:
                self.arrival_count += 1
                self._guarded(transport, transport.on_ready, mask)
                if transport.is_open and transport.has_unread:
                    self._has_unread = True
            elif fd == self._wake_read_fd:
                self._clear_wake()
            elif fd in self._listeners:
                self._accept(self._listeners[fd], wall_now)
        if self._requests:
            self._answer()
        if self.host.left_over:
            self.host.allowance = WORK_PER_TURN
        self._guarded_work(self.host.go_on)
        for listener in self._listeners.values():
            if listener.accept_again_at is not None:
                listener.resume(wall_now)
        # Send last: a client thread of this process that wakes up waits for the interpreter until the loop sleeps.
        timeout = self._seconds_to_deadline(wall_now)
        if self.dirty:
            socket_count = len(self._transports)
            self._flush()
            if len(self._transports) != socket_count:
                # A closed connection may leave a deadline behind, such as that of a queue without consumers.
                timeout = self._seconds_to_deadline(wall_now)
        # A request that came during this turn, before the loop cleared its wake-up, would not get another turn.
        if self._requests or self._is_stopping:
            return 0
        if self.host.left_over:
            return WORK_PAUSE_S if timeout is None else min(timeout, WORK_PAUSE_S)
        return timeout

    def _guarded_after(self, act: Callable[[float | None], float | None], timeout: float | None) -> float | None:
        try:
            return act(timeout)
        except Exception as error:
            self.host.internal_errors.append(error)
            return timeout

    def _guarded_work(self, act: Callable[..., None], *arguments: object) -> None:
        try:
            act(*arguments)
        except Exception as error:
            self.host.internal_errors.append(error)

    def _guarded(self, transport: Transport, act: Callable[..., None], *arguments: object) -> None:
        """Do something with a socket, and reset it if its conversation raises an error of leveret's own."""
        try:
            act(*arguments)
        except Exception as error:
            self.host.internal_errors.append(error)
            self._guarded_work(transport.reset)
        if not transport.is_open:
            self._forget(transport)

    def _forget(self, transport: Transport) -> None:
        if self._transports.get(transport.fd) is transport:
            del self._transports[transport.fd]
        self._by_conversation.pop(transport.conversation, None)

    def _clear_wake(self) -> None:
        # Clear the flag before looking for work, so that a later wake-up leads to another turn.
        with suppress(OSError):
            self._wake_read_end.recv(64)
        self._is_woken = False

    def _accept(self, listener: Listener, wall_now: int) -> None:
        for socket, peer, own in listener.accept(wall_now):
            try:
                self.add(socket, self.connect(peer, own))
            except Exception as error:
                # A system that cannot watch so many sockets refuses each one: one such error is enough.
                if not any(str(kept) == str(error) for kept in self.host.internal_errors):
                    self.host.internal_errors.append(error)
                socket.close()

    def add(self, socket: native.Socket, conversation: Conversation) -> None:
        """Serve a connected socket that does not block. Call it on the loop's thread."""
        try:
            transport = Transport(socket, conversation, self._poller, self._cpu_clock)
        except Exception:
            conversation.connection_lost()
            raise
        self.arrival_count += 1
        self._transports[transport.fd] = transport
        self._by_conversation[transport.conversation] = transport

    def _answer(self) -> None:
        """Serve the requests behind one barrier."""
        requests = self._take_requests()
        # A test must not see work half done, nor miss what a peer sent while its work was left over.
        self._guarded_work(self.host.finish_work)
        # Flush first, because only that shows which peers may be read again.
        self._flush()
        for listener in self._listeners.values():
            self._accept(listener, self._wall.now())
        for transport in self.transports:
            if transport.is_reading:
                self._guarded(transport, self._drain, transport)
        self._guarded_work(self.host.advance, self._clock.now(), self._wall.now())
        self._guarded_work(self.host.finish_work)
        self._flush()
        for request in requests:
            request.run()
        self._guarded_work(self.host.finish_work)
        self._flush()
        for request in requests:
            request.answer()

    # Hot: once per turn.
    def _flush(self) -> None:
        while self.dirty:
            self._has_sent = True
            # Ending one conversation may give others output.
            conversations = self.dirty[:]
            self.dirty.clear()
            for conversation in conversations:
                transport = self._by_conversation.get(conversation)
                if transport is not None:
                    self._guarded(transport, transport.flush)

    # Hot: once per turn.
    def _seconds_to_deadline(self, wall_now: int) -> float | None:
        """Return the time until the nearest deadline, or None if there is none.

        Deadlines in real time are seconds away, so the beginning of the turn is precise enough as now.
        """
        nearest_us: float = inf
        liveness_deadline = self.host.next_liveness_deadline()
        if liveness_deadline is not None:
            nearest_us = liveness_deadline - wall_now
        deadline = self.host.next_deadline()
        if deadline is not None:
            span_us = deadline - self._clock.now()
            # A held clock reaches no deadline, but what is due at once must still be done.
            if span_us < nearest_us and (span_us <= 0 or not self._clock.is_held):
                nearest_us = span_us
        for listener in self._listeners.values():
            if listener.accept_again_at is not None:
                nearest_us = min(nearest_us, listener.accept_again_at - wall_now)
        if nearest_us is inf:
            return None
        return 0 if nearest_us <= 0 else min(nearest_us / 1_000_000, LONGEST_SLEEP_S)

    def _end(self) -> None:
        """Close everything the thread opened, as its last act."""
        self._guarded_work(self.host.finish_work)
        if self._last_act is not None:
            LoopAction(self._last_act).run()
            self._last_act = None
        self.close_ports()
        self._flush()
        for transport in self.transports:
            self._guarded(transport, transport.reset)
        self.dirty.clear()
        self._close_own()
        if self in _running:
            _running.remove(self)

    def _close_own(self) -> None:
        """Close the sockets and pollers that belong to no peer."""
        self._wake_read_end.close()
        self._wake_write_end.close()
        self._poller.close()
        if self._wake_poller is not None:
            self._wake_poller.close()
            self._wake_poller = None

    def _finish_requests(self) -> None:
        for request in self._take_requests():
            with self._lock:
                request.run()
            request.answer()

    def _drain(self, transport: Transport) -> None:
        if transport.drain():
            self.arrival_count += 1

    def _take_requests(self) -> list[LoopAction[object]]:
        requests = []
        while self._requests:
            try:
                requests.append(self._requests.popleft())
            except IndexError:
                break
        return requests

    def abandon(self) -> None:
        """Close a forked child's copies of the sockets, which would keep the parent's connections open."""
        self.is_abandoned = True
        for transport in self._transports.values():
            transport.abandon()
        for listener in self._listeners.values():
            listener.abandon()
        self._close_own()


def _run(loops: list[Loop], finished: native.PlainLock) -> None:
    threads.register_thread()
    try:
        loops.pop().run()
    finally:
        threads.unregister_thread()
        finished.release()


def _cut_off_child() -> None:
    for loop in _running:
        loop.abandon()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_cut_off_child)
