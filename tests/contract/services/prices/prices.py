"""Answers what an article costs. A server of remote procedure calls with pika: each request names where to reply."""

from __future__ import annotations

import json
import threading

import pika

PRICES = {"tea": 525, "cup": 950}
RATES = {"EUR": 1.0, "USD": 1.08}


def price_of(request: dict) -> dict:
    """Return the answer to a request."""
    article = request["article"]
    if article not in PRICES:
        return {"error": f"unknown article {article}"}
    cents = PRICES[article] * request.get("quantity", 1)
    voucher = request.get("voucher")
    if isinstance(voucher, str) and voucher.startswith("T"):
        cents = cents * 90 // 100
    currency = request.get("currency", "EUR")
    return {"cents": round(cents * RATES[currency]), "currency": currency}


def serve(url: str, stopping: threading.Event) -> None:
    """Answer requests until the event is set."""
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": "prices"}
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("prices", durable=True)

        def on_request(channel, method, properties, body):
            try:
                answer = price_of(json.loads(body))
            except Exception as error:
                answer = {"error": f"bad request: {error!r}"}
            channel.basic_publish(
                "",
                properties.reply_to,
                json.dumps(answer),
                pika.BasicProperties(correlation_id=properties.correlation_id),
            )
            channel.basic_ack(method.delivery_tag)

        channel.basic_consume("prices", on_request)
        while not stopping.is_set():
            connection.process_data_events(time_limit=0.02)
