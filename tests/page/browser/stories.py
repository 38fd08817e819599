"""Stories for the viewer, written by hand, so that a test knows every event of them."""

from __future__ import annotations

from typing import Any

Story = dict[str, Any]

HOUR_US = 3_600_000_000
TEST = {"id": "b1/test", "broker": "b1", "kind": "test", "label": "test"}
SHOP = {
    "id": "b1/c1",
    "broker": "b1",
    "kind": "client",
    "label": "c1 shop",
    "detail": "user guest",
    "line": "test_shop.py:5",
}
WORKER = {"id": "b1/c2", "broker": "b1", "kind": "client", "label": "c2 worker"}
ORDERS = {"id": "b1/x/orders", "broker": "b1", "kind": "exchange", "label": "orders"}
DLX = {"id": "b1/x/dlx", "broker": "b1", "kind": "exchange", "label": "dlx"}
JOBS = {"id": "b1/q/jobs", "broker": "b1", "kind": "queue", "label": "jobs"}
AUDIT = {"id": "b1/q/audit", "broker": "b1", "kind": "queue", "label": "audit"}
DEAD = {"id": "b1/q/dead", "broker": "b1", "kind": "queue", "label": "dead"}


class Telling:
    """The events of a story, a millisecond apart."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.at = 0
        self.wall = 0

    def add(self, kind: str, text: str, *lanes: dict[str, Any], **fields: Any) -> int:
        """Add an event between two lanes, on one, or on none, and return its index."""
        self.at += 1000 + fields.get("leap", 0)
        self.wall += 1000
        index = len(self.events)
        ends = dict(zip(("from", "to"), (lane["id"] for lane in lanes), strict=False))
        self.events.append({"i": index, "t": self.at, "wall": self.wall, "kind": kind, "text": text, **ends, **fields})
        return index


def shop() -> Story:
    """Return a story with every outcome: acked, redelivered, dead-lettered, returned, expired; a client is lost."""
    told = Telling()
    told.add("conn_open", "c1 'shop' connected", SHOP, setup=True)
    told.add("exchange_declare", "declared topic exchange 'orders'", SHOP, ORDERS, setup=True)
    told.add("queue_declare", "declared queue 'jobs'", SHOP, JOBS, setup=True)
    told.add("bind", "bound queue 'jobs' to 'orders' with key 'order.*.paid'", SHOP, JOBS, setup=True)
    told.add(
        "published", "published #1 to 'orders' with key 'order.1.paid'", SHOP, ORDERS, message=1, line="test_shop.py:9"
    )
    told.add("enqueued", "#1 entered 'jobs'", ORDERS, JOBS, message=1, copy=1)
    told.add("confirmed", "confirmed #1", ORDERS, SHOP, message=1, tone="good")
    told.add("delivered", "delivered #1 to c2/ch1", JOBS, WORKER, message=1, copy=1)
    told.add("requeued", "requeued #1 in 'jobs' (nacked)", JOBS, message=1, copy=1, tone="warn")
    told.add("delivered", "redelivered #1 to c2/ch1", JOBS, WORKER, message=1, copy=1, tone="warn")
    told.add("acked", "acked #1", WORKER, JOBS, message=1, copy=1, tone="good")
    told.add("published", "published #2 to 'orders' with key 'order.2.paid'", SHOP, ORDERS, message=2)
    told.add("enqueued", "#2 entered 'jobs'", ORDERS, JOBS, message=2, copy=2)
    told.add("rejected", "rejected #2", WORKER, JOBS, message=2, copy=2, tone="warn")
    died = told.add(
        "dead_lettered", "dead-lettered #2 from 'jobs' (rejected)", JOBS, DLX, message=2, copy=2, tone="bad"
    )
    arrived = told.add("enqueued", "#2 entered 'dead' as a dead letter", DLX, DEAD, message=2, copy=3, caused_by=died)
    told.events[died]["causes"] = [arrived]
    told.add(
        "published", "published #3 to 'orders' with key 'order.paid'", SHOP, ORDERS, message=3, line="test_shop.py:20"
    )
    told.add("returned", "returned #3 (no route)", ORDERS, SHOP, message=3, tone="bad")
    told.add("published", "published #4 to queue 'audit'", WORKER, AUDIT, message=4)
    told.add("expired", "#4 expired in 'audit'", AUDIT, message=4, copy=4, tone="bad", leap=HOUR_US)
    told.add("fault", "fault reset_peer on basic.ack", WORKER, across=True, tone="warn")
    told.add("conn_close", "c2 lost its connection", WORKER, across=True, tone="bad")
    return {
        "format": 1,
        "leveret": "0.1.0",
        "python": "3.11.7",
        "source": "memory",
        "test": {
            "id": "tests/test_shop.py::test_orders_are_paid",
            "outcome": "failed",
            "phase": "call",
            "seconds": 0.25,
            "broker_seconds": 3600.02,
            "error": {
                "text": "AssertionError: 'jobs' acked 1 message, expected 2\nnearest: #3, which was returned",
                "messages": [3],
            },
        },
        "start": {"ts": 1_767_225_600_000_000, "wall": 1_767_225_600_000_000},
        "brokers": [
            {
                "id": "b1",
                "title": "broker on port 5672",
                "rabbitmq": "4.3",
                "seed": 7,
                "clock": "held",
                "dropped_events": 0,
                "faults": [
                    {"text": "reset_peer on basic.ack", "fired": 1, "events": [20]},
                    {"text": "delay on basic.publish", "fired": 0, "events": []},
                ],
                "checks": [
                    {
                        "name": "unroutable",
                        "level": "error",
                        "text": "unroutable: 1 message lost\n  in detail",
                        "messages": [3],
                    }
                ],
            }
        ],
        "lanes": [TEST, SHOP, WORKER, ORDERS, DLX, JOBS, AUDIT, DEAD],
        "events": told.events,
        "messages": messages(),
        "queues": [
            {
                "lane": "b1/q/jobs",
                "name": "jobs",
                "vhost": "/",
                "type": "quorum",
                "durable": True,
                "arguments": {"x-delivery-limit": 3},
                "policy": "limits",
                "policy_keys": {"max-length": 10},
                "bindings": [{"exchange": "orders", "key": "order.*.paid", "arguments": {}, "count": 2}],
                "series": [
                    [2000, 2000, 0, 0, 1],
                    [6000, 6000, 1, 0, 1],
                    [8000, 8000, 0, 1, 1],
                    [HOUR_US, 20000, 0, 0, 0],
                ],
            },
            {"lane": "b1/q/dead", "name": "dead", "type": "classic", "series": [[15000, 15000, 1, 0, 0]]},
        ],
        "topology": {
            "nodes": [
                {"id": "b1/x/orders", "kind": "exchange", "label": "orders", "type": "topic", "broker": "b1"},
                {"id": "b1/x/dlx", "kind": "exchange", "label": "dlx", "type": "fanout", "broker": "b1"},
                {"id": "b1/q/jobs", "kind": "queue", "label": "jobs", "type": "quorum", "broker": "b1"},
                {"id": "b1/q/audit", "kind": "queue", "label": "audit", "type": "classic", "broker": "b1"},
                {"id": "b1/q/dead", "kind": "queue", "label": "dead", "type": "classic", "broker": "b1"},
            ],
            "edges": [
                {"from": "b1/x/orders", "to": "b1/q/jobs", "label": "order.*.paid", "count": 2, "kind": "binding"},
                {"from": "b1/x/orders", "to": "b1/q/audit", "label": "refund.#", "count": 0, "kind": "binding"},
                {"from": "b1/q/jobs", "to": "b1/x/dlx", "label": "", "count": 1, "kind": "dead letter"},
                {"from": "b1/x/dlx", "to": "b1/q/dead", "label": "", "count": 1, "kind": "binding"},
            ],
            "unroutable": [
                {
                    "exchange": "b1/x/orders",
                    "key": "order.paid",
                    "messages": [3],
                    "near": [{"key": "order.*.paid", "to": "b1/q/jobs", "why": "one word is missing before 'paid'"}],
                }
            ],
        },
        "cut": {"events": 0, "bodies": 0},
    }


def messages() -> list[dict[str, Any]]:
    """Return the messages of the shop."""
    return [
        {
            "number": 1,
            "label": "{'id': 1}",
            "colour": 0,
            "vhost": "/",
            "exchange": "orders",
            "routing_key": "order.1.paid",
            "publisher": "c1/ch1",
            "line": "test_shop.py:9",
            "framework": "Celery",
            "summary": [["task", "shop.pay"]],
            "properties": [["delivery_mode", "2"]],
            "headers": {"tenant": "acme"},
            "redacted": ["authorization"],
            "body": {"size": 9, "json": {"id": 1}, "text": '{"id": 1}', "hex": "7b226964223a20317d"},
            "copies": [{"copy": 1, "queue": "b1/q/jobs", "deliveries": 2, "end": "acked"}],
            "causes": [{"message": 4, "how": "published while c2 held #1", "guess": True}],
            "outcome": "acked by c2/ch1 from 'jobs' after 2 deliveries",
            "tone": "good",
        },
        {
            "number": 2,
            "label": "{'id': 2}",
            "colour": 1,
            "exchange": "orders",
            "routing_key": "order.2.paid",
            "copies": [
                {"copy": 2, "queue": "b1/q/jobs", "deliveries": 1, "end": "dead_lettered: rejected"},
                {"copy": 3, "queue": "b1/q/dead", "from_copy": 2, "deliveries": 0, "end": "ready"},
            ],
            "deaths": [
                {
                    "queue": "jobs",
                    "reason": "rejected",
                    "count": 1,
                    "exchange": "orders",
                    "routing_keys": ["order.2.paid"],
                }
            ],
            "outcome": "ready in 'dead'",
            "tone": "warn",
            "body": {"size": 9, "hash": "abc"},
        },
        {
            "number": 3,
            "label": "{'id': 3}",
            "colour": 2,
            "exchange": "orders",
            "routing_key": "order.paid",
            "line": "test_shop.py:20",
            "outcome": "returned: no route",
            "tone": "bad",
        },
        {
            "number": 4,
            "label": "'receipt'",
            "colour": 3,
            "exchange": "",
            "routing_key": "audit",
            "outcome": "expired in 'audit'",
            "tone": "bad",
            "caused_by": {"message": 1, "how": "published while c2 held #1", "guess": True},
        },
    ]


def busy(count: int) -> Story:
    """Return a story of this many events, five for each message."""
    steps = (
        ("published", SHOP, ORDERS),
        ("enqueued", ORDERS, JOBS),
        ("confirmed", ORDERS, SHOP),
        ("delivered", JOBS, WORKER),
        ("acked", WORKER, JOBS),
    )
    told = Telling()
    for index in range(count):
        kind, *lanes = steps[index % 5]
        told.add(kind, f"{kind} #{index // 5 + 1}", *lanes, message=index // 5 + 1)
    sent = [
        {"number": number, "label": f"'{number}'", "colour": number % 12, "exchange": "orders", "routing_key": "k"}
        for number in range(1, (count + 4) // 5 + 1)
    ]
    return story_of("test_busy.py::test_many", [SHOP, WORKER, ORDERS, JOBS], told, sent)


def bouncing(rounds: int) -> Story:
    """Return a story in which a message is nacked, requeued and redelivered this many times."""
    told = Telling()
    told.add("published", "published #1", SHOP, JOBS, message=1)
    told.add("delivered", "delivered #1 to c2/ch1", JOBS, WORKER, message=1, copy=1)
    for _ in range(rounds):
        told.add("nacked", "nacked #1", WORKER, JOBS, message=1, copy=1, tone="warn")
        told.add("requeued", "requeued #1 in 'jobs' (nacked)", JOBS, message=1, copy=1, tone="warn")
        told.add("delivered", "redelivered #1 to c2/ch1", JOBS, WORKER, message=1, copy=1, tone="warn")
    return story_of("test_jobs.py::test_retry", [SHOP, WORKER, JOBS], told, [{"number": 1, "label": "'job'"}])


def story_of(test: str, lanes: list[dict[str, Any]], told: Telling, sent: list[dict[str, Any]]) -> Story:
    """Return a story of events and messages, without anything else."""
    return {
        "format": 1,
        "test": {"id": test, "outcome": "failed"},
        "brokers": [],
        "lanes": lanes,
        "events": told.events,
        "messages": sent,
        "queues": [],
        "topology": {"nodes": [], "edges": [], "unroutable": []},
        "cut": {"events": 0, "bodies": 0},
    }


HOSTILE = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>\"'\x00\u202eabc"


def hostile() -> Story:
    """Return the shop with markup, quotes, NUL and a right-to-left mark in everything that a user names."""
    story = shop()
    story["test"]["id"] = f"tests/test_x.py::test[{HOSTILE}]"
    story["test"]["error"]["text"] = HOSTILE
    for lane in ("lanes", "queues"):
        story[lane] = [{**each, "label": HOSTILE, "name": HOSTILE, "detail": HOSTILE} for each in story[lane]]
    for event in story["events"]:
        event["text"] += HOSTILE
        event["detail"] = [[HOSTILE, HOSTILE]]
    for message in story["messages"]:
        body = {"size": 9, "json": {HOSTILE: HOSTILE}, "text": HOSTILE}
        message.update(label=HOSTILE, exchange=HOSTILE, routing_key=HOSTILE, headers={HOSTILE: HOSTILE}, body=body)
    for node in story["topology"]["nodes"]:
        node["label"] = HOSTILE
    story["topology"]["unroutable"][0]["key"] = HOSTILE
    return story


def two_brokers() -> Story:
    """Return a story in which each of two brokers has a client, a queue and a message with the name #1."""
    lanes = [
        {"id": f"{broker}/{name}", "broker": broker, "kind": kind, "label": name}
        for broker in ("b1", "b2")
        for name, kind in (("c1", "client"), ("jobs", "queue"))
    ]
    told = Telling()
    told.add("published", "published #1 to queue 'jobs'", lanes[0], lanes[1], message=1)
    told.add("published", "published #1 of b2 to queue 'jobs'", lanes[2], lanes[3], message=1_000_001)
    sent = [{"number": 1, "label": "first"}, {"number": 1_000_001, "name": "#1 of b2", "label": "second"}]
    story = story_of("test_two.py::test_two", lanes, told, sent)
    story["test"]["error"] = {"text": "see #1 of b2"}
    story["brokers"] = [{"id": "b1", "title": "orders", "faults": []}, {"id": "b2", "title": "billing", "faults": []}]
    return story
