"""The control API: a test drives a broker over HTTP, with assertions, time and faults."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event, Thread

import pika
import pytest
from openapi_spec_validator import validate

from leveret import Broker
from leveret.faults.named import NamedFaults
from leveret.faults.rule import OPTIONS
from leveret.http.control.endpoint import ENDPOINTS, ControlCall
from leveret.http.messages import Request
from leveret.http.stream import EventPump
from tests.house.repository import members_of
from tests.http.client import ask
from tests.http.control import Control


@pytest.fixture
def control(broker: Broker) -> Iterator[Control]:
    """A virtual host of the module's broker, as each test of another language has."""
    name = Control(broker).ask("POST", "/vhosts", {}).json["name"]
    yield Control(broker, name)
    broker.clock.release()
    Control(broker).ask("DELETE", f"/faults?vhost={name}")
    Control(broker).ask("DELETE", f"/vhosts/{name}")


def consume_and_reject(control: Control, queue: str) -> None:
    """Take a message as a client, and reject it."""
    with pika.BlockingConnection(pika.URLParameters(control.broker.url_for(control.vhost))) as connection:
        channel = connection.channel()
        method, _, _ = channel.basic_get(queue)
        channel.basic_reject(method.delivery_tag, requeue=False)
        channel.queue_declare(queue, passive=True)


