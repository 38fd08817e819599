"""The assertions: what counts, what they return, and when they raise other errors."""

import pytest

from leveret import Broker
from leveret.errors import EventsMissingError, NotDeclaredError
from leveret.trace import events
from leveret.trace.ring import EventRing


@pytest.fixture
def assertions(world):
    return world.assertions


@pytest.fixture
def worker(world):
    client = world.client("worker")
    client.consume("orders.work", "ctag1")
    return client


def test_the_first_match_is_returned(world, assertions):
    world.publish("orders", "order.created", b'{"id": 7}')
    world.publish("orders", "order.created", b'{"id": 8}')

    assert assertions.assert_published("orders", routing_key="order.*").json == {"id": 7}


def test_times_is_exact_and_returns_all(world, assertions):
    world.publish("orders", "order.created", b"1")
    world.publish("orders", "order.created", b"2")

    assert [message.body for message in assertions.assert_published("orders", times=2)] == [b"1", b"2"]
    for times in (0, 1, 3):
        with pytest.raises(AssertionError):
            assertions.assert_published("orders", times=times)


def test_a_message_to_another_exchange_does_not_match(world, assertions):
    world.exchange("billing")
    world.publish("billing", "order.created")

    with pytest.raises(AssertionError):
        assertions.assert_published("orders")
    assertions.assert_not_published("orders")


def test_a_publish_to_the_default_exchange_is_found(world, assertions):
    world.publish("", "orders.work")

    assert assertions.assert_published("", routing_key="orders.work").exchange == ""


def test_assert_not_published_fails_if_it_was_published(world, assertions):
    world.publish("orders", "order.created")

    assertions.assert_not_published("orders", routing_key="order.updated")
    with pytest.raises(AssertionError, match="expected none published, saw 1"):
        assertions.assert_not_published("orders", routing_key="order.created")


def test_a_delivery_is_found_with_its_consumer(world, assertions, worker):
    world.publish("orders", "order.created")

    message = assertions.assert_delivered("orders.work", redelivered=False)

    assert message.consumer_tag == "ctag1"
    assert message.delivered_at == world.node.now


def test_a_basic_get_is_a_delivery(world, assertions):
    world.publish("orders", "order.created")
    world.client().get("orders.work")

    assertions.assert_delivered("orders.work", times=1)


def test_a_redelivery_is_distinguished_from_the_first_delivery(world, assertions, worker):
    world.publish("orders", "order.created")
    worker.requeue(1)

    assertions.assert_delivered("orders.work", times=2)
    [again] = assertions.assert_delivered("orders.work", redelivered=True, times=1)
    assert again.delivery_count == 1


def test_an_acknowledgement_is_found(world, assertions, worker):
    world.publish("orders", "order.created", b"1")
    world.publish("orders", "order.created", b"2")
    worker.ack(2)

    assert assertions.assert_acked("orders.work").body == b"2"
    with pytest.raises(AssertionError):
        assertions.assert_acked("orders.work", body="1")


def test_an_automatic_acknowledgement_does_not_count(world, assertions):
    world.client().consume("orders.work", "ctag1", no_ack=True)
    world.publish("orders", "order.created")

    with pytest.raises(
        AssertionError,
        match=r"delivered from 'orders\.work' with no_ack by ctag1 of worker, so no client acknowledged it",
    ):
        assertions.assert_acked("orders.work")


def test_a_requeue_is_found_with_its_reason(world, assertions, worker):
    world.publish("orders", "order.created")
    worker.requeue(1)

    assertions.assert_requeued("orders.work", reason="nacked")
    with pytest.raises(AssertionError, match="reason 'nacked' instead of 'recovered'"):
        assertions.assert_requeued("orders.work", reason="recovered")


def test_a_returned_message_is_found(world, assertions):
    world.exchange("empty")
    world.publish("empty", "order.created", by=world.client(), mandatory=True)

    assertions.assert_returned("empty", routing_key="order.created")
    with pytest.raises(AssertionError):
        assertions.assert_returned("orders")


@pytest.fixture
def publisher(world):
    """A publisher in confirm mode. The queue of the exchange `full` refuses every message."""
    world.exchange("full")
    world.queue("full.work", exchange="full", x_max_length=0, x_overflow="reject-publish")
    client = world.client("shop")
    client.confirm()
    return client


