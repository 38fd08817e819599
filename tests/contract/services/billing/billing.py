"""Writes an invoice for each order. A consumer with pika's blocking connection, in a thread or a process of its own."""

from __future__ import annotations

import json
import logging
import threading
from decimal import Decimal

import pika

log = logging.getLogger("billing")

VAT = {"DE": Decimal("0.19"), "AT": Decimal("0.20"), "CH": Decimal("0.081")}


class Refused(Exception):
    """An order that cannot be billed."""


def declare(channel) -> None:
    """Declare what the service needs."""
    channel.exchange_declare("shop", "topic", durable=True)
    channel.queue_declare("billing.failed", durable=True)
    channel.queue_declare(
        "billing.orders",
        durable=True,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "billing.failed"},
    )
    channel.queue_bind("billing.orders", "shop", "order.created")
    channel.queue_declare("invoices", durable=True)


def invoice_of(order: dict) -> dict:
    """Return the invoice of an order."""
    net = sum(Decimal(str(line["price"])) * line["quantity"] for line in order["lines"])
    country = order["customer"]["country"]
    if country not in VAT:
        raise Refused(f"no VAT for {country}")
    net -= net * Decimal(order.get("discount_percent", 0)) / 100
    invoice = {
        "order_id": order["order_id"],
        "recipient": order["customer"]["name"].strip(),
        "net": str(net.quantize(Decimal("0.01"))),
        "gross": str((net * (1 + VAT[country])).quantize(Decimal("0.01"))),
    }
    if order.get("purchase_order"):
        invoice["reference"] = f"PO {order['purchase_order']}"
    return invoice


def handle(channel, method, properties, body) -> None:
    """Bill one order."""
    try:
        invoice = invoice_of(json.loads(body))
    except (Refused, KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        log.warning("order refused: %r", error)
        channel.basic_reject(method.delivery_tag, requeue=False)
        return
    channel.basic_publish(
        "", "invoices", json.dumps(invoice), pika.BasicProperties(content_type="application/json", delivery_mode=2)
    )
    channel.basic_ack(method.delivery_tag)


def serve(url: str, stopping: threading.Event) -> None:
    """Bill orders until the event is set."""
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": "billing"}
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        declare(channel)
        channel.basic_qos(prefetch_count=10)
        channel.basic_consume("billing.orders", handle)
        while not stopping.is_set():
            connection.process_data_events(time_limit=0.02)
