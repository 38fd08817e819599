"""A user's first tests on a system that has no fork, no epoll, no poll and no /proc."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FIRST_TESTS = '''
import os
import subprocess
import sys

import pika
import pytest

from leveret.server.threads import Threads


def test_everything_is_hidden():
    assert not hasattr(os, "fork")
    assert os.environ["LEVERET_POLLER"] == "select"
    assert not Threads().can_tell
    with pytest.raises(FileNotFoundError):
        os.listdir("/proc")


def test_an_order_arrives(leveret):
    with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", b"two hares")

        leveret.assert_published("", routing_key="orders", body=b"two hares")
        assert channel.basic_get("orders", auto_ack=True)[2] == b"two hares"


WORKER = """
import sys
import pika

def work(channel, method, properties, body):
    if method.routing_key == "orders" and properties.headers is None:
        channel.basic_publish("", "later", body)
    channel.basic_ack(method.delivery_tag)

channel = pika.BlockingConnection(pika.URLParameters(sys.argv[1])).channel()
channel.basic_consume("orders", work)
print("ready", flush=True)
channel.start_consuming()
"""


def test_a_retry_in_another_process_comes_back_as_often_as_time_is_moved(leveret):
    leveret.declare_queue("orders")
    dead_letter = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders", "x-message-ttl": 600_000}
    leveret.declare_queue("later", arguments=dead_letter)
    with subprocess.Popen([sys.executable, "-c", WORKER, leveret.url], stdout=subprocess.PIPE) as worker:
        try:
            worker.stdout.readline()
            leveret.publish("", "orders", b"two hares")
            leveret.assert_published("", routing_key="later", timeout=5)

            leveret.clock.advance(minutes=11)

            leveret.assert_dead_lettered("later", reason="expired")
            leveret.assert_acked("orders", times=2, timeout=5)
        finally:
            worker.kill()


def test_a_client_notices_a_restart(leveret):
    connection = pika.BlockingConnection(pika.URLParameters(leveret.url))

    leveret.restart()

    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connection.channel()
'''


def test_first_tests_pass_without_what_windows_lacks(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Importing the other plugins that pytest finds here takes longer than the tests.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
    pytester.makepyfile(FIRST_TESTS)

    result = pytester.runpytest_subprocess("-p", "tests.without_posix", "-p", "pytest_leveret.plugin")

    result.assert_outcomes(passed=4)
