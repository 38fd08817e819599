"""The names of other tools: each leads to what leveret has for it, and none to an opposite or to a loss."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pika
import pytest

import leveret
from leveret import Broker, explore
from leveret.faults.plan import FaultPlan
from leveret.observe.calls.other_names import OTHER_NAMES
from leveret.observe.views import message_view, views
from leveret.time.aio import Aio
from leveret.time.clock import Clock
from leveret.workers.worker import Worker
from tests.house.repository import members_of

KINDS = {
    kind.__name__: kind
    for kind in (
        *(Broker, Aio, Clock, FaultPlan, leveret.Admin, leveret.ScriptedConsumer, leveret.Responder),
        *(views.QueueView, views.ExchangeView, views.BindingView, views.ConnectionView, views.ChannelView),
        *(views.ConsumerView, message_view.MessageView, Worker),
    )
}
# What a name destroys, by the words of the names that may lead to it.
DESTROYING = re.compile(r"\b(reset|purge|delete|stop|close|restart|cancel|remove|clear|drop|unbind)(_\w+)?\(?")
ASKS_FOR_IT = re.compile(
    "reset|purge|delete|stop|close|restart|cancel|remove|clear|drop|unbind|empty|disconnect|kill|flush|terminate|"
    "shutdown|quit|exit|reboot|crash|destroy|revoke|lose|fail|end|up|disable|resume|unpause|enable|error"
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a queue `orders` that has a message."""
    with Broker(checks={"all": "off"}) as broker:
        broker.declare_queue("orders")
        broker.publish("", "orders", b"x")
        yield broker


def hint(owner: object, name: str) -> str:
    with pytest.raises(AttributeError) as raised:
        getattr(owner, name)
    return str(raised.value).partition("; ")[2]


def meant(name: str) -> str:
    return f"did you mean {name!r}?"