def declare_with_dead_letters(control: Control) -> None:
    control.post("/queues", name="dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    control.post("/queues", name="orders", arguments=arguments)


def test_the_document_is_valid_openapi(broker: Broker) -> None:
    validate(Control(broker).ask("GET", "/openapi.json").json)


def test_every_endpoint_is_in_the_document_under_its_own_name(broker: Broker) -> None:
    paths = Control(broker).ask("GET", "/openapi.json").json["paths"]
    names = [operation["operationId"] for operations in paths.values() for operation in operations.values()]

    assert sorted(names) == sorted(endpoint.name for endpoint in ENDPOINTS)
    assert len(set(names)) == len(names)


def test_every_assertion_of_a_broker_has_an_endpoint() -> None:
    words = [name.removeprefix("assert_") for name in members_of(Broker) if name.startswith("assert_")]
    paths = {endpoint.template.rpartition("/")[2] for endpoint in ENDPOINTS if "/assert/" in endpoint.template}

    assert paths == {word.replace("_", "-") for word in words}


def test_every_fault_of_a_broker_can_be_added_with_its_own_parameters(broker: Broker) -> None:
    paths = Control(broker).ask("GET", "/openapi.json").json["paths"]
    schema = paths["/leveret/v1/faults"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    known = schema["properties"]
    methods = {name: act for name, act in vars(NamedFaults).items() if not name.startswith("_") and name != "add"}
    own = {name for act in methods.values() for name in act.__annotations__} - {"return", "options"}

    assert known["fault"]["enum"] == list(methods)
    assert own | set(OPTIONS) - {"do"} <= set(known)
    # Each has a type, so that a client that is made from the document does too.
    assert [name for name in own if not known[name]] == []


def test_a_published_message_waits_in_its_queue(control: Control) -> None:
    control.post("/queues", name="orders")

    published = control.post("/publish", routing_key="orders", json={"id": 7}, headers={"trace": "a"})
    queue = control.inside("GET", "/queues/orders").json

    assert published == {"routed": True}
    assert queue["ready_count"] == 1
    assert queue["ready"][0]["body"] == '{"id": 7}'
    assert queue["ready"][0]["headers"] == {"trace": "a"}
    assert queue["ready"][0]["properties"] == {"content_type": "application/json"}


def test_a_binary_body_goes_in_and_out_as_base64(control: Control) -> None:
    control.post("/queues", name="orders")
    body = b64encode(b"\xff\x00").decode()

    control.post("/publish", routing_key="orders", body_base64=body)
    found = control.post("/assert/published", body_base64=body)

    assert found["messages"][0]["body"] is None
    assert found["messages"][0]["body_base64"] == body


def test_exchanges_and_bindings_are_declared_and_removed(control: Control) -> None:
    control.post("/exchanges", name="shop", type="topic")
    control.post("/exchanges", name="all", type="fanout")
    control.post("/queues", name="paid")
    control.post("/bind", source="shop", destination="paid", routing_key="order.*.paid")
    control.post("/bind", source="shop", destination="all", destination_kind="exchange", routing_key="#")

    assert control.post("/publish", exchange="shop", routing_key="order.7.paid")["routed"]
    assert len(control.inside("GET", "/exchanges/shop").json["bindings"]) == 2

    control.post("/unbind", source="shop", destination="paid", routing_key="order.*.paid")
    assert not control.post("/publish", exchange="shop", routing_key="order.7.paid")["routed"]
    assert control.inside("DELETE", "/exchanges/shop").status == 204
    assert "shop" not in [one["name"] for one in control.inside("GET", "/exchanges").json]


def test_a_queue_is_purged_and_deleted(control: Control) -> None:
    control.post("/queues", name="orders")
    control.post("/publish", routing_key="orders")

    assert control.post("/queues/orders/purge") == {"messages": 1}
    control.post("/assert/empty", queue="orders")
    assert control.inside("DELETE", "/queues/orders").json == {"messages": 0}
    assert control.inside("GET", "/queues").json == []


def test_a_dead_letter_is_asserted_and_returned_as_it_arrived(control: Control) -> None:
    declare_with_dead_letters(control)
    control.post("/publish", routing_key="orders", json={"id": 7})
    consume_and_reject(control, "orders")

    found = control.post("/assert/dead-lettered", queue="orders", to="dead", reason="rejected", json={"id": 7})

    (message,) = found["messages"]
    assert message["routing_key"] == "dead"
    assert message["deaths"][0]["reason"] == "rejected"


def test_a_failed_assertion_names_the_nearest_message(control: Control) -> None:
    declare_with_dead_letters(control)
    control.post("/publish", routing_key="orders", json={"id": 8})

    answer = control.inside("POST", "/assert/dead-lettered", {"queue": "orders", "json": {"id": 7}})

    assert answer.status == 409
    assert answer.json["error"] == "assertion_failed"
    assert "nearest: #" in answer.json["reason"]
    assert "JSON['id'] is 8 instead of 7" in answer.json["reason"]
    assert f"virtual host '{control.vhost}'" in answer.json["report"]


def test_a_failed_assertion_answers_with_values_beside_its_text(control: Control) -> None:
    declare_with_dead_letters(control)
    control.post("/publish", routing_key="orders", json={"id": 8})

    answer = control.inside("POST", "/assert/dead-lettered", {"queue": "orders", "json": {"id": 7}})

    failure = answer.json["failure"]
    (number,) = failure["messages"]
    assert failure["asked"] == {
        "call": "assert_dead_lettered('orders', json={'id': 7})",
        "expected": "dead_lettered",
        "place": "orders",
        "vhost": control.vhost,
        "times": None,
    }
    assert (failure["seen"], failure["queues"]) == (0, ["orders"])
    assert failure["nearest"] == [
        {
            "message": number,
            "broker": None,
            "differs": [
                {"what": "json", "expected": {"id": 7}, "found": '{"id": 8}'},
                {"what": "outcome", "expected": "dead_lettered", "found": None},
            ],
            "stands": [{"queue": "orders", "state": "ready", "reason": None, "deliveries": 0}],
        }
    ]


def test_a_pattern_matches_like_a_regular_expression(control: Control) -> None:
    control.post("/publish", routing_key="order.7")

    assert control.post("/assert/published", routing_key={"regex": "^order"})["messages"]
    assert control.inside("POST", "/assert/published", {"routing_key": {"regex": "("}}).status == 400


def test_an_assertion_waits_for_what_a_client_does(control: Control) -> None:
    control.post("/queues", name="orders")
    with pika.BlockingConnection(pika.URLParameters(control.broker.url_for(control.vhost))) as connection:
        connection.channel().basic_publish("", "orders", b"x")

        assert control.post("/assert/published", routing_key="orders", timeout=5)["messages"]


def test_a_refusal_is_asserted(control: Control) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        consume_and_reject(control, "missing")

    found = control.post("/assert/refused", code=404, text={"regex": "no queue"})

    assert found["code"] == 404


def test_waiting_ends_when_nothing_is_in_flight(control: Control) -> None:
    control.post("/queues", name="orders")
    control.post("/publish", routing_key="orders")

    control.post("/wait-idle", timeout=5)


def test_a_wait_expects_a_consumer_that_lost_its_connection(control: Control) -> None:
    control.post("/queues", name="orders")
    connection = pika.BlockingConnection(pika.URLParameters(control.broker.url_for(control.vhost)))
    connection.channel().basic_consume("orders", lambda *_: None)
    control.post("/connections/close")
    control.post("/publish", routing_key="orders")

    answer = control.inside("POST", "/wait-idle", {"timeout": 0})
    control.post("/wait-idle", timeout=0, reconnects=False)

    assert answer.json["error"] == "timed_out"
    assert "reconnects=False" in answer.json["reason"]


def test_a_wait_that_times_out_says_what_it_waited_for(control: Control) -> None:
    control.post("/queues", name="orders")
    control.post("/publish", routing_key="orders")
    with pika.BlockingConnection(pika.URLParameters(control.broker.url_for(control.vhost))) as connection:
        connection.channel().basic_get("orders")

        answer = control.inside("POST", "/wait-idle", {"timeout": 0})

    assert answer.status == 409
    assert answer.json["error"] == "timed_out"
    assert "1 unacked on orders" in answer.json["reason"]


def test_a_wait_for_a_consumer_returns_it(control: Control) -> None:
    control.post("/queues", name="orders")
    with pika.BlockingConnection(pika.URLParameters(control.broker.url_for(control.vhost))) as connection:
        connection.channel().basic_consume("orders", lambda *_: None, consumer_tag="worker")

        assert control.post("/wait-for-consumer", queue="orders", timeout=5)["tag"] == "worker"


def test_time_is_held_and_moved(control: Control) -> None:
    control.post("/queues", name="orders", arguments={"x-message-ttl": 60_000})
    held = control.ask("POST", "/clock/hold").json
    control.post("/publish", routing_key="orders")

    moved = control.ask("POST", "/clock/advance", {"minutes": 1}).json

    assert held["is_held"]
    assert moved["now"] == pytest.approx(held["now"] + 60)
    control.post("/assert/dropped", queue_or_exchange="orders", reason="expired")
    assert not control.ask("POST", "/clock/release").json["is_held"]


def test_autojump_is_on_until_the_clock_is_released(control: Control) -> None:
    control.post("/queues", name="orders", arguments={"x-message-ttl": 60_000})
    assert control.ask("POST", "/clock/autojump", {}).json["is_jumping"]
    control.post("/publish", routing_key="orders")

    control.post("/assert/dropped", queue_or_exchange="orders", reason="expired", timeout=10)

    assert not control.ask("POST", "/clock/release").json["is_jumping"]


def test_a_fault_hits_its_own_virtual_host_and_counts(control: Control) -> None:
    declare_with_dead_letters(control)
    control.post("/publish", routing_key="orders")
    body = {"fault": "reset_peer", "on": "basic.reject", "vhost": control.vhost}
    fault = control.ask("POST", "/faults", body).json

    with pytest.raises(pika.exceptions.AMQPConnectionError):
        consume_and_reject(control, "orders")

    assert control.ask("GET", f"/faults/{fault['id']}").json["fired"] == 1
    assert fault["id"] in [one["id"] for one in control.ask("GET", "/faults").json]


def test_a_removed_fault_no_longer_fires(control: Control) -> None:
    declare_with_dead_letters(control)
    control.post("/publish", routing_key="orders")
    body = {"fault": "close_channel", "on": "basic.reject", "code": 406, "vhost": control.vhost, "optional": True}
    fault = control.ask("POST", "/faults", body).json

    removed = control.ask("DELETE", f"/faults/{fault['id']}").json
    consume_and_reject(control, "orders")

    assert removed["fired"] == 0
    assert removed["is_spent"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"fault": "reset_per"}, 'fault="reset_per" must be one of close_channel'),
        ({}, "'fault' is missing; it must be one of close_channel"),
        ({"fault": "drop", "codee": 1}, "unknown name 'codee'; did you mean 'code'?"),
        ({"fault": "drop", "code": 1}, "the fault 'drop' has no keyword 'code'"),
        ({"fault": "drop", "on": "basic.publihs"}, "did you mean 'basic.publish'?"),
        ({"fault": "reset_peer"}, """'on' is missing for the fault 'reset_peer'; name a method or an event"""),
        ({"fault": "drop", "times": "2"}, 'times="2" must be a whole number, 0 or more or null'),
    ],
)
def test_a_wrong_fault_is_refused_with_what_is_valid(control: Control, body: dict[str, object], reason: str) -> None:
    answer = control.ask("POST", "/faults", body)

    assert answer.status == 400
    assert reason in answer.json["reason"]


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("/queues", {"name": 7}, 400, "name=7 must be a text"),
        ("/queues", {"nam": "a"}, 400, "unknown name 'nam'; did you mean 'name'?"),
        ("/queues", {"name": "a", "durable": "yes"}, 400, 'durable="yes" must be true or false'),
        ("/queues", {"name": "a", "arguments": {"x-max-length": -1}}, 409, "PRECONDITION_FAILED"),
        (
            "/publish",
            {"properties": {"expiraton": "1"}},
            400,
            "unknown name 'properties.expiraton'; did you mean 'expiration'?",
        ),
        ("/publish", {"properties": {"priority": "1"}}, 400, 'properties.priority="1" must be a whole number'),
        ("/publish", {"exchange": "missing"}, 404, "NOT_FOUND - no exchange 'missing'"),
        ("/publish", {"body_base64": "!"}, 400, "body_base64 is not base64"),
        ("/assert/acked", {}, 400, "'queue' is missing; it must be a text"),
        ("/assert/acked", {"queue": "ordres"}, 404, "queue 'ordres' was never declared or used"),
        ("/wait-idle", {"timeout": -1}, 400, "timeout"),
        ("/unbind", {"source": "a", "destination": "b"}, 404, "NOT_FOUND"),
        ("/queues/none/purge", {}, 404, "NOT_FOUND - no queue 'none'"),
        ("/queues/none/purge", {"x": 1}, 400, "this takes no body; leave 'x' out"),
    ],
)
def test_a_wrong_request_is_refused_with_what_is_valid(
    control: Control, path: str, body: dict[str, object], status: int, reason: str
) -> None:
    answer = control.inside("POST", path, body)

    assert answer.status == status
    assert reason in answer.json["reason"]


