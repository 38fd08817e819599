"""What the loop promises to any conversation, tested with one that speaks no AMQP."""

from __future__ import annotations

import gc
import os
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress

import pytest

from leveret.clocks import SystemClock
from leveret.server.listener import Listener
from leveret.server.pollers import POLLERS, Poller, new_poller
from leveret.server.transport import READ_BYTES_MIN
from tests.server.echo import EchoBroker, echo_broker, read_to_end
from tests.systems import needs_fork, needs_proc, needs_quickack


def last_words(client: socket.socket) -> bytes:
    received = bytearray()
    with suppress(ConnectionResetError):
        while data := client.recv(65536):
            received += data
    return bytes(received)


@pytest.fixture(params=POLLERS)
def broker(request: pytest.FixtureRequest) -> Iterator[EchoBroker]:
    with echo_broker(POLLERS[request.param]) as broker:
        yield broker


def test_a_client_is_answered(broker: EchoBroker) -> None:
    with broker.connect() as client:
        client.sendall(b"hare\n")

        assert client.recv(100) == b"HARE\n"


def test_a_stream_of_input_makes_the_loop_pause() -> None:
    pollers: list[Poller] = []
    with echo_broker(lambda: noted(pollers)) as broker, broker.connect() as client:
        for count in range(1, 51):
            client.sendall(b"quiet\n")
            broker.wait_until(lambda count=count: b"quiet\n" * count in all_received(broker))  # type: ignore[misc]

        # The second poller only listens for the loop's wake-ups.
        assert len(pollers) == 2


def test_a_client_that_gets_answers_never_waits_for_a_pause() -> None:
    pollers: list[Poller] = []
    with echo_broker(lambda: noted(pollers)) as broker, broker.connect() as client:
        for _ in range(50):
            client.sendall(b"hare\n")
            assert client.recv(100) == b"HARE\n"

        assert len(pollers) == 1


def noted(pollers: list[Poller]) -> Poller:
    pollers.append(new_poller())
    return pollers[-1]


def all_received(broker: EchoBroker) -> bytes:
    return b"".join(bytes(conversation.received) for conversation in broker.host.conversations)


def test_input_sent_before_a_barrier_has_been_handled_when_it_returns(broker: EchoBroker) -> None:
    with broker.connect() as client:
        for number in range(200):
            client.sendall(b"%d\n" % number)
            broker.sync()

            assert broker.host.conversations[0].received.endswith(b"%d\n" % number)


@needs_quickack
def test_a_barrier_covers_small_writes_that_nagle_holds_back(broker: EchoBroker) -> None:
    with broker.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        for _ in range(50):
            for _ in range(10):
                client.sendall(b"x")
            broker.sync()

            assert len(broker.host.conversations[0].received) % 10 == 0


def test_a_barrier_covers_connections_that_were_not_accepted_yet(broker: EchoBroker) -> None:
    for expected in range(1, 50):
        with broker.connect() as client:
            client.sendall(b"here\n")
            broker.sync()

            assert len(broker.host.conversations) == expected
            assert broker.host.conversations[-1].received == b"here\n"


def test_a_barrier_covers_more_than_the_buffers_hold_at_once(broker: EchoBroker) -> None:
    with broker.connect() as client:
        client.setblocking(False)
        sent = 0
        try:
            while sent < 32_000_000:
                sent += client.send(b"z" * 1_000_000)
        except BlockingIOError:
            pass
        broker.sync()

        assert len(broker.host.conversations[0].received) == sent


def test_the_outcome_of_a_request_is_that_of_its_action(broker: EchoBroker) -> None:
    def fail() -> None:
        raise LookupError("said on the loop's thread")

    assert broker.loop.ask(lambda: 42) == 42
    with pytest.raises(LookupError, match="said on the loop's thread"):
        broker.loop.ask(fail)


