"""A way out works as its text says: a row makes the mistake, finds the way out in what it gets, and takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any
from unittest import mock

import pika
import pytest
from pika.exceptions import AMQPError

from leveret import Authority, Broker, BrokerError, EventsMissingError, Reply, explore
from leveret.faults import CloseChannel, Reorder, ResetPeer

Call = Callable[[Any], object]
STEP = "lost after conn 1 chan 1 client->server queue.declare #1"


def connect(broker: Broker, *, user: str = "guest", queue: str = "mine") -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url_for(user=user))) as connection:
        connection.channel().queue_declare(queue, durable=True)


def scenario(broker: Broker, times: int = 1) -> None:
    for _ in range(times):
        with suppress(AMQPError):
            connect(broker)


def opened(**keywords: Any) -> Call:
    """Return a call that starts a broker with keywords, and stops it."""
    return lambda _: Broker(**keywords).start().stop()


def on(call: Call, **keywords: Any) -> Call:
    """Return a call that looks at another broker with keywords, which has seen a message."""

    def act(_: object) -> None:
        with Broker(**keywords) as broker:
            broker.declare_queue("orders")
            broker.publish("", "orders", b"x")
            call(broker)

    return act


# The mistake, what its text says to do, and that.
WAYS: dict[str, tuple[Call, str, Call]] = {
    "a broker for a URL": (
        lambda b: pika.URLParameters(b),
        "pass broker.url, as in pika.URLParameters(broker.url)",
        lambda b: pika.BlockingConnection(pika.URLParameters(b.url)).close(),
    ),
    "a second start": (lambda b: b.start(), "call stop() first", lambda b: [b.stop(), b.start()]),
    "a broker that was not started": (lambda b: Broker().url, "or call start()", lambda b: Broker().start().url),
    "a broker that was stopped": (
        lambda b: [b.stop(), b.declare_queue("q")],
        "To use it again, call start()",
        lambda b: [b.start(), b.declare_queue("q")],
    ),
    "no port for TLS": (
        lambda b: b.tls,
        "start it with tls=True or with a server's SSLContext",
        lambda b: [on(lambda b: b.tls.url, tls=it)(b) for it in (True, Authority("127.0.0.1").server_context())],
    ),
    "no port for HTTP": (
        lambda b: b.management_url,
        "start it with management=True",
        on(lambda b: b.management_url, management=True),
    ),
    "a plugin of HTTP": (
        opened(plugins="rabbitmq_management"),
        "pass management=True",
        opened(plugins="rabbitmq_management", management=True),
    ),
    "a flow without events": (
        on(lambda b: b.flow(), record="off"),
        "use record='recent'",
        on(lambda b: b.flow(), record="recent"),
    ),
    "an assertion without events": (
        on(lambda b: b.assert_published(routing_key="orders"), record="off"),
        "use Broker(record='recent')",
        on(lambda b: b.assert_published(routing_key="orders"), record="recent"),
    ),
    "another level of recording": (opened(record="all"), "use trace_dir=DIR", opened(trace_dir="DIR")),
    "a name of no letters": (
        opened(trace_dir="DIR", trace_redact="-"),
        "or '*' to hide every value",
        opened(trace_dir="DIR", trace_redact="*"),
    ),
    "a version that is a number": (opened(rabbitmq=4.3), "rabbitmq='4.3'", opened(rabbitmq="4.3")),
    "a version that has lost its 0": (opened(rabbitmq=3.1), "rabbitmq='3.10'", opened(rabbitmq="3.10")),
    "a version that is a whole number": (opened(rabbitmq=4), "rabbitmq='4.3'", opened(rabbitmq="4.3")),
    "users that are a list": (
        opened(users=["bob"]),
        "as in users={'bob': 'secret'}",
        opened(users={"bob": "secret"}),
    ),
    "a user of the loopback": (
        opened(settings={"loopback_users": "guest"}),
        "name a user with loopback_users.NAME",
        opened(settings={"loopback_users.guest": True}),
    ),
    "mechanisms in one line": (
        opened(settings={"auth_mechanisms": "PLAIN"}),
        "as in auth_mechanisms.1",
        opened(settings={"auth_mechanisms.1": "PLAIN"}),
    ),
    # Explorations.
    "a scenario that was called": (
        lambda b: explore(scenario(b)),  # type: ignore[arg-type, func-returns-value]
        "as in explore(scenario), and for more arguments explore(lambda broker: scenario(broker, 3))",
        lambda b: explore(lambda broker: scenario(broker, 3), seconds=0.1),
    ),
    "no faults": (
        lambda b: explore(scenario, faults=()),
        "give at least one kind of fault, or leave it out for the default",
        lambda b: [explore(scenario, faults=["lost after"], seconds=0.1), explore(scenario, seconds=0.1)],
    ),
    "a fault that is a class": (
        lambda b: explore(scenario, faults=[CloseChannel]),  # type: ignore[list-item]
        "such as faults=[CloseChannel(404)]",
        lambda b: explore(scenario, faults=[CloseChannel(404)], on="queue.declare"),
    ),
    "a step without a kind": (
        lambda b: explore(scenario, only="lost after"),
        "write it as in 'lost after conn 1 chan 1 client->server basic.ack #1'",
        lambda b: explore(scenario, only=STEP),
    ),
    "a fault of several deliveries": (
        lambda b: explore(scenario, faults=[Reorder(2)]),
        "use the kind 'out of order'",
        lambda b: explore(scenario, faults=["out of order", "lost after"], seconds=0.1),
    ),
    # Faults.
    "a rule with a class": (
        lambda b: b.faults.add(on="basic.ack", do=CloseChannel),
        "do=CloseChannel(...) (from leveret.faults import CloseChannel)",
        lambda b: b.faults.add(on="basic.ack", do=CloseChannel(406)),
    ),
    "a rule that counts nothing": (
        lambda b: b.faults.add(do=ResetPeer(), after=1),
        "name a method or an event with on=",
        lambda b: b.faults.add(do=ResetPeer(), after=1, on="basic.ack"),
    ),
    # Time.
    "now as a call": (lambda b: b.clock.now(), "write it without parentheses", lambda b: b.clock.now),
    "a move without a span": (
        lambda b: b.clock.advance(),
        "as in advance(30), ms=, minutes=, hours= or days=",
        lambda b: [b.clock.advance(30), b.clock.advance(ms=1, minutes=1, hours=1, days=1)],
    ),
    "a move back": (lambda b: b.clock.advance(-1), "pass a positive span", lambda b: b.clock.advance(1)),
    "a move out of time": (
        lambda b: b.clock.advance(days=10**7),
        "pass a shorter span",
        lambda b: b.clock.advance(days=10**5),
    ),
    "a jump before the start": (
        lambda b: Broker().clock.autojump(),
        "start the broker first",
        lambda b: b.clock.autojump().stop(),
    ),
    # Messages and workers.
    "two bodies": (
        lambda b: b.publish("", "orders", b"x", json=1),
        "give one of them",
        lambda b: b.publish("", "orders", json=1),
    ),
    "a body that UTF-8 has not": (
        lambda b: b.publish("", "orders", "\udc80"),
        "give bytes instead",
        lambda b: b.publish("", "orders", b"\x80"),
    ),
    "two bodies of a reply": (lambda b: Reply(b"x", json=1), "give one of them", lambda b: Reply(json=1)),
    "no answers": (lambda b: b.respond("orders", []), "or None for no reply", lambda b: b.respond("orders", None)),
    "a body that is a function": (
        lambda b: b.assert_ready("orders", body=len),
        "an object with its own __eq__ (unittest.mock.ANY)",
        lambda b: b.assert_ready("orders", body=mock.ANY),
    ),
    "a command that is a text": (
        lambda b: b.worker("echo 'x y'"),
        "as in worker(['echo', 'x y'])",
        lambda b: b.worker(["echo", "x y"]).start().end(),
    ),
    "a partial function": (
        lambda b: b.worker(partial(print, 1)),
        "a function itself; give its arguments with args=",
        lambda b: b.worker(print, args=(1,)),
    ),
}


@pytest.fixture
def broker(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.chdir(tmp_path)
    with Broker() as broker:
        broker.declare_queue("orders")
        broker.publish("", "orders", b"x")
        broker.allow("unused_fault")
        broker.allow("lost_worker")
        yield broker


@pytest.mark.parametrize("what", WAYS)
def test_a_way_out_works_as_its_text_says(broker: Broker, what: str) -> None:
    wrong, said, right = WAYS[what]

    with pytest.raises((TypeError, ValueError, BrokerError, EventsMissingError)) as error:
        wrong(broker)

    assert said in str(error.value)
    right(broker)


def test_the_rights_that_the_report_names_take_no_other_right_away() -> None:
    with Broker(users={"shop": "secret"}) as broker:
        broker.admin.set_permissions("shop", configure="^orders$")
        with pytest.raises(AMQPError):
            connect(broker, user="shop", queue="bills")
        [line] = [line for line in broker._engine.report().splitlines() if "set_permissions" in line]

        eval(line.partition(": ")[2].partition(";")[0])

        connect(broker, user="shop", queue="bills")
        connect(broker, user="shop", queue="orders")
