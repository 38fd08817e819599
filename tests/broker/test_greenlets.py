"""A broker in a process that gevent or eventlet has patched: greenlets run while a test waits.

Each test is a process of its own, because the patches stay. Starting it takes most of its time, so it runs several
programs one after another, each with a broker of its own. The client is pika, unchanged. It works in a greenlet of the
thread that waits, so a wait that blocked the thread would never end.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from textwrap import indent

import pytest

PATCHES = {
    "gevent": "from gevent import monkey; monkey.patch_all()",
    "eventlet": "import eventlet; eventlet.monkey_patch()",
}
PROGRAM = """
{before}
from leveret import Broker
{after_import}
broker = Broker().start()
{after_start}
import pika
from {library} import sleep, spawn

def connect():
    return pika.BlockingConnection(pika.URLParameters(broker.url))

def work(queue, count):
    \"\"\"Acknowledge so many messages, each a moment after it has come.\"\"\"
    with connect() as connection:
        channel = connection.channel()
        for method, _, _ in channel.consume(queue):
            sleep(0)
            channel.basic_ack(method.delivery_tag)
            if method.delivery_tag == count:
                break
"""
# One of the things to do in a program, with a broker that nothing has used yet.
TEST = """
def test():
{body}

{call}
broker.stop()
print("{name}", flush=True)
"""
NEXT = "broker = Broker().start()"

WAIT_IDLE = """
broker.declare_queue("orders")
spawn(work, "orders", 3)
# The consumer stays until it has its messages. If they were there first, it could be gone before the test looks.
broker.wait_for_consumer("orders", timeout=60)
for number in range(3):
    broker.publish("", "orders", b"%d" % number)
broker.wait_idle(timeout=60)
broker.assert_acked("orders", times=3)
"""
ASSERT = """
broker.declare_queue("orders")
spawn(work, "orders", 2)
broker.publish("", "orders", b"first")
broker.publish("", "orders", b"last")
broker.assert_acked("orders", body=b"last", timeout=60)
"""
ADVANCE = """
broker.declare_queue("dead")
broker.declare_queue(
    "waiting",
    arguments={"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
)
spawn(work, "dead", 1)
broker.wait_for_consumer("dead", timeout=60)
broker.publish("", "waiting", b"late")
broker.clock.advance(60, settle=60)
broker.assert_acked("dead", body=b"late", times=1)
"""
AUTOJUMP = """
broker.declare_queue("dead")
broker.declare_queue(
    "waiting",
    arguments={"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
)
spawn(work, "dead", 1)
with broker.clock.autojump():
    broker.publish("", "waiting", b"late")
    broker.assert_acked("dead", body=b"late", timeout=60)
"""
CONSUMER = """
def answer():
    with connect() as connection:
        connection.channel().basic_publish("", "orders", b"hello")

broker.declare_queue("orders")
with broker.consume("orders") as consumer:
    spawn(answer)
    assert consumer.next(timeout=60).body == b"hello"
"""
MANY = """
broker.declare_queue("orders")
waiting = [spawn(broker.assert_acked, "orders", timeout=60) for _ in range(40)]
sleep(0)
broker.publish("", "orders", b"hello")
spawn(work, "orders", 1)
broker.assert_acked("orders", timeout=60)
while not all(waiter.dead for waiter in waiting):
    sleep(0)
"""
STOP = """
from pika.exceptions import AMQPConnectionError

ends = []

def watch():
    try:
        connect().process_data_events(time_limit=None)
    except AMQPConnectionError as error:
        ends.append(error)

broker.declare_queue("orders")
watcher = spawn(watch)
while not broker.connections:
    sleep(0)
broker.stop()
while not ends:
    sleep(0)
"""
WAITS = {"wait_idle": WAIT_IDLE, "assert": ASSERT, "advance": ADVANCE, "autojump": AUTOJUMP, "consumer": CONSUMER}
GREENLET = {"gevent": "spawn(test).get()", "eventlet": "spawn(test).wait()"}


def run(library: str, *tests: tuple[str, str, str], patched: str = "before") -> None:
    """Run tests, each a name, a body and how to call it, in a process that patches itself at this place."""
    if find_spec(library) is None:
        pytest.skip(f"needs {library}")
    places = {
        place: PATCHES[library] if place == patched else "" for place in ("before", "after_import", "after_start")
    }
    parts = [TEST.format(name=name, body=indent(body, "    "), call=call) for name, body, call in tests]
    program = PROGRAM.format(library=library, **places) + NEXT.join(parts)

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=90, check=False
    )

    assert (done.stdout.split(), done.returncode) == ([name for name, _, _ in tests], 0), done.stderr


@pytest.mark.parametrize("library", PATCHES)
def test_greenlets_run_while_a_test_waits(library: str) -> None:
    waits = [(name, body, "test()") for name, body in WAITS.items()]

    run(
        library,
        *waits,
        ("in_a_greenlet", WAIT_IDLE, GREENLET[library]),
        ("many_at_once", MANY, "test()"),
        ("until_the_broker_stops", STOP, "test()"),
    )


@pytest.mark.parametrize("library", PATCHES)
@pytest.mark.parametrize("patched", ["after_import", "after_start"])
def test_a_broker_may_be_older_than_the_patches(library: str, patched: str) -> None:
    run(library, ("wait_idle", WAIT_IDLE, "test()"), patched=patched)


def test_eventlets_hub_may_be_an_event_loop_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLET_HUB", "asyncio")

    run("eventlet", ("wait_idle", WAIT_IDLE, "test()"))


def test_a_real_thread_beside_eventlet_blocks_alone() -> None:
    run("eventlet", ("wait_idle", WAIT_IDLE, "import eventlet.tpool; eventlet.tpool.execute(test)"))
