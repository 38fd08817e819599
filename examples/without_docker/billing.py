"""A worker that bills orders. RabbitMQ brings them, PostgreSQL and S3 keep the invoices, and Redis counts the revenue.

It is configured by URLs, so a test runs it as production does.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import boto3
import pika
import psycopg
import redis
from botocore.exceptions import ClientError
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, ConnectionWrongStateError
from pika.spec import Basic, BasicProperties

RETRY_AFTER_MS = 60_000
SCHEMA = "CREATE TABLE IF NOT EXISTS invoices (order_id integer PRIMARY KEY, total integer NOT NULL, document text)"


class Billing:
    """A worker that bills one order after the other."""

    def __init__(self, *, amqp_url: str, database_url: str, redis_url: str, bucket: str) -> None:
        """Connect to all four servers."""
        self.amqp_url = amqp_url
        self.database = psycopg.connect(database_url, autocommit=True)
        self.database.execute(SCHEMA)
        self.redis = redis.Redis.from_url(redis_url)
        self.s3 = boto3.client("s3", region_name="eu-central-1")
        self.bucket = bucket
        self.is_stopping = False
        self.connect()

    def connect(self) -> None:
        """Connect to RabbitMQ, declare the queues and start to consume."""
        self.connection = pika.BlockingConnection(pika.URLParameters(self.amqp_url))
        self.channel = self.connection.channel()
        later = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.retry"}
        back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders", "x-message-ttl": RETRY_AFTER_MS}
        self.channel.queue_declare("orders", durable=True, arguments=later)
        self.channel.queue_declare("orders.retry", durable=True, arguments=back)
        self.channel.queue_declare("invoices", durable=True)
        self.channel.confirm_delivery()
        self.channel.basic_qos(prefetch_count=1)
        self.channel.basic_consume("orders", self.on_order)

    def run(self) -> None:
        """Bill orders until `stop`, then disconnect; connect again if RabbitMQ's connection is lost."""
        while not self.is_stopping:
            try:
                self.channel.start_consuming()
            except AMQPConnectionError:
                self.connect()
        self.connection.close()
        self.database.close()
        self.redis.close()

    def stop(self) -> None:
        """End `run`; may be called from any thread."""
        self.is_stopping = True
        with suppress(ConnectionWrongStateError):
            self.connection.add_callback_threadsafe(self.channel.stop_consuming)

    def on_order(self, channel: BlockingChannel, method: Basic.Deliver, _: BasicProperties, body: bytes) -> None:
        """Bill one order; leave it for a minute if its document cannot be stored."""
        order = json.loads(body)
        try:
            invoice = self.bill(order)
        except ClientError:
            channel.basic_reject(method.delivery_tag, requeue=False)
            return
        persistent = BasicProperties(content_type="application/json", delivery_mode=2)
        channel.basic_publish("", "invoices", json.dumps(invoice).encode(), persistent)
        channel.basic_ack(method.delivery_tag)

    def bill(self, order: dict[str, Any]) -> dict[str, Any]:
        """Store the invoice of an order; raise botocore.exceptions.ClientError if S3 does not take the document."""
        document = f"invoices/{order['id']}.txt"
        row = (order["id"], order["total"], document)
        with self.database.transaction():
            # RabbitMQ delivers at least once. If the row exists, this order was billed before.
            insert = "INSERT INTO invoices VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
            is_new = self.database.execute(insert, row).rowcount == 1
            text = f"Invoice for order {order['id']}: {order['total']} EUR"
            self.s3.put_object(Bucket=self.bucket, Key=document, Body=text.encode())
        if is_new:
            self.redis.incrby("revenue", order["total"])
        return {"order": order["id"], "document": document}
