"""a worker bills an order on RabbitMQ, PostgreSQL, Redis and S3, all of them Python packages"""

from __future__ import annotations

from threading import Thread

import psycopg
import redis

from examples.telling import print_messages
from examples.without_docker.billing import Billing
from examples.without_docker.servers import bucket, database, postgres_server, redis_server
from leveret import Broker


def tell() -> None:
    """Bill one order."""
    with (
        Broker() as broker,
        postgres_server() as postgres,
        database(postgres) as database_url,
        redis_server() as redis_url,
        bucket("documents") as documents,
    ):
        billing = Billing(amqp_url=broker.url, database_url=database_url, redis_url=redis_url, bucket=documents.name)
        thread = Thread(target=billing.run)
        thread.start()
        broker.publish("", "orders", json={"id": 7, "total": 120})
        broker.wait_idle()
        billing.stop()
        thread.join()
        with psycopg.connect(database_url) as connection:
            print(f"  PostgreSQL: {connection.execute('SELECT * FROM invoices').fetchall()}")
        with redis.Redis.from_url(redis_url) as client:
            print(f"  Redis:      revenue {int(client.get('revenue') or 0)}")
        print(f"  S3:         {[document.key for document in documents.objects.all()]}")
        print_messages(broker)