def test_a_request_to_a_stopped_loop_runs_on_the_callers_thread() -> None:
    broker = EchoBroker()

    assert broker.loop.ask(threading.get_ident) == threading.get_ident()
    broker.start()
    assert broker.loop.ask(threading.get_ident) != threading.get_ident()
    broker.loop.stop()
    assert broker.loop.ask(threading.get_ident) == threading.get_ident()


def test_a_closed_conversation_sends_its_output_and_then_ends(broker: EchoBroker) -> None:
    with broker.connect() as client:
        client.sendall(b"bye\nnot read any more")

        assert last_words(client).startswith(b"BYE\n")
        broker.wait_until(lambda: broker.host.conversations[0].is_lost)


def test_a_reset_conversation_ends_with_a_reset(broker: EchoBroker) -> None:
    with broker.connect() as client:
        client.sendall(b"reset\n")

        with pytest.raises(ConnectionResetError):
            client.recv(100)


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_conversation_learns_that_its_peer_has_gone(broker: EchoBroker, is_reset: bool) -> None:
    client = broker.connect()
    client.sendall(b"hare\n")
    client.recv(100)
    if is_reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()

    broker.wait_until(lambda: broker.host.conversations[0].is_lost)
    assert broker.loop.transports == []


def test_a_half_closed_conversation_sends_its_output_and_reads_on(broker: EchoBroker) -> None:
    with broker.connect() as client:
        client.sendall(b"half\n")
        assert read_to_end(client) == b"HALF\n"

        client.sendall(b"hare\n")
        broker.sync()

        echo = broker.host.conversations[0]
        assert echo.received == b"half\nhare\n"
        assert broker.loop.transports[0].outbox_bytes == 0


def test_a_peer_that_does_not_read_holds_up_no_other(broker: EchoBroker) -> None:
    with broker.connect() as deaf, broker.connect() as other:
        deaf.sendall(b"flood\n")
        broker.sync()
        other.sendall(b"hare\n")

        assert other.recv(100) == b"HARE\n"
        assert broker.loop.transports[0].outbox_bytes > 0
        assert not broker.loop.transports[0].is_reading


def test_a_flood_is_read_in_small_pieces_between_which_others_are_served(broker: EchoBroker) -> None:
    with broker.connect() as flood, broker.connect() as witness:
        broker.host.cost_ns = 1000
        flood.sendall(b"quiet\n" * 20_000)
        witness.sendall(b"quiet\n")
        broker.sync()

        with broker.lock:
            broker.host.reads.clear()
            flood.sendall(b"quiet\n" * 10_000)
            witness.sendall(b"hare\n")
        witness.recv(100)
        broker.sync()

    reads = broker.host.reads
    turn = next(at for at, (_, size) in enumerate(reads) if size == len(b"hare\n"))
    # The loop may have woken up for the flood before the witness had sent anything.
    assert turn <= 2
    assert {size for _, size in reads[:-1] if size != len(b"hare\n")} == {READ_BYTES_MIN}


def test_a_loop_with_work_left_over_does_not_sleep(broker: EchoBroker) -> None:
    with broker.lock:
        broker.host.left_over = ["one", "two", "three"]
    broker.loop.wake()

    broker.wait_until(lambda: not broker.host.left_over)


def test_a_stopped_loop_has_done_the_work_that_was_left_over() -> None:
    with echo_broker() as broker, broker.lock:
        broker.host.left_over = ["one"] * 1000

    assert not broker.host.left_over


def test_a_slow_peer_gets_everything_in_the_end(broker: EchoBroker) -> None:
    with broker.connect() as client:
        client.sendall(b"flood\nbye\n")

        # The loop ends with a reset if this client has read as fast as the loop wrote.
        assert len(last_words(client)) == 64 * 1024 * 1024 + len(b"BYE\n")


