"""A short soak, and the account that it keeps."""

from __future__ import annotations

import pytest

from tests.soak.faults import ADD
from tests.soak.ledger import EXCUSES, Ledger, MessageId, body_of, message_in
from tests.soak.soak import Soak

SEED = 3
ONE, TWO, THREE = (MessageId("publisher.1", "q", number) for number in (1, 2, 3))
# What has to be received for both ONE and TWO to be wrong in this way.
WRONG = {"lost": (), "duplicated": (ONE, TWO, ONE, TWO), "out of order": (THREE, ONE, TWO)}


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def receive(ledger: Ledger, *messages: MessageId, redelivered: bool = False) -> None:
    for message in messages:
        ledger.receive("consumer", "consumer.1", body_of(message, 60), redelivered=redelivered)


def found(ledger: Ledger) -> dict[str, int]:
    """Return what no fault accounts for, at the end of a soak."""
    ledger.close(0)
    return {what: len(texts) for what, texts in ledger.found.items()}


def test_no_message_is_lost_duplicated_or_out_of_order_under_any_fault() -> None:
    # Every fault has its turn before any has a second one.
    result = Soak(SEED).run(rounds=len(ADD))

    assert result.is_good, f"seed {SEED}: {result}"
    assert result.rounds == len(ADD)
    assert result.confirmed > 0


def test_a_body_with_a_wrong_byte_is_no_message() -> None:
    body = body_of(ONE, 60)

    assert message_in(body) == ONE
    assert [message_in(body[:at] + bytes([body[at] ^ 0xFF]) + body[at + 1 :]) for at in range(len(body))] == [
        None
    ] * len(body)


def test_a_message_that_is_confirmed_and_not_received_is_lost(ledger: Ledger) -> None:
    ledger.confirm("publisher", ONE)
    ledger.confirm("publisher", TWO)
    receive(ledger, ONE)

    assert found(ledger) == {"lost": 1}


def test_a_message_may_be_confirmed_after_it_was_received(ledger: Ledger) -> None:
    receive(ledger, ONE)
    ledger.confirm("publisher", ONE)

    assert found(ledger) == {}


def test_a_message_that_comes_twice_without_the_flag_is_duplicated(ledger: Ledger) -> None:
    receive(ledger, ONE, ONE)

    assert found(ledger) == {"duplicated": 1}


def test_a_message_that_comes_again_with_the_flag_is_redelivered(ledger: Ledger) -> None:
    receive(ledger, ONE)
    receive(ledger, ONE, redelivered=True)

    assert (found(ledger), ledger.redelivered_count) == ({}, 1)


def test_a_later_message_before_an_earlier_one_is_out_of_order(ledger: Ledger) -> None:
    receive(ledger, TWO, ONE)

    assert found(ledger) == {"out of order": 1}


def test_the_order_of_redeliveries_is_free(ledger: Ledger) -> None:
    receive(ledger, TWO)
    receive(ledger, ONE, redelivered=True)

    assert found(ledger) == {}


def test_a_wrong_byte_without_a_fault_is_found(ledger: Ledger) -> None:
    ledger.receive("consumer", "consumer.1", b"x" * 60, redelivered=False)

    assert found(ledger) == {"garbled": 1}


@pytest.mark.parametrize(
    ("fault", "point", "what"), [(*key, what) for key, excuses in EXCUSES.items() for what in sorted(excuses)]
)
def test_a_fault_accounts_for_what_it_has_touched_and_no_more(
    ledger: Ledger, fault: str, point: str, what: str
) -> None:
    if what == "lost":
        ledger.confirm("publisher", ONE)
        ledger.confirm("publisher", TWO)
    ledger.touch(fault, point, body_of(ONE, 60))

    receive(ledger, *WRONG[what])

    assert found(ledger) == {what: 1}
    assert ledger.excused[what, fault] == 1


def test_a_corrupted_connection_accounts_for_what_it_has_carried(ledger: Ledger) -> None:
    for message in (ONE, TWO, MessageId("publisher.2", "q", 1)):
        ledger.confirm("publisher", message)
    ledger.corrupt([], [body_of(ONE, 60)])

    assert found(ledger) == {"lost": 2}
    assert ledger.excused == {("lost", "corrupt"): 1}