@pytest.mark.parametrize(
    ("method", "path", "reason"),
    [
        ("DELETE", "/faults?vhots=x", "unknown parameter 'vhots'; did you mean 'vhost'?"),
        ("DELETE", "/faults?vhost=", "vhost is empty; give it a value, or leave it out"),
        ("DELETE", "/faults?vhost=/&vhost=x", "the parameter 'vhost' is given twice; give it once"),
        ("POST", "/reset?vhost=x", "unknown parameter 'vhost'; this takes no parameters, so leave it out"),
        ("GET", "/events?kind=acked", "unknown parameter 'kind'; did you mean 'kinds'?"),
        ("GET", "/events/stream?from=middle", "from='middle' must be 'start'; or leave it out"),
        ("GET", "/vhosts/%2F/queues/q?limit=-1", "limit='-1' must be a whole number, as in limit=100"),
    ],
)
def test_a_wrong_parameter_is_refused_and_nothing_happens(
    control: Control, method: str, path: str, reason: str
) -> None:
    fault = control.ask("POST", "/faults", {"fault": "drop", "vhost": control.vhost, "optional": True}).json

    answer = control.ask(method, path)

    assert (answer.status, answer.json["reason"]) == (400, reason)
    assert not control.ask("GET", f"/faults/{fault['id']}").json["is_spent"]


