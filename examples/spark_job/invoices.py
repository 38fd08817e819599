"""Invoices for orders, as a PySpark streaming job: orders come from one queue, invoices go to another.

The job may die at any time. Started again with the same checkpoint, it goes on where Spark had committed. Each invoice
has the message id of its order, so who receives it twice can tell.
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
    """The invoice of each order: a message with what is to be paid."""
    order = orders.select("message_id", F.from_json(F.col("body").cast("string"), ORDER).alias("order"))
    total = F.aggregate("order.items", F.lit(0), lambda sum_, item: sum_ + item["price"] * item["count"])
    return order.select("message_id", F.to_json(F.struct("order.id", total.alias("total"))).alias("body"))


def start(spark: SparkSession, amqp_url: str, checkpoint: str) -> StreamingQuery:
    """Write invoices for all orders that wait, then end; it raises what failed when one waits for its end."""
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
