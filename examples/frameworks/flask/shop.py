"""A shop with Flask: a request places an order with pika, and the command `flask --app shop mails` sends the mails.

The URL of the broker is read when this module is imported. A mail that fails is tried again after ten minutes.
"""

from __future__ import annotations

import json
import os

import pika
from flask import Flask, Response, current_app, jsonify, request
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError
from pika.spec import Basic, BasicProperties

AMQP = pika.URLParameters(os.environ["AMQP_URL"])
TO_LATER = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "mails.later"}
TO_MAILS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "mails", "x-message-ttl": 600_000}

app = Flask(__name__)


def send_mail(order: dict[str, object]) -> None:
    """Send a mail; raise OSError if the mail server is down."""
    current_app.logger.info("mail to %s", order["customer"])


app.config["SEND_MAIL"] = send_mail


def declare(channel: BlockingChannel) -> None:
    """Declare what the requests and the mails share."""
    channel.exchange_declare("shop", exchange_type="topic", durable=True)
    channel.queue_declare("mails", durable=True, arguments=TO_LATER)
    channel.queue_declare("mails.later", durable=True, arguments=TO_MAILS)
    channel.queue_bind("mails", "shop", "order.placed")


def publish(routing_key: str, document: dict[str, object]) -> None:
    """Publish a document on a connection of its own; raise pika.exceptions.AMQPError if the broker did not take it."""
    connection = pika.BlockingConnection(AMQP)
    try:
        channel = connection.channel()
        declare(channel)
        channel.confirm_delivery()
        channel.basic_publish("shop", routing_key, json.dumps(document).encode(), BasicProperties(delivery_mode=2))
    finally:
        if connection.is_open:
            connection.close()


@app.post("/orders")
def place_order() -> tuple[Response, int]:
    """Place an order; answer 503 if the broker did not take it."""
    order = request.get_json()
    try:
        publish("order.placed", order)
    except AMQPError:
        return jsonify(error="try again later"), 503
    return jsonify(order), 202


@app.cli.command("mails")
def mails() -> None:
    """Send the mails that are waiting, then end; a cron job runs this once a minute."""
    connection = pika.BlockingConnection(AMQP)
    channel = connection.channel()
    declare(channel)
    while True:
        method, _, body = channel.basic_get("mails")
        if method is None:
            break
        send_one(channel, method, body)
    connection.close()


def send_one(channel: BlockingChannel, method: Basic.GetOk, body: bytes) -> None:
    """Send one mail, retry it later, or skip it if it has no customer."""
    try:
        current_app.config["SEND_MAIL"](json.loads(body))
    except OSError:
        channel.basic_reject(method.delivery_tag, requeue=False)
    except (ValueError, KeyError):
        current_app.logger.exception("skipped a mail that cannot be sent: %r", body)
        channel.basic_ack(method.delivery_tag)
    else:
        channel.basic_ack(method.delivery_tag)
