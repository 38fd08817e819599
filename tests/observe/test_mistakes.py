"""Every assertion with every single mistake in it: the failure leads to the message that the test means.

Each case makes three messages that have come to the same end. The assertion asks for the second, with one mistake: in
what it asks for, or in what happened to that message. The failure has to name the message by its number, say what
differs, and say what became of it, in at most twelve lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from leveret.observe.assertions.assertions import Assertions
from leveret.trace.ring import EventRing

MEANT = 2
LINES_MAX = 12

# What the assertion asks for, which is what the second message is.
KEY = "order.paid"
JSON = {"id": 7, "customer": {"name": "Ada"}}
BODY = b'{"id": 7, "customer": {"name": "Ada"}}'
ASKED: dict[str, Any] = {
    "routing_key": KEY,
    "json": JSON,
    "headers": {"tenant": "eu"},
    "correlation_id": "c-7",
}


class Scene:
    """The world with a shop: three messages on their way to the queue `orders`."""

    def __init__(self, world: Any) -> None:
        self.world = world
        world.exchange("other")
        world.exchange("shop")
        world.exchange("graves", "fanout")
        world.queue("dead", exchange="graves")
        world.queue("billing")
        world.queue("parked")
        self.publisher, self.worker = world.client("publisher"), world.client("worker")

    def declare(self, **arguments: object) -> None:
        self.world.queue("orders", exchange="shop", routing_key="order.*", **arguments)

    def publish(self, *, mandatory: bool = False, by: Any = None) -> None:
        """Publish the three messages; the first and the third are others than the one that is meant."""
        options = {"by": by or self.publisher, "mandatory": mandatory}
        others = {"headers": {"tenant": "us"}, "correlation_id": "c-1", "priority": 3}
        self.world.publish("shop", "order.created", b'{"id": 1, "customer": {"name": "Bob"}}', **options, **others)
        self.world.publish("shop", KEY, BODY, **options, headers={"tenant": "eu"}, correlation_id="c-7")
        self.world.publish("shop", "order.updated", b'{"id": 3, "total": 12}', **options, **others)

    def take(self, *settle: Callable[[int], None]) -> None:
        """Take the three messages, and settle each as told."""
        for _ in range(3):
            self.worker.get("orders")
        for tag, act in enumerate(settle, 1):
            act(tag)
        self.world.node.run_work()


class Outcome(NamedTuple):
    """A row of the table: how messages come to what an assertion asks for, and how that is said."""

    # The assertion, and its first argument.
    name: str
    place: str
    # Lets all three messages come to it.
    right: Callable[[Scene], None]
    became: str
    # The same for the others, while the message that is meant comes to another end; and what is said then.
    wrong: Callable[[Scene], None] | None = None
    wrongly: str = ""
    # The same, while nothing has happened yet to the message that is meant.
    early: Callable[[Scene], None] | None = None
    waiting: str = ""
    extra: dict[str, Any] = {}  # noqa: RUF012


def published(scene: Scene) -> None:
    scene.declare()
    scene.publish()


def returned(scene: Scene) -> None:
    scene.publish(mandatory=True)


def confirmed(scene: Scene) -> None:
    scene.publisher.confirm()
    published(scene)


def confirmed_but_one(scene: Scene) -> None:
    """Have the second message published on a channel that is not in confirm mode."""
    scene.declare()
    scene.publisher.confirm()
    plain, confirming = scene.world.client("plain"), scene.publisher
    publish = scene.world.publish

    def published_by(*arguments: Any, by: Any, **options: Any) -> None:
        publish(*arguments, by=plain if arguments[1] == KEY else confirming, **options)

    scene.world.publish = published_by
    scene.publish()


def confirmed_too_early(scene: Scene) -> None:
    """Have the second message published, and its confirm not sent yet."""
    scene.declare()
    scene.publisher.confirm()
    flush = scene.publisher.channel.flush_confirms
    scene.publisher.channel = Unanswered(scene.publisher.channel, flush)
    scene.publish()


class Unanswered:
    """A channel that keeps back the confirms of everything after its first publish."""

    def __init__(self, channel: Any, flush: Callable[[], None]) -> None:
        self._channel = channel
        self._flush = flush
        self._count = 0

    def flush_confirms(self) -> None:
        self._count += 1
        if self._count == 1:
            self._flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


def nacked(scene: Scene) -> None:
    scene.declare(x_max_length=0, x_overflow="reject-publish")
    scene.publisher.confirm()
    scene.publish()


def delivered(scene: Scene) -> None:
    published(scene)
    scene.take()


def purged(scene: Scene) -> None:
    """Have the first message delivered, and the others purged."""
    published(scene)
    scene.worker.get("orders")
    scene.world.vhost.queues["orders"].purge()


def ready(scene: Scene) -> None:
    published(scene)
    scene.worker.get("orders")


def acked(scene: Scene) -> None:
    published(scene)
    scene.take(*[scene.worker.ack] * 3)


def settled(*names: str, **arguments: object) -> Callable[[Scene], None]:
    """Return what settles the three messages as named; "" leaves one unacked."""

    def act(scene: Scene) -> None:
        scene.declare(**arguments)
        scene.publish()
        scene.take(*[getattr(scene.worker, name) if name else lambda tag: None for name in names])

    return act


DLX = {"x_dead_letter_exchange": "graves"}
UNACKED = "is unacked in 'orders', held by a basic.get of worker; to wait for it, pass timeout="

OUTCOMES = (
    Outcome("published", "shop", published, "is still ready in 'orders'"),
    Outcome(
        "returned",
        "shop",
        returned,
        "was returned, no route: 'shop' has no bindings",
        wrong=lambda scene: scene.publish(),
        wrongly="was dropped, no route: 'shop' has no bindings",
    ),
    Outcome(
        "confirmed",
        "shop",
        confirmed,
        "was confirmed; it is still ready in 'orders'",
        wrong=confirmed_but_one,
        wrongly="was not confirmed: its channel is not in confirm mode",
        early=confirmed_too_early,
        waiting="was neither confirmed nor nacked",
    ),
    Outcome(
        "nacked",
        "shop",
        nacked,
        "was nacked by the broker; it reached no queue",
        wrong=confirmed,
        wrongly="was confirmed; it is still ready in 'orders'",
    ),
    Outcome(
        "delivered",
        "orders",
        delivered,
        "is unacked in 'orders', held by a basic.get of worker",
        wrong=purged,
        wrongly="was purged from 'orders'",
        early=ready,
        waiting="is still ready in 'orders', which has no consumers",
    ),
    Outcome(
        "acked",
        "orders",
        acked,
        "was acked in 'orders' by a basic.get of worker",
        wrong=settled("ack", "requeue", "ack"),
        wrongly="was nacked with requeue and is ready again in 'orders' after 1 delivery attempt",
        early=settled("ack", "", "ack"),
        waiting=UNACKED,
    ),
    Outcome(
        "requeued",
        "orders",
        settled("requeue", "requeue", "requeue"),
        "was nacked with requeue and is ready again in 'orders' after 1 delivery attempt",
        wrong=settled("requeue", "ack", "requeue"),
        wrongly="was acked in 'orders' by a basic.get of worker",
        early=settled("requeue", "", "requeue"),
        waiting=UNACKED,
        extra={"reason": "nacked"},
    ),
    Outcome(
        "dead_lettered",
        "orders",
        settled("reject", "reject", "reject", **DLX),
        "was dead-lettered from 'orders' (rejected) by a basic.get of worker to 'dead'",
        wrong=settled("reject", "requeue", "reject", **DLX),
        wrongly="was nacked with requeue and is ready again in 'orders' after 1 delivery attempt",
        early=settled("reject", "", "reject", **DLX),
        waiting=UNACKED,
        extra={"reason": "rejected", "to": "dead"},
    ),
    Outcome(
        "dropped",
        "orders",
        settled("reject", "reject", "reject"),
        "was dropped from 'orders' (rejected) by a basic.get of worker (the queue has no dead-letter exchange)",
        wrong=settled("reject", "ack", "reject"),
        wrongly="was acked in 'orders' by a basic.get of worker",
        early=settled("reject", "", "reject"),
        waiting=UNACKED,
        extra={"reason": "rejected"},
    ),
)

# One mistake in what is asked for, and the words that say what differs. None takes a keyword away.
IN_CONTENT: dict[str, tuple[dict[str, Any], str]] = {
    "another key": ({"routing_key": "order.payed"}, "routing key 'order.paid' instead of 'order.payed'"),
    "a pattern that does not fit": (
        {"routing_key": "order.*.paid"},
        "routing key 'order.paid' instead of 'order.*.paid'",
    ),
    "another body": (
        {"json": None, "body": b'{"id": 7}'},
        """body '{"id": 7, "customer": {"name": "Ada"}}' instead of '{"id": 7}'""",
    ),
    "the message has one key more": (
        {"json": {"id": 7}},
        "JSON also has 'customer' (json_contains= ignores further keys)",
    ),
    "the message has a nested key more": (
        {"json": {"id": 7, "customer": {}}},
        "JSON['customer'] also has 'name' (json_contains= ignores further keys)",
    ),
    "the message has one key less": ({"json": {**JSON, "total": 3}}, "JSON has no 'total'"),
    "the message has another value": ({"json": {**JSON, "id": 8}}, "JSON['id'] is 7 instead of 8"),
    "the message has another nested value": (
        {"json": {"id": 7, "customer": {"name": "Eve"}}},
        "JSON['customer']['name'] is 'Ada' instead of 'Eve'",
    ),
    "a part that the message lacks": ({"json": None, "json_contains": {"id": 7, "vip": True}}, "JSON has no 'vip'"),
    "another header": ({"headers": {"tenant": "uk"}}, "header 'tenant' 'eu' instead of 'uk'"),
    "a header that is missing": ({"headers": {"tenant": "eu", "trace": "t"}}, "header 'trace' is missing"),
    "another property": ({"correlation_id": "c-8"}, "correlation id 'c-7' instead of 'c-8'"),
    "a property that is missing": ({"reply_to": "answers"}, "reply to None instead of 'answers'"),
}


class Case(NamedTuple):
    """One assertion with one mistake."""

    outcome: Outcome
    act: Callable[[Scene], None]
    place: str
    options: dict[str, Any]
    differs: str
    became: str


def cases() -> Iterator[Any]:
    for outcome in OUTCOMES:
        for mistake, case in cases_of(outcome):
            yield pytest.param(case, id=f"{outcome.name}: {mistake}")


def cases_of(outcome: Outcome) -> Iterator[tuple[str, Case]]:
    right = {**ASKED, **outcome.extra}
    words = outcome.name.replace("_", "-") + (" by the broker" if outcome.name == "nacked" else "")

    def case(differs: str, *, place: str = outcome.place, **options: Any) -> Case:
        asked = {name: value for name, value in {**right, **options}.items() if value is not None}
        return Case(outcome, outcome.right, place, asked, differs, outcome.became)

    for mistake, (options, differs) in IN_CONTENT.items():
        yield mistake, case(differs, **options)
    if outcome.place == "orders":
        yield "another queue", case("queue 'orders' instead of 'billing'", place="billing")
        yield "another exchange", case("exchange 'shop' instead of 'other'", exchange="other")
    else:
        yield "another exchange", case("exchange 'shop' instead of 'other'", place="other")
    if "reason" in outcome.extra:
        given = outcome.extra["reason"]
        other = "recovered" if outcome.name == "requeued" else "expired"
        yield "another reason", case(f"reason {given!r} instead of {other!r}", reason=other)
    if "to" in outcome.extra:
        yield "another target", case("it arrived in 'dead' instead of 'parked'", to="parked")
    yield "happened once, asked for twice", case(f"expected exactly 2 {words}, saw 1", times=2)
    yield "happened once, asked for never", case(f"expected none {words}, saw 1", times=0)
    if outcome.wrong is not None:
        options = case("").options
        yield (
            "another outcome",
            Case(outcome, outcome.wrong, outcome.place, options, f"it was not {words}", outcome.wrongly),
        )
    if outcome.early is not None:
        options = case("").options
        yield "too early", Case(outcome, outcome.early, outcome.place, options, f"it was not {words}", outcome.waiting)


def failure_of(assertions: Assertions, case: Case) -> list[str]:
    with pytest.raises(AssertionError) as caught:
        getattr(assertions, f"assert_{case.outcome.name}")(case.place, **case.options)
    return str(caught.value).splitlines()


CASES = list(cases())


def test_there_are_about_as_many_cases_as_assertions_times_mistakes() -> None:
    assert len(CASES) + len(OUTCOMES) + 1 > 150


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_leads_to_the_message_that_is_meant(world: Any, case: Case) -> None:
    case.act(Scene(world))

    lines = failure_of(world.assertions, case)

    assert len(lines) <= LINES_MAX
    if case.options.get("times") == 2:
        assert case.differs in lines[0]
        assert lines[1].startswith("nearest: ")
        assert any(line.endswith(f": #{MEANT}") for line in lines[2:]), lines
        return
    named = [line for line in lines[1:] if "#" in line]
    assert f"#{MEANT} " in named[0], lines
    described = lines if case.options.get("times") is not None else lines[: lines.index(named[0]) + 3]
    assert any(case.differs in line for line in described), lines
    assert any(case.became in line for line in described), lines


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.name)
def test_without_a_mistake_it_holds(world: Any, outcome: Outcome) -> None:
    outcome.right(Scene(world))

    assert getattr(world.assertions, f"assert_{outcome.name}")(outcome.place, **ASKED, **outcome.extra).json == JSON


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.name)
def test_a_message_on_the_other_broker_is_named_with_that_broker(
    world: Any, make_world: Callable[[EventRing], Any], outcome: Outcome
) -> None:
    other = make_world(EventRing())
    other.name, world.name, world.neighbours = "the broker on port 2", "the broker on port 1", [other]
    outcome.right(Scene(other))
    Scene(world).declare()
    world.publish("shop", "order.created", b'{"id": 1}')

    lines = failure_of(
        world.assertions, Case(outcome, outcome.right, outcome.place, {**ASKED, **outcome.extra}, "", "")
    )

    assert len(lines) <= LINES_MAX
    assert lines[1].startswith(f"nearest, on the broker on port 2: #{MEANT} (")
    assert lines[2] == "  differs: it was on the broker on port 2, and this assertion is about the broker on port 1"
    assert outcome.became in lines[3]


def test_what_was_published_against_expectation_is_named(world: Any) -> None:
    published(Scene(world))

    with pytest.raises(AssertionError) as caught:
        world.assertions.assert_not_published("shop", **ASKED)

    (title, line) = str(caught.value).splitlines()
    assert title.endswith("expected none published, saw 1")
    assert f"#{MEANT} " in line
    assert "it is still ready in 'orders'" in line


def test_what_is_left_in_a_queue_is_named(world: Any) -> None:
    settled("ack", "", "requeue")(Scene(world))

    with pytest.raises(AssertionError) as caught:
        world.assertions.assert_empty("orders")

    (title, ready, unacked, _) = str(caught.value).splitlines()
    assert title == "assert_empty('orders'): 1 ready, 1 unacked"
    assert ready.startswith("  ready: #3 (")
    assert unacked.startswith(f"  unacked: #{MEANT} (")
    assert unacked.endswith("held by a basic.get of worker")
