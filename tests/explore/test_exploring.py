"""Exploring scenarios with real clients: the failures that it finds, and how it reports them."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import re
import sys
import threading

import aio_pika
import kombu
import pika
import pytest

import leveret
from leveret.faults import CloseChannel, Drop, Fault
from tests.explore.clients import PERSISTENT, careful, connect, publish_confirmed, until_it_works


class Racing:
    """A scenario in which two clients connect in a different order each run and then do different things."""

    def __init__(self, names):
        self.names = names
        self.run_count = 0

    def __call__(self, broker):
        self.run_count += 1
        broker.declare_queue("work")
        names = self.names if self.run_count % 2 else self.names[::-1]
        channels = {name: connect(broker, name=name) for name in names}
        channels[self.names[0]].basic_publish("", "work", b"1")
        channels[self.names[1]].queue_declare("other", durable=True)
        for channel in channels.values():
            channel.connection.close()


class Nothing(Fault):
    """A fault that fires and does nothing."""


def failure_of(scenario, **words):
    with pytest.raises(leveret.ExplorationFailedError) as failure:
        leveret.explore(scenario, **words)
    return failure.value


def publish_once(broker):
    """Publish once and ignore a lost connection, so that the message may be lost."""
    broker.declare_queue("work")
    try:
        channel = connect(broker)
        channel.basic_publish("", "work", b"1", PERSISTENT)
        channel.connection.close()
    except pika.exceptions.AMQPError:
        pass
    broker.assert_published("", routing_key="work")


def test_a_scenario_that_passes_everywhere_passes():
    found = leveret.explore(careful)

    assert found.passed_count == found.run_count > len(found.steps)
    assert (found.failed, found.diverged) == ([], [])


def test_steps_have_the_same_names_in_every_run():
    runs = [leveret.explore(careful, on="basic.ack") for _ in range(3)]

    assert runs[0].steps == runs[1].steps == runs[2].steps
    assert "conn 1 chan 1 client->server basic.publish #1" in runs[0].steps
    assert "conn 2 chan 1 server->client basic.deliver #1" in runs[0].steps


def test_each_confirm_is_a_step_however_the_bytes_arrived():
    def pipelined(broker):
        broker.declare_queue("work")
        connection = kombu.Connection(broker.url)
        channel = connection.channel()
        channel.confirm_select()
        for _ in range(20):
            channel.basic_publish(channel.prepare_message(b"1"), "", "work")
        connection.close()

    for _ in range(3):
        steps = leveret.explore(pipelined, faults=Nothing(), on="confirm.select").steps
        assert sum("server->client basic.ack" in step for step in steps) == 20


def test_the_replay_line_of_the_report_repeats_the_failure():
    failure = failure_of(publish_once)
    line = next(text for text in str(failure).splitlines() if text.startswith("  explore("))

    with pytest.raises(leveret.ExplorationFailedError) as again:
        eval(line.strip(), {"explore": leveret.explore, "publish_once": publish_once})

    assert again.value.exploration.failed == failure.exploration.failed
    assert again.value.exploration.run_count == 1


def test_keep_going_lists_every_failure():
    failure = failure_of(publish_once, on="basic.publish", faults=["lost before", "lost after"], keep_going=True)

    assert failure.exploration.failed == ["lost before conn 1 chan 1 client->server basic.publish #1"]
    steps = len(failure.exploration.steps)
    assert f"Of 2 schedules over {steps} steps, 1 passed, 1 failed." in str(failure)


def test_the_error_of_the_scenario_is_the_cause():
    failure = failure_of(publish_once)

    assert isinstance(failure.__cause__, AssertionError)
    assert "How the scenario failed:\n  AssertionError: assert_published(''" in str(failure)


def test_a_scenario_that_fails_without_a_fault_raises_its_own_error():
    def broken(broker):
        raise LookupError("of its own")

    with pytest.raises(LookupError, match="of its own") as error:
        leveret.explore(broken)

    assert error.value.__notes__ == ["This is the plain run: it had no fault."]


def test_a_step_that_does_not_occur_again_is_reported():
    calls = []

    def fickle(broker):
        broker.declare_queue("work")
        calls.append(broker)
        with connect(broker).connection as connection:
            channel = connection.channel()
            for _ in range(2 if len(calls) == 1 else 1):
                channel.basic_publish("", "work", b"1")

    with pytest.warns(leveret.LeveretWarning, match="a step did not occur again in two runs") as told:
        found = leveret.explore(fickle, on="basic.publish", faults=Drop())

    assert "1 schedule of 2 diverged" in str(told[0].message)
    assert found.diverged == ["drop conn 1 chan 2 client->server basic.publish #2"]
    assert (found.run_count, found.passed_count) == (2, 1)


def test_a_replay_whose_step_never_occurs_fails():
    failure = failure_of(careful, only="lost before conn 9 chan 1 client->server basic.ack #1")

    assert "a step did not occur again in two runs:\n  lost before conn 9 chan 1 client->server basic.ack" in str(
        failure
    )
    assert "nothing was explored" in str(failure)


def test_a_replay_of_a_misspelt_step_names_the_step_that_is_near():
    failure = failure_of(careful, only="lost before conn 2 chan 1 client->server basic.akc #1")

    assert "did you mean 'conn 2 chan 1 client->server basic.ack #1'?" in str(failure)


def test_the_broker_of_a_scenario_answers_a_name_of_another_tool_as_a_broker_does():
    def curious(broker):
        broker.messages  # noqa: B018 - it raises

    with pytest.raises(AttributeError, match=r"a Broker has no attribute 'messages'; the messages are"):
        leveret.explore(curious)


def test_what_differs_in_each_run_anyway_is_no_difference_of_the_fault():
    numbers = iter(range(10_000, 99_999))

    def scenario(broker):
        broker.declare_queue("work")
        channel = connect(broker)
        channel.confirm_delivery()
        channel.basic_publish("", "work", b"pid %d" % next(numbers))
        channel.basic_publish("", "work", b"order")
        channel.connection.close()

    text = str(failure_of(scenario, on="*basic.publish #2", faults="lost before"))

    differences = text.partition("Unlike the run without a fault:\n")[2].partition("\n\n")[0]
    assert differences == "  'order' to the default exchange, key 'work', was never published"


def test_a_queue_that_the_broker_names_anew_after_a_fault_is_no_difference():
    def scenario(broker):
        attempts, body = 0, None
        while body is None:
            attempts += 1
            with contextlib.suppress(pika.exceptions.AMQPError):
                channel = connect(broker)
                queue = channel.queue_declare("", exclusive=True).method.queue
                channel.basic_publish("", queue, b"order")
                body = channel.basic_get(queue, auto_ack=True)[2]
        channel.connection.close()
        assert attempts == 1

    text = str(failure_of(scenario, on="*basic.get #1", faults="lost before"))

    differences = text.partition("Unlike the run without a fault:\n")[2].partition("\n\n")[0]
    assert differences == "  'order' to the default exchange, key 'amq.gen-*', was published twice instead of once"


def test_a_coroutine_function_runs_in_a_loop_of_its_own():
    loops = []

    async def scenario(broker):
        loops.append(asyncio.get_running_loop())
        broker.declare_queue("work")
        connection = await aio_pika.connect(broker.url)
        async with connection:
            channel = await connection.channel()
            await channel.default_exchange.publish(aio_pika.Message(b"1", delivery_mode=2), "work")
        broker.assert_published("", routing_key="work")

    failure = failure_of(scenario, on="basic.publish")

    assert failure.exploration.failed == ["lost before conn 1 chan 1 client->server basic.publish #1"]
    assert loops[0] is not loops[1]


def test_a_coroutine_may_explore():
    async def explore():
        return leveret.explore(careful, on="basic.ack")

    assert asyncio.run(explore()).run_count > 0


def test_a_confirmed_message_that_a_fault_dropped_fails_without_an_assert():
    def publish(broker):
        broker.declare_queue("work")
        publish_confirmed(broker, b"1", b"2")

    failure = failure_of(publish, faults=Drop(), on="basic.publish")

    assert str(failure).startswith("one fault is enough: drop conn 1 chan 1 client->server basic.publish #1\n")
    assert (
        "Confirmed and lost:\n"
        "  '1', published to the default exchange with key 'work', was confirmed and is lost: the fault dropped it\n"
    ) in str(failure)
    assert "faults=[Drop()], only=" in str(failure)


def test_a_confirmed_transient_message_is_lost_in_a_restart():
    def publish(broker):
        broker.declare_queue("work")
        publish_confirmed(broker, b"1", properties=None)
        publish_confirmed(broker, b"2")

    failure = failure_of(publish, faults="restart before")

    assert "'1', published to the default exchange with key 'work', was confirmed and is lost: the restart" in str(
        failure
    )
    assert "publish it with delivery_mode=2" in str(failure)


def test_a_message_whose_confirm_never_arrived_may_be_lost():
    def publish(broker):
        broker.declare_queue("work")
        publish_confirmed(broker, b"1", properties=None)

    found = leveret.explore(publish, faults="restart before", on="basic.ack")

    assert found.passed_count == found.run_count == 1


def test_a_message_dropped_by_a_queue_limit_is_accounted_for():
    def publish(broker):
        broker.declare_queue("dead")
        broker.declare_queue(
            "work",
            arguments={"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
        )
        publish_confirmed(broker, b"1", b"2", b"3")

    assert leveret.explore(publish, faults=["lost before", "lost after"]).failed == []


def test_a_scenario_that_hangs_is_ended_and_its_line_reported():
    may_end = threading.Event()

    def wait_for_ever_once_lost(broker):
        broker.declare_queue("work")
        try:
            connect(broker).basic_publish("", "work", b"1")
            broker.assert_published("", routing_key="work")
        except (AssertionError, pika.exceptions.AMQPError):
            may_end.wait()

    failure = failure_of(wait_for_ever_once_lost, limit=2, on="basic.publish")
    # Later tests must not take its thread for a handler at work.
    may_end.set()

    assert "How the scenario failed:\n  it did not end within 2 s: it was waiting at " in str(failure)
    assert (
        "in wait_for_ever_once_lost; it did not end when its broker stopped either, so its thread is still running\n"
        in str(failure)
    )
    assert "queues: empty: work" in str(failure)


def test_a_coroutine_that_hangs_is_cancelled():
    ended = []

    async def scenario(broker):
        connection = await aio_pika.connect(broker.url)
        try:
            channel = await connection.channel()
            await channel.declare_queue("work", durable=True)
        except Exception:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)
        await connection.close()

    failure = failure_of(scenario, limit=2, on="queue.declare")

    assert ended == [True]
    assert "it did not end within 2 s: it was waiting at " in str(failure)
    assert "still running" not in str(failure)


def test_a_plain_run_that_hangs_is_reported_as_such():
    failure = failure_of(lambda broker: connect(broker).connection.process_data_events(time_limit=None), limit=0.2)

    assert str(failure).startswith("the plain run, without a fault, failed: it did not end within 0.2 s")


def test_two_faults_are_found_where_one_is_not_enough():
    def twice(broker):
        broker.declare_queue("work")

        def once():
            channel = connect(broker, confirm=True)
            channel.basic_publish("", "work", b"1", PERSISTENT)

        until_it_works(once, tries=2)

    failure = failure_of(twice, faults="lost before", on="basic.publish", pairs=5)

    assert str(failure).startswith(
        "2 faults are enough: lost before conn 1 chan 1 client->server basic.publish #1, then "
        "lost before conn 2 chan 1 client->server basic.publish #1\n"
    )
    assert str(failure).count("***") == 4


@pytest.mark.parametrize("prefetch", [0, 1])
def test_a_delivery_out_of_order_comes_after_the_next_one_and_is_flagged_redelivered(prefetch):
    runs = []

    def consume(broker):
        seen = []
        runs.append(seen)
        broker.declare_queue("work")
        for body in (b"1", b"2", b"3"):
            broker.publish("", "work", body)
        channel = connect(broker)
        channel.basic_qos(prefetch_count=prefetch)
        for method, _, body in channel.consume("work"):
            seen.append((body, method.redelivered))
            channel.basic_ack(method.delivery_tag)
            if len(seen) == 3:
                break
        channel.connection.close()
        assert [body for body, _ in seen] == [b"1", b"2", b"3"]

    failure = failure_of(consume, faults="out of order", on="basic.deliver")

    # The third run has the fault, after two without one.
    seen = runs[2]
    assert seen[0] == (b"2", False)
    assert (b"1", True) in seen
    assert "    *** this is overtaken by what follows it and comes late, flagged as redelivered ***" in str(failure)


def test_a_delivery_without_a_successor_still_arrives():
    def consume(broker):
        broker.declare_queue("work")
        channel = connect(broker)
        deliveries = channel.consume("work", inactivity_timeout=5)
        for body in (b"1", b"2"):
            broker.publish("", "work", body)
            method, _, got = next(deliveries)
            assert (got, method.redelivered) == (body, False)
            channel.basic_ack(method.delivery_tag)
        channel.connection.close()

    assert leveret.explore(consume, faults="out of order").run_count == 1


def test_a_queue_with_a_single_active_consumer_keeps_its_order():
    def consume(broker):
        broker.declare_queue("work", arguments={"x-single-active-consumer": True})
        for body in (b"1", b"2"):
            broker.publish("", "work", body)
        channel = connect(broker)
        for _ in zip(range(2), channel.consume("work", auto_ack=True), strict=False):
            pass
        channel.connection.close()

    with pytest.raises(ValueError, match="matches no step for out of order"):
        leveret.explore(consume, faults="out of order")


def consume_until(over, broker):
    """Acknowledge what arrives, and connect again after each loss until `over` is set."""

    def acknowledge(channel, method, properties, body):
        channel.basic_ack(method.delivery_tag)

    while not over.is_set():
        with contextlib.suppress(pika.exceptions.AMQPConnectionError):
            channel = connect(broker)
            channel.basic_consume("work", acknowledge)
            channel.start_consuming()


@pytest.mark.parametrize("kind", ["lost after", "out of order"])
def test_a_client_recovers_from_a_fault_while_the_scenario_holds_time(kind):
    def scenario(broker):
        broker.declare_queue("work")
        over = threading.Event()
        threading.Thread(target=consume_until, args=(over, broker), daemon=True).start()
        try:
            broker.wait_for_consumer("work", timeout=30)
            broker.clock.hold()
            for body in (b"1", b"2"):
                broker.publish("", "work", body)
                broker.assert_acked("work", body=body, timeout=30)
        finally:
            over.set()

    found = leveret.explore(scenario, faults=kind, on="basic.*", limit=5)

    assert found.run_count
    assert found.passed_count == found.run_count


@pytest.mark.parametrize("kind", ["lost after", "out of order"])
def test_wait_idle_waits_for_what_an_explored_fault_has_delayed(kind):
    def scenario(broker):
        broker.declare_queue("work")
        over = threading.Event()
        threading.Thread(target=consume_until, args=(over, broker), daemon=True).start()
        try:
            broker.wait_for_consumer("work", timeout=30)
            for body in (b"1", b"2"):
                broker.publish("", "work", body)
                broker.wait_idle(timeout=30)
                broker.assert_acked("work", body=body)
        finally:
            over.set()

    found = leveret.explore(scenario, faults=kind, on="basic.*", limit=5)

    assert found.passed_count == found.run_count


class Break(Fault):
    """A fault of a user, with arguments that it keeps under names of its own."""

    name = "break"
    points = ("method",)

    def __init__(self, code, *words, text="broken"):
        self._error = code, " ".join([text, *words])

    def apply(self, occasion):
        return CloseChannel(*self._error).apply(occasion)


def test_the_replay_line_of_a_custom_fault_can_be_pasted():
    def declare(broker):
        connect(broker).queue_declare("work", durable=True)

    failure = failure_of(declare, faults=[Break(406, "by hand", text="bad")], on="queue.declare")
    line = str(failure).partition("Replay it:\n  ")[2].partition("\n")[0]

    assert "faults=[Break(406, 'by hand', text='bad')]" in line
    with pytest.raises(leveret.ExplorationFailedError, match="one fault is enough: break"):
        eval(line, {"explore": leveret.explore, "declare": declare, "Break": Break})


def test_the_summary_has_the_time_the_slowest_schedule_and_the_declarations():
    def declare(broker):
        until_it_works(lambda: connect(broker).queue_declare("work", durable=True))

    found = leveret.explore(declare, faults="lost before")

    outcome, declarations, times, distinct, untried = str(found).splitlines()
    assert outcome == f"All {found.run_count} schedules over {len(found.steps)} steps passed."
    assert declarations == "  declarations among the steps: 2"
    assert re.fullmatch(r"  it took \S+ m?s, the slowest schedule \S+ m?s: lost before conn 1 .*", times)
    assert distinct == f"  distinct outcomes: {len(found.outcomes)}"
    assert untried == "  not tried: more than one fault in a run; seconds=60 adds such schedules"
    assert 1 < len(found.outcomes) <= found.run_count


def test_a_scenario_that_fails_the_second_time_without_a_fault_raises_its_own_error():
    calls = []

    def whimsical(broker):
        calls.append(broker)
        assert len(calls) < 2, "once is enough"

    with pytest.raises(AssertionError, match="once is enough") as error:
        leveret.explore(whimsical)

    assert error.value.__notes__ == [
        "This is the second plain run. The first passed, so the scenario fails now and then without a fault."
    ]


def test_the_summary_names_the_steps_that_only_one_of_two_runs_without_a_fault_had():
    calls = []

    def fickle(broker):
        calls.append(broker)
        with connect(broker).connection as connection:
            if len(calls) == 2:
                connection.channel().queue_declare("work", durable=True)

    found = leveret.explore(fickle, faults=Nothing(), on="channel.open")

    assert found.unsteady[:2] == [
        "conn 1 chan 2 client->server channel.open #1",
        "conn 1 chan 2 server->client channel.open-ok #1",
    ]
    assert "only one of two runs without a fault had conn 1 chan 2 client->server channel.open #1" in str(found)


def test_the_summary_names_a_thread_that_a_scenario_has_left_behind():
    over = threading.Event()

    def leave(broker):
        broker.declare_queue("work")
        threading.Thread(target=consume_until, args=(over, broker), daemon=True).start()
        broker.wait_for_consumer("work")

    try:
        found = leveret.explore(leave, faults="lost before", on="basic.consume")
    finally:
        over.set()

    assert found.strays
    assert re.search(r"still running: \d threads? at .*test_exploring\.py:\d+ in consume_until", str(found))


def test_a_custom_fault_is_placed_where_it_can_apply():
    def declare(broker):
        def once():
            channel = connect(broker)
            channel.queue_declare("work", durable=True)
            channel.connection.close()

        until_it_works(once)

    found = leveret.explore(declare, faults=CloseChannel(404), on="queue.declare*")

    assert (found.run_count, found.passed_count) == (2, 2)


def test_only_the_logs_of_the_reported_run_are_shown(caplog):
    # Another test may have changed the log level of this process.
    caplog.set_level(logging.WARNING)
    count = []

    def scenario(broker):
        count.append(True)
        logging.getLogger("explored.app").warning("run %d", len(count))
        publish_once(broker)

    failure_of(scenario)

    logged = [record.getMessage() for record in caplog.records if record.name == "explored.app"]
    assert logged == ["run 1", f"run {len(count)}"]


def test_the_error_of_another_thread_is_reported():
    def scenario(broker):
        broker.declare_queue("work")
        thread = threading.Thread(target=lambda: connect(broker).queue_declare("other", durable=True), name="helper")
        thread.start()
        thread.join()
        broker.queue("other")

    failure = failure_of(scenario, on="queue.declare")

    assert "Errors in other threads:\n  helper ended with pika.exceptions.StreamLostError" in str(failure)


def test_invalid_arguments_raise_at_once():
    with pytest.raises(ValueError, match="pairs=-1 must be 0 or more"):
        leveret.explore(careful, pairs=-1)
    with pytest.raises(ValueError, match="limit=0 must be above 0, in seconds for each run"):
        leveret.explore(careful, limit=0)
    with pytest.raises(ValueError, match="on='tx\\.\\*' matches no step for lost before"):
        leveret.explore(careful, on="tx.*", faults="lost before")
    with pytest.raises(ValueError, match=r"on=\['basic.pubish'\] matches no step for .*; did you mean 'basic.publish'"):
        leveret.explore(careful, on=["basic.pubish"])
    with pytest.raises(TypeError, match="seconds='5' must be a number"):
        leveret.explore(careful, seconds="5")
    with pytest.raises(ValueError, match=r"on='basic.pubish' matches no step for .*; did you mean 'basic.publish'"):
        leveret.explore(careful, on="basic.pubish")
    with pytest.raises(
        TypeError, match=r"has no keyword 'timeout'; it takes faults, on, .* limit, .* of leveret.Broker"
    ):
        leveret.explore(careful, timeout=3)
    with pytest.raises(ValueError, match="no client connected to the broker"):
        leveret.explore(lambda broker: None)


def test_further_keywords_go_to_the_broker():
    versions = []

    def scenario(broker):
        versions.append(repr(broker).rpartition(" ")[2])
        until_it_works(lambda: connect(broker).connection.close())

    leveret.explore(scenario, on="channel.open", rabbitmq="3.13")

    assert dict.fromkeys(versions) == {"3.13>": None}


def test_clients_with_names_may_connect_in_any_order():
    found = leveret.explore(Racing(["shop", "order worker"]), faults=[Nothing()], on=["basic.publish", "queue.declare"])

    assert found.diverged == []
    assert "conn shop chan 1 client->server basic.publish #1" in found.steps
    assert "conn order worker chan 1 client->server queue.declare #1" in found.steps
    assert found.passed_count == found.run_count == 2


def test_two_connections_of_the_same_name_are_distinct():
    def twice(broker):
        for _ in range(2):
            connect(broker, name="shop-4711815").connection.close()

    found = leveret.explore(twice, faults=[Nothing()], on="channel.open")

    assert [step for step in found.steps if "channel.open #" in step] == [
        "conn shop-* chan 1 client->server channel.open #1",
        "conn shop-* (2) chan 1 client->server channel.open #1",
    ]


@pytest.mark.parametrize("connection", ["shop", "1"])
def test_a_named_connection_is_found_by_name_or_by_number(connection):
    def once(broker):
        connect(broker, name="shop").connection.close()

    found = leveret.explore(
        once, faults=[Nothing()], only=f"nothing conn {connection} chan 1 client->server channel.open #1"
    )

    assert found.passed_count == 1


def test_progress_is_logged(caplog):
    caplog.set_level(logging.INFO, logger="leveret.exploration")

    found = leveret.explore(careful, faults=[Nothing()])

    told = [record.getMessage() for record in caplog.records if record.name == "leveret.exploration"]
    # After twenty, or earlier where they take long.
    assert re.match(rf"\d+ schedules over {len(found.steps)} steps run, the last: nothing conn ", told[0])
    assert told[-1] == str(found)
    assert told[-1].startswith(f"All {found.run_count} schedules over {len(found.steps)} steps passed.")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_summary_is_printed_where_the_user_watches_and_reads_no_log(caplog, monkeypatch, is_terminal):
    class Screen(io.StringIO):
        def isatty(self):
            return is_terminal

    monkeypatch.setattr(sys, "stderr", Screen())
    # With -v, the plugin shows the log of explorations in the terminal.
    caplog.set_level(logging.WARNING, logger="leveret.exploration")

    found = leveret.explore(careful, faults=[Nothing()])

    assert (str(found) in sys.stderr.getvalue()) == is_terminal
