"""The ways out that format("amqp") names, before Spark starts anything: each mistake, its text, and what that says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest
from pyspark.sql import types

from leveret.errors import OptionError
from leveret.spark.amqp.columns import SCHEMA
from leveret.spark.amqp.contents import ContentEncoder, check_columns
from leveret.spark.amqp.options import batch_read_options, stream_read_options, write_options
from leveret.spark.columns import checked_columns

URL = "amqp://guest:guest@127.0.0.1:5672/"
READ = {"url": URL, "queue": "orders"}
WRITE = {"url": URL, "exchange": "orders", "routingKey": "k"}
Options = Mapping[str, str]
Read = Callable[[Options], object]

# How it is read or written, the mistake, what its text says, and options that follow it.
OPTIONS: dict[str, tuple[Read, Options, str, list[Options]]] = {
    "no queue": (stream_read_options, {"url": URL}, "needs the option 'queue': the queue to read", [READ]),
    "no URL": (
        stream_read_options,
        {"queue": "orders"},
        "for example amqp://guest:guest@localhost:5672/%2F",
        [READ | {"url": "amqp://guest:guest@localhost:5672/%2F"}],
    ),
    "a misspelt option": (
        stream_read_options,
        {"url": URL, "quue": "orders"},
        "did you mean 'queue'?",
        [READ],
    ),
    "an option of another way to read": (
        stream_read_options,
        READ | {"maxMessages": "5"},
        "belongs to read, not to readStream; leave it out",
        [READ],
    ),
    "a URL of HTTP": (
        stream_read_options,
        READ | {"url": "http://localhost"},
        "it must begin with amqp:// or amqps:// and name a host",
        [READ, READ | {"url": "amqps://localhost"}],
    ),
    "a port that is none": (
        stream_read_options,
        READ | {"url": "amqp://h:port/"},
        "write it as in amqp://guest:guest@localhost:5672/%2F",
        [READ | {"url": "amqp://guest:guest@localhost:5672/%2F"}],
    ),
    "a user without a password": (
        stream_read_options,
        READ | {"url": "amqp://guest@h/"},
        "write user:password@, or set the option password",
        [READ | {"url": "amqp://guest:guest@h/"}, READ | {"url": "amqp://guest@h/", "password": "guest"}],
    ),
    "a number that is none": (
        stream_read_options,
        READ | {"maxMessagesPerBatch": "0"},
        "must be a whole number from 1 to 65535",
        [READ | {"maxMessagesPerBatch": "1"}, READ | {"maxMessagesPerBatch": "65535"}],
    ),
    "seconds below zero": (
        stream_read_options,
        READ | {"maxBatchWaitSeconds": "-1"},
        "must be a number of seconds, 0 or more",
        [READ | {"maxBatchWaitSeconds": "0"}],
    ),
    "a word for true": (
        stream_read_options,
        READ | {"exclusive": "yes"},
        "is neither true nor false; use one of them",
        [READ | {"exclusive": "true"}, READ | {"exclusive": "false"}],
    ),
    "a way to ack of another read": (
        stream_read_options,
        READ | {"ack": "on_read"},
        "use one of commit, auto",
        [READ | {"ack": "commit"}, READ | {"ack": "auto"}],
    ),
    "a way to ack of a stream": (
        batch_read_options,
        READ | {"ack": "commit"},
        "use one of requeue, on_read",
        [READ | {"ack": "requeue"}, READ | {"ack": "on_read"}],
    ),
    "a queue and an exchange": (
        write_options,
        WRITE | {"queue": "orders"},
        "leave out queue, or leave out the others",
        [WRITE, READ],
    ),
    "a return that is none": (
        write_options,
        WRITE | {"onReturn": "shrug"},
        "use one of fail, ignore, column",
        [WRITE | {"onReturn": word} for word in ("fail", "ignore", "column")],
    ),
}


@pytest.mark.parametrize("what", OPTIONS)
def test_an_option_is_taken_as_its_error_says(what: str) -> None:
    read, wrong, said, rights = OPTIONS[what]

    with pytest.raises(OptionError) as error:
        read(wrong)

    assert said in str(error.value)
    for right in rights:
        read(right)


Columns = dict[str, types.DataType]
TEXT, NUMBER, FLAG = types.StringType(), types.IntegerType(), types.BooleanType()
BODY: Columns = {"body": TEXT}

# Columns and options, what the error says, and columns and options that follow it.
COLUMNS: dict[str, tuple[Columns, Options, str, list[tuple[Columns, Options]]]] = {
    "a column that a message has not": (
        BODY | {"total": NUMBER},
        WRITE,
        "put other values into the body, for example with to_json(struct(...))",
        [(BODY, WRITE)],
    ),
    "a column of another type": (
        BODY | {"priority": TEXT},
        WRITE,
        "cast it",
        [(BODY | {"priority": NUMBER}, WRITE)],
    ),
    "no body": ({"message_id": TEXT}, WRITE, "rename a column", [(BODY, WRITE), ({"value": TEXT}, WRITE)]),
    "two bodies": (BODY | {"value": TEXT}, WRITE, "drop a column", [(BODY, WRITE), ({"value": TEXT}, WRITE)]),
    "no destination": (
        BODY,
        {"url": URL},
        "set the option queue, or exchange and routingKey, or add the columns exchange and routing_key",
        [(BODY, READ), (BODY, WRITE), (BODY | {"exchange": TEXT, "routing_key": TEXT}, {"url": URL})],
    ),
    "a mandatory column without its option": (
        BODY | {"mandatory": FLAG},
        WRITE,
        "use onReturn=column together with a boolean column mandatory, or neither",
        [(BODY | {"mandatory": FLAG}, WRITE | {"onReturn": "column"}), (BODY, WRITE)],
    ),
}


def schema(columns: Columns) -> types.StructType:
    return types.StructType([types.StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize("what", COLUMNS)
def test_columns_are_written_as_the_error_says(what: str) -> None:
    wrong, options, said, rights = COLUMNS[what]

    with pytest.raises(OptionError) as error:
        check_columns(schema(wrong), write_options(options))

    assert said in str(error.value)
    for columns, others in rights:
        check_columns(schema(columns), write_options(others))


def test_a_column_is_read_in_the_type_that_the_error_names() -> None:
    with pytest.raises(OptionError, match="read it as string and cast it later"):
        checked_columns(schema({"routing_key": NUMBER}), SCHEMA)

    assert checked_columns(schema({"routing_key": TEXT}), SCHEMA) == ["routing_key"]


def test_a_value_is_sent_once_it_is_corrected_or_null_as_the_error_says() -> None:
    def sent(priority: int | None) -> list[bytes]:
        batch = pa.RecordBatch.from_pydict({"body": ["x"], "priority": pa.array([priority], pa.int32())})
        return list(ContentEncoder(write_options(WRITE), 131_072, "job").encode(batch))

    with pytest.raises(OptionError, match="correct the value or make it null"):
        sent(300)

    assert [len(sent(priority)) for priority in (9, None)] == [1, 1]
