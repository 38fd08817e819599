"""Causes: values with names, numbers and evidence, which one function words."""

from __future__ import annotations

import re

import pika
import pytest

from leveret import Broker
from leveret.observe.checks.table import CHECKS
from leveret.story.causes import CAUSES, Cause, clause, ranked, sentence
from leveret.trace.events import Event
from leveret.trace.recorded_rows import raw_events


def test_every_check_has_a_cause() -> None:
    missing = [name for name in CHECKS if name not in CAUSES]

    assert missing == [], "src/leveret/story/causes.py has no words for these"


@pytest.mark.parametrize("kind", CAUSES)
def test_every_cause_has_words_whatever_is_unknown(kind: str) -> None:
    shown = f"{clause(Cause(kind))} {sentence(Cause(kind))}"

    assert not re.search(r"[\[\]<>{}]|None", shown)


def test_a_cause_names_what_it_follows_from() -> None:
    why = Cause("no_dead_letter_exchange", {"queue": "payments"})
    lost = Cause("rejected_into_nothing", {"by": "payment service", "queue": "payments"}, {"message": 2}, because=why)

    assert clause(lost) == "rejected by payment service, the queue has no dead-letter exchange"
    assert sentence(lost) == (
        "payment service rejected #2 in 'payments', which has no dead-letter exchange: the message is gone"
    )


def test_the_worst_comes_first_and_equals_keep_their_order() -> None:
    first, second, third = Cause("left_ready"), Cause("unroutable"), Cause("expired_into_nothing")

    assert ranked([first, second, third]) == [second, third, first]


def test_the_evidence_names_the_messages() -> None:
    shown = tuple(map(Event, raw_events({"kind": kind, "msg": 2} for kind in ("rejected", "dropped"))))

    assert Cause("rejected_into_nothing", evidence=shown).messages == [2]


def test_a_finding_of_a_broker_is_a_cause_with_the_events_that_show_it() -> None:
    with Broker(checks="rejected_into_nothing=warning") as broker:
        broker.declare_queue("payments")
        broker.publish("", "payments", b"71")
        parameters = pika.URLParameters(broker.url)
        parameters.client_properties = {"connection_name": "till"}
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            method, _, _ = channel.basic_get("payments")
            channel.basic_reject(method.delivery_tag, requeue=False)
        broker.sync()
        (finding,) = broker._engine.judge.found_so_far()["rejected_into_nothing"]
        cause = finding.cause
        broker._engine.judge.forget()

    assert [fact.kind for fact in cause.evidence] == ["rejected", "dropped"]
    assert cause.messages == [1]
    assert sentence(cause).startswith("till rejected #1 in 'payments', ")
