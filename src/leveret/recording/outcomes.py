"""The outcome of each message of a replay: how it was settled where, and what the code under test sent meanwhile.

An outcome has one value for each spot: what became of the message in a queue, how often something was sent to a key,
and the value of each field and property that was sent. What is sent belongs to the message that was delivered last,
which is certain only if the messages are published one at a time. What is made anew in each run is masked: a value that
came with the message is written as the place where it stood there, and an instant of now as that.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from time import time
from typing import TYPE_CHECKING, Any, Final

from leveret.story.facts import CountedFact
from leveret.trace import events
from leveret.trace.events import Event, TracedMessage, as_python
from leveret.trace.shapes import key_pattern, message_name
from leveret.trace.shapes.leaves import leaves_of, parsed
from leveret.wording import masked, masked_body, masked_name

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.recording.rec_file import RecordedMessage

# What a spot is about: a queue that a message was in, one that what was sent then was in, what was sent, a field of it,
# an error.
ENDED: Final = "ended"
ARRIVED: Final = "arrived"
SENT: Final = "sent"
FIELD: Final = "field"
ERROR: Final = "error"
# How a copy ends that nothing ended.
HELD: Final = "never settled"
LEFT: Final = "left in the queue"
# The kind of what belongs to no single message, because all were published at once.
OF_ALL: Final = "all messages"
# A shorter text may be equal to one of the message by chance.
_REFERENCE_MIN: Final = 8
_DAY_S: Final = 86_400
_MILLISECONDS_MIN: Final = 100_000_000_000
Outcome = dict[CountedFact, str]


def kind_of(message: RecordedMessage) -> str:
    """Return the name of the kind of a message: its exchange, its key without generated parts, and its type or task."""
    name = message_name(message.body, message.properties.to_python())
    return where_of(message.exchange, message.routing_key, name)


def where_of(exchange: str, routing_key: str, name: str) -> str:
    """Return an exchange with a routing key and the name of what is sent there, without generated parts."""
    key = masked_name(key_pattern(routing_key))
    return " ".join(filter(None, (exchange, repr(key), name)))


class OutcomeWatcher:
    """What the events of a broker show of the messages of a replay, from the first one on."""

    def __init__(self, *, is_one_at_a_time: bool) -> None:
        self._is_one_at_a_time: Final = is_one_at_a_time
        # The number of the message that is about to be published; None once it was.
        self._awaited: int | None = None
        # That whose copy was delivered last.
        self._delivered = 0
        # The values that came with each message, by its number.
        self._inputs: dict[int, dict[str, str]] = {}
        # The number of the recorded message to which each message of the broker goes back, and those that it is.
        self._roots: dict[int, int] = {}
        self._own: dict[int, int] = {}
        self._sent: dict[int, list[tuple[str, TracedMessage]]] = defaultdict(list)
        self._lost: set[int] = set()
        self._errors: dict[int, list[CountedFact]] = defaultdict(list)
        self._copies: dict[int, _CopyOutcome] = {}
        # The queues that clients look into from time to time, by basic.get.
        self._polled: set[tuple[str, str]] = set()
        # The copies that wait in a queue, and those that are held, by number.
        self.ready: dict[int, _CopyOutcome] = {}
        self.held: dict[int, _CopyOutcome] = {}
        # How often a client sent something when none held a message.
        self.late_count = 0

    def begin(self, number: int, message: RecordedMessage) -> None:
        """Note the message that is published next."""
        self._awaited = number
        self._inputs[number] = dict(_input_texts(message))

    def take(self, raw_events: Iterable[tuple[object, ...]]) -> None:
        """Take the next events. Hot: once for each event of a replay."""
        for raw in raw_events:
            kind = raw[0]
            if kind == events.PUBLISHED:
                self._published(Event(raw))
            elif kind in events.ABOUT_COPIES:
                self._about_copy(Event(raw))
            elif kind == events.REFUSED or kind == events.CONN_CLOSE:
                self._failed(Event(raw))
            elif kind in events.RETURNS:
                self._lost.add(Event(raw).message.id)

    def _published(self, event: Event) -> None:
        message = event.message
        if event.conn is None:
            if self._awaited is not None:
                self._roots[message.id] = self._own[message.id] = self._awaited
                self._awaited = None
            return
        if message.exchange in events.CELERY_EXCHANGES:
            return
        self.late_count += not self.held
        # What comes before a message was delivered follows from an earlier one.
        root = self._delivered if self._is_one_at_a_time else 0
        self._roots[message.id] = root
        name = message_name(message.body, message.properties.to_python())
        self._sent[root].append((where_of(message.exchange, message.routing_key, name), message))

    def _about_copy(self, event: Event) -> None:
        root, number = self._roots.get(event.message.id), event.copy
        if number is None or root is None:
            if root is not None:
                self._lost.add(event.message.id)
            return
        copy = self._copies.get(number)
        if copy is None:
            source = None if event.get("src_copy") is None else self._copies.get(event.src_copy or 0)
            copy = self._copies[number] = _CopyOutcome(root, event.vhost, event.queue or "", source is not None)
            copy.is_own = event.message.id in self._own
            if source is not None:
                source.letters.append(copy)
        kind = event.kind
        if kind in events.ARRIVALS or kind in events.REQUEUES:
            self.ready[number] = copy
            self.held.pop(number, None)
            if kind in events.REQUEUES:
                copy.requeues[str(event.reason)] += 1
        elif kind in events.DELIVERIES:
            self.ready.pop(number, None)
            self.held[number] = copy
            copy.was_delivered = True
            if kind == events.GOT:
                self._polled.add((copy.vhost, copy.queue))
            self._delivered = root
        elif kind in events.ENDS:
            self.ready.pop(number, None)
            self.held.pop(number, None)
            reason = events.reason_of(kind, event.get("reason"))
            copy.end = "acked by no-ack" if kind == events.ACKED and event.reason else str(reason or kind)
            copy.is_dead_lettered = kind == events.DEAD_LETTERED

    def _failed(self, event: Event) -> None:
        root = self._delivered if self._is_one_at_a_time else 0
        if event.kind == events.REFUSED:
            self._errors[root].append(CountedFact(ERROR, masked(event.client or "a client"), "", masked(event.text)))
        elif event.reason is not None and not event.is_shutdown and self._delivered:
            self._errors[root].append(
                CountedFact(ERROR, "a client", "", masked(f"lost its connection: {event.reason}"))
            )

    def held_anew(self, kept: set[int]) -> dict[int, str]:
        """Return the copies that clients hold and that are not `kept`, with their queues."""
        return {number: copy.queue for number, copy in self.held.items() if number not in kept}

    def is_busy(self, node: Node, kept: set[int], holders: Collection[str] = ()) -> bool:
        """Return whether a client holds a copy that is not `kept`, from no queue of `holders`, or could take one."""
        if any(queue not in holders for queue in self.held_anew(kept).values()):
            return True
        for vhost, name in {(copy.vhost, copy.queue) for copy in self.ready.values()}:
            if (vhost, name) in self._polled:
                return True
            host = node.vhosts.get(vhost)
            queue = None if host is None else host.queues.get(name)
            if queue is not None and any(queue.can_deliver_to(consumer) for consumer in queue.consumers):
                return True
        return False

    def outcomes(self) -> dict[int, Outcome]:
        """Return the outcome of each message by its number; that of number 0 belongs to all."""
        found: dict[int, dict[CountedFact, list[str]]] = {number: {} for number in self._inputs}
        for spot, root, value in self._values():
            found.setdefault(root, {}).setdefault(spot, []).append(value)
        return {number: {spot: _joined(values) for spot, values in spots.items()} for number, spots in found.items()}

    def _values(self) -> Iterator[tuple[CountedFact, int, str]]:
        for copy in self._copies.values():
            # What became of a copy names the queues in which its dead letters wait.
            if not copy.is_letter or copy.was_delivered or copy.end:
                yield CountedFact(ENDED if copy.is_own else ARRIVED, masked_name(copy.queue)), copy.root, copy.text
        for message_id in self._lost & self._own.keys():
            yield CountedFact(ENDED, "no queue"), self._own[message_id], "unroutable"
        for root, sent in self._sent.items():
            counts = Counter((where, "" if message.id not in self._lost else " to no queue") for where, message in sent)
            for (where, lost), count in counts.items():
                yield CountedFact(SENT, where), root, f"{'once' if count == 1 else f'{count} times'}{lost}"
            for where, message in sent if root else ():
                for path, value in _leaves(message, self._inputs.get(root, {})):
                    yield CountedFact(FIELD, where, path), root, value
        for root, errors in self._errors.items():
            for fact in errors:
                yield fact.spot, root, fact.value


class _CopyOutcome:
    """A copy of a message in a queue: what happened to it there."""

    def __init__(self, root: int, vhost: str, queue: str, is_letter: bool) -> None:
        self.root = root
        self.vhost = vhost
        self.queue = queue
        self.is_letter = is_letter
        self.requeues: Counter[str] = Counter()
        self.letters: list[_CopyOutcome] = []
        # Whether it is one of the message itself, and not of something that was sent then.
        self.is_own = True
        self.was_delivered = False
        self.end = ""
        self.is_dead_lettered = False

    @property
    def text(self) -> str:
        """What became of it."""
        requeued = [
            f"requeued{'' if count == 1 else f' {count} times'} ({why})" for why, count in self.requeues.items()
        ]
        end = self.end or (HELD if self.was_delivered and not self.requeues else LEFT)
        if self.is_dead_lettered:
            end += f" to {' and '.join(sorted(masked_name(letter.queue) for letter in self.letters)) or 'no queue'}"
        return ", then ".join([*sorted(requeued), end])


def _leaves(message: TracedMessage, inputs: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the paths and the values of what a message says."""
    body = parsed(message.body)
    if body is None:
        yield "body", value_text(message.body.decode("utf-8", "backslashreplace"), inputs)
    else:
        yield from ((f"body.{path}", value_text(item, inputs)) for path, item in leaves_of(body))
    for name, value in message.properties.to_python().items():
        plain = as_python(value)
        items = plain.items() if isinstance(plain, dict) else [("", plain)]
        for key, item in items:
            if not (key and _is_of_broker(key)):
                yield f"headers.{key}" if key else f"properties.{name}", value_text(item, inputs)


