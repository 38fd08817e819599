"""The near misses of an assertion: the messages of a test that come closest to what the assertion asks for.

Every message counts, whatever became of it: one that differs in a key, one in another queue, and one to which something
else happened. A near miss says first what differs and then what became of the message. Fewer and smaller differences
are nearer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, cast

from leveret.core.model.message import Message
from leveret.core.model.node import Node
from leveret.observe.assertions.history import Histories, message_of
from leveret.observe.assertions.matching import Criterion, is_equal, value_distance
from leveret.observe.assertions.searching import Question
from leveret.observe.texts.routes import ways_to, why_not_there
from leveret.observe.views.message_view import MessageView
from leveret.observe.views.names import existing_queue
from leveret.story.entities import CopyLife, MessageLife
from leveret.story.failure import Differing, Near, Stand
from leveret.trace import events
from leveret.trace.events import Event
from leveret.wording import safe_text

# What a difference costs at least, and what it costs more the further apart the values are.
_DIFFERENT: Final = 0.2
_FAR: Final = 0.8
# It was dead-lettered as asked, only to another queue: nearer than a message that was never there.
_FAR_TARGET: Final = 0.1
_ANOTHER_OUTCOME: Final = 0.3
_ANOTHER_REASON: Final = 0.3
_ANOTHER_VHOST: Final = 0.3
# It is in another queue, and the outcome there differs too.
_ALSO_ANOTHER_OUTCOME: Final = 0.2
_NEVER_THERE: Final = 0.4
_ANOTHER_BROKER: Final = 0.3
_DESCRIBED: Final = 3


class NearMiss(NamedTuple):
    """A message that an assertion may be about."""

    distance: float
    # What came near, as values. Its broker is another one of the test, on which it happened.
    facts: Near
    # The message, what differs, and what became of it.
    named: str
    differs: str
    became: str
    # Whether the message may still do what the assertion asks for.
    is_early: bool

    def lines(self, word: str) -> list[str]:
        """Return the near miss as text; `word` introduces it: "nearest"."""
        where = "" if self.facts.broker is None else f", on {self.facts.broker}"
        return [f"{word}{where}: {self.named}", f"  differs: {self.differs}", f"  it {self.became}"]

    def on(self, broker: str, own: str, *, is_unused: bool = False) -> NearMiss:
        """Return the near miss as one of another broker than the assertion's own, to which no client may have come."""
        further = f"; {self.differs}" if self.differs else ""
        unused = ", to which no client connected" if is_unused else ""
        differs = f"it was on {broker}, and this assertion is about {own}{unused}{further}"
        facts = self.facts._replace(broker=broker, differs=(Differing("broker"), *self.facts.differs))
        return self._replace(distance=self.distance + _ANOTHER_BROKER, facts=facts, differs=differs, is_early=False)


class MessageDifference(NamedTuple):
    """Something in which a message differs from the question, and its weight.

    A criterion words its own difference. It is asked only for the nearest messages, and so is what it found.
    """

    distance: float
    what: str
    expected: object = None
    found: object = None
    text: str = ""
    criterion: tuple[Criterion, MessageView] | None = None

    def __str__(self) -> str:
        if self.criterion is not None:
            criterion, view = self.criterion
            return criterion.why_not(view)
        return self.text or f"{self.what} {safe_text(self.found)} instead of {safe_text(self.expected)}"

    @property
    def facts(self) -> Differing:
        """The difference as values."""
        if self.criterion is None:
            return Differing(self.what, self.expected, self.found)
        criterion, view = self.criterion
        return Differing(criterion.name, criterion.expected, criterion.found(view))


