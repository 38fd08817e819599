"""The pollers: each one that this system has keeps the same promises, alone and under a broker."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator

import pika
import pytest

import leveret
from leveret.server import native
from leveret.server.pollers import BROKEN, POLLERS, READABLE, WRITABLE, Poller, SelectPoller
from tests.server.echo import echo_broker


@pytest.fixture(params=sorted(POLLERS))
def new(request: pytest.FixtureRequest) -> Callable[[], Poller]:
    return POLLERS[request.param]


@pytest.fixture
def poller(new: Callable[[], Poller]) -> Iterator[Poller]:
    poller = new()
    yield poller
    poller.close()


@pytest.fixture
def pair() -> Iterator[tuple[native.Socket, native.Socket]]:
    near, far = native.socket_pair()
    yield near, far
    near.close()
    far.close()


Pair = tuple[native.Socket, native.Socket]


def test_a_socket_is_reported_for_what_it_is_watched_for(poller: Poller, pair: Pair) -> None:
    near, far = pair
    fd = near.fileno()
    poller.watch(fd, READABLE)
    quiet = poller.wait(0)
    far.send(b"x")
    readable = poller.wait(5)
    poller.change(fd, READABLE | WRITABLE)
    both = poller.wait(5)
    poller.change(fd, WRITABLE)
    writable = poller.wait(5)
    poller.change(fd, 0)
    silent = poller.wait(0)
    poller.forget(fd)
    forgotten = poller.wait(0)

    assert quiet == silent == forgotten == []
    assert (readable, both, writable) == ([(fd, READABLE)], [(fd, READABLE | WRITABLE)], [(fd, WRITABLE)])


def test_a_socket_that_was_silent_is_reported_again(poller: Poller, pair: Pair) -> None:
    near, far = pair
    poller.watch(near.fileno(), 0)
    far.send(b"x")
    assert poller.wait(0) == []

    poller.change(near.fileno(), READABLE)

    assert poller.wait(5) == [(near.fileno(), READABLE)]
    poller.forget(near.fileno())


def test_a_peer_that_has_gone_is_reported(poller: Poller, pair: Pair) -> None:
    near, far = pair
    poller.watch(near.fileno(), READABLE)
    far.close()

    [(fd, events)] = poller.wait(5)

    assert fd == near.fileno()
    assert events & (READABLE | BROKEN)
    poller.forget(fd)


def test_a_wait_is_never_shorter_than_it_was_asked_to_be(poller: Poller, pair: Pair) -> None:
    poller.watch(pair[0].fileno(), READABLE)
    now = time.perf_counter

    started = now()
    poller.wait(0.0021)

    # select and epoll round to the tick of the system's timer, less than a millisecond here.
    assert now() - started > 0.001
    poller.forget(pair[0].fileno())


def test_a_broker_and_a_client_work_on_each(new: Callable[[], Poller], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVERET_POLLER", next(name for name, known in POLLERS.items() if known is new))

    with leveret.Broker(management=True) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.queue_declare("hare", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "hare", b"x" * 1_000_000)
        _, _, body = channel.basic_get("hare", auto_ack=True)
        broker.restart()
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            channel.basic_get("hare")

    assert body == b"x" * 1_000_000


def test_a_poller_that_is_unknown_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVERET_POLLER", "iocp")

    with pytest.raises(leveret.BrokerError, match=r"^LEVERET_POLLER='iocp' is unknown here; this system has .*select$"):
        leveret.Broker().start()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows counts sockets, whatever their numbers")
def test_a_socket_that_select_cannot_take_is_refused_with_the_way_out() -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1100:
        pytest.skip("this process may not open a file with a number above 1,024")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1100), hard))
    with echo_broker(SelectPoller) as broker:
        taken = [os.open(os.devnull, os.O_RDONLY)]
        try:
            while taken[-1] < 1023:
                taken.append(os.dup(taken[0]))
            for _ in range(2):
                with broker.connect() as client:
                    assert is_refused(client)
        finally:
            for number in taken:
                os.close(number)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with broker.connect() as client:
            client.sendall(b"hare\n")
            assert client.recv(100) == b"HARE\n"
            assert [conversation.is_lost for conversation in broker.host.conversations] == [True, True, False]

        # The same error is kept only once.
        [error] = broker.host.internal_errors
        assert str(error) == (
            "too many connections: leveret waits with select(), which takes 1024 files and sockets of a process; close "
            "the connections that the test no longer needs, or start a second process with `python -m leveret serve`"
        )


def is_refused(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True
