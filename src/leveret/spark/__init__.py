"""leveret's support for Spark: a Spark that starts without an installed Java, and AMQP as a data source and sink.

Importing this package needs only the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Register `format("amqp")` with a session, for `read`, `readStream`, `write` and `writeStream`.

    Executors and servers in other places get leveret from here. They need pika, and PySpark 4.0 or newer; `readStream`
    needs PySpark 4.2.
    """
    from leveret.spark.amqp.source import AmqpDataSource
    from leveret.spark.bundle import supply

    supply(spark)
    spark.dataSource.register(AmqpDataSource)
