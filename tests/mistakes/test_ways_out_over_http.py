"""The ways out that the control API names: each row sends a wrong request, and then the one that it is told to send."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret import Broker
from tests.http.client import GUEST, Answer, ask

VHOST = "/leveret/v1/vhosts/%2F"
FAULTS = "/leveret/v1/faults"
# A request: the method, the path, and the body.
Request = tuple[str, str, object]

# The wrong request, what the answer says, and what it says to send.
REQUESTS: dict[str, tuple[Request, str, list[Request]]] = {
    "an unknown name": (
        ("POST", f"{VHOST}/publish", {"exchange": "", "routing_keys": "orders"}),
        "did you mean 'routing_key'?",
        [("POST", f"{VHOST}/publish", {"exchange": "", "routing_key": "orders"})],
    ),
    "a name that is missing": (
        ("POST", f"{VHOST}/wait-for-consumer", {}),
        "'queue' is missing; it must be",
        [("POST", f"{VHOST}/wait-idle", {"timeout": 1})],
    ),
    "a value of another type": (
        ("POST", f"{VHOST}/queues", {"name": "q", "durable": "yes"}),
        'durable="yes" must be true or false',
        [("POST", f"{VHOST}/queues", {"name": "q", "durable": True})],
    ),
    "a body where none is taken": (
        ("POST", "/leveret/v1/clock/hold", {"seconds": 1}),
        "leave 'seconds' out",
        [("POST", "/leveret/v1/clock/hold", {}), ("POST", "/leveret/v1/clock/release", {})],
    ),
    "a body that is a list": (
        ("POST", f"{VHOST}/queues", ["q"]),
        "the body must be a JSON object",
        [("POST", f"{VHOST}/queues", {"name": "q"})],
    ),
    "an unknown parameter": (
        ("GET", f"{VHOST}/events?kind=published", None),
        "did you mean 'kinds'?",
        [("GET", f"{VHOST}/events?kinds=published", None)],
    ),
    "a parameter where none is taken": (
        ("GET", "/leveret/v1/clock?now=1", None),
        "this takes no parameters, so leave it out",
        [("GET", "/leveret/v1/clock", None)],
    ),
    "a parameter given twice": (
        ("GET", f"{VHOST}/events?queue=a&queue=orders", None),
        "give it once",
        [("GET", f"{VHOST}/events?queue=orders", None)],
    ),
    "a limit that is no number": (
        ("GET", f"{VHOST}/queues/orders?limit=all", None),
        "as in limit=100",
        [("GET", f"{VHOST}/queues/orders?limit=100", None)],
    ),
    "an empty parameter": (
        ("GET", f"{VHOST}/events?queue=", None),
        "give it a value, or leave it out",
        [("GET", f"{VHOST}/events?queue=orders", None), ("GET", f"{VHOST}/events", None)],
    ),
    "an event that is none": (
        ("GET", f"{VHOST}/events?kinds=publish", None),
        "did you mean 'published'?",
        [("GET", f"{VHOST}/events?kinds=published", None)],
    ),
    "a virtual host that exists": (
        ("POST", "/leveret/v1/vhosts", {"name": "/"}),
        "choose another name, or leave it out to get a new one",
        [("POST", "/leveret/v1/vhosts", {"name": "shop"}), ("POST", "/leveret/v1/vhosts", {})],
    ),
    "a fault without a place": (
        ("POST", FAULTS, {"fault": "reset_peer"}),
        'name a method or an event, such as basic.ack, or say "now" to act at once',
        [
            ("POST", FAULTS, {"fault": "reset_peer", "on": "basic.ack"}),
            ("POST", FAULTS, {"fault": "reset_peer", "on": "delivered"}),
            ("POST", FAULTS, {"fault": "reset_peer", "on": "now"}),
        ],
    ),
    "a fault that does not exist": (
        ("DELETE", f"{FAULTS}/7", None),
        "fault 7 does not exist; none exists yet",
        [("POST", FAULTS, {"fault": "reset_peer", "on": "basic.ack"}), ("DELETE", f"{FAULTS}/1", None)],
    ),
    "an endpoint that is none": (
        ("GET", "/leveret/v1/nope", None),
        "/leveret/v1/openapi.json lists them all",
        [("GET", "/leveret/v1/openapi.json", None)],
    ),
    "a call that waits for nobody": (
        ("POST", f"{VHOST}/publish", {"exchange": "nope", "routing_key": "k"}),
        "nope",
        [
            ("POST", f"{VHOST}/exchanges", {"name": "nope", "type": "topic"}),
            ("POST", f"{VHOST}/publish", {"exchange": "nope", "routing_key": "k"}),
        ],
    ),
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(management=True, checks="all=off", users={"shop": "secret"}) as broker:
        broker.declare_queue("orders")
        yield broker


def sent(broker: Broker, request: Request) -> Answer:
    method, path, body = request
    return ask(broker, method, path, body)


@pytest.mark.parametrize("what", REQUESTS)
def test_a_request_is_answered_once_it_is_as_it_was_told(broker: Broker, what: str) -> None:
    wrong, said, rights = REQUESTS[what]

    refused = sent(broker, wrong)

    assert refused.status >= 400
    assert said in refused.json["reason"]
    for right in rights:
        answer = sent(broker, right)
        assert answer.status < 300, answer.body


def test_a_stranger_is_let_in_as_the_user_that_is_named(broker: Broker) -> None:
    refused = ask(broker, "GET", "/leveret/v1/clock", authorization=None)

    assert "such as guest with the password guest" in refused.json["reason"]
    assert ask(broker, "GET", "/leveret/v1/clock", authorization=GUEST).status == 200


def test_a_user_without_the_tag_is_let_in_once_it_is_set(broker: Broker) -> None:
    shop = "Basic c2hvcDpzZWNyZXQ="
    refused = ask(broker, "GET", "/leveret/v1/clock", authorization=shop)
    assert "lacks the tag 'administrator'; set it with set_user_tags" in refused.json["reason"]

    broker.admin.set_user_tags("shop", "administrator")

    assert ask(broker, "GET", "/leveret/v1/clock", authorization=shop).status == 200


@pytest.mark.parametrize("header", ["host", "origin"])
def test_a_foreign_page_is_let_in_at_the_address_that_is_named(broker: Broker, header: str) -> None:
    foreign = "example.com" if header == "host" else "http://example.com"
    refused = ask(broker, "GET", "/leveret/v1/clock", headers={header: foreign})
    text = refused.json["reason"]
    own = broker.management_url.removeprefix("http://")

    if header == "host":
        assert "use http://127.0.0.1 or http://localhost" in text
        hosts = [{"host": own}, {"host": own.replace("127.0.0.1", "localhost")}]
    else:
        assert f"is another site than http://{own}; open that page" in text
        hosts = [{"origin": f"http://{own}"}]

    assert {ask(broker, "GET", "/leveret/v1/clock", headers=headers).status for headers in hosts} == {200}


def test_events_over_http_come_once_they_are_recorded() -> None:
    with Broker(management=True, record="off") as broker:
        refused = ask(broker, "GET", f"{VHOST}/events")
        assert "start it with record='recent'" in refused.json["reason"]

    with Broker(management=True, record="recent") as broker:
        assert ask(broker, "GET", f"{VHOST}/events").status == 200