class Nearest:
    """The near misses of a question in one broker. The caller holds the broker's lock."""

    def __init__(self, question: Question, histories: Histories, node: Node) -> None:
        self._question: Final = question
        self._histories: Final = histories
        self._node: Final = node

    def misses(self, *, with_matches: bool = False) -> list[NearMiss]:
        """Return the nearest messages, the nearest first; with matches if they are another broker's."""
        compared = [(history, *self._closest(history)) for history in self._histories.recent]
        near = [candidate for candidate in compared if candidate[1] or with_matches]
        near.sort(key=lambda candidate: _distance(candidate[1]))
        return [self._near_miss(*candidate) for candidate in near[:_DESCRIBED]]

    def _near_miss(self, history: MessageLife, differences: list[MessageDifference], copy: CopyLife | None) -> NearMiss:
        question, histories = self._question, self._histories
        clauses = histories.became(history, first=question.place)
        if any(kind in events.ANSWERS for kind in question.happening.kinds):
            clauses.insert(0, histories.describe_answer(history))
        became = "; it ".join(clauses)
        if question.happening.place == "queue":
            became += missed_text(self._node, histories, history, question.vhost, question.place or "")
        stands = tuple(map(Stand.of, history.copies.values()))
        return NearMiss(
            distance=_distance(differences),
            facts=Near(history.number, None, tuple(difference.facts for difference in differences), stands),
            named=histories.named(history),
            differs="; ".join(map(str, differences)),
            became=became,
            is_early=len(differences) == 1 and self._can_still_happen(history, copy),
        )

    def _can_still_happen(self, history: MessageLife, copy: CopyLife | None) -> bool:
        """Return whether the message waits for what the question asks for: its answer, or a consumer."""
        kinds = self._question.happening.kinds
        if copy is None:
            published = history.published
            is_awaited = published is not None and published.tag is not None
            return is_awaited and history.answer is None and any(kind in events.ANSWERS for kind in kinds)
        has_happened = any(True for _ in _that_count(self._histories.recent_of(copy.facts), kinds))
        is_there = copy.queue.name == self._question.place or self._question.place is None
        # A message that came back is likely to come back again.
        is_over = copy.last.kind in (*events.REQUEUES, *events.ENDS)
        return is_there and not has_happened and not is_over and self._is_awaited(copy)

    def _is_awaited(self, copy: CopyLife) -> bool:
        """Return whether a live consumer holds the copy, or can still be given it."""
        queue = existing_queue(self._node, *copy.queue.place)
        if queue is None:
            return False
        last = copy.last
        if last.kind not in events.DELIVERIES:
            return len(queue.consumers) > 0
        if last.get("consumer") is None:
            # Got by basic.get, which needs no consumer.
            return True
        holder = (last.conn, last.chan, last.consumer)
        return any(
            (consumer.connection_number, consumer.channel_number, consumer.tag) == holder
            for consumer in queue.consumers
        )

    def _closest(self, history: MessageLife) -> tuple[list[MessageDifference], CopyLife | None]:
        """Return the differences of a message, and its copy that differs least; None if none was compared."""
        options: list[tuple[list[MessageDifference], CopyLife | None]] = []
        if self._question.happening.place != "queue" or not history.copies:
            options.append((self._own_differences(history), None))
        if self._question.happening.place != "exchange":
            options += [(self._differences_of(copy), copy) for copy in history.copies.values()]
        return min(options, key=lambda option: _distance(option[0]))

    def _own_differences(self, history: MessageLife) -> list[MessageDifference]:
        """Return in what a message differs, apart from its copies."""
        question = self._question
        differences = [*self._vhost(history), *self._content(MessageView(message_of(history)), is_delivered=False)]
        if question.happening.place == "queue":
            instead = "" if question.place is None else f" instead of {question.place!r}"
            never = MessageDifference(_NEVER_THERE, "queue", question.place, text=f"it reached no queue{instead}")
            return [*differences, never]
        happened = [
            event for event in self._histories.recent_of(history.facts) if event.kind in question.happening.kinds
        ]
        differences += _named_differences("exchange", question.place, history.message.exchange)
        if not happened:
            return [*differences, self._did_not_happen(_ANOTHER_OUTCOME)]
        if question.happening.name == "published" and self._histories.is_uncommitted(history):
            differences.append(
                MessageDifference(
                    _ANOTHER_OUTCOME,
                    "uncommitted",
                    text="it is uncommitted: published in a transaction without tx.commit",
                )
            )
        return [*differences, *self._reasons(happened)]

    def _differences_of(self, copy: CopyLife) -> list[MessageDifference]:
        """Return in what a copy differs."""
        question, history = self._question, copy.message
        happened = list(_that_count(self._histories.recent_of(copy.facts), question.happening.kinds))
        differences = [*self._vhost(history), *self._content(self._view(copy), bool(copy.deliveries))]
        is_elsewhere = False
        if question.happening.place != "either" or question.place != history.message.exchange:
            elsewhere = _named_differences("queue", question.place, copy.queue.name)
            is_elsewhere = bool(elsewhere)
            differences += elsewhere
        if not happened:
            weight = _ALSO_ANOTHER_OUTCOME if is_elsewhere else _ANOTHER_OUTCOME
            return [*differences, self._did_not_happen(weight)]
        return [*differences, *self._reasons(happened), *self._targets(copy)]

    def _vhost(self, history: MessageLife) -> list[MessageDifference]:
        if history.vhost == self._question.vhost:
            return []
        return [MessageDifference(_ANOTHER_VHOST, "virtual host", self._question.vhost, history.vhost)]

    def _content(self, view: MessageView, is_delivered: bool) -> Iterator[MessageDifference]:
        for criterion in self._question.matcher.criteria:
            # A message that was never delivered differs in its outcome already.
            is_known = criterion.name != "redelivered" or is_delivered
            if is_known and not criterion.matches(view):
                distance = _DIFFERENT + _FAR * criterion.distance(view)
                yield MessageDifference(distance, criterion.name, criterion=(criterion, view))

    def _view(self, copy: CopyLife) -> MessageView:
        """Return the view of a copy as it was delivered: in the way that is asked for, or else most recently."""
        message = cast("Message", copy.facts[0].message)
        wanted = [criterion for criterion in self._question.matcher.criteria if criterion.name == "redelivered"]
        views = [MessageView(message, redelivered=one.fact.redelivered) for one in copy.deliveries]
        return next(
            (view for view in views if all(criterion.matches(view) for criterion in wanted)),
            views[-1] if views else MessageView(message),
        )

    def _reasons(self, happened: Sequence[Event]) -> list[MessageDifference]:
        reason = self._question.reason
        reasons = [events.reason_of(event.kind, event.get("reason")) for event in happened]
        if reason is None or any(is_equal(reason, actual) for actual in reasons):
            return []
        return [MessageDifference(_ANOTHER_REASON, "reason", _plain(reason), reasons[-1])]

    def _targets(self, copy: CopyLife) -> list[MessageDifference]:
        to, arrived = self._question.to, copy.arrivals
        if to is None or to in arrived:
            return []
        where = ", ".join(map(repr, arrived)) or "no queue"
        distance = _DIFFERENT + _FAR_TARGET * min((value_distance(to, queue) for queue in arrived), default=1.0)
        return [MessageDifference(distance, "to", to, arrived, f"it arrived in {where} instead of {to!r}")]

    def _did_not_happen(self, distance: float) -> MessageDifference:
        words = self._question.happening.words
        return MessageDifference(distance, "outcome", self._question.happening.name, text=f"it was not {words}")