def test_an_accepted_publish_is_confirmed_and_a_refused_one_is_nacked(world, assertions, publisher):
    world.publish("orders", "order.created", b"1", by=publisher)
    world.publish("full", "order.created", b"2", by=publisher)

    assert assertions.assert_confirmed("orders", routing_key="order.*").body == b"1"
    assert [message.body for message in assertions.assert_nacked("full", times=1)] == [b"2"]
    assert [message.body for message in assertions.assert_nacked(times=1)] == [b"2"]


def test_a_nack_of_a_consumer_is_not_a_nack_of_the_broker(world, assertions, worker):
    world.publish("orders", "order.created", b"1", by=world.client("shop"))
    worker.requeue(1)

    with pytest.raises(AssertionError, match="expected at least 1 nacked by the broker, saw none that matches"):
        assertions.assert_nacked("orders")


@pytest.fixture
def graves(world):
    world.exchange("graves", "fanout")
    world.queue("orders.dead", exchange="graves")
    world.queue("doomed", exchange="orders", routing_key="order.doomed", x_dead_letter_exchange="graves")
    client = world.client("worker")
    client.consume("doomed", "ctag1")
    return client


def test_a_dead_letter_is_matched_before_it_died_and_returned_as_it_arrived(world, assertions, graves):
    world.publish("orders", "order.doomed", b'{"id": 7}')
    graves.reject(1)

    letter = assertions.assert_dead_lettered(
        "doomed", to="orders.dead", reason="rejected", exchange="orders", json={"id": 7}
    )

    assert letter.exchange == "graves"
    assert letter.deaths[0].queue == "doomed"


def test_a_dead_letter_in_another_queue_does_not_match(world, assertions, graves):
    world.publish("orders", "order.doomed")
    graves.reject(1)

    with pytest.raises(AssertionError, match=r"it arrived in 'orders.dead' instead of 'orders.work'"):
        assertions.assert_dead_lettered("doomed", to="orders.work")


def test_an_expired_message_without_a_dead_letter_exchange_is_dropped(world, assertions):
    world.queue("short", exchange="orders", x_message_ttl=1000)
    world.publish("orders", "order.created")

    world.elapse(1)

    assertions.assert_dropped("short", reason="expired")


def test_an_expired_message_that_was_dead_lettered_is_not_dropped(world, assertions, graves):
    world.queue("short", exchange="orders", x_message_ttl=1000, x_dead_letter_exchange="graves")
    world.publish("orders", "order.created")

    world.elapse(1)

    assertions.assert_dead_lettered("short", to="orders.dead", reason="expired")
    with pytest.raises(AssertionError, match=r"it was dead-lettered from 'short' \(expired\) to 'orders.dead'"):
        assertions.assert_dropped("short")


def test_a_message_over_the_length_limit_is_dropped(world, assertions):
    world.queue("tiny", exchange="orders", x_max_length=1)
    world.publish("orders", "order.created", b"1")
    world.publish("orders", "order.created", b"2")

    assert assertions.assert_dropped("tiny", reason="maxlen", times=1)[0].body == b"1"


def test_a_message_routed_nowhere_is_dropped_by_its_exchange(world, assertions):
    world.exchange("empty")
    world.publish("empty", "order.created")

    assertions.assert_dropped("empty", reason="no route")
    assertions.assert_dropped(routing_key="order.created")
    with pytest.raises(AssertionError):
        assertions.assert_dropped("orders")


def test_an_empty_queue_has_nothing_ready_and_nothing_unacked(world, assertions, worker):
    assertions.assert_empty("orders.work")
    world.publish("orders", "order.created")

    with pytest.raises(AssertionError, match="0 ready, 1 unacked"):
        assertions.assert_empty("orders.work")
    worker.ack(1)
    assertions.assert_empty("orders.work")


@pytest.mark.parametrize("name", ["assert_delivered", "assert_acked", "assert_requeued", "assert_dead_lettered"])
def test_a_queue_that_never_existed_is_an_error(assertions, name):
    with pytest.raises(
        NotDeclaredError, match=r"queue 'orders.wrok' was never declared .* did you mean 'orders.work'\?"
    ):
        getattr(assertions, name)("orders.wrok")


