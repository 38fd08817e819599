"""`format("amqp")`: what Spark makes of a name and options.

Spark asks each question in a new process. So what an answer needs is imported when it is asked for: a connection's pika
and the Arrow of rows would cost more than the answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource

from leveret.errors import OptionError
from leveret.spark.amqp.columns import SCHEMA, checked_columns
from leveret.spark.amqp.options import batch_read_options, check_reading, stream_read_options, write_options

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class AmqpDataSource(DataSource):
    """Queues and exchanges of an AMQP 0-9-1 broker."""

    @classmethod
    def name(cls) -> str:
        """As in `format("amqp")`."""
        return "amqp"

    def schema(self) -> StructType:
        """The columns of a message; raises OptionError for options that no reading has."""
        check_reading(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        from leveret.spark.amqp.batch import AmqpBatchReader

        return AmqpBatchReader(batch_read_options(self.options), checked_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`; raises OptionError on a Spark whose sources cannot tell what was committed."""
        if _version_of(pyspark.__version__) < (4, 2):
            raise OptionError(
                f"readStream.format('amqp') needs Spark 4.2 or newer, and this is {pyspark.__version__}; "
                "read, write and writeStream work from 4.0"
            )
        from leveret.spark.amqp.micro_batches import AmqpStreamReader

        return AmqpStreamReader(stream_read_options(self.options), checked_columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `DataFrame.write`."""
        from leveret.spark.amqp.sink import AmqpWriter, check_writing

        options = write_options(self.options)
        check_writing(schema, options, overwrite=overwrite)
        return AmqpWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """For `DataFrame.writeStream`."""
        from leveret.spark.amqp.sink import AmqpStreamWriter, check_writing

        options = write_options(self.options)
        check_writing(schema, options, overwrite=overwrite)
        return AmqpStreamWriter(options)


def _version_of(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)
