"""The stream reader: Spark's questions to a source, answered by an `Intake` on the driver.

A batch travels to the tasks inside the partitions, as it came off the wire. Only the connection on the driver can hold
it unacknowledged until Spark has committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from leveret.spark.amqp.deliveries import Delivery
from leveret.spark.amqp.offsets import Offset
from leveret.spark.amqp.options import StreamReadOptions
from leveret.spark.amqp.rows import record_batches

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from leveret.spark.amqp.intake import Intake


class MessagesPartition(InputPartition):
    """The messages that one task turns into rows."""

    def __init__(self, first_ordinal: int, messages: list[Delivery]) -> None:
        super().__init__(None)
        self.first_ordinal = first_ordinal
        self.messages = messages

    def __repr__(self) -> str:
        return f"MessagesPartition({len(self.messages)} messages from {self.first_ordinal})"


class AmqpStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A queue as a source of Structured Streaming."""

    def __init__(self, options: StreamReadOptions, columns: list[str]) -> None:
        self.options = options
        self.columns = columns
        self._intake: Intake | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The tasks need the options but not the connection.
        return {**self.__dict__, "_intake": None}

    def initialOffset(self) -> dict[str, object]:
        """Return the offset before the first message."""
        return Offset.start().to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the largest number of messages in a batch."""
        return ReadMaxRows(self.options.max_messages_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:
        """Make what the queue holds now the target of the query."""
        self._on_driver().set_target()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        """Acknowledge what Spark has committed, plan the next batch, and return its end."""
        count = limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.prefetch
        offset = Offset.of_dict(start)
        end = self._on_driver().next_offset(offset, count)
        return start if end == offset else end.to_dict()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """Return the messages of a batch, in pieces."""
        if start == end:
            return []
        first = Offset.of_dict(start)
        messages = self._on_driver().messages_between(first, Offset.of_dict(end))
        size = self.options.messages_per_partition
        return [MessagesPartition(first.total + at, messages[at : at + size]) for at in range(0, len(messages), size)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Yield the rows of one piece. Spark calls this in a task."""
        assert isinstance(partition, MessagesPartition)
        return record_batches(partition.messages, self.columns, self.options.queue, partition.first_ordinal)

    def stop(self) -> None:
        """Requeue what Spark has not committed."""
        if self._intake is not None:
            self._intake.close()

    def _on_driver(self) -> Intake:
        if self._intake is None:
            # It imports pika, which no task needs.
            from leveret.spark.amqp.intake import Intake

            self._intake = Intake(self.options)
        return self._intake
