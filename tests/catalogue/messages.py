"""Services whose bug is in their messages: what a shop sends, and what a billing service reads."""

from __future__ import annotations

_SHOP = """
import json
import threading

import pika
from pika.exceptions import AMQPError

from tests.explore.crashes.shop import database, serve


def sell(url, number):
    # The shop, which sends again what was not confirmed.
    parameters = pika.URLParameters(url)
    parameters.client_properties = {{"connection_name": "shop"}}
    order = {order}
    properties = pika.BasicProperties(content_type="application/json", delivery_mode=2{properties})
    while True:
        try:
            with pika.BlockingConnection(parameters) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.basic_publish("", "orders", json.dumps(order).encode(), properties)
                return
        except AMQPError:
            continue


def billing(shop):
    # The billing service.
    def on_order(channel, method, properties, body):
        order = json.loads(body)
        shop.write("insert or replace into bills values (?, ?)", *{bill})
        channel.basic_ack(method.delivery_tag)

    shop.channel.basic_consume("orders", on_order)


def test_it(leveret, tmp_path):
    leveret.declare_queue("orders")
    bills = database(tmp_path)
    bills.execute("create table bills (id text primary key, total real)")
    stopping = threading.Event()
    service = threading.Thread(target=serve, args=(billing, leveret.url, tmp_path, stopping), daemon=True)
    service.start()
    try:
        for number in (1, 2):
            sell(leveret.url, number)
        leveret.wait_for_consumer("orders")
        leveret.wait_idle(timeout=10)
        leveret.assert_empty("orders", timeout=10)
    finally:
        stopping.set()
        service.join(10)
    assert bills.execute("select count(*) from bills").fetchone() == (2,)
"""
_ORDER = '{"id": number, "total": 9 * number, "currency": "EUR"}'
_BILL = '(order["id"], order["total"])'
_TENANT = '((properties.headers or {}).get("tenant", "none") + str(order["id"]), order["total"])'


def _shop(order: str = _ORDER, bill: str = _BILL, properties: str = "") -> str:
    return _SHOP.format(order=order, bill=bill, properties=properties)


# By what goes wrong: the file with the bug, and its mended twin.
MESSAGES: dict[str, tuple[str, str]] = {
    "a field under another name, which its own test reads too": (
        _shop('{"number": number, "total": 9 * number, "currency": "EUR"}', '(order["number"], order["total"])'),
        _shop(),
    ),
    "an amount that has become a text": (
        _shop('{"id": number, "total": str(9 * number), "currency": "EUR"}', '(order["id"], float(order["total"]))'),
        _shop(),
    ),
    "a field that comes in some messages only": (
        _shop('{"id": number, "total": 9, **({"currency": "EUR"} if number == 1 else {})}'),
        _shop(),
    ),
    "a consumer that dies without a field which it does not use": (
        _shop(bill='(order["id"], order["currency"] and order["total"])'),
        _shop(),
    ),
    "a header that the publisher has dropped": (
        _shop(bill=_TENANT),
        _shop(bill=_TENANT, properties=', headers={"tenant": "eu"}'),
    ),
}