OF_A_BROKER = {
    # pika
    "queue_declare": meant("declare_queue"),
    "exchange_declare": meant("declare_exchange"),
    "queue_bind": meant("bind_queue"),
    "queue_unbind": meant("unbind_queue"),
    "exchange_bind": meant("bind_exchange"),
    "queue_purge": meant("purge_queue"),
    "queue_delete": meant("delete_queue"),
    "basic_publish": meant("publish"),
    "basic_consume": meant("consume"),
    "start_consuming": meant("consume"),
    "basic_get": "look at broker.queue(name).ready, or take messages with broker.consume(name)",
    "basic_ack": "broker.consume(queue) returns a consumer, and it has ack(), nack() and reject()",
    "basic_qos": "the test's own consumer takes prefetch=: broker.consume(queue, prefetch=1)",
    "channel": "a test needs no channel; call the broker itself, or let a client connect to broker.url",
    "process_data_events": meant("wait_idle"),
    # kombu and aio-pika
    "drain_events": meant("wait_idle"),
    "as_uri": meant("url"),
    "default_exchange": 'publish to a queue: broker.publish("", queue, body)',
    "get_queue": meant("queue"),
    "get_exchange": meant("exchange"),
    "connect_robust": "let a client connect to broker.url; the open connections are broker.connections",
    # rabbitmqctl
    "add_user": "use broker.admin.add_user",
    "set_policy": "use broker.admin.set_policy",
    "add_vhost": "use broker.admin.add_vhost",
    "list_queues": meant("queues"),
    "list_bindings": "a queue's bindings are broker.queue(name).bindings",
    "close_all_connections": "use broker.admin.close_all_connections",
    "status": "to see the state, print broker.queues or broker.connections; save_page() writes a page",
    "report": "to see the state, print broker.queues or broker.connections; save_page() writes a page",
    "join_cluster": "leveret is one node in this process, and has no such command",
    "rabbitmqctl": "what rabbitmqctl does is broker.admin",
    # the management API
    "overview": "to see the state, print broker.queues or broker.connections; save_page() writes a page",
    "vhosts": "use broker.admin.list_vhosts()",
    "channels": "the channels are those of broker.connections",
    "definitions": "they are in broker.admin.export_definitions()",
    "message_count": "the messages are broker.queue(name).ready, and len() counts them",
    "messages": "the messages are broker.queue(name).ready, and len() counts them",
    "api_url": meant("management_url"),
    "purge": meant("purge_queue"),
    "close_connections": "use broker.faults.reset_peer(), or broker.admin.close_all_connections(reason)",
    # testcontainers and pytest-rabbitmq
    "amqp_url": meant("url"),
    "get_connection_url": meant("url"),
    "get_connection_params": "make them of the URL: pika.URLParameters(broker.url)",
    "get_exposed_port": meant("port"),
    "get_container_host_ip": "the host is in broker.url",
    "exec_in_container": "what rabbitmqctl does is broker.admin",
    "get_logs": "the events are broker.events",
    "password": "broker.url has user and password, and broker.url_for(user=..., vhost=...) those of another user",
    "rabbitctl_output": "what rabbitmqctl does is broker.admin",
    "running": "a broker runs from start(), or the beginning of its `with` block, to its end",
    # freezegun and time-machine
    "advance": "use broker.clock.advance",
    "tick": "use broker.clock.advance",
    "freeze": "use broker.clock.hold",
    "travel": "use broker.clock.advance",
    "resume": "time runs on after broker.clock.release(); a fault ends with rule.remove()",
    # toxiproxy
    "reset_peer": "use broker.faults.reset_peer",
    "latency": "use broker.faults.delay",
    "add_toxic": meant("faults"),
    "disconnect": "use broker.faults.reset_peer(), or broker.admin.close_all_connections(reason)",
    # mock libraries
    "assert_called_with": meant("assert_published"),
    "assert_called_once": "count with times=, as in assert_published(exchange, times=1)",
    "assert_not_called": meant("assert_not_published"),
    "call_count": "the events are broker.events",
    "reset_mock": "each test has a fresh broker; to forget what has happened, broker.events.clear()",
    "side_effect": meant("respond"),
    # assertions under other names
    "assert_sent": meant("assert_published"),
    "assert_received": meant("assert_delivered"),
    "assert_rejected": 'use reason=, as in assert_dead_lettered(queue, reason="rejected") or assert_dropped(...)',
    "assert_redelivered": "assert_requeued(queue), or assert_delivered(queue, redelivered=True)",
    "assert_message_count": meant("assert_ready"),
    "assert_queue_empty": meant("assert_empty"),
    "assert_not_empty": meant("assert_ready"),
    "assert_unacked": "compare broker.queue(name).unacked",
    "assert_not_acked": "pass times=0, as in assert_acked(..., times=0)",
    "assert_not_dead_lettered": "pass times=0, as in assert_dead_lettered(..., times=0)",
    "assert_not_delivered": "pass times=0, as in assert_delivered(..., times=0)",
    "assert_never_dropped": "pass times=0, as in assert_dropped(..., times=0)",
    # names that have only a similar spelling
    "state": "to see the state, print broker.queues or broker.connections; save_page() writes a page",
    "assert_ackd": meant("assert_acked"),
    "delet_queue": meant("delete_queue"),
}
OF_OTHERS = {
    "clock.tick": meant("advance"),
    "clock.shift": meant("advance"),
    "clock.sleep": meant("advance"),
    "clock.freeze": meant("hold"),
    "clock.resume": meant("release"),
    "clock.stop": meant("release"),
    "clock.move_to": "advance() takes how far to go: clock.advance(then - clock.now)",
    "clock.time": meant("now"),
    "faults.disconnect": meant("reset_peer"),
    "faults.latency": meant("delay"),
    "faults.timeout": meant("blackhole"),
    "faults.slow_close": meant("half_close"),
    "faults.throttle": meant("bandwidth"),
    "faults.down": meant("refuse_connections"),
    "faults.lose": meant("drop"),
    "faults.nack": meant("nack_publishes"),
    "faults.add_toxic": meant("add"),
    "faults.remove_toxic": "a fault ends with its rule: rule.remove(), or the `with` block of the rule",
    "admin.create_user": meant("add_user"),
    "admin.delete_policy": meant("clear_policy"),
    "admin.list_queues": "the queues are broker.queues",
    "aio.publish": "it does not wait for clients: call it on the broker, without await",
    "aio.assert_sent": meant("assert_published"),
    "aio.queue_declare": "use broker.declare_queue",
    "aio.advance": "use broker.aio.clock.advance",
}
OF_A_QUEUE = {
    "depth": "len(queue.ready) counts the messages",
    "message_count": "len(queue.ready) counts the messages",
    "messages": meant("ready"),
    "messages_unacknowledged": meant("unacked"),
    "purge": "use broker.purge_queue(name)",
}
OF_A_MESSAGE = {
    "payload": meant("body"),
    "delivery_tag": "a view only shows; take messages with broker.consume(queue)",
    "x_death": meant("deaths"),
}


def test_a_hundred_names_are_tried() -> None:
    assert sum(map(len, (OF_A_BROKER, OF_OTHERS, OF_A_QUEUE, OF_A_MESSAGE))) >= 100


@pytest.mark.parametrize("name", OF_A_BROKER)
def test_a_broker_answers_the_name_of_another_tool(broker: Broker, name: str) -> None:
    assert hint(broker, name) == OF_A_BROKER[name]


