"""Deprecated features: permitting them by name, and the error that names a denied one."""

from __future__ import annotations

import subprocess
import sys

import pika
import pytest

from leveret import Broker, RefusedError
from leveret.core.compat import VERSIONS


@pytest.mark.parametrize(
    "permit",
    ["transient_nonexcl_queues", "global_qos, transient_nonexcl_queues", ["transient_nonexcl_queues"]],
)
def test_features_are_permitted_by_a_string_or_a_list(permit) -> None:
    with Broker(permit=permit) as broker:
        assert broker.declare_queue("orders", durable=False).durable is False


def test_an_unknown_feature_is_refused_with_the_closest() -> None:
    with pytest.raises(ValueError, match=r"'transient_queues'; did you mean 'transient_nonexcl_queues'\?$"):
        Broker(permit={"transient_queues"})


def test_an_unknown_feature_is_refused_on_a_version_that_denies_nothing() -> None:
    with pytest.raises(ValueError, match=r"unknown deprecated feature 'x'; expected one of .*, global_qos$"):
        Broker(rabbitmq="3.10", permit="x")


def test_the_command_line_refuses_an_unknown_feature_or_version_in_a_line() -> None:
    def said(*options: str) -> str:
        command = [sys.executable, "-m", "leveret", "serve", "--port", "0", *options]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (ran.returncode, ran.stdout) == (2, "")
        return ran.stderr

    assert said("--permit", "global_qoss").endswith(
        "unknown deprecated feature 'global_qoss'; did you mean 'global_qos'?\n"
    )
    known = ", ".join(VERSIONS)
    assert said("--rabbitmq", "9.9") == (
        f"leveret: unknown RabbitMQ version '9.9'; expected one of {known}; "
        "take '4.3', the newest that leveret behaves as\n"
    )


@pytest.mark.parametrize("version", ["4.3", "4.2", "4.0"])
def test_a_stream_under_a_permitted_limit_for_the_channel_misses_a_limit_of_the_consumer(version: str) -> None:
    with Broker(rabbitmq=version, permit="global_qos") as broker:
        broker.declare_queue("log", arguments={"x-queue-type": "stream"})
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=1, global_qos=True)

            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="consumer prefetch count is not set"):
                channel.basic_consume("log", print)


def test_a_call_refused_for_a_denied_feature_names_all_ways_out() -> None:
    with Broker() as broker, pytest.raises(RefusedError) as caught:
        broker.declare_queue("orders", durable=False)

    cause, note = caught.value.__notes__
    assert cause == "because queue 'orders' in vhost '/' has durable=False and exclusive=False"
    assert "durable=True" in note
    assert 'Broker(permit={"transient_nonexcl_queues"})' in note
    assert 'if you run an older RabbitMQ, set its version: Broker(rabbitmq="4.2")' in note


def test_a_call_refused_for_another_reason_has_no_such_note() -> None:
    with Broker() as broker:
        broker.declare_queue("orders")

        with pytest.raises(RefusedError) as caught:
            broker.declare_queue("orders", auto_delete=True)

    assert "Ways out" not in "\n".join(caught.value.__notes__)
