"""Settings of a node's rabbitmq.conf that clients can notice; all of them are in `target.SETTINGS`."""

from __future__ import annotations

from ..client import CAPABILITIES
from ..scenario import Channel, Connection, Run, scenario

BOTH = ("4.3", "4.0")


def connection(s: Run) -> Connection:
    return s.connect(channel_max=3, frame_max=16_384, heartbeat=0)


def channel(s: Run) -> Channel:
    return s.channel(on=connection(s))


@scenario(versions=BOTH, has_settings=True)
def tune_offers_what_is_set(s: Run) -> None:
    raw = s.raw()
    raw.log.hidden.add("connection.start")
    raw.start()
    raw.log_in("guest", "guest", {"capabilities": CAPABILITIES})


@scenario(versions=BOTH, has_settings=True)
def tuning_beyond_what_is_set_is_reset(s: Run) -> None:
    for tuning in ({"channel_max": 4, "frame_max": 16_384}, {"channel_max": 3, "frame_max": 16_385}):
        raw = s.raw()
        raw.log.hidden |= {"connection.start", "connection.tune"}
        raw.start()
        raw.log_in("guest", "guest", {"capabilities": CAPABILITIES})
        raw.tune(**tuning)
        s.expect_end(raw, after_ms=3000)


@scenario(versions=BOTH, has_settings=True)
def one_channel_more_than_is_set(s: Run) -> None:
    shared = connection(s)
    for _ in range(4):
        s.channel(on=shared)


@scenario(versions=BOTH, has_settings=True)
def one_channel_more_than_the_node_may_have(s: Run) -> None:
    first, second = connection(s), connection(s)
    for on in (first, first, first, second, second):
        s.channel(on=on)


@scenario(versions=BOTH, has_settings=True)
def one_connection_more_than_the_node_may_have(s: Run) -> None:
    for _ in range(5):
        connection(s)


@scenario(versions=BOTH, has_settings=True)
def a_body_beyond_the_size_set(s: Run) -> None:
    ch = channel(s)
    ch.publish("", "nowhere", "x" * 1000)
    ch.sync()
    ch.publish("", "nowhere", "x" * 1001)
    ch.receive("channel.close")


@scenario(versions=BOTH, has_settings=True)
def one_consumer_more_than_a_channel_may_have(s: Run) -> None:
    ch = channel(s)
    ch.declare("q", durable=False, exclusive=True)
    for tag in ("a", "b", "c"):
        ch.consume("q", tag)


@scenario(versions=BOTH, has_settings=True)
def one_queue_more_than_the_cluster_may_have(s: Run) -> None:
    ch = channel(s)
    for name in ("a", "b", "c", "d"):
        ch.declare(name)
    ch = s.channel(2, on=ch.connection)
    ch.declare("a")
    ch.declare("", exclusive=True)


@scenario(versions=("4.3",), has_settings=True)
def one_exchange_more_than_the_cluster_may_have(s: Run) -> None:
    ch = channel(s)
    ch.declare_exchange("amq.direct", "direct")
    ch.declare_exchange("x", "fanout")


@scenario(versions=("4.3",), has_settings=True)
def the_consumer_timeout_that_is_set(s: Run) -> None:
    ch = channel(s)
    ch.declare("q", arguments={"x-queue-type": "quorum"})
    ch.fill("q", "1")
    ch.consume("q")
    ch.deliver()
    s.elapse(20_000)
    ch.receive("basic.cancel")


@scenario(versions=BOTH, has_settings=True)
def interceptors_mark_what_comes_in(s: Run) -> None:
    ch = channel(s)
    ch.declare("q", exclusive=True)
    ch.fill("q", "plain")
    ch.fill("q", "with headers", headers={"a": 1, "z": 2}, delivery_mode=2)
    ch.get_all("q")
    ch.fill("q", "consumed")
    ch.consume("q")
    ch.deliver()


@scenario(versions=BOTH, has_settings=True)
def interceptors_leave_alone_what_is_there(s: Run) -> None:
    ch = channel(s)
    ch.declare("q", exclusive=True)
    ch.fill("q", "1", timestamp=12345)
    ch.fill("q", "2", headers={"timestamp_in_ms": 5, "x-routed-by": "me", "x-opt-rabbitmq-sent-time": 7})
    ch.get_all("q")


@scenario(versions=BOTH, has_settings=True)
def interceptors_mark_returns_and_dead_letters(s: Run) -> None:
    ch = channel(s)
    ch.declare("d", exclusive=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    ch.declare("q", exclusive=True)
    ch.publish("", "nowhere", "returned", mandatory=True)
    ch.receive("basic.return")
    ch.fill("d", "1")
    ch.reject(ch.get("d"), requeue=False)
    ch.await_count("q", 1)
    ch.get("q")


@scenario(versions=("4.0",), has_settings=True)
def a_transient_shared_queue_that_is_denied(s: Run) -> None:
    ch = channel(s)
    ch.declare("kept", durable=False, exclusive=True)
    ch.declare("q", durable=False)
