"""The flake doctor, `--leveret-flaky`, on small suites. `python -m tests.flaky.campaign` examines all patterns."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pika
import pytest

# Keep these imported. Otherwise every run in this process would import them anew.
import pytest_leveret.flaky.doctor
import pytest_leveret.plugin  # noqa: F401
from pika.adapters.blocking_connection import BlockingChannel
from pytest_leveret.flaky.delays import Delays, Wait
from pytest_leveret.flaky.play import Order, Outcome, Play, failed_at
from pytest_leveret.flaky.report import FlakyDiagnosis, text_of_diagnosis
from pytest_leveret.flaky.search import OrderFinding, search
from pytest_leveret.flaky.steps import BEGINNING, LINE, Name, line_name, text_of

from leveret import Broker
from leveret.faults import FaultPlan, Occasion, Rule
from tests.house.blocks import blocks_of
from tests.plugin.conftest import NO_LEFTOVERS

Run = Callable[..., pytest.RunResult]
FORCED_BOTH_WAYS = (
    "In 20 new runs in this order it failed 20 times, and in 20 runs in the other order it passed 20 times."
)
ACK = Name("billing", "ack", "orders", True)
DELIVERY = Name("billing", "delivery", "orders", False)
PUBLISH = Name("shop", "publish", "orders", True)


def page_source() -> str:
    """Return the test of the page, with a client whose ack waits long in some of the first runs on any machine.

    The waits follow from the names: the ack of "cashier" waits for more than 0.1 s in three of the first thirty runs.
    """
    source = next(block.code for block in blocks_of("docs/how-to/flaky.md") if block.language == "python")
    return source.replace('"connection_name": "billing"', '"connection_name": "cashier"')


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Return a function that runs the test file of the page on flaky tests; the doctor starts processes of its own."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    source = page_source()

    def run_page(*arguments: str, source: str = source) -> pytest.RunResult:
        pytester.makepyfile(test_shop=source)
        return pytester.runpytest_inprocess("-p", "pytest_leveret.plugin", *arguments, *NO_LEFTOVERS)

    # As in tests/plugin/conftest.py: no finalizer runs while pytest parses the test file.
    gc.disable()
    yield run_page
    gc.enable()


def text_in(result: pytest.RunResult) -> str:
    return "\n".join(result.outlines)


def test_the_doctor_names_the_ack_that_the_test_of_the_page_does_not_wait_for(run: Run) -> None:
    result = run("--leveret-flaky=30", "test_shop.py::test_billing_acks")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert re.search(r"fails \d+ of 30, in", text_in(result))
    assert "if line 25 is done before cashier's ack of orders." in text_in(result)
    assert FORCED_BOTH_WAYS in text_in(result)
    assert re.search(r"30 of 30 runs, \d+ failed; now leveret forces orders", text_in(result))
    page = Path(re.search(r"side by side: file://(\S+)", text_in(result)).group(1))
    assert (page.parent / "failed.html").exists()
    assert 'class="first"' in page.read_text(encoding="utf-8")


def test_the_doctor_finds_a_test_that_waits_steady(run: Run) -> None:
    mended = page_source().replace("assert_delivered", "assert_acked").replace("timeout=5", "timeout=60")

    result = run("--leveret-flaky=8", "test_shop.py::test_billing_acks", source=mended)

    assert result.ret == pytest.ExitCode.OK
    assert "8 of 8 passed, " in text_in(result)
    assert "1 examined in " in text_in(result)
    assert "no tests ran" not in text_in(result)


def test_the_doctor_blames_no_order_for_what_a_test_leaves_behind(run: Run) -> None:
    source = """
SENT = []

def test_an_order(leveret):
    leveret.declare_queue("orders")
    SENT.append(leveret.publish("", "orders", b"7"))
    assert SENT == [True]