def test_a_fault_needs_a_virtual_host_that_exists(control: Control) -> None:
    added = control.ask("POST", "/faults", {"fault": "drop", "vhost": "nope"})
    removed = control.ask("DELETE", "/faults?vhost=nope")

    assert (added.status, removed.status) == (404, 404)
    assert "virtual host 'nope' does not exist" in removed.json["reason"]


def test_the_faults_of_a_deleted_virtual_host_can_still_be_removed(control: Control) -> None:
    name = control.ask("POST", "/vhosts", {}).json["name"]
    fault = control.ask("POST", "/faults", {"fault": "drop", "vhost": name, "optional": True}).json
    control.ask("DELETE", f"/vhosts/{name}")

    assert control.ask("DELETE", f"/faults?vhost={name}").status == 204
    assert control.ask("GET", f"/faults/{fault['id']}").json["is_spent"]


def test_a_fault_acts_at_once_if_on_says_now(control: Control) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(control.broker.url_for(control.vhost)))

    control.ask("POST", "/faults", {"fault": "close_connection", "on": "now", "vhost": control.vhost})

    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(5)


def test_two_tests_do_not_share_a_virtual_host_by_accident(control: Control) -> None:
    answer = control.ask("POST", "/vhosts", {"name": control.vhost})

    assert answer.status == 409
    assert answer.json["reason"].startswith(f"virtual host '{control.vhost}' exists already; choose another name")


