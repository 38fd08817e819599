"""The time that a broker takes to start and stop, to serve a small test, and to return a view.

Run it as `python benchmarks/start.py`. Times are microseconds, as median and range of several rounds. Compare them only
with others from the same machine; the first row is a bare thread and a bare socket pair there.
"""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Callable

import pika

from leveret import Broker

ROUNDS = 7


def main() -> None:
    with Broker() as broker:
        broker.declare_queue("orders")
        rows = [
            ("thread and socket pair, for comparison", 200, thread_and_sockets),
            ("Broker(): start and stop", 200, start_and_stop),
            ("Broker(management=True): start and stop", 200, start_and_stop_with_http),
            ("sync()", 500, broker.sync),
            ("queue(...)", 500, lambda: broker.queue("orders")),
            ("publish(...) of 1 kB into no queue", 500, lambda: broker.publish("amq.fanout", "x", bytes(1024))),
            ("small test with pika: connect, declare, 10 messages, delete", 20, small_test),
        ]
        for name, count, act in rows:
            times = [measure(act, count) for _ in range(ROUNDS)]
            print(f"{statistics.median(times):9.1f}  ({min(times):.1f} to {max(times):.1f})  {name}")


def measure(act: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        act()
    return (time.perf_counter() - start) / count * 1_000_000


def thread_and_sockets() -> None:
    for end in socket.socketpair():
        end.close()
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


def start_and_stop() -> None:
    with Broker():
        pass


def start_and_stop_with_http() -> None:
    with Broker(management=True):
        pass


def small_test() -> None:
    with Broker() as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        for _ in range(10):
            channel.basic_publish("", "orders", b"x")
        for _ in range(10):
            method, _properties, _body = channel.basic_get("orders")
            channel.basic_ack(method.delivery_tag)
        channel.queue_delete("orders")


if __name__ == "__main__":
    main()