@pytest.mark.parametrize(
    "name", ["assert_published", "assert_not_published", "assert_returned", "assert_confirmed", "assert_nacked"]
)
def test_an_exchange_that_never_existed_is_an_error(assertions, name):
    with pytest.raises(NotDeclaredError, match=r"exchange 'order' was never declared .* did you mean 'orders'\?"):
        getattr(assertions, name)("order")


def test_the_queue_a_dead_letter_should_arrive_in_has_to_exist(assertions):
    with pytest.raises(NotDeclaredError, match=r"queue 'orders.dead' was never declared"):
        assertions.assert_dead_lettered("orders.work", to="orders.dead")


def test_assert_dropped_with_an_unknown_name_is_an_error(assertions):
    with pytest.raises(NotDeclaredError, match="queue or exchange 'nowhere' was never declared"):
        assertions.assert_dropped("nowhere")


def test_an_unknown_vhost_is_an_error(assertions):
    with pytest.raises(NotDeclaredError, match="virtual host 'prod' does not exist"):
        assertions.assert_not_published("orders", vhost="prod")


def test_a_queue_that_was_deleted_is_still_known(world, assertions, worker):
    world.publish("orders", "order.created")
    worker.ack(1)
    world.vhost.delete_queue("orders.work")

    assertions.assert_acked("orders.work")
    with pytest.raises(AssertionError):
        assertions.assert_requeued("orders.work")


def test_assert_empty_of_a_missing_queue_is_an_error(assertions):
    with pytest.raises(
        NotDeclaredError, match=r"queue 'orders' does not exist in vhost '/'; did you mean 'orders.work'"
    ):
        assertions.assert_empty("orders")


@pytest.mark.parametrize("name", ["assert_acked", "assert_empty"])
def test_the_error_for_an_unknown_name_says_how_long_it_waited(assertions, name):
    with pytest.raises(
        NotDeclaredError,
        match=r"\(waited 0\.5 s\); expected one of orders.work",
    ):
        getattr(assertions, name)("jobs", timeout=0.5)


def test_a_broker_without_a_trace_says_which_option_makes_one(make_world):
    world = make_world(EventRing(level="off"))

    with pytest.raises(EventsMissingError, match=r"this broker records none; use Broker\(record='recent'\)"):
        world.assertions.assert_not_published("orders")


def test_assert_empty_needs_no_trace(make_world):
    make_world(EventRing(level="off")).assertions.assert_empty("orders.work")


@pytest.fixture
def forgetful(make_world):
    world = make_world(EventRing(size=4))
    for number in range(10):
        world.publish("orders", "order.created", str(number).encode())
    return world


def test_an_incomplete_trace_is_an_error(forgetful):
    for question in (
        lambda: forgetful.assertions.assert_not_published("orders", body="0"),
        lambda: forgetful.assertions.assert_published("orders", body="0"),
        lambda: forgetful.assertions.assert_published("orders", times=2),
    ):
        with pytest.raises(
            EventsMissingError,
            match=r"holds only the last 4 events .* call broker\.events\.clear\(\) before the part of the test",
        ):
            question()


def test_an_incomplete_trace_that_holds_the_answer_is_enough(forgetful):
    assert forgetful.assertions.assert_published("orders", body="9").body == b"9"
    with pytest.raises(AssertionError):
        forgetful.assertions.assert_not_published("orders", body="9")


def test_a_cleared_trace_is_complete_again(forgetful):
    forgetful.recorder.clear()

    forgetful.assertions.assert_not_published("orders")


def test_timeout_waits_until_it_happens(world, assertions, worker):
    world.publish("orders", "order.created")
    world.to_come = [lambda: None, lambda: worker.ack(1), pytest.fail]

    assertions.assert_acked("orders.work", timeout=5)

    assert world.waited == 5


def test_timeout_waits_for_a_queue_that_does_not_exist_yet(world, assertions):
    client = world.client()
    world.to_come = [
        lambda: world.queue("late", exchange="orders"),
        lambda: client.consume("late", "ctag1"),
        lambda: world.publish("orders", "order.created"),
    ]

    assertions.assert_delivered("late", timeout=5)