"""

    result = run("--leveret-flaky=8", "test_shop.py::test_an_order", source=source)

    assert "it leaves something behind, such as a module's variable" in text_in(result)
    assert "if " not in text_in(result).partition("leaves something behind")[2].partition("Replay")[0]


def test_the_doctor_examines_the_lines_of_helpers_in_the_same_file(run: Run) -> None:
    name, body = "def test_billing_acks(leveret):", "def acks(leveret):"

    result = run(
        "--leveret-flaky=30",
        "test_shop.py::test_billing_acks",
        source=page_source().replace(name, body) + f"\n\n{name}\n    acks(leveret)\n",
    )

    assert "if line 25 is done before cashier's ack of orders." in text_in(result)
    assert FORCED_BOTH_WAYS in text_in(result)


HANDLER = """
import threading

import pika


def test_the_kitchen_cooks(leveret):
    cooked, stop = [], threading.Event()

    def cook(channel, method, properties, body):
        cooked.append(body)
        channel.basic_ack(method.delivery_tag)

    def kitchen():
        parameters = pika.URLParameters(leveret.url)
        parameters.client_properties = {"connection_name": "kitchen"}
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.basic_consume("meals", cook)
            while not stop.is_set():
                connection.process_data_events(time_limit=0.01)

    leveret.declare_queue("meals")
    thread = threading.Thread(target=kitchen)
    thread.start()
    try:
        leveret.publish(routing_key="meals", body=b"soup")
        leveret.assert_delivered("meals", timeout=20)
        assert cooked == [b"soup"]
    finally:
        stop.set()
        thread.join()
"""


def test_the_doctor_names_the_wait_for_what_a_handler_does_by_itself(run: Run) -> None:
    result = run("--leveret-flaky=40", "test_shop.py", source=HANDLER)

    assert (
        "Line 28 looks at what kitchen does between the delivery and its ack of meals: wait for assert_acked('meals')."
    ) in result.outlines
    assert "ruled out" not in text_in(result)
    assert "leveret found" not in text_in(result)


def test_the_way_out_that_the_doctor_names_makes_the_test_steady(run: Run) -> None:
    found = run("--leveret-flaky=40", "test_shop.py", source=HANDLER)
    [(number, wait)] = re.findall(r"Add before line (\d+): (.*)", text_in(found))
    lines = HANDLER.splitlines()
    lines.insert(int(number) - 1, f"        {wait}")

    result = run("--leveret-flaky=20", "test_shop.py", source="\n".join(lines))

    assert "20 of 20 passed, " in text_in(result)


def test_the_doctor_names_a_message_that_expires_in_failed_runs_only(run: Run) -> None:
    source = """
import sys

def test_an_offer(leveret):
    leveret.declare_queue("offers")
    leveret.clock.hold()
    # The runs differ in it, as by chance. It stands for a machine that is slow now and then.
    expiration = "1" if sys.getswitchinterval() == 0.005 else "100000"
    leveret.publish("", "offers", b"7", expiration=expiration)
    leveret.clock.advance(1)
    assert leveret.queue("offers").ready