def _is_of_broker(header: str) -> bool:
    """Return whether a header is the broker's own count of what it did with a message."""
    return header.startswith(("x-death", "x-first-death", "x-last-death", "x-delivery-count", "x-acquired-count"))


def _input_texts(message: RecordedMessage) -> Iterator[tuple[str, str]]:
    """Yield the texts that came with a message, each with where it stood."""
    body = parsed(message.body)
    named = {f"body.{path}": value for path, value in leaves_of(body)} if body is not None else {}
    for name, value in message.properties.to_python().items():
        named |= {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
    for path, value in reversed(named.items()):
        text = value if isinstance(value, str) else _json(value)
        if len(text) >= _REFERENCE_MIN:
            yield text, f"{{{path}}}"


def value_text(value: object, inputs: dict[str, str]) -> str:
    """Return a value as text that is the same in each run."""
    text = value if isinstance(value, str) else _json(value)
    if text in inputs:
        return inputs[text]
    at: float | None = None
    if isinstance(value, datetime):
        at = value.timestamp()
    elif isinstance(value, str):
        with suppress(ValueError):
            at = datetime.fromisoformat(value).timestamp() if value[4:5] == "-" else None
    elif isinstance(value, int | float):
        at = value / 1000 if value > _MILLISECONDS_MIN else value
    if at is not None and abs(at - time()) < _DAY_S:
        return "now"
    if isinstance(value, float) and value.is_integer():
        # JSON has one type of numbers.
        return str(int(value))
    return _json(masked_body(value)) if isinstance(value, str) else text


def _json(value: Any) -> str:
    return json.dumps(value, default=str, sort_keys=True)


def _joined(values: list[str]) -> str:
    counts = sorted(Counter(values).items())
    return ", ".join(value if count == 1 else f"{value} ({count} times)" for value, count in counts)


def digest_of(lines: Iterable[str]) -> str:
    """Return a short text that only these lines have, in any order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode("utf-8", "surrogatepass")).hexdigest()[:16]