def test_time_does_not_move_beyond_the_last_date(control: Control) -> None:
    answer = control.ask("POST", "/clock/advance", {"hours": 1e12})

    assert answer.status == 400
    assert answer.json["reason"] == "advance(hours=1000000000000.0) would end after the year 9999; pass a shorter span"
    assert not control.ask("GET", "/clock").json["is_held"]


def test_a_body_that_is_no_json_is_refused(broker: Broker) -> None:
    answer = ask(broker, "POST", "/leveret/v1/vhosts", "text")

    assert answer.status == 400
    assert answer.json["reason"] == 'the body must be a JSON object, not "text"'


def test_an_unknown_path_names_the_document(broker: Broker) -> None:
    answer = ask(broker, "GET", "/leveret/v1/nothing")

    assert answer.status == 404
    assert answer.json["reason"] == "/leveret/v1/nothing is no endpoint; /leveret/v1/openapi.json lists them all"


def test_another_method_is_refused_with_those_allowed(broker: Broker) -> None:
    answer = ask(broker, "PUT", "/leveret/v1/faults")

    assert answer.status == 405
    assert answer.headers["allow"] == "DELETE, GET, POST"


def test_one_virtual_host_does_not_see_another(broker: Broker, control: Control) -> None:
    other = Control(broker, Control(broker).ask("POST", "/vhosts", {}).json["name"])
    for one in (control, other):
        one.post("/queues", name="orders")
    other.post("/publish", routing_key="orders", body="theirs")
    with pika.BlockingConnection(pika.URLParameters(broker.url_for(other.vhost))) as connection:
        connection.channel().basic_get("orders")

        # What the other test holds in flight keeps this one neither from being idle nor from being empty.
        control.post("/wait-idle", timeout=0)
        control.post("/assert/empty", queue="orders")
        control.post("/assert/not-published")
        answer = control.inside("POST", "/assert/published", {"body": "theirs"})

    assert answer.status == 409
    assert "theirs" not in answer.json["reason"].partition("\n")[2]
    assert other.vhost not in answer.json["report"]
    other.ask("DELETE", f"/vhosts/{other.vhost}")