def missed_text(node: Node, histories: Histories, history: MessageLife, vhost: str, queue: str) -> str:
    """Return what leads to a queue and why a message that other queues took did not come there, after a semicolon."""
    if not history.copies or history.has_reached(queue):
        return ""
    late = histories.circumstances.bound_after(history, queue)
    texts = (ways_to(node, vhost, queue), why_not_there(node, vhost, queue, message_of(history), late))
    return "".join(f"; {text}" for text in texts if text)


def _that_count(happened: Iterable[Event], kinds: tuple[str, ...]) -> Iterator[Event]:
    """Yield the events that count for a question, as the search counts them."""
    sequence = list(happened)
    is_dead_lettered = any(event.kind in events.DEATHS for event in sequence)
    for event in sequence:
        is_automatic = event.kind == events.ACKED and event.reason == events.NO_ACK
        is_void = event.kind in events.LOSSES and is_dead_lettered
        if event.kind in kinds and not is_automatic and not is_void:
            yield event


def _named_differences(what: str, expected: str | None, actual: str) -> list[MessageDifference]:
    if expected is None or expected == actual:
        return []
    distance = _DIFFERENT + _FAR * value_distance(expected, actual)
    return [MessageDifference(distance, what, expected, actual)]


def _distance(differences: Iterable[MessageDifference]) -> float:
    return sum(difference.distance for difference in differences)


def _plain(reason: object) -> object:
    return cast("object", getattr(reason, "pattern", reason))
