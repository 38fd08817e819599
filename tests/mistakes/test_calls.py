"""A wrong call of each kind says what was wrong with it, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import leveret
from leveret import Broker, LeveretWarning
from tests.plugin.conftest import Run, no_options_of_ours, run, suite

__all__ = ["no_options_of_ours", "run", "suite"]

Call = Callable[[Any], object]
QUEUE_IN_PLACE_OF_EXCHANGE = "'orders' is a queue: messages go to it through an exchange, such as the default one"

# What newcomers wrote, and what the answer has to say.
CALLS: dict[str, tuple[Call, str]] = {
    # The order of arguments.
    "a body for a routing key": (
        lambda b: b.publish("orders", b"x"),
        'publish("orders", "key", b"x"), or to a queue publish("", "orders", b"x")',
    ),
    "a queue for an exchange": (lambda b: b.publish("orders"), QUEUE_IN_PLACE_OF_EXCHANGE),
    "a queue for an exchange in an assertion": (lambda b: b.assert_published("orders"), QUEUE_IN_PLACE_OF_EXCHANGE),
    "queue and exchange the wrong way round": (
        lambda b: b.bind_queue("ex", "orders"),
        "'ex' is an exchange: bind_queue(",
    ),
    "headers by position": (lambda b: b.publish("", "orders", b"x", {"a": 1}), "by keyword: json=, headers="),
    "a type by position": (
        lambda b: b.declare_queue("q", "quorum"),
        "pass the others by keyword: durable=, auto_delete=",
    ),
    "a count by position": (lambda b: b.assert_ready("orders", 3), "pass the others by keyword: times="),
    "a callback": (lambda b: b.consume("orders", print), "pass the others by keyword: prefetch=, ack="),
    "the method of a fault by position": (lambda b: b.faults.reset_peer("basic.ack"), "by keyword: when=, on="),
    "an argument that no call takes": (lambda b: b.clock.hold(5), "hold() takes no arguments by position, not 1"),
    "the arguments of a worker by position": (lambda b: b.worker(print, 3), "vhost=, user=, args="),
    "permissions in rabbitmqctl's order": (
        lambda b: b.admin.set_permissions("guest", "/", ".*", ".*", ".*"),
        "pass the others by keyword: configure=, write=, read=",
    ),
    # The type of a value.
    "a mapping as a body": (lambda b: b.publish("", "orders", {"id": 1}), "for JSON use json="),
    "what JSON has not": (
        lambda b: b.publish("", "orders", json=object()),
        "publish(): Object of type object is not JSON",
    ),
    "bytes as a key": (lambda b: b.bind_queue("orders", "ex", b"k"), "routing_key must be text, not b'k'"),
    "an expiration that is a number": (
        lambda b: b.publish("", "orders", b"x", expiration=60_000),
        "must be text, not 60000; it is the milliseconds as text, such as '60000'",
    ),
    "a timeout that is a timedelta": (
        lambda b: b.wait_idle(timeout=timedelta(seconds=1)),
        "timeout must be a number of seconds, not datetime.timedelta",
    ),
    "a sign of readiness that is a number": (
        lambda b: b.worker(["true"], ready=5),
        "ready must be a text or a function, not 5",
    ),
    "TLS that is a text": (lambda b: Broker(tls="yes"), "tls must be True, False or an SSLContext, not 'yes'"),  # type: ignore[arg-type]
    # Names that do not exist.
    "an exchange that does not exist": (
        lambda b: b.publish("nope", "k", b"x"),
        "declare it first: declare_exchange('nope')",
    ),
    "a queue that does not exist": (lambda b: b.consume("nope"), "declare it first: declare_queue('nope')"),
    "a misspelt queue": (lambda b: b.purge_queue("order"), "did you mean 'orders'?"),
    "a misspelt type of exchange": (lambda b: b.declare_exchange("e", "topics"), "did you mean 'topic'?"),
    "a binding to the default exchange": (
        lambda b: b.bind_queue("orders", "", "k"),
        "the default exchange has each queue by its name: publish('', queue, body)",
    ),
    # Keywords of other tools.
    "queue= of a publish": (lambda b: b.publish(queue="orders", body=b"x"), "did you mean 'routing_key'?"),
    "ttl= of a message": (lambda b: b.publish("", "orders", b"x", ttl=5), "did you mean 'expiration'?"),
    "persistent=": (lambda b: b.publish("", "orders", b"x", persistent=True), "did you mean 'delivery_mode=2'?"),
    "type= of a queue": (lambda b: b.declare_queue("q", type="quorum"), """'arguments={"x-queue-type": "quorum"}'"""),
    "ttl= of a queue": (lambda b: b.declare_queue("q", ttl=5), """'arguments={"x-message-ttl": 60_000}'"""),
    "auto_ack=": (lambda b: b.consume("orders", auto_ack=True), """did you mean 'ack="auto"'?"""),
    "match=": (lambda b: b.assert_published("", match={}), "did you mean 'json_contains'?"),
    # Functions that answer a request.
    "a coroutine function that answers": (lambda b: b.respond("rpc", answer_later), "not a coroutine function"),
    "a function without the request": (
        lambda b: b.respond("rpc", lambda: b"x"),
        "one argument, the request",
    ),
    # Names that are no attributes.
    "an assertion that does not exist": (lambda b: b.assert_flow("x"), "assert broker.flow() == ..."),
    "an assertion that no name is like": (
        lambda b: b.assert_weather("x"),
        "a Broker has no attribute 'assert_weather'",
    ),
    "the messages of a queue": (lambda b: b.messages_in("orders"), "broker.queue(name).ready and .unacked"),
    "the length of a queue": (lambda b: len(b.queue("orders")), "take len(queue.ready), or loop over queue.ready"),
    "the messages in a queue": (lambda b: list(b.queue("orders")), "take len(queue.ready), or loop over queue.ready"),
    "a field of an event": (lambda b: b.events.query("queue_declare")[0].time, "it has kind, at, "),
    "the contract of the module": (lambda b: leveret.contract, "the ini line leveret_contract = messages.lock"),  # type: ignore[attr-defined]
    "needs of the module": (lambda b: leveret.needs, "it is a command: leveret needs"),  # type: ignore[attr-defined]
    "a fixture of the module": (lambda b: leveret.make_leveret, "def test_it(make_leveret)"),  # type: ignore[attr-defined]
    **{
        f"{theirs} of a worker": (lambda b, theirs=theirs: getattr(idle_worker(b), theirs), f"did you mean {ours!r}?")
        for theirs, ours in {
            "stop": "end",
            "exitcode": "returncode",
            "stdout": "output",
            "logs": "output",
            "is_alive": "is_running",
            "join": "end",
            "wait": "wait_ready",
        }.items()
    },
}


async def answer_later(request: object) -> bytes:
    return b"x"


def idle_worker(broker: Broker) -> object:
    broker.allow("lost_worker")
    return broker.worker(["true"])


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.declare_queue("orders")
        broker.declare_exchange("ex", "topic")
        yield broker


@pytest.mark.parametrize("what", CALLS)
def test_a_wrong_call_names_its_cause_and_the_way_out(broker: Broker, what: str) -> None:
    call, answer = CALLS[what]

    with pytest.raises((TypeError, ValueError, AttributeError, LookupError, leveret.BrokerError)) as error:
        call(broker)

    assert answer in "\n".join([str(error.value), *getattr(error.value, "__notes__", ())])


def test_a_queue_is_true_although_it_has_no_length(broker: Broker) -> None:
    assert broker.queue("orders")


def test_a_function_that_returns_a_coroutine_is_named_and_its_request_answered(broker: Broker) -> None:
    broker.declare_queue("answers")
    broker.respond("rpc", lambda request: answer_later(request))

    broker.publish("", "rpc", b"?", reply_to="answers")

    broker.assert_ready("answers", json_contains={"error": {"type": "TypeError"}}, timeout=5)
    (error,) = broker._engine.script_errors
    broker._engine.script_errors.clear()
    assert re.search(r"must be a plain one, not a coroutine function", str(error))


def test_a_misspelt_section_of_definitions_is_a_warning() -> None:
    with pytest.warns(LeveretWarning, match=r"no section 'queue', so RabbitMQ ignores it; did you mean 'queues'\?"):
        Broker(definitions={"queue": [{"name": "orders"}], "vhosts": [{"name": "/"}]}).stop()


@pytest.mark.parametrize(
    "section", ["rabbit_version", "product_name", "original_cluster_name", "explanation", "metadata"]
)
def test_a_section_that_rabbitmq_writes_is_no_mistake(section: str, recwarn: pytest.WarningsRecorder) -> None:
    with Broker(definitions={section: "", "queues": []}):
        assert not [it for it in recwarn if issubclass(it.category, LeveretWarning)]


COMPARISONS = {
    "leveret.flow == ''": "flow is a method, and not what it returns: write flow() == ...",
    "leveret.queue('orders') == 1": "a QueueView never equals 1: compare one of its fields: name, vhost, type",
    "leveret.queue('orders').ready == []": "a tuple never equals a list: compare list(...) == []",
    "leveret.queue('orders').ready == 1": "a tuple never equals an int: compare len(...) == 1",
    "leveret.queue('orders').bindings == [('ex', 'k')]": "a tuple never equals a list",
}


def test_a_comparison_that_can_never_hold_says_what_to_compare(run: Run, suite: pytest.Pytester) -> None:
    tests = [
        f"def test_{number}(leveret):\n    leveret.declare_queue('orders')\n    assert {comparison}\n"
        for number, comparison in enumerate(COMPARISONS)
    ]

    result = run("\n".join(tests))

    text = str(result.stdout)
    assert [answer for answer in COMPARISONS.values() if answer not in text] == []


def test_a_comparison_of_a_test_without_a_broker_is_pytests_own(run: Run, suite: pytest.Pytester) -> None:
    result = run("def test_it():\n    assert () == []\n")

    assert "never equals" not in str(result.stdout)


def test_a_comparison_with_what_may_equal_a_view_is_pytests_own(run: Run, suite: pytest.Pytester) -> None:
    source = """
        class Never:
            def __eq__(self, other):
                return False

        def test_it(leveret):
            leveret.declare_queue("orders")
            assert leveret.queue("orders") == Never()
    """

    assert "never equals" not in str(run(source).stdout)


@pytest.mark.parametrize("exchange", ["events", "jobs"])
def test_what_one_virtual_host_lacks_is_not_looked_for_in_another(exchange: str) -> None:
    with Broker(vhosts={"eu"}) as broker:
        broker.declare_exchange("events", "topic", vhost="eu")
        broker.declare_queue("jobs", vhost="eu")

        with pytest.raises(leveret.RefusedError) as caught:
            broker.publish(exchange, "key", b"x")

    assert caught.value.__notes__ == [f"declare it first: declare_exchange({exchange!r})"]