def test_a_peer_that_reads_only_after_the_end_gets_everything(broker: EchoBroker) -> None:
    with broker.connect() as client:
        client.sendall(b"quiet\n")
        broker.sync()
        [echo] = broker.host.conversations
        with broker.lock:
            # The system takes all of it at once, but the peer has no room for it.
            echo.say(bytes(1024 * 1024))
            echo.is_closed = True
        broker.loop.wake()
        broker.wait_until(lambda: echo.is_lost)

        assert len(last_words(client)) == 1024 * 1024


def test_a_paused_conversation_is_not_read(broker: EchoBroker) -> None:
    with broker.connect() as client:
        client.sendall(b"pause\n")
        broker.sync()
        client.sendall(b"unheard\n")
        broker.sync()
        echo = broker.host.conversations[0]
        assert echo.received == b"pause\n"

        with broker.lock:
            echo.is_reading_paused = False
            echo.say(b"go on\n")
        broker.loop.wake()

        broker.wait_until(lambda: echo.received == b"pause\nunheard\n")


def test_a_barrier_covers_input_that_arrived_during_a_pause(broker: EchoBroker) -> None:
    with broker.connect() as client:
        client.sendall(b"pause\n")
        broker.sync()
        client.sendall(b"unheard\n")
        echo = broker.host.conversations[0]
        with broker.lock:
            echo.is_reading_paused = False
            echo.say(b"go on\n")

        broker.sync()

        assert echo.received == b"pause\nunheard\n"


def test_a_barrier_covers_input_that_waited_for_work_to_be_done(broker: EchoBroker) -> None:
    with broker.connect() as client:
        client.sendall(b"pause\n")
        broker.sync()
        client.sendall(b"unheard\n")
        echo = broker.host.conversations[0]

        def go_on() -> None:
            echo.is_reading_paused = False
            echo.say(b"go on\n")

        with broker.lock:
            broker.host.when_done = go_on

        assert broker.loop.ask(lambda: echo.received) == b"pause\nunheard\n"


def test_an_internal_error_is_kept_and_ends_only_its_conversation(broker: EchoBroker) -> None:
    with broker.connect() as unlucky, broker.connect() as other:
        unlucky.sendall(b"crash\n")
        with pytest.raises(ConnectionResetError):
            unlucky.recv(100)
        other.sendall(b"hare\n")

        assert other.recv(100) == b"HARE\n"
        assert [str(error) for error in broker.host.internal_errors] == ["a bug of ours"]


def test_a_deadline_ends_the_sleep(broker: EchoBroker) -> None:
    with broker.lock:
        broker.host.due_at = broker.clock.now() + 2_000
        broker.host.liveness_due_at = SystemClock().now() + 4_000
    broker.loop.wake()

    broker.wait_until(lambda: broker.host.fired == ["due", "liveness"])


def test_a_held_clock_holds_the_broker_and_not_its_liveness(broker: EchoBroker) -> None:
    with broker.lock:
        broker.clock.hold()
        broker.host.due_at = broker.clock.now() + 1
        broker.host.liveness_due_at = SystemClock().now() + 2_000
    broker.loop.wake()

    broker.wait_until(lambda: broker.host.fired == ["liveness"])


def test_an_idle_loop_sleeps(broker: EchoBroker) -> None:
    with broker.connect() as client:
        client.sendall(b"hare\n")
        client.recv(100)
        broker.sync()
        count = broker.loop.turns.count
        broker.loop.turns.wait_beyond(count, 0.05)

        assert broker.loop.turns.count == count


def test_two_loops_are_independent() -> None:
    with echo_broker() as first, echo_broker() as second:
        first.loop.stop()
        with second.connect() as client:
            client.sendall(b"hare\n")

            assert client.recv(100) == b"HARE\n"


def test_a_stopped_loop_frees_its_port_and_resets_its_peers() -> None:
    with echo_broker() as broker:
        client = broker.connect()
        client.sendall(b"hare\n")
        client.recv(100)
        broker.loop.stop()

        with pytest.raises(ConnectionResetError):
            client.recv(100)
        client.close()
        Listener(*broker.address).close()