def test_tests_that_run_at_the_same_time_do_not_meet(broker: Broker) -> None:
    def one_test(number: int) -> list[str]:
        control = Control(broker, Control(broker).ask("POST", "/vhosts", {}).json["name"])
        declare_with_dead_letters(control)
        for _ in range(number + 1):
            control.post("/publish", routing_key="orders", json={"test": number})
            consume_and_reject(control, "orders")
        control.post("/wait-idle")
        found = control.post("/assert/dead-lettered", queue="orders", to="dead", times=number + 1, timeout=5)
        control.ask("DELETE", f"/vhosts/{control.vhost}")
        return [message["body"] for message in found["messages"]]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one_test, range(8)))

    assert found == [[f'{{"test": {number}}}'] * (number + 1) for number in range(8)]


def test_a_virtual_host_is_made_with_a_url_and_dropped_with_its_connections(broker: Broker) -> None:
    made = Control(broker).ask("POST", "/vhosts", {"name": "shop/1", "default_queue_type": "quorum"}).json
    control = Control(broker, "shop/1")
    control.post("/queues", name="orders")
    connection = pika.BlockingConnection(pika.URLParameters(made["url"]))

    assert control.inside("GET", "/queues/orders").json["type"] == "quorum"
    assert [one["vhost"] for one in control.inside("GET", "/connections").json] == ["shop/1"]
    assert control.ask("DELETE", "/vhosts/shop%2F1").status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(5)
    assert control.inside("GET", "/queues").status == 404


def test_what_the_strict_checks_find_is_listed_for_its_own_virtual_host(broker: Broker, control: Control) -> None:
    control.post("/publish", routing_key="lost")

    (found,) = control.inside("GET", "/findings").json
    every = control.ask("GET", "/findings").json

    assert found["check"] == "unroutable"
    assert "1 message lost" in found["text"]
    assert len(every) >= 1
    assert Control(broker).inside("GET", "/findings").json == []


def test_connections_are_closed_as_by_an_operator(control: Control) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(control.broker.url_for(control.vhost)))

    assert control.post("/connections/close") == {"closed": 1}
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED"):
        connection.process_data_events(5)


def test_the_state_shows_the_whole_broker(control: Control) -> None:
    control.post("/queues", name="orders")

    state = control.ask("GET", "/state").json

    assert state["rabbitmq"] == "4.3"
    assert (control.vhost, "orders") in [(queue["vhost"], queue["name"]) for queue in state["queues"]]
    assert control.vhost in [one["name"] for one in control.ask("GET", "/vhosts").json]


def test_a_restart_keeps_what_is_durable_and_a_reset_keeps_nothing() -> None:
    with Broker(management=True) as broker:
        control = Control(broker)
        control.post("/queues", name="orders")
        control.post("/publish", routing_key="orders")

        assert control.ask("POST", "/restart").status == 204
        assert control.inside("GET", "/queues/orders").json["ready_count"] == 0
        assert control.ask("POST", "/reset").status == 204
        assert control.inside("GET", "/queues").json == []


def test_two_calls_do_not_wait_for_each_other() -> None:
    begun, ended = Event(), Event()

    class Values(dict[str, str]):
        """The names in a path, which say when they are read."""

        def __getitem__(self, name: str) -> str:
            begun.set()
            return super().__getitem__(name)

    # It is not started, so a deadlock fails this test alone.
    engine = Broker()._engine
    first, second = (
        ControlCall(engine, EventPump(engine), count(), Request("GET", "/"), values, {}, {})
        for values in ({"vhost": "/"}, Values(vhost="/"))
    )
    other = Thread(target=lambda: second.scope, daemon=True)

    def ask_under_the_lock() -> None:
        with engine.lock:
            other.start()
            begun.wait(60)
            _ = first.scope
            ended.set()

    Thread(target=ask_under_the_lock, daemon=True).start()

    assert ended.wait(60)