@pytest.mark.parametrize("name", OF_OTHERS)
def test_a_part_of_a_broker_answers_the_name_of_another_tool(broker: Broker, name: str) -> None:
    part, _, attribute = name.partition(".")

    assert hint(getattr(broker, part), attribute) == OF_OTHERS[name]


@pytest.mark.parametrize("name", [*OF_A_QUEUE, *OF_A_MESSAGE])
def test_a_view_answers_the_name_of_another_tool(broker: Broker, name: str) -> None:
    queue = broker.queue("orders")
    if name in OF_A_QUEUE:
        assert hint(queue, name) == OF_A_QUEUE[name]
    if name in OF_A_MESSAGE:
        assert hint(queue.ready[0], name) == OF_A_MESSAGE[name]


def test_no_answer_destroys_what_the_name_does_not() -> None:
    offences = [
        f"{kind}.{name}: {answer}"
        for kind, names in OTHER_NAMES.items()
        for others, answer in names.items()
        for name in others.split()
        if DESTROYING.search(answer) and not ASKS_FOR_IT.search(name)
    ]

    assert offences == []


@pytest.mark.parametrize(
    "name",
    [
        *("resume", "rest", "delay_queue", "stopwatch", "closes", "clean", "droped_message", "unbinding", "nacked"),
        *("assert_not_ready", "assert_not_returned", "assert_unpublished", "assert_unreturned", "expires_in"),
    ],
)
@pytest.mark.parametrize("kind", ["broker", "faults", "admin", "clock"])
def test_no_similar_spelling_leads_to_an_opposite_or_a_loss(broker: Broker, kind: str, name: str) -> None:
    answer = hint(broker if kind == "broker" else getattr(broker, kind), name)

    suggested = re.search(r"did you mean '(\w+)'", answer)
    if suggested is not None:
        assert ("not" in name) == ("not" in suggested[1])
        assert not DESTROYING.search(suggested[1]) or suggested[1].partition("_")[0].rstrip("e") in name


@pytest.mark.parametrize("kind", OTHER_NAMES)
def test_every_answer_names_what_exists(broker: Broker, kind: str) -> None:
    known = members_of(KINDS[kind])
    for others, answer in OTHER_NAMES[kind].items():
        if answer.isidentifier():
            assert answer in known or (kind == "Aio" and answer in members_of(Broker)), answer
        for part, attribute in re.findall(r"broker\.(\w+)(?:\.(\w+))?", answer):
            assert hasattr(broker, part), answer
            if attribute and part != "queue":
                assert hasattr(getattr(broker, part), attribute), answer
        assert not set(others.split()) & set(known), "a name of ours needs no answer"


def test_a_name_of_another_tool_on_the_module_leads_to_the_fixture() -> None:
    with pytest.raises(AttributeError, match=r"did you mean 'declare_queue'.*a test gets as the fixture"):
        leveret.queue_declare  # type: ignore[attr-defined]  # noqa: B018


def test_the_time_is_no_function(broker: Broker) -> None:
    with pytest.raises(TypeError, match=r"broker\.clock\.now is a number of seconds; write it without parentheses"):
        broker.clock.now()  # type: ignore[operator]


def test_a_broker_given_as_a_url_names_its_url(broker: Broker) -> None:
    with pytest.raises(TypeError, match=r"a Broker is not a URL; pass broker\.url"):
        pika.URLParameters(broker)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda broker: broker.faults.reset_peer(connection_name="shop"), "'connection_name'; did you mean 'client'?"),
        (lambda broker: broker.faults.drop(on="basic.acknowledge"), "'basic.acknowledge'; did you mean 'basic.ack'?"),
        (lambda broker: broker.assert_acked("orders", count=2), "'count'; did you mean 'times'?"),
        (lambda broker: broker.assert_acked("orders", payload=b"x"), "'payload'; did you mean 'body'?"),
        (lambda broker: broker.consume("orders", prefetch_count=1), "'prefetch_count'; did you mean 'prefetch'?"),
        (
            lambda broker: Broker(version="3.13"),  # type: ignore[call-arg]
            "'version'; did you mean 'rabbitmq'?",
        ),
        (
            lambda broker: Broker(strict=True),  # type: ignore[call-arg]
            "'strict'; did you mean 'checks=\"error\"'?",
        ),
        (lambda broker: Broker(checks="strict"), "unknown level of a check 'strict'; did you mean 'error'?"),
        (lambda broker: Broker(checks="unroutable=strict"), "did you mean 'error'?"),
        (
            lambda broker: explore(print("a scenario that was called")),  # type: ignore[arg-type]
            "not None; pass the function uncalled",
        ),
    ],
)
def test_a_keyword_or_a_value_of_another_tool_leads_to_ours(
    broker: Broker, call: Callable[[Broker], object], text: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        call(broker)
