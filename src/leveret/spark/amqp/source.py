"""The data source `format("amqp")`: it gives Spark a reader or a writer for a set of options.

Spark calls each method in a new process. So modules are imported only where they are needed: importing pika and Arrow
would cost more than the calls themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource

from leveret.errors import OptionError
from leveret.spark.amqp.columns import SCHEMA
from leveret.spark.amqp.options import batch_read_options, check_reading, stream_read_options, write_options
from leveret.spark.columns import checked_columns

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class AmqpDataSource(DataSource):
    """The queues and exchanges of an AMQP 0-9-1 broker, as a data source."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format("amqp")`."""
        return "amqp"

    def schema(self) -> StructType:
        """Return the columns of a message. Raises OptionError if neither kind of read accepts the options."""
        check_reading(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for `spark.read`."""
        from leveret.spark.amqp.batch import AmqpBatchReader

        return AmqpBatchReader(batch_read_options(self.options), checked_columns(schema, SCHEMA))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader for `spark.readStream`.

        Raises OptionError before Spark 4.2, in which a source cannot learn what was committed.
        """
        if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2):
            raise OptionError(
                f"readStream.format('amqp') needs Spark 4.2 or newer, but this is {pyspark.__version__}; "
                "upgrade pyspark, or use read, write and writeStream, which work from 4.0"
            )
        from leveret.spark.amqp.micro_batches import AmqpStreamReader

        return AmqpStreamReader(stream_read_options(self.options), checked_columns(schema, SCHEMA))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for `DataFrame.write`."""
        from leveret.spark.amqp.sink import AmqpWriter, check_writing

        options = write_options(self.options)
        check_writing(schema, options, overwrite=overwrite)
        return AmqpWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return the writer for `DataFrame.writeStream`."""
        from leveret.spark.amqp.sink import AmqpStreamWriter, check_writing

        options = write_options(self.options)
        check_writing(schema, options, overwrite=overwrite)
        return AmqpStreamWriter(options)
