"""leveret beside Spark: starting it without a Java of one's own, and AMQP as a data source and sink.

Importing this package needs nothing but the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make `format("amqp")` known to a session, for `read`, `readStream`, `write` and `writeStream`.

    Needs pika and PySpark 4.0 or newer; 4.2 for `readStream`.
    """
    from leveret.spark.amqp.source import AmqpDataSource

    spark.dataSource.register(AmqpDataSource)
