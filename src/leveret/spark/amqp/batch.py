"""The batch reader: the messages that a queue holds when reading begins.

Spark may evaluate a DataFrame several times and repeat tasks, and it never reports that it is done with one. So by
default the reader only looks, and the messages go back to the queue. `ack=on_read` acknowledges each message as it is
read, even if the job fails later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from leveret.spark.amqp.deliveries import delivery_tag
from leveret.spark.amqp.link import Link
from leveret.spark.amqp.options import BatchReadOptions
from leveret.spark.amqp.rows import ROWS_PER_RECORD_BATCH, record_batches

if TYPE_CHECKING:
    from pyarrow import RecordBatch

# If a queue reports messages but delivers none for this long, another consumer is getting them.
_PATIENCE_S: Final = 10.0


class AmqpBatchReader(DataSourceReader):
    """The reader of a queue's present content."""

    def __init__(self, options: BatchReadOptions, columns: list[str]) -> None:
        self.options = options
        self.columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition, because a queue has one head. Raises LinkError if a task could not read the queue."""
        with closing(Link(self.options.endpoint)) as link:
            link.queue_counts(self.options.queue)
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Yield the rows. Spark calls this in a task."""
        with closing(Link(self.options.endpoint)) as link:
            yield from self._rows(link)

    def _rows(self, link: Link) -> Iterator[RecordBatch]:
        queue = self.options.queue
        target, _ = link.queue_counts(queue)
        if self.options.max_messages is not None:
            target = min(target, self.options.max_messages)
        read = 0
        while read < target:
            wanted = min(ROWS_PER_RECORD_BATCH, target - read)
            if self.options.ack == "requeue" or read == 0:
                # Each consumer has a prefetch of its own. Nothing is acknowledged, so a full consumer stays full.
                link.consume(queue, wanted, exclusive=False)
            messages = link.take(queue, wanted, _PATIENCE_S, owed=wanted)
            if not messages:
                return
            if self.options.ack == "on_read":
                link.ack_up_to(delivery_tag(messages[-1]), queue)
            yield from record_batches(messages, self.columns, queue, read)
            read += len(messages)