def test_nothing_is_left_of_a_thousand_loops() -> None:
    with echo_broker():
        pass
    # Collect what earlier tests left, so that it is not counted here.
    gc.collect()
    descriptors = descriptor_count()
    loops = []
    for _ in range(1000):
        with echo_broker() as broker, broker.connect():
            loops.append(weakref.ref(broker.loop))
    del broker
    gc.collect()

    assert sum(loop() is not None for loop in loops) == 0
    assert descriptor_count() <= descriptors


def descriptor_count() -> int:
    """Return how many files and sockets this process has open, or 0 where the system does not list them."""
    with suppress(OSError):
        return len(os.listdir("/proc/self/fd"))
    return 0


@needs_proc
def test_a_stopped_loop_has_no_thread() -> None:
    broker = EchoBroker()
    before = set(os.listdir("/proc/self/task"))
    broker.start()
    assert len(set(os.listdir("/proc/self/task")) - before) == 1
    broker.loop.stop()

    # The system may take a moment to remove a thread that has returned.
    clock = SystemClock()
    limit = clock.now() + 10_000_000
    while set(os.listdir("/proc/self/task")) - before:
        assert clock.now() < limit


@pytest.mark.skipif(sys.platform != "linux", reason="limits are set in the way of Linux")
def test_a_process_out_of_file_descriptors_accepts_later() -> None:
    resource = pytest.importorskip("resource")
    with echo_broker() as broker:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        waiting = socket.socket()
        waiting.settimeout(60)
        taken = [os.open("/dev/null", os.O_RDONLY)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 1, hard))
        try:
            waiting.connect(broker.address)
            waiting.sendall(b"hare\n")
            broker.sync()
            assert broker.host.conversations == []
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            os.close(taken[0])

        assert waiting.recv(100) == b"HARE\n"
        waiting.close()


@pytest.mark.skipif(sys.platform != "linux", reason="limits are set in the way of Linux")
def test_a_loop_that_cannot_start_leaves_nothing_behind() -> None:
    resource = pytest.importorskip("resource")
    broker = EchoBroker()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open("/dev/null", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            broker.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert not broker.loop.is_running
    Listener(*broker.address).close()


@needs_fork
def test_a_forked_child_leaves_its_parents_connections_alone() -> None:
    with echo_broker() as broker, broker.connect() as client:
        client.sendall(b"hare\n")
        client.recv(100)
        ready, release = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            is_cut_off = broker.loop.is_abandoned
            os.write(ready[1], b"y" if is_cut_off else b"n")
            os.read(release[0], 1)
            os._exit(0)

        assert os.read(ready[0], 1) == b"y"
        client.sendall(b"reset\n")
        with pytest.raises(ConnectionResetError):
            client.recv(100)
        os.write(release[1], b"x")
        os.waitpid(child, 0)
        for end in (*ready, *release):
            os.close(end)


GEVENT = """
{before}
from tests.server.echo import echo_broker
{after}
import threading, gevent, _thread
from gevent import monkey, socket
assert monkey.is_module_patched("threading")
with echo_broker() as broker:
    idents = broker.loop.ask(monkey.get_original("_thread", "get_ident")), monkey.get_original("_thread", "get_ident")()
    assert idents[0] != idents[1], "the loop is a greenlet"
    client = socket.create_connection(broker.address, timeout=60)
    client.sendall(b"hare\\n")
    assert client.recv(100) == b"HARE\\n"
    client.sendall(b"again\\n")
    broker.sync()
    assert broker.host.conversations[0].received.endswith(b"again\\n")
print("good")
"""


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_loop_lives_beside_gevent_patched_before_and_after_its_import(order: str) -> None:
    pytest.importorskip("gevent")
    patch = "from gevent import monkey; monkey.patch_all()"
    code = GEVENT.format(before=patch if order == "before" else "", after=patch if order == "after" else "")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120)

    assert done.stdout == "good\n", done.stderr
