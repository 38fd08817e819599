"""Invoices for orders, as a PySpark streaming job: orders come from one queue, invoices go to another.

The job may die at any time. If you start it again with the same checkpoint, it continues after Spark's last commit.
Each invoice has the message id of its order, so a consumer can recognise duplicates.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

ORDERS = "orders"
INVOICES = "invoices"
ORDER = "id int, items array<struct<price: int, count: int>>"
ORDERS_PER_BATCH = 10


def invoices(orders: DataFrame) -> DataFrame:
    """Return a message for each order, with the total to pay."""
    order = orders.select("message_id", F.from_json(F.col("body").cast("string"), ORDER).alias("order"))
    total = F.aggregate("order.items", F.lit(0), lambda sum_, item: sum_ + item["price"] * item["count"])
    return order.select("message_id", F.to_json(F.struct("order.id", total.alias("total"))).alias("body"))


def start(spark: SparkSession, amqp_url: str, checkpoint: str) -> StreamingQuery:
    """Start a query that writes invoices for all waiting orders, then ends. `awaitTermination` raises its failure."""
    orders = (
        spark.readStream.format("amqp").options(url=amqp_url, queue=ORDERS, maxMessagesPerBatch=ORDERS_PER_BATCH).load()
    )
    return (
        invoices(orders)
        .writeStream.format("amqp")
        .options(url=amqp_url, queue=INVOICES, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
