"""leveret's support for Spark: a Spark that starts without an installed Java, and data sources for queues and traces.

Importing this package needs only the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Register leveret's formats with a session: `amqp` for queues, and `leveret` to read trace files.

    Executors and servers in other places get leveret from here. `amqp` needs pika there, and PySpark 4.0 or newer;
    `readStream` needs PySpark 4.2. `leveret` needs pyarrow and numpy, and PySpark 4.1.
    """
    from leveret.spark.amqp.source import AmqpDataSource
    from leveret.spark.bundle import supply
    from leveret.spark.traces import TraceDataSource

    supply(spark)
    # Without it, Spark refuses to plan a source that takes filters.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    for source in (AmqpDataSource, TraceDataSource):
        spark.dataSource.register(source)