def test_timeout_and_times_wait_for_exactly_that_many(world, assertions):
    world.to_come = [lambda: world.publish("orders", "order.created")] * 2

    assert len(assertions.assert_published("orders", times=2, timeout=5)) == 2


def test_a_timeout_is_an_ordinary_failure(assertions):
    with pytest.raises(AssertionError, match="expected at least 1 acked, saw none that matches within 500 ms"):
        assertions.assert_acked("orders.work", timeout=0.5)


def test_assert_not_published_with_a_timeout_fails_at_once_if_it_is_published(world, assertions):
    world.to_come = [lambda: world.publish("orders", "order.created"), pytest.fail]

    with pytest.raises(AssertionError, match="expected none published, saw 1 within 5 s"):
        assertions.assert_not_published("orders", timeout=5)


def test_assert_empty_can_wait(world, assertions, worker):
    world.publish("orders", "order.created")
    world.to_come = [lambda: worker.ack(1), pytest.fail]

    assertions.assert_empty("orders.work", timeout=5)


def test_each_event_is_looked_at_once_while_waiting(world, assertions):
    looks = []

    class Counting(str):
        def __eq__(self, other):
            looks.append(other)
            return str(self) == other

        __hash__ = str.__hash__

    world.to_come = [lambda: world.publish("orders", "order.created", b"")] * 5
    world.to_come.append(lambda: world.publish("orders", "order.updated", b""))

    assertions.assert_published("orders", routing_key=Counting("order.updated"), timeout=5)

    assert looks == ["order.created"] * 5 + ["order.updated"]


def test_every_assertion_hides_its_own_frames(world, assertions):
    with pytest.raises(AssertionError) as failure:
        assertions.assert_published("orders")

    frames = [
        entry for entry in failure.traceback if "assertions.py" in str(entry.path) and "test_" not in str(entry.path)
    ]
    assert frames
    assert all(entry.frame.f_locals.get("__tracebackhide__") for entry in frames)


def test_the_names_of_events_are_those_of_the_core():
    from leveret.observe.assertions.searching import HAPPENINGS

    assert all(kind in events.KINDS for row in HAPPENINGS.values() for kind in row.kinds)


def test_what_happened_before_the_test_began_does_not_count(world, assertions):
    world.begin_test("test_a")
    world.publish("orders", "order.created", b"1")
    world.begin_test("test_b")

    assertions.assert_not_published("orders")
    world.publish("orders", "order.created", b"2")
    assert [message.body for message in assertions.assert_published("orders", times=1)] == [b"2"]


def test_a_message_of_an_earlier_test_that_dies_in_this_one_counts_with_where_it_arrived(world, assertions, graves):
    world.begin_test("test_a")
    world.publish("orders", "order.doomed", b"1")
    world.begin_test("test_b")
    graves.reject(1)

    assert assertions.assert_dead_lettered("doomed", to="orders.dead", times=1)[0].deaths[0].queue == "doomed"


def test_a_trace_that_reaches_back_to_the_beginning_of_the_test_is_long_enough(make_world):
    world = make_world(EventRing(size=4))
    for _ in range(4):
        world.publish("orders", "order.created", b"1")
    world.begin_test("test_b")

    world.assertions.assert_not_published("orders")


def test_a_dead_letter_in_another_queue_is_nearer_than_a_message_that_reached_none(leveret) -> None:
    leveret.allow("unroutable")
    leveret.declare_queue("dead")
    leveret.declare_queue(
        "jobs", arguments={"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    leveret.publish("", "jobs", "died")
    leveret.publish("", "nowhere", "lost")

    with pytest.raises(AssertionError, match=r"nearest: #1 .*\n  differs: it arrived in 'dead' instead of 'jobs'"):
        leveret.assert_dead_lettered("jobs", to="jobs")


def test_a_message_that_expired_was_published():
    with Broker() as broker:
        broker.declare_queue("orders")
        broker.publish("", "orders", b"7", expiration="1000")
        broker.clock.advance(1)
        broker.publish("", "orders", b"8")

        assert broker.assert_published("", body=b"7").expiration == "1000"
