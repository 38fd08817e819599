"""Dead letters: when, where to, with which history, and that no chain of them recurses."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from leveret.core.model.dead_letters import dead_letter
from leveret.core.model.dead_letters.death import Death
from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.queue import Queue
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Table
from tests.model.world import SECOND, Inbox, World, bodies, consume, discard, give_back, headers_of, inbox, take


@pytest.fixture
def world() -> World:
    return World()


def doomed(world: World, name: str = "q", to: str = "grave", **arguments: object) -> Queue:
    """Declare a queue that dead-letters to another through the default exchange."""
    return world.queue(name, dead_letter_exchange="", dead_letter_routing_key=to, **arguments)


def deaths_of(world: World, queue_name: str = "grave") -> list[dict[str, object]]:
    (entry,) = world.vhost.queues[queue_name].ready
    found = headers_of(entry)["x-death"]
    assert isinstance(found, list)
    return found


def test_a_rejected_message_goes_to_the_dead_letter_exchange(world: World) -> None:
    queue, grave = doomed(world), world.queue("grave")
    world.fill(queue, b"1")

    discard(queue, *take(queue))

    (entry,) = grave.ready
    assert (entry.message.body, entry.message.exchange, entry.message.routing_key) == (b"1", "", "grave")


def test_a_dead_letter_keeps_the_number_of_its_message_and_names_its_source(world: World) -> None:
    queue, grave = doomed(world), world.queue("grave")
    world.fill(queue, b"1")
    (entry,) = take(queue)

    discard(queue, entry)

    (heir,) = grave.ready
    assert heir.message.id == entry.message.id
    assert heir.copy != entry.copy
    assert [event.src_copy for event in world.events("enqueued")] == [None, entry.copy]


def test_the_event_of_a_death_names_the_destination(world: World) -> None:
    queue = doomed(world)
    world.queue("grave")
    world.fill(queue, b"1")

    discard(queue, *take(queue))

    (event,) = world.events("dead_lettered")
    assert (event.queue, event.reason, event.exchange, event.routing_key) == ("q", "rejected", "", "grave")


def test_without_a_routing_key_of_the_queue_the_message_keeps_all_its_keys(world: World) -> None:
    world.vhost.declare_exchange("dlx", "direct")
    queue = world.queue(dead_letter_exchange="dlx")
    for name, key in (("by key", "q"), ("by cc", "copy")):
        world.queue(name)
        world.bind("dlx", name, key)
    world.fill(queue, b"1", headers={"CC": ["copy"]})

    discard(queue, *take(queue))

    assert [len(world.vhost.queues[name].ready) for name in ("by key", "by cc")] == [1, 1]


def test_the_first_death_is_recorded_exactly(world: World) -> None:
    queue = doomed(world)
    world.queue("grave")
    world.elapse(7500)
    world.fill(queue, b"1", expiration="60000")

    discard(queue, *take(queue))

    (entry,) = world.vhost.queues["grave"].ready
    assert list(headers_of(entry).items()) == [
        (
            "x-death",
            [
                {
                    "original-expiration": "60000",
                    "count": 1,
                    "reason": "rejected",
                    "queue": "q",
                    "time": datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC),
                    "exchange": "",
                    "routing-keys": ["q"],
                }
            ],
        ),
        ("x-first-death-exchange", ""),
        ("x-first-death-queue", "q"),
        ("x-first-death-reason", "rejected"),
        ("x-last-death-exchange", ""),
        ("x-last-death-queue", "q"),
        ("x-last-death-reason", "rejected"),
    ]


def test_the_fields_of_a_death_have_rabbitmqs_order_and_types(world: World) -> None:
    queue = doomed(world)
    world.queue("grave")
    world.fill(queue, b"1")

    discard(queue, *take(queue))

    (entry,) = world.vhost.queues["grave"].ready
    assert entry.message.headers is not None
    field = entry.message.headers.get("x-death")
    assert field is not None
    assert isinstance(field.value, tuple)
    assert isinstance(field.value[0].value, Table)
    assert [(name, value.tag) for name, value in field.value[0].value] == [
        ("count", "l"),
        ("reason", "S"),
        ("queue", "S"),
        ("time", "T"),
        ("exchange", "S"),
        ("routing-keys", "A"),
    ]


def test_a_second_death_of_the_same_kind_counts_and_keeps_its_first_time(world: World) -> None:
    first, second = doomed(world, "a", to="b"), doomed(world, "b", to="a")
    world.publish(b"1", "a")
    world.elapse(1000)
    discard(first, *take(first))
    world.elapse(1000)
    discard(second, *take(second))
    world.elapse(1000)

    discard(first, *take(first))

    recorded = [(death["queue"], death["count"], death["time"]) for death in deaths_of(world, "b")]
    assert recorded == [
        ("a", 2, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("b", 1, datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)),
    ]


def test_the_first_death_stays_the_first_and_the_last_is_the_last(world: World) -> None:
    first, second = doomed(world, "a", to="b"), doomed(world, "b")
    world.queue("grave")
    world.publish(b"1", "a")
    discard(first, *take(first))

    discard(second, *take(second))

    (entry,) = world.vhost.queues["grave"].ready
    headers = headers_of(entry)
    assert (headers["x-first-death-queue"], headers["x-last-death-queue"]) == ("a", "b")


def test_an_x_death_that_a_client_publishes_is_ignored(world: World) -> None:
    queue = doomed(world)
    world.queue("grave")
    world.fill(queue, b"1", headers={"x-death": [{"queue": "q", "reason": "rejected", "count": 7}]})

    discard(queue, *take(queue))

    assert [death["count"] for death in deaths_of(world)] == [1]


def test_before_version_4_counts_continue_a_published_x_death() -> None:
    world = World("3.10")
    queue = doomed(world)
    world.queue("grave")
    world.fill(queue, b"1", headers={"x-death": [{"queue": "q", "reason": "rejected", "count": 7}]})

    discard(queue, *take(queue))

    assert [death["count"] for death in deaths_of(world)] == [8]


def test_expiration_is_removed_so_that_a_dead_letter_does_not_die_again(world: World) -> None:
    queue = doomed(world)
    grave = world.queue("grave")
    world.fill(queue, b"1", expiration="100")

    world.elapse(100)
    world.elapse(10_000)

    (entry,) = grave.ready
    assert entry.message.properties.expiration is None
    assert [death["original-expiration"] for death in deaths_of(world)] == ["100"]


def test_a_missing_dead_letter_exchange_drops_the_message_silently(world: World) -> None:
    queue = world.queue(dead_letter_exchange="nowhere")
    world.fill(queue, b"1")

    discard(queue, *take(queue))

    assert [event.kind for event in world.events("dead_lettered", "dropped")] == ["dropped"]


def test_a_dead_letter_exchange_is_looked_up_at_the_moment_of_death(world: World) -> None:
    queue = world.queue(dead_letter_exchange="late")
    grave = world.queue("grave")
    world.fill(queue, b"1")
    world.vhost.declare_exchange("late", "fanout")
    world.bind("late", "grave")

    discard(queue, *take(queue))

    assert bodies(grave.ready) == [b"1"]


def test_dead_letters_of_several_messages_keep_their_order(world: World) -> None:
    queue = doomed(world)
    grave = world.queue("grave")
    world.fill(queue, b"1", b"2", b"3")

    discard(queue, *take(queue, 3))

    assert bodies(grave.ready) == [b"1", b"2", b"3"]


def test_neither_purge_nor_deletion_dead_letters(world: World) -> None:
    queue = doomed(world)
    grave = world.queue("grave")
    world.fill(queue, b"1", b"2")
    queue.purge()
    world.fill(queue, b"3")

    queue.delete()
    world.node.run_work()

    assert not grave.ready


def test_an_expiry_loop_ends_after_one_round(world: World) -> None:
    queue = doomed(world, to="q", message_ttl=100)
    world.fill(queue, b"1")

    world.elapse(1000)

    assert not queue.ready
    assert len(world.events("dead_lettered")) == 1


def test_an_expiry_loop_over_two_queues_ends_where_it_began(world: World) -> None:
    doomed(world, "a", to="b", message_ttl=100)
    doomed(world, "b", to="a", message_ttl=100)
    world.publish(b"1", "a")

    world.elapse(1000)

    assert [event.queue for event in world.events("enqueued")] == ["a", "b"]


def test_a_rejection_on_the_way_lets_a_loop_continue(world: World) -> None:
    work = doomed(world, "work", to="wait")
    doomed(world, "wait", to="work", message_ttl=1000)
    world.publish(b"1", "work")

    counts = []
    for _ in range(3):
        discard(work, *take(work))
        world.elapse(1000)
        counts.append([(death["queue"], death["count"]) for death in deaths_of(world, "work")])

    assert counts == [[("wait", number), ("work", number)] for number in (1, 2, 3)]


def test_a_rejected_message_may_come_back_to_its_own_queue(world: World) -> None:
    queue = doomed(world, to="q")
    world.fill(queue, b"1")

    discard(queue, *take(queue))

    assert bodies(queue.ready) == [b"1"]


@pytest.mark.parametrize(
    ("reason", "history", "is_cycle"),
    [
        ("expired", [("q", "expired")], True),
        ("maxlen", [("other", "expired"), ("q", "expired")], True),
        ("expired", [("other", "expired")], False),
        ("expired", [("other", "rejected"), ("q", "expired")], False),
        ("expired", [("q", "rejected")], False),
        ("rejected", [("q", "expired")], False),
        ("expired", [], False),
    ],
)
def test_a_cycle_is_a_queue_of_an_earlier_death_without_a_rejection_since(
    world: World, reason: str, history: list[tuple[str, str]], is_cycle: bool
) -> None:
    deaths = tuple(Death(queue, why, 1, 0, "", ("q",), None) for queue, why in history)
    message = Message(1, "", "q", Properties(), b"\0\0", b"1", ("q",), deaths=deaths)

    assert dead_letter.closes_cycle(message, "q", reason) is is_cycle


def test_only_the_queue_that_closes_the_cycle_is_skipped(world: World) -> None:
    world.vhost.declare_exchange("dlx", "fanout")
    queue, other = world.queue(dead_letter_exchange="dlx", message_ttl=100), world.queue("other")
    for name in ("q", "other"):
        world.bind("dlx", name)
    world.fill(queue, b"1")

    world.elapse(100)

    assert (bodies(queue.ready), bodies(other.ready)) == ([], [b"1"])


def test_a_rejected_message_is_redelivered_in_its_next_queue(world: World) -> None:
    queue, grave = doomed(world), world.queue("grave")
    world.fill(queue, b"rejected", b"nacked")
    rejected, nacked = take(queue, 2)

    discard(queue, rejected, is_failure=True)
    discard(queue, nacked)

    assert [entry.redelivered for entry in grave.ready] == [True, False]


def test_a_rejected_message_that_goes_straight_to_a_consumer_is_not_redelivered(world: World) -> None:
    queue, grave = doomed(world), world.queue("grave")
    consumer = consume(grave)
    world.fill(queue, b"1")

    discard(queue, *take(queue), is_failure=True)

    assert [entry.redelivered for entry in inbox(consumer)] == [False]


def test_before_version_4_no_dead_letter_is_redelivered() -> None:
    world = World("3.10")
    queue, grave = doomed(world), world.queue("grave")
    world.fill(queue, b"1")

    discard(queue, *take(queue), is_failure=True)

    assert [entry.redelivered for entry in grave.ready] == [False]


def test_hidden_keys_route_a_dead_letter_and_are_not_recorded(world: World) -> None:
    world.vhost.declare_exchange("dlx", "direct")
    queue, grave = world.queue(dead_letter_exchange="dlx"), world.queue("grave")
    world.bind("dlx", "grave", "hidden")
    queue.enqueue(Message(1, "", "q", Properties(), b"\0\0", b"1", ("q", "hidden"), hidden_keys=("hidden",)))

    discard(queue, *take(queue))

    assert bodies(grave.ready) == [b"1"]
    assert [death["routing-keys"] for death in deaths_of(world)] == [["q"]]


def test_a_chain_of_queues_is_walked_without_recursion(world: World) -> None:
    length = 300
    for number in range(length):
        doomed(world, f"q{number}", to=f"q{number + 1}", max_length=0)
    last = world.queue(f"q{length}")

    with little_stack(60):
        world.publish(b"1", "q0")

    (entry,) = last.ready
    assert len(entry.message.deaths) == length


def calls_of_a_chain(length: int) -> int:
    """Return the number of Python calls for one publish into a chain of queues, and for reading what arrives."""
    world = World()
    for number in range(length):
        doomed(world, f"q{number}", to=f"q{number + 1}", message_ttl=0)
    last, calls = world.queue(f"q{length}"), 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        world.publish(b"1", "q0")
        (entry,) = last.ready
        assert entry.message.properties_octets.count(b"routing-keys") == length
    finally:
        sys.setprofile(None)
    return calls


def test_a_chain_of_dead_letters_costs_what_it_is_long() -> None:
    assert calls_of_a_chain(400) < 2.1 * calls_of_a_chain(200)


def test_ten_thousand_deaths_in_a_row_do_not_recurse(world: World) -> None:
    queue = doomed(world, to="q")
    consumer = consume(queue, Rejecting(10_000))

    with little_stack(60):
        world.publish(b"1")

    entry = inbox(consumer)[-1]
    assert [(death.queue, death.death_count) for death in entry.message.deaths] == [("q", 10_000)]


class Rejecting(Inbox):
    """A subscriber that rejects its first deliveries at once, `count` times."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.left = count

    def deliver(self, consumer: Consumer, entry: QueueEntry) -> None:
        super().deliver(consumer, entry)
        if self.left:
            self.left -= 1
            consumer.queue.discard(entry, consumer, is_failure=True)


@contextmanager
def little_stack(depth: int) -> Iterator[None]:
    """Allow at most `depth` nested calls below this one."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + depth)
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def test_a_dead_letter_is_routed_later_and_not_at_once(world: World) -> None:
    queue, grave = doomed(world), world.queue("grave")
    world.fill(queue, b"1")

    queue.discard(take(queue)[0], None, is_failure=False)
    at_once = len(grave.ready)
    world.node.run_work()

    assert (at_once, len(grave.ready)) == (0, 1)


def test_a_requeued_message_past_its_deadline_is_dead_lettered_as_expired(world: World) -> None:
    queue = doomed(world, message_ttl=1000)
    world.queue("grave")
    world.fill(queue, b"1")
    entries = take(queue)
    world.node.advance(2 * SECOND, 0)

    give_back(queue, *entries)
    world.node.run_work()

    assert [death["reason"] for death in deaths_of(world)] == ["expired"]