"""

    result = run("--leveret-flaky=8", "test_shop.py::test_an_offer", source=source)

    assert "In each failed run, and in no passed one, a message expired in 'offers'." in text_in(result)


def test_the_doctor_takes_the_test_behind_the_option_for_the_test(run: Run) -> None:
    source = "def test_one():\n    pass\n\ndef test_two():\n    pass\n"

    result = run("--leveret-flaky", "test_shop.py", source=source)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--leveret-flaky examines one test, and 2 are selected" in "\n".join(result.errlines + result.outlines)


def test_a_test_that_always_fails_is_not_flaky(run: Run) -> None:
    result = run("--leveret-flaky=2", "test_shop.py", source="def test_wrong():\n    assert 1 == 2\n")

    assert "fails 2 of 2, and orders were not examined: no client used a broker" in text_in(result)
    assert "It fails in every run, so it is not flaky:" in text_in(result)


def test_a_doctor_whose_runs_are_all_skipped_has_examined_nothing(run: Run) -> None:
    source = "import pytest\n\ndef test_it(leveret):\n    pytest.skip('not here')\n"

    result = run("--leveret-flaky=3", source=source)

    assert "test_shop.py::test_it: nothing was examined, because all 3 runs were skipped" in text_in(result)
    assert "order" not in text_in(result)


def test_a_test_that_fails_or_is_skipped_is_not_called_steady() -> None:
    runs = [Outcome(0, "failed", error="AssertionError"), *[Outcome(1, "skipped")] * 2]

    text = "\n".join(text_of_diagnosis(FlakyDiagnosis("test_it", "test_it.py", runs)))

    assert "No run passed: 1 failed, and 2 were skipped. Whether it is flaky is not known." in text
    assert "not flaky" not in text


def test_a_test_whose_first_runs_are_skipped_leaves_nothing_behind() -> None:
    runs = [Outcome(0, "skipped"), *(Outcome(turn, "failed", turn=turn) for turn in range(1, 9))]

    assert not FlakyDiagnosis("test_it", "test_it.py", runs).leaves_something


@pytest.mark.parametrize(
    ("mark", "outcome", "summary"),
    [
        ("xfail", "assert 1 == 2", "fails 2 of 2"),
        ("xfail(strict=True)", "assert 1 == 2", "fails 2 of 2"),
        ("xfail", "pass", "2 of 2 passed"),
        ("xfail(strict=True)", "pass", "2 of 2 passed"),
        ("xfail(raises=OSError)", "raise ValueError", "fails 2 of 2"),
        ("xfail(run=False)", "assert 1 == 2", "nothing was examined, because all 2 runs were skipped"),
    ],
)
def test_a_mark_that_expects_a_failure_does_not_change_what_a_run_did(
    run: Run, mark: str, outcome: str, summary: str
) -> None:
    source = f"import pytest\n\n@pytest.mark.{mark}\ndef test_it(leveret):\n    {outcome}\n"

    result = run("--leveret-flaky=2", source=source)

    assert summary in text_in(result)


def test_a_doctor_that_saw_no_broker_says_so(run: Run) -> None:
    source = "from leveret import Broker\n\ndef test_it():\n    Broker().start().stop()\n"

    result = run("--leveret-flaky=3", source=source)

    assert "3 of 3 passed, and orders were not examined: no client used a broker of leveret's" in text_in(result)


def test_a_seed_replays_a_run(run: Run) -> None:
    source = "import sys\n\ndef test_turns(leveret):\n    assert sys.getswitchinterval() == 0.005\n"

    results = [run(f"--leveret-flaky-seed={seed}", source=source) for seed in (1, 1, 2, 2, 3, 3, 4, 4)]

    codes = [result.ret for result in results]
    assert codes[::2] == codes[1::2]
    assert len(set(codes)) == 2


# A single run.


def test_the_lines_of_a_coroutine_in_the_test_are_steps_and_an_await_does_not_end_its_line() -> None:
    def runs_a_coroutine() -> None:
        async def ship() -> None:
            await asyncio.to_thread(int)
            raise ValueError

        with suppress(ValueError):
            asyncio.run(ship())

    play, first = Play(0), runs_a_coroutine.__code__.co_firstlineno

    def act() -> None:
        play.trace(SimpleNamespace(function=runs_a_coroutine))
        runs_a_coroutine()
        play.end_trace()

    # A thread has a trace function of its own, so one that measures coverage stays.
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()

    ends = [int(name.about) - first for name in play.steps if name.act == LINE]
    assert ends[:1] + [line for line in ends if line in (2, 3, 6)] == [1, 2, 3, 6]


def test_a_failure_is_at_the_line_of_the_innermost_function_of_the_file() -> None:
    async def ship() -> None:
        raise ValueError

    def runs_a_coroutine() -> None:
        asyncio.run(ship())

    with pytest.raises(ValueError) as error:  # noqa: PT011 - it is raised above
        runs_a_coroutine()

    at = failed_at(SimpleNamespace(function=runs_a_coroutine), error.value)
    assert at == (ship.__code__.co_firstlineno + 1, True)


@pytest.mark.parametrize("act", ["channel.close", "basic.cancel"])
def test_a_close_and_a_cancel_can_be_held_back_for_another_client(leveret: Broker, act: str) -> None:
    leveret.declare_queue("orders")
    billing, shop = (channel_named(leveret, name) for name in ("billing", "shop"))
    tag = billing.basic_consume("orders", lambda *message: None)
    billing.connection.process_data_events(time_limit=0)
    play = Play(0, Order(PUBLISH, Name("billing", act, "", True)))
    play.watch(leveret)
    thread = threading.Thread(target=billing.close if act == "channel.close" else lambda: billing.basic_cancel(tag))
    thread.start()
    while thread.is_alive() and not play.is_held:
        thread.join(0.01)
    shop.basic_publish("", "orders", b"1")
    thread.join()
    play.end()
    for connection in (billing.connection, shop.connection):
        if connection.is_open:
            connection.close()

    acts = [name.act for name in play.steps]
    assert acts.index("publish") < acts.index(act)


def test_a_delivery_that_waits_comes_before_the_answer_to_a_cancel_that_waits(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    channel = channel_named(leveret, "billing")
    tag = channel.basic_consume("orders", lambda *message: None, auto_ack=True)
    channel.connection.process_data_events(time_limit=0)
    passed: list[str] = []
    cancels: list[Occasion] = []
    is_held = threading.Event()

    def wait_of(occasion: Occasion) -> Wait:
        if occasion.on == "basic.cancel":
            cancels.append(occasion)
            is_held.set()
        if occasion.on == "basic.deliver":
            delays.release(cancels[0])
        return Wait(60_000_000 if occasion.on in ("basic.cancel", "basic.deliver") else 0, is_firm=True)

    delays = Delays(leveret, wait_of, lambda occasion: passed.append(occasion.on))
    delays.start()
    publisher = threading.Thread(target=lambda: is_held.wait() and leveret.publish("", "orders", b"1"))
    publisher.start()
    channel.basic_cancel(tag)
    publisher.join()
    delays.stop()
    channel.connection.close()

    assert passed[:3] == ["basic.deliver", "basic.cancel", "basic.cancel-ok"]


def test_what_waits_on_one_channel_is_not_lost_when_another_channel_sends(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    other = channel_named(leveret, "shop")
    channel = other.connection.channel()
    has_come = threading.Event()

    def wait_of(occasion: Occasion) -> Wait:
        if occasion.channel_number == other.channel_number:
            has_come.set()
        return Wait(60_000_000, is_firm=True)

    delays = Delays(leveret, wait_of, lambda occasion: None)
    delays.start()
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", "orders", body)
    other.basic_publish("", "orders", b"4")
    assert has_come.wait(60)
    delays.stop()
    other.connection.close()

    assert [message.body for message in leveret.queue("orders").ready] == [b"1", b"2", b"3", b"4"]


def test_a_delivery_that_is_kept_from_its_client_counts_as_delivered(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    channel = channel_named(leveret, "billing")
    got: list[bytes] = []
    channel.basic_consume("orders", lambda channel, method, properties, body: got.append(body))
    play = Play(0, Order(DELIVERY._replace(place="orders"), LOOK, "others"))
    play.watch(leveret)
    leveret.publish("", "orders", b"1")

    leveret.assert_delivered("orders", timeout=60)
    channel.connection.process_data_events(time_limit=0.05)
    got_by_then = list(got)
    play.end()
    channel.connection.process_data_events(time_limit=60)
    channel.connection.close()

    assert (got_by_then, got) == ([], [b"1"])


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "add",
    [
        pytest.param(lambda faults: faults.reset_peer(on="basic.ack"), id="a method ends the connection"),
        pytest.param(lambda faults: faults.drop("basic.publish"), id="a method is dropped"),
        pytest.param(lambda faults: faults.delay("basic.publish", seconds=0.001), id="a method is delayed"),
        pytest.param(lambda faults: faults.delay("queue.declare-ok", seconds=0.001), id="a reply is delayed"),
        pytest.param(lambda faults: faults.redeliver(), id="a delivery is repeated"),
    ],
)
def test_a_fault_fires_on_what_has_waited(leveret: Broker, add: Callable[[FaultPlan], Rule]) -> None:
    channel = channel_named(leveret, "shop")
    delays = Delays(leveret, lambda occasion: Wait(1_000), lambda occasion: None)
    delays.start()
    rule = add(leveret.faults)

    channel.queue_declare("orders", durable=True)
    channel.basic_publish("", "orders", b"1")
    with suppress(pika.exceptions.AMQPError):
        for method, _, _ in channel.consume("orders", inactivity_timeout=0.05):
            if method is not None:
                channel.basic_ack(method.delivery_tag)
            elif rule.fired:
                break
    delays.stop()

    assert rule.fired == 1


def test_a_delivery_that_a_fault_drops_after_its_wait_is_held_by_its_consumer(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    channel = channel_named(leveret, "shop")
    delays = Delays(leveret, lambda occasion: Wait(1_000), lambda occasion: None)
    delays.start()
    leveret.faults.drop("basic.deliver")
    channel.basic_consume("orders", lambda *_: None)
    leveret.publish("", "orders", b"1")

    leveret.assert_delivered("orders", timeout=60)
    delays.stop()

    assert len(leveret.queue("orders").unacked) == 1
    channel.connection.close()


def test_no_delivery_waits_beyond_a_move_of_time(leveret: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Play, "_span_us", lambda *_: 50_000)
    leveret.declare_queue("orders")
    back = {"x-message-ttl": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
    leveret.declare_queue("orders.retry", arguments=back)
    got: list[bytes] = []
    stop = threading.Event()

    def bill() -> None:
        channel = channel_named(leveret, "billing")
        for method, _, body in channel.consume("orders", inactivity_timeout=0.02):
            if method is not None:
                got.append(body)
                channel.basic_ack(method.delivery_tag)
            if stop.is_set():
                break
        channel.connection.close()

    billing = threading.Thread(target=bill)
    billing.start()
    leveret.wait_for_consumer("orders")
    play = Play(2)
    play.watch(leveret)
    leveret.clock.hold()

    leveret.publish("", "orders.retry", b"1")
    leveret.clock.advance(1, settle=60)
    got_by_then = list(got)
    play.end()
    stop.set()
    billing.join()

    assert got_by_then == [b"1"]


def channel_named(broker: Broker, name: str) -> BlockingChannel:
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": name}
    return pika.BlockingConnection(parameters).channel()


# The search alone, on runs that are written down.


def played(order: list[Name], *, line: int | None) -> Outcome:
    return Outcome(0, "passed" if line is None else "failed", order, line)


def forcing(fails_in: Callable[[Order], int | None]) -> Callable[[Order, int], list[Outcome]]:
    """Return what forces every order, given the line in which the test then fails."""
    return lambda order, times: [played([order.first, order.second], line=fails_in(order))] * times


LOOK = line_name(31, 1)
RUNS = [
    *[played([PUBLISH, DELIVERY, ACK, LOOK], line=None)] * 5,
    *[played([PUBLISH, DELIVERY, LOOK], line=31)] * 3,
    *[played([PUBLISH, LOOK, DELIVERY, ACK], line=31)] * 2,
]


def test_the_search_takes_the_last_step_that_the_line_misses() -> None:
    def force(order: Order, times: int) -> list[Outcome]:
        is_early = order.first == LOOK
        return [played([order.first, order.second], line=31 if is_early else None)] * times

    finding = search(RUNS, force)

    assert finding.order == Order(LOOK, ACK)
    assert finding.is_forced_both_ways


def test_the_search_takes_a_line_that_calls_a_helper_to_look_when_the_helper_is_done() -> None:
    calls, inner, after = Name("", BEGINNING, "31", True), line_name(12, 1), line_name(32, 1)
    close = Name("billing", "connection.close", "", True)
    finding = search(
        [
            *[played([PUBLISH, calls, ACK, DELIVERY, inner, close, LOOK], line=None)] * 5,
            *[played([PUBLISH, calls, DELIVERY, ACK, inner, LOOK, after, close], line=31)] * 5,
        ],
        lambda order, times: (
            [played([order.first, order.second], line=31 if order.first == DELIVERY else None)] * times
        ),
    )

    assert finding.order == Order(DELIVERY, ACK)
    assert not [order for order in finding.refuted if order.first == LOOK and order.second in (ACK, DELIVERY)]


def test_the_search_names_no_order_that_changes_nothing_when_forced() -> None:
    finding = search(RUNS, forcing(lambda order: None))

    assert finding.order is None
    assert finding.nearest is None


def test_the_search_takes_a_step_that_never_came_for_late() -> None:
    def force(order: Order, times: int) -> list[Outcome]:
        # The line that fails ends the test, so the ack that it did not wait for never comes.
        return [played([LOOK], line=31) if order.first == LOOK else played([ACK, LOOK], line=None)] * times

    assert search(RUNS, force).order == Order(LOOK, ACK)


def test_the_search_takes_no_order_that_only_some_of_the_forced_runs_had() -> None:
    def force(order: Order, times: int) -> list[Outcome]:
        # Which worker gets the message decides both whether the test fails and whether this ack ever comes.
        return [played([order.first, order.second], line=31 if order.first == LOOK else None)] * (times - 1) + [
            played([order.second, order.first], line=None if order.first == LOOK else 31)
        ]

    finding = search(RUNS[:-2], force)

    assert not finding.is_forced_both_ways
    assert finding.kind in ("perhaps", "none")


def test_the_search_forces_an_order_more_than_once_before_it_drops_it() -> None:
    forced: list[tuple[Order, int]] = []

    def force(order: Order, times: int) -> list[Outcome]:
        forced.append((order, times))
        return [played([order.first, order.second], line=None)] * times

    search(RUNS, force)

    assert {times for _, times in forced} == {2}


def test_the_search_forces_an_order_until_the_first_runs_that_disagree() -> None:
    forced = Counter[Order]()

    def force(order: Order, times: int) -> list[Outcome]:
        forced[order] += times
        # What the line looks at is there in the other order, but a random number lets a run in ten fail.
        is_unlucky = order.first == ACK and forced[order] > 10
        line = 31 if order.first != ACK or is_unlucky else None
        return [played([order.first, order.second], line=line)] * times

    finding = search(RUNS, force)

    assert forced[Order(LOOK, ACK)] == 20
    assert finding.order != Order(LOOK, ACK)


def test_the_search_takes_no_order_that_disagrees_with_nearly_as_many_runs_as_fail() -> None:
    runs = [
        *[played([PUBLISH, DELIVERY, ACK, LOOK], line=None)] * 143,
        *[played([PUBLISH, DELIVERY, LOOK, ACK], line=31)] * 5,
        *[played([PUBLISH, LOOK, DELIVERY, ACK], line=31)] * 2,
    ]

    finding = search(runs, forcing(lambda order: 31 if order == Order(LOOK, DELIVERY) else None))

    assert finding.order is None


def test_the_search_takes_no_order_of_steps_that_follow_from_the_failure() -> None:
    reject, close = Name("billing", "reject", "orders", True), Name("billing", "connection.close", "", True)
    runs = [
        *[played([PUBLISH, ACK, LOOK, close], line=None)] * 9,
        *[played([PUBLISH, LOOK, reject, close], line=31)] * 9,
    ]

    finding = search(runs, forcing(lambda order: 31 if order == Order(reject, close) else None))

    assert finding.order is None


def test_the_search_keeps_a_delivery_from_a_client_whose_ack_alone_changes_nothing() -> None:
    late = Order(DELIVERY, LOOK, "others")

    finding = search(RUNS[:-2], forcing(lambda order: 31 if order == late else None))

    assert finding.kind == "between"
    assert finding.order == Order(LOOK, ACK)
    assert (finding.received, finding.failing) == (DELIVERY, late)
    assert finding.passing == Order(ACK, LOOK, "none", DELIVERY)
    assert not finding.refuted


def test_the_search_takes_what_runs_have_shown_by_themselves_if_the_ack_cannot_be_forced() -> None:
    runs = [*[played([PUBLISH, DELIVERY, ACK, LOOK], line=None)] * 10, *RUNS[5:8]]

    def force(order: Order, times: int) -> list[Outcome]:
        if order.first == ACK:
            return [played([LOOK, ACK], line=31)] * times
        return [played([order.first, order.second], line=31 if order.receivers == "others" else None)] * times

    finding = search(runs, force)

    assert (finding.kind, finding.passing, finding.seen_count) == ("between", None, 10)


def test_the_search_names_no_wait_that_does_not_make_the_test_pass() -> None:
    finding = search(
        RUNS[:-2], forcing(lambda order: 31 if order.receivers == "others" or order.first == ACK else None)
    )

    assert finding.kind == "after"
    assert finding.order == Order(LOOK, DELIVERY)


def test_the_search_rules_out_a_delivery_that_comes_late_without_effect() -> None:
    runs = [
        *[played([PUBLISH, DELIVERY, LOOK], line=None)] * 5,
        *[played([PUBLISH, LOOK, DELIVERY], line=31)] * 5,
    ]

    finding = search(runs, forcing(lambda order: None))

    assert Order(LOOK, DELIVERY) in finding.refuted


def test_the_search_says_if_only_one_way_could_be_forced() -> None:
    def force(order: Order, times: int) -> list[Outcome]:
        if order.first != LOOK:
            return [played([order.second, order.first], line=31)] * times
        return [played([order.first, order.second], line=31)] * times

    finding = search(RUNS, force)

    assert finding.order == Order(LOOK, ACK)
    assert not finding.is_forced_both_ways


def report_on(runs: list[Outcome], force: Callable[[Order, int], list[Outcome]]) -> str:
    return "\n".join(text_of_diagnosis(FlakyDiagnosis("test_it", __file__, runs, search(runs, force))))


def test_no_wait_is_named_for_two_publishers_that_race() -> None:
    alice, bob = (Name(who, "publish", "q", True) for who in ("alice", "bob"))
    runs = [*[played([alice, bob, LOOK], line=None)] * 9, *[played([bob, alice, LOOK], line=31)] * 9]

    def force(order: Order, times: int) -> list[Outcome]:
        fails = order.first == bob
        return [played([order.first, order.second, LOOK], line=31 if fails else None)] * times

    text = report_on(runs, force)

    assert "It fails exactly if bob's publish of q comes before alice's publish of q." in text
    assert "Add before" not in text


def test_no_wait_is_named_that_another_client_meets() -> None:
    other = ACK._replace(who="shipping")
    runs = [
        *[played([other, ACK, LOOK], line=None)] * 5,
        *[played([ACK, LOOK, other], line=None)] * 5,
        *[played([other, LOOK, ACK], line=31)] * 5,
    ]

    text = report_on(runs, forcing(lambda order: 31 if order == Order(LOOK, ACK) else None))

    assert "It fails exactly if line 31 is done before billing's ack of orders." in text
    assert "Add before" not in text


@pytest.mark.parametrize(
    ("line", "step"),
    [
        pytest.param(LOOK, Name("", "publish", "orders 'a'", True), id="the name has a body, and not the key alone"),
        pytest.param(line_name(31, 2), ACK, id="the line had its first turn before"),
    ],
)
def test_no_wait_is_named_that_cannot_be_met_there(line: Name, step: Name) -> None:
    runs = [*[played([step, line], line=None)] * 9, *[played([line, step], line=31)] * 9]

    text = report_on(runs, forcing(lambda order: 31 if order.first == line else None))

    assert "It fails exactly if line 31 is done before" in text
    assert "Add before" not in text


def test_the_wait_for_a_second_ack_counts_both() -> None:
    second = ACK._replace(nth=2)
    runs = [*[played([ACK, second, LOOK], line=None)] * 9, *[played([ACK, LOOK, second], line=31)] * 9]

    text = report_on(runs, forcing(lambda order: 31 if order.first == LOOK else None))

    assert "Add before line 31: leveret.assert_acked('orders', times=2, timeout=5)" in text


def test_a_cause_beside_failures_in_another_line_says_which_line_it_is_about() -> None:
    begins = LOOK._replace(act=BEGINNING)
    runs = [*RUNS, *[played([PUBLISH, DELIVERY, begins, ACK, LOOK, line_name(32, 1)], line=32)] * 3]

    def force(order: Order, times: int) -> list[Outcome]:
        if order.first == LOOK:
            return [played([LOOK, order.second], line=31)] * times
        return [played([order.first, order.second], line=32 if nth == 0 else None) for nth in range(times)]

    text = report_on(runs, force)

    assert "It fails in line 31 exactly if line 31 is done before billing's ack of orders." in text
    assert (
        "In 20 new runs in this order it failed 20 times in line 31, and in 20 runs in the other order never there: "
        "17 passed, 3 failed in another line."
    ) in text
    assert "3 other runs failed in another line." in text
    assert "always" not in text


def test_a_run_that_passes_the_line_and_fails_later_may_disagree_with_the_cause() -> None:
    runs = [*RUNS, played([PUBLISH, DELIVERY, LOOK, ACK, line_name(32, 1)], line=32)]

    text = report_on(runs, forcing(lambda order: 31 if order.first == LOOK else None))

    assert "It fails in line 31 if line 31 is done before billing's ack of orders." in text
    assert "1 of 11 runs disagree." in text


def test_a_client_that_is_known_by_its_message_only_is_named() -> None:
    delivery, ack = DELIVERY._replace(place="orders"), ACK._replace(place="orders")
    by_message = delivery._replace(who="", about="orders '1'")
    runs = [
        *[played([delivery, by_message, ack, LOOK], line=None)] * 5,
        *[played([delivery, by_message, LOOK, ack], line=31)] * 5,
    ]
    finding = OrderFinding(31, "between", Order(LOOK, ack), Order(by_message, LOOK), Order(ack, LOOK), by_message)

    text = "\n".join(text_of_diagnosis(FlakyDiagnosis("test_it", __file__, runs, finding)))

    assert "Line 31 looks at what billing does between the delivery of orders '1' and its ack of orders." in text


def test_a_report_without_a_cause_says_how_many_orders_were_forced() -> None:
    def force(order: Order, times: int) -> list[Outcome]:
        both = [order.first, order.second]
        return [played(both[::-1] if PUBLISH in both else both, line=None)] * times

    runs = [
        *[played([DELIVERY, PUBLISH, ACK, LOOK], line=None)] * 9,
        *[played([LOOK, ACK, PUBLISH, DELIVERY], line=31)] * 9,
        played([PUBLISH, LOOK, ACK, DELIVERY], line=31),
    ]
    finding = search(runs, force)
    text = report_on(runs, force)

    assert (finding.forced_count, finding.unforced_count) == (3, 1)
    assert "None of the 3 orders that leveret could force explains it. 1 other order went with the failures" in text
    assert "No order of two events explains it" not in text


def test_a_report_on_orders_of_which_none_went_with_the_failures_says_that_none_was_forced() -> None:
    runs = [*[played([PUBLISH, LOOK], line=None)] * 9, *[played([PUBLISH, LOOK], line=31)] * 9]

    text = report_on(runs, forcing(lambda order: None))

    assert "No order of two events goes with its failures, so leveret forced none." in text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (ACK, "billing's ack of orders"),
        (ACK._replace(nth=2), "billing's second ack of orders"),
        (DELIVERY, "the delivery of orders to billing"),
        (Name("", "publish", "orders 'a'", True), "the publish of orders 'a'"),
        (Name("", LINE, "31", True), "the end of line 31"),
    ],
)
def test_a_step_is_named_as_a_reader_would_name_it(name: Name, text: str) -> None:
    assert text_of(name) == text


def test_the_doctor_says_what_went_wrong_in_a_run_that_failed(run: Run) -> None:
    source = """
def test_an_order(leveret):
    leveret.declare_queue("orders")
    leveret.publish("", "oders", b"7 teas")
    assert [message.text for message in leveret.queue("orders").ready] == ["7 teas"]
"""

    result = run("--leveret-flaky=2", "test_shop.py", source=source)

    assert "#1 from the test reached no queue: there is no queue 'oders' (nearest: 'orders')" in text_in(result)
