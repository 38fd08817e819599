"""Options: the valid values of each, and the errors for invalid ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from leveret.errors import OptionError
from leveret.spark.amqp.options import (
    OPTIONS,
    batch_read_options,
    check_reading,
    stream_read_options,
    write_options,
)

URL = "amqp://guest:guest@127.0.0.1:5672/"
READ = {"url": URL, "queue": "orders"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs the option 'queue'"),
        ({"queue": "orders"}, "needs the option 'url': the broker's URL, for example amqp://"),
        ({"url": URL}, "needs the option 'queue'"),
        ({**READ, "quue": "x"}, "unknown option 'quue'; did you mean 'queue'?"),
        ({**READ, "maxmessagesperbach": "5"}, "did you mean 'maxMessagesPerBatch'?"),
        ({**READ, "zzz": "5"}, "unknown option 'zzz'; expected one of ack, confirmTimeoutSeconds"),
        ({**READ, "maxMessages": "5"}, "option maxMessages belongs to read, not to readStream"),
        ({**READ, "exchange": "x"}, "option exchange belongs to write, not to readStream"),
        (
            {**READ, "url": "http://localhost"},
            "its scheme is 'http' and its host 'localhost': it must begin with amqp://",
        ),
        ({**READ, "url": "amqp://h:port/"}, "option url is invalid: "),
        ({**READ, "url": f"{URL}?heartbeat=x"}, "option url is invalid: Invalid heartbeat value 'x'"),
        ({**READ, "url": "amqp://guest@h/"}, "option url names the user 'guest' without a password"),
        ({**READ, "maxMessagesPerBatch": "0"}, "maxMessagesPerBatch='0' must be a whole number from 1 to 65535"),
        (
            {**READ, "maxMessagesPerBatch": "70000"},
            "maxMessagesPerBatch='70000' must be a whole number from 1 to 65535",
        ),
        ({**READ, "maxMessagesPerBatch": "many"}, "maxMessagesPerBatch='many' must be a whole number"),
        ({**READ, "maxBatchWaitSeconds": "-1"}, "maxBatchWaitSeconds='-1' must be a number of seconds"),
        ({**READ, "exclusive": "yes"}, "option exclusive='yes' is neither true nor false"),
        ({**READ, "ack": "later"}, "option ack='later' is not valid; use one of commit, auto"),
        ({**READ, "ack": "on_read"}, "option ack=on_read belongs to read; use one of commit, auto"),
    ],
)
def test_a_mistake_in_reading_a_stream_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=re.escape(said)):
        stream_read_options(options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({**READ, "ack": "commit"}, "option ack=commit belongs to readStream; use one of requeue, on_read"),
        ({**READ, "maxMessagesPerBatch": "5"}, "option maxMessagesPerBatch belongs to readStream, not to read"),
    ],
)
def test_a_mistake_in_reading_a_batch_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=re.escape(said)):
        batch_read_options(options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": URL, "queue": "q", "exchange": "x"}, "option queue excludes exchange and routingKey"),
        ({"url": URL, "onReturn": "shrug"}, "option onReturn='shrug' is not valid; use one of fail, ignore, column"),
        ({"url": URL, "confirmWindow": "0"}, "option confirmWindow='0' must be a whole number from 1"),
        ({"exchange": "x"}, "needs the option 'url'"),
    ],
)
def test_a_mistake_in_writing_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=re.escape(said)):
        write_options(options)


def test_the_case_of_a_name_does_not_matter() -> None:
    options = stream_read_options({"URL": URL, "Queue": "orders", "maxmessagesperbatch": "7"})

    assert (options.queue, options.max_messages_per_batch) == ("orders", 7)


def test_prefetch_is_twice_a_batch_and_at_most_the_limit_of_one_consumer() -> None:
    assert stream_read_options({**READ, "maxMessagesPerBatch": "100"}).prefetch == 200
    assert stream_read_options({**READ, "maxMessagesPerBatch": "50000"}).prefetch == 65_535


def test_prefetch_is_never_less_than_a_batch() -> None:
    assert stream_read_options({**READ, "maxMessagesPerBatch": "100", "prefetch": "10"}).prefetch == 100


def test_user_and_password_may_stand_outside_of_the_url() -> None:
    options = stream_read_options({**READ, "user": "shop", "password": "p@ss/word"})

    parameters = options.endpoint.parameters()

    assert (parameters.credentials.username, parameters.credentials.password) == ("shop", "p@ss/word")
    assert (parameters.host, parameters.port) == ("127.0.0.1", 5672)


def test_a_password_is_never_shown() -> None:
    options = stream_read_options({**READ, "user": "shop", "password": "hunter2"})

    assert "hunter2" not in repr(options)


def test_a_queue_to_write_to_is_a_routing_key_of_the_default_exchange() -> None:
    options = write_options({"url": URL, "queue": "orders"})

    assert (options.exchange, options.routing_key) == ("", "orders")


def test_options_that_spark_adds_are_accepted() -> None:
    assert write_options({"url": URL, "queue": "orders", "checkpointLocation": "x"}).routing_key == "orders"


def test_check_before_a_read_accepts_options_of_both_kinds_of_read() -> None:
    check_reading({**READ, "maxMessages": "5"})
    check_reading({**READ, "maxMessagesPerBatch": "5"})


def test_every_option_is_documented() -> None:
    page = Path(__file__).parents[2].joinpath("docs/how-to/spark-amqp.md").read_text(encoding="utf-8")

    assert [name for name in OPTIONS if f"| `{name}` |" not in page] == []


def test_planning_imports_neither_pika_nor_arrow() -> None:
    # Spark plans each query in a new process, where these imports would take most of the time.
    program = (
        "import sys\n"
        "from leveret.spark.amqp.source import AmqpDataSource\n"
        f"source = AmqpDataSource({READ!r})\n"
        "source.streamWriter(source.schema(), overwrite=False)\n"
        "print([name for name in ('pika', 'pyarrow') if name in sys.modules])\n"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert ran.stdout == "[]\n", ran.stderr
