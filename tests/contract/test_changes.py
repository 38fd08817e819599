"""One hundred and more changes of a service, and whether each can break a consumer.

The answers are by hand, by one rule: a consumer can break on what it has never received, and on what it always received
and no longer gets. Where its needs were measured, these decide.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest
from pytest_leveret.contract.comparing import lock_changes
from pytest_leveret.contract.lock import Declared, Lock, LockedBinding, LockedConsumer, LockedMessage, MessageKey, parse

from leveret.trace.shapes import add_message

UUIDS = [f"3f2504e0-4f89-41d3-9a0c-0305e82c33{at:02}" for at in range(16)]


ORDERS = MessageKey("/", "orders", "order.created", "")


def order(at: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": UUIDS[at],
        "status": ("open", "paid")[at % 2],
        "currency": ("EUR", "USD")[at % 2],
        "total": f"{at}.50",
        "amount": at + 0.5,
        "count": at,
        "paid": at % 2 == 0,
        "refund_of": UUIDS[at] if at % 3 == 0 else None,
        "customer": {"id": UUIDS[at], "email": f"ada{at}@example.com", "name": "Ada Lovelace"},
        "lines": [{"sku": f"tea-{at}", "quantity": 1, "price": "4.50"}, {"sku": "cup", "quantity": 2, "price": "9"}],
        "tags": ["new", "big order"],
        "placed_at": "2024-05-01T10:00:00Z",
        "day": "2024-05-01",
        "link": "amqp://example.com/1",
    }
    if at % 4 == 0:
        body |= {"note": f"Leave it at the door, number {at}", "coupon": "5.00"}
        body["lines"][0]["gift"] = True
    return body


@dataclass
class Service:
    """A publisher and its consumers: what a change may touch."""

    bodies: list[Any] = field(default_factory=lambda: [order(at) for at in range(16)])
    headers: list[dict[str, Any]] = field(
        default_factory=lambda: [
            {"tenant": "acme", "attempt": at, **({"trace": "x"} if at % 2 else {})} for at in range(16)
        ]
    )
    properties: dict[str, Any] = field(
        default_factory=lambda: {
            "content_type": "application/json",
            "delivery_mode": 2,
            "message_id": UUIDS[0],
            "priority": 1,
            "timestamp": 1_700_000_000,
            "app_id": "shop",
        }
    )
    key: MessageKey = ORDERS
    publishers: set[str] = field(default_factory=lambda: {"shop"})
    consumers: dict[str, LockedConsumer] = field(
        default_factory=lambda: {"billing": LockedConsumer("billing", "billing", {"acked"})}
    )
    # Messages that no consumer reads, by routing key.
    unread: dict[str, list[Any]] = field(default_factory=lambda: {"order.seen": [{"id": at} for at in range(8)]})
    exchanges: dict[str, Declared] = field(default_factory=lambda: {"orders": Declared({"topic"}, {()})})
    queues: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {
            "billing": {"x-message-ttl": 60_000, "x-dead-letter-exchange": "dead", "x-queue-type": "quorum"},
            "spare": {},
        }
    )
    bindings: set[tuple[str, str]] = field(default_factory=lambda: {("billing", "order.*"), ("spare", "spare.#")})

    def lock(self) -> Lock:
        lock = Lock()
        message = lock.messages[self.key] = LockedMessage(set(self.publishers))
        message.consumers = {(each.queue, each.client): deepcopy(each) for each in self.consumers.values()}
        for body, headers in zip(self.bodies, self.headers, strict=True):
            octets = body if isinstance(body, bytes) else json.dumps(body).encode()
            add_message(message.shape, octets, {**self.properties, "headers": headers})
        for key, bodies in self.unread.items():
            other = lock.messages[self.key._replace(routing_key=key)] = LockedMessage(set(self.publishers))
            for body in bodies:
                add_message(other.shape, json.dumps(body).encode(), self.properties)
        lock.exchanges = {("/", name): declared for name, declared in self.exchanges.items()}
        lock.queues = {
            ("/", name): Declared(set(), {tuple(sorted(each.items()))}) for name, each in self.queues.items()
        }
        lock.bindings = {LockedBinding("/", "orders", "queue", queue, key) for queue, key in self.bindings}
        return lock


Edit = Callable[[Service], object]


def each(edit: Callable[[dict[str, Any], int], object], every: int = 1) -> Edit:
    """Change every body, or each second one."""

    def change(service: Service) -> None:
        for at, body in enumerate(service.bodies):
            if at % every == 0:
                edit(body, at)

    return change


def put(path: str, value: Any, every: int = 1) -> Edit:
    """Give a field of the bodies another value: one, or that of a function of the number of the message."""

    def edit(body: dict[str, Any], at: int) -> None:
        for holder, name in holders(body, path):
            holder[name] = value(at) if callable(value) else value

    return each(edit, every)


def drop(path: str, every: int = 1) -> Edit:
    def edit(body: dict[str, Any], at: int) -> None:
        for holder, name in holders(body, path):
            holder.pop(name, None)

    return each(edit, every)


def rename(path: str, new: str) -> Edit:
    def edit(body: dict[str, Any], at: int) -> None:
        for holder, name in holders(body, path):
            holder[new] = holder.pop(name)

    return each(edit)


def holders(body: dict[str, Any], path: str) -> list[tuple[dict[str, Any], str]]:
    first, _, rest = path.partition(".")
    if not rest:
        return [(body, first)]
    below = body[first.removesuffix("[]")]
    return [pair for item in (below if first.endswith("[]") else [below]) for pair in holders(item, rest)]


def header(name: str, value: Any, every: int = 1) -> Edit:
    def change(service: Service) -> None:
        for headers in service.headers[::every]:
            headers.pop(name, None)
            if value is not None:
                headers[name] = value

    return change


def prop(name: str, value: Any) -> Edit:
    def change(service: Service) -> None:
        service.properties.pop(name, None)
        if value is not None:
            service.properties[name] = value

    return change


def bodies(make: Callable[[Any], Any]) -> Edit:
    return lambda service: setattr(service, "bodies", [make(body) for body in service.bodies])


def key(**changes: str) -> Edit:
    return lambda service: setattr(service, "key", service.key._replace(**changes))


def argument(queue: str, name: str, value: Any) -> Edit:
    def change(service: Service) -> None:
        service.queues[queue].pop(name, None)
        if value is not None:
            service.queues[queue][name] = value

    return change


def bindings(*pairs: tuple[str, str]) -> Edit:
    return lambda service: setattr(service, "bindings", {*pairs})


BREAKING: dict[str, Edit] = {
    **{
        f"{name} removed": drop(name)
        for name in (
            *("id", "status", "currency", "total", "amount", "count", "paid", "refund_of", "customer", "lines", "tags"),
            *("placed_at", "day", "link", "customer.id", "customer.email", "lines[].sku", "lines[].price"),
        )
    },
    "total renamed": rename("total", "sum"),
    "customer.email renamed": rename("customer.email", "mail"),
    "lines[].sku renamed": rename("lines[].sku", "article"),
    "customer moved into an object": each(lambda body, at: body.update(who={"customer": body.pop("customer")})),
    "total a number": put("total", 1.5),
    "total a free text": put("total", "1.50 EUR"),
    "amount a text": put("amount", "1.5"),
    "count a fraction": put("count", 1.5),
    "count a text": put("count", "1"),
    "paid a text": put("paid", "yes"),
    "paid a number": put("paid", 1),
    "id a number": put("id", lambda at: at),
    "id no uuid": put("id", lambda at: f"order {at}"),
    "customer a text": put("customer", "Ada Lovelace"),
    "customer a list": put("customer", []),
    "lines an object": put("lines", {"first": {"sku": "tea"}}),
    "tags a text": put("tags", "new, big order"),
    "tags numbers": put("tags", [1, 2]),
    "tags with null": put("tags", ["new", None], every=2),
    "placed_at a number": put("placed_at", 1_700_000_000),
    "placed_at without a time": put("placed_at", "2024-05-01"),
    "day with a time": put("day", "2024-05-01T10:00:00Z"),
    "link a free text": put("link", "see the shop"),
    "note a number": put("note", 7),
    "coupon a free text": put("coupon", "five", every=4),
    "price of a line a number": put("lines[].price", 4.5),
    "total sometimes null": put("total", None, every=2),
    "customer sometimes null": put("customer", None, every=3),
    "lines sometimes null": put("lines", None, every=3),
    "note null": put("note", None, every=4),
    "coupon null": put("coupon", None, every=4),
    "status sometimes null": put("status", None, every=5),
    "total sometimes missing": drop("total", every=2),
    "customer.email sometimes missing": drop("customer.email", every=5),
    "lines[].price sometimes missing": drop("lines[].price", every=4),
    "status with one more value": put("status", "lost", every=4),
    "status with other values": put("status", lambda at: ("created", "settled")[at % 2]),
    "status a free text": put("status", lambda at: f"paid on day {at}"),
    "currency in small letters": put("currency", "eur", every=2),
    "header tenant lost": header("tenant", None),
    "header tenant sometimes lost": header("tenant", None, every=2),
    "header tenant a number": header("tenant", 17),
    "header attempt a text": header("attempt", "first"),
    "content_type text": prop("content_type", "text/plain"),
    "content_type lost": prop("content_type", None),
    "message_id lost": prop("message_id", None),
    "message_id no uuid": prop("message_id", "order one"),
    "body a text": bodies(lambda body: b"id=1"),
    "body bytes": bodies(lambda body: b"\x80\x04\x95"),
    "body empty": bodies(lambda body: b""),
    "body a list": bodies(lambda body: [body]),
    "body in an envelope": bodies(lambda body: {"data": body}),
    "routing key changed": key(routing_key="order.made"),
    "exchange changed": key(exchange="sales"),
    "type of the message changed": key(name="OrderCreated"),
    "no publisher any more": lambda service: service.publishers.clear(),
    "ttl changed": argument("billing", "x-message-ttl", 30_000),
    "ttl removed": argument("billing", "x-message-ttl", None),
    "length limited": argument("billing", "x-max-length", 100),
    "dead-letter exchange changed": argument("billing", "x-dead-letter-exchange", "graves"),
    "queue type changed": argument("billing", "x-queue-type", "stream"),
    "argument of a spare queue added": argument("spare", "x-expires", 1000),
    "exchange type changed": lambda service: service.exchanges.update(orders=Declared({"direct"}, {()})),
    "exchange with an alternate": lambda service: service.exchanges.update(
        orders=Declared({"topic"}, {(("alternate-exchange", "lost"),)})
    ),
    "binding lost": bindings(("spare", "spare.#")),
    "binding key misspelt": bindings(("spare", "spare.#"), ("billing", "oder.*")),
}
HARMLESS: dict[str, Edit] = {
    "nothing": lambda service: None,
    "note removed": drop("note"),
    "coupon removed": drop("coupon"),
    "lines[].gift removed": drop("lines[].gift"),
    "amount whole numbers": put("amount", 3),
    "amount whole and broken numbers": put("amount", 3, every=2),
    "total whole": put("total", "10"),
    "note a decimal text": put("note", "5.00", every=4),
    "refund_of always": put("refund_of", UUIDS[1]),
    "refund_of never": put("refund_of", None),
    "note in every message": put("note", "Ring twice"),
    "coupon in every message": put("coupon", "1.00"),
    "new required field": put("weight", 1.5),
    "new optional field": put("weight", 1.5, every=2),
    "new optional null": put("weight", None, every=2),
    "new nested field": put("customer.phone", "none"),
    "new field of lines": put("lines[].weight", 1),
    "new object": put("address", {"city": "Berlin"}),
    "new list": put("parcels", [1, 2]),
    "status narrowed": put("status", "open"),
    "currency narrowed": put("currency", "EUR"),
    "name a word": put("customer.name", "ada"),
    "no lines": put("lines", [], every=2),
    "more lines": put("lines", [{"sku": "tea", "quantity": 1, "price": "1"}] * 5, every=2),
    "no tags": put("tags", []),
    "other skus": put("lines[].sku", "pot-77"),
    "header new": header("source", "web"),
    "header trace lost": header("trace", None),
    "header trace in every message": header("trace", "y"),
    "header tenant another": header("tenant", "other"),
    "not persistent": prop("delivery_mode", 1),
    "no delivery mode": prop("delivery_mode", None),
    "no priority": prop("priority", None),
    "no app_id": prop("app_id", None),
    "no timestamp": prop("timestamp", None),
    "an expiration": prop("expiration", "60000"),
    "a correlation_id": prop("correlation_id", UUIDS[2]),
    "a user_id": prop("user_id", "shop"),
    "another message_id": prop("message_id", UUIDS[3]),
    "publisher renamed": lambda service: setattr(service, "publishers", {"web"}),
    "second publisher": lambda service: service.publishers.add("web"),
    "new message": lambda service: service.unread.update({"order.lost": [{"id": 1}]}),
    "unread message no longer sent": lambda service: service.unread.clear(),
    "unread message without its field": lambda service: service.unread.update({"order.seen": [{}]}),
    "unread message of another type": lambda service: service.unread.update({"order.seen": [{"id": "x"}]}),
    "new consumer": lambda service: service.consumers.update(audit=LockedConsumer("audit", "audit", {"acked"})),
    "consumer gone": lambda service: service.consumers.clear(),
    "consumer rejects some": lambda service: service.consumers["billing"].settled.add("rejected"),
    "new queue": lambda service: service.queues.update(audit={"x-max-length": 5}),
    "spare queue gone": lambda service: service.queues.pop("spare"),
    "new exchange": lambda service: service.exchanges.update(audit=Declared({"fanout"}, {()})),
    "new binding": lambda service: service.bindings.add(("billing", "refund.*")),
    "binding of a spare queue lost": bindings(("billing", "order.*")),
}
# With measured needs: the need, the change, and whether it breaks.
MEASURED: dict[str, tuple[dict[str, str], Edit, bool]] = {
    "removed, never read": ({"body.total": "any"}, drop("total"), False),
    "retyped, never read": ({"body.total": "any"}, put("total", 17), False),
    "removed, not needed": ({"body.total": "optional decimal"}, drop("total"), False),
    "removed, needed": ({"body.total": "decimal"}, drop("total"), True),
    "null, accepted": ({"body.total": "decimal | null"}, put("total", None, every=2), False),
    "free text, accepted": ({"body.total": "string"}, put("total", "a lot"), False),
    "number, not accepted": ({"body.total": "string"}, put("total", 17), True),
    "number, accepted": ({"body.total": "integer | string"}, put("total", 17), False),
    "new value, accepted": ({"body.status": "string"}, put("status", "lost", every=2), False),
    "new value, not accepted": ({"body.status": "enum(open, paid)"}, put("status", "lost", every=2), True),
    "header removed, never read": ({"headers.tenant": "any"}, header("tenant", None), False),
    "item retyped, never read": ({"body.lines[].sku": "any"}, put("lines[].sku", 17), False),
    "other field removed": ({"body.total": "any"}, drop("id"), True),
}


def breaks(edit: Edit, needs: dict[str, str] | None = None) -> bool:
    """Return whether a change is found to break a consumer, by the files before and after."""
    before, after = Service(), Service()
    before.consumers["billing"].needs = needs or {}
    edit(after)
    changes = lock_changes(parse(before.lock().text()), parse(after.lock().text()))
    return any(change.breaks for change in changes)


def test_there_are_more_than_a_hundred_changes() -> None:
    assert len(BREAKING) + len(HARMLESS) + len(MEASURED) > 100


@pytest.mark.parametrize("name", BREAKING)
def test_a_change_that_can_break_a_consumer_is_breaking(name: str) -> None:
    assert breaks(BREAKING[name])


@pytest.mark.parametrize("name", HARMLESS)
def test_a_change_that_cannot_break_a_consumer_is_not_breaking(name: str) -> None:
    assert not breaks(HARMLESS[name])


@pytest.mark.parametrize("name", MEASURED)
def test_measured_needs_decide_what_breaks(name: str) -> None:
    needs, edit, is_breaking = MEASURED[name]

    assert breaks(edit, needs) == is_breaking


def test_what_breaks_names_the_field_and_the_need_of_the_consumer() -> None:
    before, after = Service(), Service()
    put("total", 17)(after)

    (received,) = [change for change in lock_changes(before.lock(), after.lock()) if change.breaks]
    before.consumers["billing"].needs = {"body.total": "string"}
    (needed,) = [change for change in lock_changes(before.lock(), after.lock()) if change.breaks]

    assert str(received) == (
        "orders 'order.created': `total` is integer, and was decimal; billing has received `total` as decimal"
    )
    assert needed.breaks == ("billing reads `total` as string",)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({"ttl": 60, "to": "dead"}, {"ttl": 30, "to": "dead"}, "has ttl = 30, and had ttl = 60"),
        ({"to": "dead"}, {"ttl": 30, "to": "dead"}, "has ttl = 30, and had no others"),
        ({"ttl": 60}, {}, "has no arguments, and had ttl = 60"),
    ],
)
def test_of_a_declaration_only_the_arguments_that_differ_are_named(before: dict, after: dict, text: str) -> None:
    old, new = (Lock(queues={("/", "mails"): Declared(set(), {tuple(each.items())})}) for each in (before, after))

    (change,) = lock_changes(old, new)
    assert (change.subject, change.text) == ("queue 'mails'", text)


def test_a_queue_that_is_declared_in_fewer_ways_breaks_nothing() -> None:
    old, new = Lock(), Lock()
    old.queues["/", "jobs"] = Declared(set(), {(), (("x-max-length", 5),)})
    new.queues["/", "jobs"] = Declared(set(), {()})

    (change,) = lock_changes(old, new)

    assert (str(change), change.breaks) == ("queue 'jobs': is declared in fewer ways", ())


def test_a_binding_that_is_gone_breaks_no_consumer_of_another_virtual_host() -> None:
    old = Lock(bindings={LockedBinding("/", "orders", "queue", "books", "#")})
    for vhost in ("/", "other"):
        reader = LockedConsumer("books", f"reader of {vhost}", {"acked"})
        old.messages[ORDERS._replace(vhost=vhost)] = LockedMessage({"shop"}, {("books", reader.client): reader})

    (change,) = lock_changes(old, Lock(messages=old.messages))

    assert change.breaks == ("reader of / receives messages from there",)
