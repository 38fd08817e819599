"""Changes of the service: those that change an outcome, and refactorings that do not.

Each is a class of the service and one of its client. The names say what was changed.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from time import time
from typing import Any

import pika
from pika.compat import long

from .services import ACK, REJECT, Action, Billing, Client

Variant = tuple[type[Billing], type[Client]]
PLANTED: dict[str, Variant] = {}
INNOCENT: dict[str, Variant] = {}


def made(base: type, name: str, **members: Any) -> type:
    return type(name, (base,), members)


def decides(name: str, **members: Any) -> None:
    PLANTED[name] = made(Billing, name, **members), Client


def uses(name: str, **members: Any) -> None:
    INNOCENT[name] = Billing, made(Client, name, **members)


def sends_with(change: Callable[[Action], Action | list[Action]]) -> Callable[..., list[Action]]:
    """Return a `sends` of which each is changed: to another one, or to several."""

    def sends(self: Billing, order: dict[str, Any], properties: pika.BasicProperties) -> list[Action]:
        changed = [change(action) for action in Billing.sends(self, order, properties)]
        return [one for each in changed for one in (each if isinstance(each, list) else [each])]

    return sends


def body_with(change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    return {"invoice": lambda self, order: change(Billing.invoice(self, order))}


def properties_with(**changes: Any) -> dict[str, Any]:
    def properties(self: Billing, order: dict[str, Any], given: pika.BasicProperties) -> dict[str, Any]:
        return {name: it for name, it in (Billing.properties(self, order, given) | changes).items() if it is not None}

    return {"properties": properties}


def handles_with(change: Callable[[dict[str, Any], list[Action]], list[Action]]) -> dict[str, Any]:
    return {"handle": lambda self, order, properties: change(order, Billing.handle(self, order, properties))}


def without(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != name}


# What changes an outcome.
decides("accepts what it rejected", **handles_with(lambda order, actions: [ACK] if actions == [REJECT] else actions))
decides("rejects a total of zero", **handles_with(lambda order, acts: [REJECT] if order["total"] == 0 else acts))
decides(
    "bills drafts",
    handle=lambda self, order, given: [*self.sends(order, given), ACK] if order["total"] >= 0 else [REJECT],
)
decides("rejects drafts", **handles_with(lambda order, actions: [REJECT] if actions == [ACK] else actions))
decides("never settles what is big", **handles_with(lambda order, acts: acts[:-1] if order["total"] > 100 else acts))
decides(
    "sends before it rejects",
    **handles_with(
        lambda order, actions: (
            [("invoices", "alarm", {"order": order["id"]}, {}), *actions] if actions == [REJECT] else actions
        )
    ),
)
decides("never acks", **handles_with(lambda order, actions: [it for it in actions if it != ACK]))
decides("another rate", **body_with(lambda body: {**body, "total": round(body["total"] * 1.05, 2)}))
decides("rounds to whole numbers", **body_with(lambda body: {**body, "total": round(body["total"])}))
decides(
    "an error at one total", **body_with(lambda body: {**body, "total": 0 if body["total"] == 120 else body["total"]})
)
decides("another currency", **body_with(lambda body: {**body, "currency": "USD"}))
decides("no currency", **body_with(lambda body: {**body, "currency": None}))
decides("a total as text", **body_with(lambda body: {**body, "total": str(body["total"])}))
decides(
    "whole numbers without a fraction",
    **body_with(
        lambda body: {**body, "total": int(body["total"]) if body["total"] == int(body["total"]) else body["total"]}
    ),
)
decides("a header as an instant", **properties_with(headers={"tenant": "rome", "level": datetime(1970, 1, 1, 0, 0, 3)}))
decides("a longer integer", **properties_with(headers={"tenant": "rome", "level": long(3)}))
decides("a field less", **body_with(lambda body: without(body, "order")))
decides("a field more", **body_with(lambda body: {**body, "version": 2}))
decides("a field with another name", **body_with(lambda body: {**without(body, "is_paid"), "isPaid": body["is_paid"]}))
decides("another truth", **body_with(lambda body: {**body, "is_paid": True}))
decides(
    "a flat customer",
    **body_with(lambda body: {**without(body, "customer"), "customer_name": body["customer"]["name"]}),
)
decides("a line less", **body_with(lambda body: {**body, "lines": body["lines"][:1]}))
decides("no lines", **body_with(lambda body: {**body, "lines": []}))
decides("a null less", **body_with(lambda body: without(body, "note")))
decides("another case", **body_with(lambda body: {**body, "currency": "eur"}))
decides("the wrong order", **body_with(lambda body: {**body, "order": body["order"] + 1}))
decides("no header", **properties_with(headers={"level": 3}))
decides("a header more", **properties_with(headers={"tenant": "rome", "level": 3, "by": "v2"}))
decides("another header", **properties_with(headers={"tenant": "rome", "level": 4}))
decides("transient", **properties_with(delivery_mode=1))
decides("a priority", **properties_with(priority=5))
decides("an expiration", **properties_with(expiration="60000"))
decides("no content type", **properties_with(content_type=None))
decides("another type", **properties_with(type="bill"))
decides("no correlation id", **properties_with(correlation_id=None))
decides("the wrong correlation id", **properties_with(correlation_id="order-0001"))
decides("another key", sends=sends_with(lambda it: (it[0], it[1].replace("invoice.made", "invoice.new"), *it[2:])))
decides("another exchange", sends=sends_with(lambda it: ("orders" if it[0] else "", *it[1:])))
decides("straight to the queue", sends=sends_with(lambda it: ("", "invoices", *it[2:]) if it[0] else it))
decides("twice", sends=sends_with(lambda it: [it, it] if it[1] == "invoice.made" else it))
decides("no audit", sends=sends_with(lambda it: [] if it[1] == "audit.big" else it))
decides("no answer", sends=sends_with(lambda it: it if it[0] else []))
decides("an empty answer", sends=sends_with(lambda it: it if it[0] else (*it[:2], {}, it[3])))
decides("to no queue", sends=sends_with(lambda it: ("", "nowhere", *it[2:]) if it[1] == "audit.big" else it))


def requeues_one(self: Client, channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
    order = json.loads(body)
    if order["id"] != 8 or method.redelivered:
        return Client.on_order(self, channel, method, properties, body)
    for action in self.billing.sends(order, properties):
        self.act(method.delivery_tag, action)
    return channel.basic_reject(method.delivery_tag, requeue=True)


PLANTED["requeues one, once it has sent"] = Billing, made(Client, "Requeuing", on_order=requeues_one)


# What does not: how a client is used.
def on_acted(change: Callable[..., None]) -> dict[str, Any]:
    return {"act": change}


def nacks(self: Client, tag: int, action: Action) -> None:
    self.channel.basic_nack(tag, requeue=False) if action == REJECT else Client.act(self, tag, action)


def acks_all(self: Client, tag: int, action: Action) -> None:
    self.channel.basic_ack(tag, multiple=True) if action == ACK else Client.act(self, tag, action)


def acks_first(self: Client, channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
    actions = self.billing.handle(json.loads(body), properties)
    for action in sorted(actions, key=lambda action: action not in (ACK, REJECT)):
        self.act(method.delivery_tag, action)


def in_a_thread(self: Client, channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
    def work() -> None:
        for action in self.billing.handle(json.loads(body), properties):
            self.connection.add_callback_threadsafe(lambda action=action: self.act(method.delivery_tag, action))

    threading.Thread(target=work).start()


def begins_with(act: Callable[[Client], object]) -> dict[str, Any]:
    def begin(self: Client) -> None:
        act(self)
        Client.begin(self)

    return {"begin": begin}


def own_channel(self: Client, exchange: str, key: str, body: Any, properties: dict[str, Any]) -> None:
    channel = self.__dict__.setdefault("publishing", None) or self.connection.channel()
    self.publishing = channel
    channel.basic_publish(exchange, key, self.encoded(body), pika.BasicProperties(**properties))


def own_connection(self: Client, exchange: str, key: str, body: Any, properties: dict[str, Any]) -> None:
    if not hasattr(self, "other"):
        self.other = pika.BlockingConnection(self.parameters()).channel()
    self.other.basic_publish(exchange, key, self.encoded(body), pika.BasicProperties(**properties))


def connection_each(self: Client, exchange: str, key: str, body: Any, properties: dict[str, Any]) -> None:
    with pika.BlockingConnection(self.parameters()) as connection:
        connection.channel().basic_publish(exchange, key, self.encoded(body), pika.BasicProperties(**properties))


def mandatory(self: Client, exchange: str, key: str, body: Any, properties: dict[str, Any]) -> None:
    given = pika.BasicProperties(**properties)
    self.channel.basic_publish(exchange, key, self.encoded(body), given, mandatory=bool(exchange))


def polls(self: Client) -> None:
    while True:
        method, properties, body = self.channel.basic_get("billing")
        if method is None:
            print("polling")
            self.connection.process_data_events(0.03)
        else:
            self.on_order(self.channel, method, properties, body)


def iterates(self: Client) -> None:
    for method, properties, body in self.channel.consume("billing"):
        self.on_order(self.channel, method, properties, body)


def named(self: Client) -> pika.URLParameters:
    parameters = Client.parameters(self)
    parameters.client_properties = {"connection_name": "billing v2"}
    return parameters


def two_consumers(self: Client) -> None:
    self.channel.basic_consume("billing", self.on_order)


def tags(self: Client) -> None:
    self.channel.basic_consume("billing", self.on_order, consumer_tag="billing-v2")
    self.channel.start_consuming()


def transacts(self: Client, channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
    Client.on_order(self, channel, method, properties, body)
    self.channel.tx_commit()


def shuffled(body: Any) -> bytes:
    pairs = reversed(list(body.items())) if isinstance(body, dict) else body
    return json.dumps(dict(pairs)).encode()


uses("nacks without requeue", act=nacks)
uses("acks with multiple", act=acks_all)
uses("acks before it sends", on_order=acks_first)
uses("works in a thread", on_order=in_a_thread)
uses("a prefetch of one", prefetch=1)
uses("no prefetch", prefetch=0)
uses("a large prefetch", prefetch=500)
uses("a shared prefetch", **begins_with(lambda self: self.channel.basic_qos(prefetch_count=50)))
uses("confirms", **begins_with(lambda self: self.channel.confirm_delivery()))
uses("a channel of its own to publish", send=own_channel)
uses("a connection of its own to publish", send=own_connection)
uses("a connection for each publish", send=connection_each)
uses("mandatory", send=mandatory)
uses("polls", begin=polls)
uses("iterates", begin=iterates)
uses("another name", parameters=named)
uses("another tag", begin=tags)
uses("two consumers", **begins_with(two_consumers))
uses("transactions", on_order=transacts, **begins_with(lambda self: self.channel.tx_select()))
uses("declares twice", **begins_with(lambda self: self.declare()))
uses("declares passively", **begins_with(lambda self: self.channel.queue_declare("billing", passive=True)))
uses("a queue more", **begins_with(lambda self: self.channel.queue_declare("unused", durable=True)))
uses("an exchange more", **begins_with(lambda self: self.channel.exchange_declare("unused", "fanout", durable=True)))
uses("an exclusive queue", **begins_with(lambda self: self.channel.queue_declare("", exclusive=True)))
uses("a second channel", **begins_with(lambda self: self.connection.channel()))
uses("a second connection", **begins_with(lambda self: setattr(self, "b", pika.BlockingConnection(self.parameters()))))
uses("keys in another order", encoded=lambda self, body: shuffled(body))
uses("indented bodies", encoded=lambda self, body: json.dumps(body, indent=2).encode())
uses("compact bodies", encoded=lambda self, body: json.dumps(body, separators=(",", ":")).encode())
uses("sorted keys", encoded=lambda self, body: json.dumps(body, sort_keys=True).encode())
uses("a line at the end", encoded=lambda self, body: json.dumps(body).encode() + b"\n")
uses("texts as they are", encoded=lambda self, body: json.dumps(body, ensure_ascii=False).encode())


def refactors(name: str, **members: Any) -> None:
    INNOCENT[name] = made(Billing, name, **members), Client


refactors("sends in another order", sends=lambda self, order, given: Billing.sends(self, order, given)[::-1])
refactors("a fraction of zero computed", **body_with(lambda body: {**body, "total": body["total"] * 1.0}))
refactors("headers of the same types", **properties_with(headers={"tenant": "rome", "level": int(3.0)}))
refactors("a flag computed", **body_with(lambda body: {**body, "is_paid": 1 > 2}))
refactors("computes in cents", **body_with(lambda body: {**body, "total": round(body["total"] * 100) / 100}))
refactors("headers in another order", **properties_with(headers={"level": 3, "tenant": "rome"}))
refactors("a larger integer type", **handles_with(lambda order, actions: list(actions)))
refactors("prints", **handles_with(lambda order, actions: print(order) or actions))
refactors("is slower", **handles_with(lambda order, actions: sum(range(50_000)) and actions))
refactors("catches", **handles_with(lambda order, actions: tuple(actions)))


def sends_later(self: Client, channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
    *sends, end = self.billing.handle(json.loads(body), properties)
    self.act(method.delivery_tag, end)
    for action in sends:
        self.connection.call_later(0.005, lambda action=action: self.act(0, action))


def in_batches(self: Client, channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
    batch = self.__dict__.setdefault("batch", [])
    batch.append((method.delivery_tag, self.billing.handle(json.loads(body), properties)))
    if len(batch) == 4:
        for tag, actions in batch:
            for action in actions:
                self.act(tag, action)
        batch.clear()


LOOKING_ALIKE: dict[str, Variant] = {
    "acks and sends later": (Billing, made(Client, "Later", on_order=sends_later)),
    "in batches": (Billing, made(Client, "Batches", on_order=in_batches)),
}
VARIANTS = {**PLANTED, **INNOCENT, **LOOKING_ALIKE}


# What is made anew in each run, which two runs of the same code show.
NOISY: Variant = (
    made(
        Billing,
        "Noisy",
        invoice=lambda self, order: {
            **Billing.invoice(self, order),
            "id": str(uuid.uuid4()),
            "at": datetime.now(UTC).isoformat(),
            "token": uuid.uuid4().int % 10_000,
        },
        properties=lambda self, order, given: {
            **Billing.properties(self, order, given),
            "message_id": str(uuid.uuid4()),
            "timestamp": int(time()),
        },
    ),
    Client,
)
VARIANTS["noisy"] = NOISY
