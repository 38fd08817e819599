"""The judgement of a replay: planted changes are named, refactorings are not, and noise is masked and said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from leveret import Broker
from leveret.errors import BrokerError
from leveret.recording.judging import Outcomes
from leveret.recording.rec_file import RecordingWriter

from .conftest import order, recorded
from .services import serve
from .variants import INNOCENT, LOOKING_ALIKE, PLANTED

COUNT = 28


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording") / "orders.rec"
    with RecordingWriter(path, {"vhost": "/"}) as writer:
        for number in range(COUNT):
            asks = {"reply_to": "answers"} if number % 5 == 0 else {}
            writer.add(recorded(number, order(number), **asks))
    return path


def outcomes_of(recording: Path, variant: str = "") -> Outcomes:
    with Broker(checks="all=off") as broker:
        replay = broker.replay(recording)
        with broker.worker(serve, args=(variant,), ready="polling" if variant == "polls" else None):
            return replay.play(settle=0.3 if "never" in variant else 1.0)


@pytest.fixture(scope="module")
def before(recording: Path) -> Outcomes:
    return outcomes_of(recording)


@pytest.fixture(scope="module")
def expected(recording: Path, before: Outcomes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("expected") / "orders.expected"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEVERET_EXPECTED", "write")
        before.assert_expected(path)
    return path


def sentences(outcomes: Outcomes, path: Path) -> list[str]:
    try:
        outcomes.assert_expected(path)
    except AssertionError as error:
        return str(error).splitlines()[1:-1]
    return []


def test_there_are_forty_of_each() -> None:
    assert min(len(PLANTED), len(INNOCENT)) >= 40


@pytest.mark.parametrize("name", PLANTED)
def test_a_change_of_an_outcome_is_named_in_few_sentences(
    name: str, recording: Path, before: Outcomes, expected: Path
) -> None:
    now = outcomes_of(recording, name)

    assert 1 <= len(now.differences(before)) <= 4
    assert 1 <= len(sentences(now, expected)) <= (1 if name.startswith("requeues one") else 4)


@pytest.mark.parametrize("name", {**INNOCENT, **LOOKING_ALIKE})
def test_a_refactoring_is_not_named(name: str, recording: Path, before: Outcomes, expected: Path) -> None:
    now = outcomes_of(recording, name)

    assert now.differences(before) == []
    assert sentences(now, expected) == []
    assert now.digest == before.digest


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "accepts what it rejected",
            ["orders 'order.made': in billing now acked, no longer rejected to billing.dead (4 times, first #5)"],
        ),
        ("no audit", ["orders 'order.made': no longer sends invoices 'audit.big' (5 times, first #7)"]),
        (
            "another currency",
            [
                "orders 'order.made': sends \"USD\" as body.currency in invoices 'invoice.made' invoice, not \"EUR\" "
                "(22 times, first #1)"
            ],
        ),
        (
            "never acks",
            [
                "orders 'order.made': in billing now not settled before settle= ran out, no longer acked "
                "(10 times, first #1)"
            ],
        ),
        (
            "requeues one, once it has sent",
            ["orders 'order.made': in billing now requeued (rejected), then acked, no longer acked (1 time, first #8)"],
        ),
        (
            "another rate",
            ["orders 'order.made': sends another body.total in invoices 'invoice.made' invoice (16 times, first #1)"],
        ),
    ],
)
def test_a_difference_has_a_count_and_the_first_message(
    name: str, said: list[str], recording: Path, before: Outcomes
) -> None:
    assert outcomes_of(recording, name).differences(before) == said


def test_a_value_that_the_file_does_not_hold_is_said_as_far_as_it_is_certain(recording: Path, expected: Path) -> None:
    (sentence,) = sentences(outcomes_of(recording, "another rate"), expected)

    assert sentence.endswith("(at least 11 times, the first between #1 and #2)")


def test_a_header_that_is_an_instant_is_not_said_to_be_a_text(recording: Path, expected: Path) -> None:
    (sentence,) = sentences(outcomes_of(recording, "a header as an instant"), expected)

    assert "sends another headers.level in invoices" in sentence


@pytest.mark.parametrize("name", ["another rate", "twice"])
def test_where_it_is_not_certain_for_which_message_something_is_sent_all_are_judged_together(
    name: str, recording: Path, before: Outcomes
) -> None:
    with Broker(checks="all=off") as broker:
        replay = broker.replay(recording)
        with broker.worker(serve, args=(name,)):
            at_once = replay.play(order="as recorded")

    assert [line.split(":")[0] for line in at_once.differences(before)] == ["all messages"]


def test_all_at_once_equals_one_at_a_time(recording: Path, before: Outcomes) -> None:
    with Broker(checks="all=off") as broker:
        replay = broker.replay(recording)
        with broker.worker(serve):
            at_once = replay.play(order="as recorded")

    assert at_once.differences(before) == before.differences(at_once) == []


def test_the_file_holds_no_data_of_messages(expected: Path) -> None:
    text = expected.read_text()

    assert [word for word in ("h4sh", "rome", "12.6", "order-0001", "a1") if f'"{word}' in text.replace("\\", "")] == []
    assert len(text.splitlines()) == 3
    assert json.loads(text.splitlines()[2])["ended"]["billing"][""]["values"] == {
        "acked": [24, ""],
        "rejected to billing.dead": [4, "5,12,19,26"],
    }


def test_five_runs_have_one_digest(recording: Path, before: Outcomes) -> None:
    assert {outcomes_of(recording).digest for _ in range(5)} == {before.digest}


def test_what_differs_between_two_runs_of_the_same_code_is_masked_and_said(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "orders.expected"
    monkeypatch.setenv("LEVERET_EXPECTED", "write")
    outcomes_of(recording, "noisy").assert_expected(path)
    monkeypatch.setenv("LEVERET_EXPECTED", "again")
    outcomes_of(recording, "noisy").assert_expected(path)
    monkeypatch.delenv("LEVERET_EXPECTED")

    assert sentences(outcomes_of(recording, "noisy"), path) == []
    # UUIDs and instants of now are masked by themselves.
    assert json.loads(path.read_text().splitlines()[2])["noise"] == [
        json.dumps(["field", "invoices 'invoice.made' invoice", "body.token"])
    ]
    said = sentences(outcomes_of(recording, "no audit"), path)
    assert "orders 'order.made': no longer sends invoices 'audit.big' (5 times, first #7)" in said
    assert said[-1] == (
        "not compared, because two runs of the old code differed: body.token of invoices 'invoice.made' invoice"
    )


def test_a_file_that_is_missing_damaged_or_of_another_recording_says_what_to_do(
    recording: Path, expected: Path, before: Outcomes, tmp_path: Path, orders: Callable[..., Path]
) -> None:
    hint = "LEVERET_EXPECTED=write"
    with pytest.raises(BrokerError, match=f"none does not exist; write it with the code in production: {hint}"):
        before.assert_expected(tmp_path / "none")
    (tmp_path / "cut").write_bytes(expected.read_bytes()[:-40])
    with pytest.raises(BrokerError, match=f"cut holds no outcomes, or is damaged; write it anew: {hint}"):
        before.assert_expected(tmp_path / "cut")
    (tmp_path / "short").write_text("".join(expected.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(BrokerError, match=f"other kinds of messages than this test replays.*write it anew: {hint}"):
        before.assert_expected(tmp_path / "short")
    with pytest.raises(BrokerError, match=f"is that of another recording.*write it anew: {hint}"):
        outcomes_of(orders([order(1)])).assert_expected(expected)
