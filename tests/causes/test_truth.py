"""The rules that check the sentences about causes: they accept what the events show, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pika
import pytest

from leveret import Broker
from tests.causes.campaign import ROOT
from tests.causes.truth import Facts, problems_of


def connect(broker: Broker, name: str) -> pika.BlockingConnection:
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": name}
    return pika.BlockingConnection(parameters)


@pytest.fixture(scope="module")
def facts() -> Iterator[Facts]:
    """What a broker recorded of a shop, and of a biller that rejects #1 and holds #2, so that #3 waits."""
    with Broker(checks="all=off") as broker:
        broker.declare_queue("bills")
        broker.declare_exchange("shop", "topic")
        shop, biller = connect(broker, "shop"), connect(broker, "biller")
        for key in ("bills", "bills", "bills", "bill"):
            shop.channel().basic_publish("", key, b"1")
        shop.channel().basic_publish("shop", "order.new", b"5")
        broker.sync()
        broker.declare_queue("orders")
        broker.bind_queue("orders", "shop", "order.*")
        channel = biller.channel()
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("bills", lambda channel, method, *_: taken.append(method.delivery_tag))
        taken: list[int] = []
        while len(taken) < 2:
            biller.process_data_events(0.01)
            if taken == [1]:
                channel.basic_reject(1, requeue=False)
        broker.sync()
        recorded = list(broker.events)
        yield Facts(recorded, recorded[-1].at)
        shop.close()
        biller.close()


TRUE = (
    "biller rejected #1 in 'bills', which has no dead-letter exchange: the message is gone",
    "biller held #2 of 'bills' without an ack; its prefetch of 1 kept #3 back",
    "biller still held #2 of 'bills' when the test failed",
    "#4 from shop reached no queue: there is no queue 'bill' (nearest: 'bills')",
    "#5 was published by shop before 'orders' was bound to 'shop'",
)


@pytest.mark.parametrize("sentence", TRUE)
def test_a_true_sentence_is_accepted(facts: Facts, sentence: str) -> None:
    assert problems_of(sentence, facts) == []


@pytest.mark.parametrize(
    ("sentence", "right", "wrong"),
    [
        (TRUE[0], "#1", "#2"),
        (TRUE[0], "'bills'", "'orders'"),
        (TRUE[0], "biller", "shop"),
        (TRUE[1], "#2", "#3"),
        (TRUE[1], "prefetch of 1", "prefetch of 2"),
        (TRUE[1], "kept #3", "kept #1"),
        (TRUE[1], "an ack;", "an ack for 7 s;"),
        (TRUE[2], "#2", "#1"),
        (TRUE[3], "#4", "#3"),
        (TRUE[3], "shop", "biller"),
        (TRUE[3], "'bills'", "'billing'"),
        (TRUE[3], "there is no queue 'bill' (nearest: 'bills')", "'shop' has no bindings"),
        (TRUE[4], "#5", "#4"),
        (TRUE[4], "'orders'", "'bills'"),
        (TRUE[4], "before", "after"),
    ],
)
def test_a_sentence_with_a_wrong_fact_is_refused(facts: Facts, sentence: str, right: str, wrong: str) -> None:
    assert right in sentence
    assert problems_of(sentence.replace(right, wrong), facts) != []


def test_a_sample_of_broken_programs_gets_no_false_sentence() -> None:
    """A campaign breaks hundreds of lines; these few show that it runs, and that nothing has gone wrong since."""
    command = [sys.executable, "-m", "tests.causes.campaign", "--project", "flask", "--seeds", "4-5"]
    command += ["--test-seconds", "120"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LEVERET_"))}

    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "'failures with a cause': 0" not in ran.stdout
    assert "'false sentences': 0" in ran.stdout, ran.stdout
