"""The outcome of each message of a replay: how it was settled where, and what the code under test sent meanwhile.

An outcome has one value for each spot: what became of the message in a queue, how often something was sent to a key,
and the value of each field and property that was sent. What is sent belongs to the only message that clients hold.
Where that is not certain, because they hold several or none, it is counted for all messages together. What is made anew
in each run is masked: a value that came with the message is written as the place where it stood there, and an instant
of now as that.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from leveret.core.wire.values import Field, Table
from leveret.story.facts import MILLISECONDS_MIN, CountedFact, is_of_now
from leveret.trace import events
from leveret.trace.events import Event, TracedMessage, as_python
from leveret.trace.shapes import OF_BROKER, key_pattern, message_name, safe_key
from leveret.trace.shapes.leaves import parsed, path_text, placed_leaves_of
from leveret.wording import MADE_UP, masked, masked_body, masked_name

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.recording.rec_file import RecordedMessage

# What a spot is about: a queue that a message was in, one that what was sent then was in, what was sent, a field of it,
# an error.
ENDED: Final = "ended"
ARRIVED: Final = "arrived"
SENT: Final = "sent"
FIELD: Final = "field"
ERROR: Final = "error"
# How a copy ends that nothing ended.
HELD: Final = "not settled before settle= ran out"
LEFT: Final = "left in the queue"
# How often a queue may deliver one message before that is a loop, as quorum queues of RabbitMQ 4 do by default.
DELIVERIES_MAX: Final = 20
ENDLESS: Final = "without end"
# The kind of what belongs to no single message, because all were published at once.
OF_ALL: Final = "all messages"
# A shorter text may be equal to one of the message by chance.
_REFERENCE_MIN: Final = 8
# How a spot is named that is about no field: the routing key, and which values stand in one message together.
ROUTING_KEY: Final = "routing key"
TOGETHER: Final = "values that stand together"
# How a spot begins that says which item of a list of the message that came a field has.
ITEM: Final = "item as "
# The types of values, and those that headers usually have on the wire: all others are said.
TEXT: Final = "a text"
INTEGER: Final = "an integer"
FLOAT: Final = "a float"
OTHER: Final = "another type"
_TYPES: Final = (TEXT, INTEGER, FLOAT, OTHER)
_USUAL_TAGS: Final = frozenset("SIdtVFA")
_INDEX: Final = re.compile(r"(?<! )\[\d+\]")
_ZONE: Final = re.compile(r"[Zz]$|[+-]\d\d:?\d\d$")
Outcome = dict[CountedFact, str]


class _Inputs(NamedTuple):
    """What came with a message: the place of each value, by its type and text; and the ids of all messages."""

    places: Mapping[tuple[str, str], str] = MappingProxyType({})
    recorded: Set[str] = frozenset()


_NO_INPUTS: Final = _Inputs()


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
        # The values that came with each message, and to which one a value belongs that only one has; 0 if several do.
        self._inputs: dict[int, _Inputs] = {}
        self._recorded: set[str] = set()
        self._owners: dict[str, int] = {}
        # The number of the recorded message to which each message of the broker goes back, and those that it is.
        self._roots: dict[int, int] = {}
        self._own: dict[int, int] = {}
        # What was sent by which connection, and for which message; 0 if that is not certain.
        self._sent: list[tuple[str, int, TracedMessage, int]] = []
        self._lost: set[int] = set()
        self._errors: list[CountedFact] = []
        self._copies: dict[int, _CopyOutcome] = {}
        # How often a queue delivered a message and what was sent for it, and where that is a loop.
        self._delivery_counts: Counter[_Place] = Counter()
        self._loops: set[_Place] = set()
        self._loop_roots: set[int] = set()
        # Each queue that has delivered something, and whether a consumer of it that has gone is waited for.
        self._consumed: dict[tuple[str, str], bool] = {}
        # How much has happened, apart from what goes on in loops.
        self.news_count = 0
        # The copies that wait in a queue, and those that are held, by number.
        self.ready: dict[int, _CopyOutcome] = {}
        self.held: dict[int, _CopyOutcome] = {}

    def begin(self, number: int, message: RecordedMessage) -> None:
        """Note the message that is published next."""
        self._awaited = number
        self._inputs[number] = _Inputs(dict(_input_texts(message)), self._recorded)
        for text in _distinguishing(message):
            self._owners[text] = number if self._owners.get(text, number) == number else 0
            self._recorded.update(_ids_in(text))

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
                self.news_count += 1
            return
        if message.exchange in events.CELERY_EXCHANGES:
            return
        name = message_name(message.body, message.properties.to_python())
        where = where_of(message.exchange, message.routing_key, name)
        root = self._roots[message.id] = self._cause(message)
        self._sent.append((where, root, message, event.conn))
        self.news_count += root not in self._loop_roots

    @property
    def sent_counts(self) -> Counter[str]:
        """How often something was sent, by where."""
        return Counter(where for where, *_ in self._sent)

    @property
    def uncertain(self) -> set[str]:
        """Where it is not certain for which message something was sent: by a client that did so once, nothing is."""
        late = {conn for _, root, _, conn in self._sent if not root}
        return {where for where, _, _, conn in self._sent if conn in late}

    def _cause(self, message: TracedMessage) -> int:
        """Return the number of the message for which a client has sent another one; 0 if that is not certain.

        It is the only one that clients hold, whatever values were sent. A client that settles a message first, and then
        sends something, may do so after it got the next one; sooner or later it does so while it holds none.
        """
        held = {copy.root for copy in self.held.values()}
        loops = held & self._loop_roots
        if loops:
            owners = {self._owners.get(text, 0) for text in _distinguishing(message)}
            held = (owners & held) or (held - loops) or loops
        return held.pop() if len(held) == 1 and self._is_one_at_a_time else 0

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
            self._consumed[copy.vhost, copy.queue] = True
            self._delivery_counts[copy.place] += 1
            if self._delivery_counts[copy.place] > self._limit(root):
                self._loops.add(copy.place)
                self._loop_roots.add(root)
        elif kind in events.ENDS:
            self.ready.pop(number, None)
            self.held.pop(number, None)
            reason = events.reason_of(kind, event.get("reason"))
            copy.end = "acked by no-ack" if kind == events.ACKED and event.reason else str(reason or kind)
            copy.is_dead_lettered = kind == events.DEAD_LETTERED
        self.news_count += root not in self._loop_roots

    def _limit(self, root: int) -> int:
        """Return how often is often for a message; 0 is that of any."""
        return DELIVERIES_MAX if root else DELIVERIES_MAX * len(self._inputs)

    def _failed(self, event: Event) -> None:
        if event.kind == events.REFUSED:
            self._errors.append(CountedFact(ERROR, masked(event.client or "a client"), "", masked(event.text)))
        elif event.reason is not None and not event.is_shutdown and self._inputs:
            text = f"lost its connection: {event.reason}"
            self._errors.append(CountedFact(ERROR, "a client", "", masked(text)))

    def held_anew(self, kept: set[int]) -> dict[int, str]:
        """Return the copies that clients hold and that are not `kept` and in no loop, with their queues."""
        held = self.held.items()
        return {number: copy.queue for number, copy in held if number not in kept and copy.place not in self._loops}

    def is_busy(self, node: Node, kept: set[int], holders: Collection[str] = (), *, with_loops: bool = False) -> bool:
        """Return whether a client holds a copy that is not `kept`, from no queue of `holders`, or could take one.

        So could a consumer that has gone, until it was given up. Only `with_loops` it is waited for nevertheless, and
        what goes on in loops counts.
        """
        if any(queue not in holders for queue in self.held_anew(kept).values()):
            return True
        quiet = frozenset() if with_loops else self._loops
        if with_loops and any(copy.place in self._loops for copy in self.held.values()):
            return True
        for vhost, name in {(copy.vhost, copy.queue) for copy in self.ready.values() if copy.place not in quiet}:
            queue = _queue(node, vhost, name)
            if queue is None:
                continue
            awaited = self._consumed.get((vhost, name), False) or (with_loops and (vhost, name) in self._consumed)
            if queue.is_polled or any(map(queue.can_deliver_to, queue.consumers)) or (awaited and not queue.consumers):
                return True
        return False

    def give_up_absent(self, node: Node) -> None:
        """No longer wait for the consumers that have gone, until they consume again."""
        for place in self._consumed:
            queue = _queue(node, *place)
            self._consumed[place] = queue is not None and bool(queue.consumers)

    def outcomes(self) -> dict[int, Outcome]:
        """Return the outcome of each message by its number; that of number 0 belongs to all."""
        found: dict[int, dict[CountedFact, list[str]]] = {number: {} for number in self._inputs}
        for spot, root, value in self._values():
            found.setdefault(root, {}).setdefault(spot, []).append(value)
        return {
            number: {spot: _joined(values, spot.what == ENDED) for spot, values in spots.items()}
            for number, spots in found.items()
        }

    def _values(self) -> Iterator[tuple[CountedFact, int, str]]:
        # A loop that came to its end, as a retry does that works at last, is none.
        counts = Counter(copy.place for copy in self._copies.values())
        alive = {copy.place for copies in (self.ready, self.held) for copy in copies.values()}
        going_on = {place[0] for place in alive if place in self._loops or counts[place] > self._limit(place[0])}
        endless = {place for place in self._loops if place[0] in going_on}
        requeued = {copy.place for copy in self._copies.values() if copy.is_requeued_often}
        for place in sorted(endless):
            root, _, queue = place
            spot = CountedFact(ENDED if root else ARRIVED, masked_name(queue))
            yield spot, root, f"{'requeued' if place in requeued else 'delivered'} {ENDLESS}"
        roots = {root for root, _, _ in endless} - {0}
        for copy in self._copies.values():
            if copy.place in endless or (copy.root in roots and not copy.is_own):
                continue
            # What became of a copy names the queues in which its dead letters wait.
            if not copy.is_letter or copy.was_delivered or copy.end:
                spot = CountedFact(ENDED if copy.is_own else ARRIVED, masked_name(copy.queue))
                yield spot, copy.root if copy.is_own else 0, copy.text
        for message_id in self._lost & self._own.keys():
            yield CountedFact(ENDED, "no queue"), self._own[message_id], "unroutable"
        yield from ((fact.spot, 0, fact.value) for fact in self._errors)
        yield from self._values_sent({root for root, _, _ in endless})

    def _values_sent(self, endless: set[int]) -> Iterator[tuple[CountedFact, int, str]]:
        """Yield what was sent for each message, where that is certain, and for all together: `endless` are in loops."""
        counts: Counter[tuple[str, int, str]] = Counter()
        fields: dict[CountedFact, list[str]] = defaultdict(list)
        own: dict[int, dict[CountedFact, list[str]]] = defaultdict(lambda: defaultdict(list))
        uncertain = self.uncertain
        totals = Counter((where, root) for where, root, _, _ in self._sent)
        loops = {it for it, count in totals.items() if it[1] in endless and count > self._limit(it[1])}
        for where, number in sorted(loops | {(where, 0) for where, _ in loops}):
            yield CountedFact(SENT, where), number, ENDLESS
        for where, root, message, _ in self._sent:
            if (where, root) in loops:
                continue
            lost = " to no queue" if message.id in self._lost else ""
            for number in {0, root if where not in uncertain else 0}:
                counts[where, number, lost] += 1
                spots = _spots(where, message, self._inputs.get(number, _Inputs(recorded=self._recorded)))
                spots[CountedFact(FIELD, where, TOGETHER)] = f"#{digest_of(map(str, spots.items()))}"
                for spot, value in spots.items():
                    if number:
                        own[number][spot].append(value)
                    else:
                        fields[spot].append(value)
        for (where, number, lost), count in counts.items():
            yield CountedFact(SENT, where), number, f"{'once' if count == 1 else f'{count} times'}{lost}"
        for number, by_spot in own.items():
            for spot, values in by_spot.items():
                # The values of a single message stand together anyway.
                if spot.path != TOGETHER or len(values) > 1:
                    yield from ((spot, number, value) for value in values)
        for spot, values in fields.items():
            if spot.path != TOGETHER or len(values) > 1:
                yield spot, 0, f"#{digest_of(values)}"


def _queue(node: Node, vhost: str, name: str) -> StoredQueue | None:
    host = node.vhosts.get(vhost)
    return None if host is None else host.queues.get(name)


# The number of a message, a virtual host and a queue.
_Place = tuple[int, str, str]


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
    def place(self) -> _Place:
        """Of which message it is, and where."""
        return self.root, self.vhost, self.queue

    @property
    def is_requeued_often(self) -> bool:
        """Whether it was requeued so often that it is in a loop."""
        return self.requeues.total() >= DELIVERIES_MAX

    @property
    def text(self) -> str:
        """What became of it."""
        requeued = [
            f"requeued{'' if count == 1 else f' {_often(count)}'} ({why})" for why, count in self.requeues.items()
        ]
        end = self.end or (HELD if self.was_delivered and not self.requeues else LEFT)
        if self.is_dead_lettered:
            end += f" to {' and '.join(sorted(masked_name(letter.queue) for letter in self.letters)) or 'no queue'}"
        return ", then ".join([*sorted(requeued), end])


def _spots(where: str, message: TracedMessage, inputs: _Inputs) -> dict[CountedFact, str]:
    """Return the value of each field of a message that was sent; those of an array in order."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path, at, value in _leaves(message):
        found[path].append((masked_name(_with_places(at, inputs), inputs.recorded), value_text(value, inputs)))
    for name, field in cast("Table | None", message.properties.headers) or ():
        if f"headers.{name}" in found and (tags := "".join(tag for tag in _tags(field) if tag not in _USUAL_TAGS)):
            found[f"headers.{name}"] = [(at, f"{text} ({tags})") for at, text in found[f"headers.{name}"]]
    items = {path: _in_order(values) for path, values in found.items()}
    texts = {path: _INDEX.sub("[]", text) for path, text in items.items()}
    # Code that takes the items in any order is compared without it: two runs show that.
    texts |= {ITEM + path: text for path, text in items.items() if text != texts[path]}
    key = message.routing_key
    if masked_name(key_pattern(key)) != key:
        texts[ROUTING_KEY] = inputs.places.get((TEXT, key)) or _json(
            masked_name(_with_places(key, inputs), inputs.recorded)
        )
    return {CountedFact(FIELD, where, path): text for path, text in texts.items()}


def _in_order(values: list[tuple[str, str]]) -> str:
    """Return the values of a field; with where in arrays and maps they stand, unless each item of one array has one."""
    if [at for at, _ in values] in ([""], [str(at) for at in range(len(values))]):
        return ", ".join(text for _, text in values)
    return ", ".join(f"{text} at [{at}]" for at, text in sorted(values))


def _leaves(message: TracedMessage | RecordedMessage) -> Iterator[tuple[str, str, object]]:
    """Yield what a message says, without what the broker adds: paths, where in arrays and maps, values.

    A path has a mark for the name of a field that is a datum.
    """
    body = parsed(message.body)
    if body is None:
        yield "body", "", message.body.decode("utf-8", "backslashreplace")
    else:
        for path, positions, item in placed_leaves_of(body):
            safe = tuple(safe_key(step) if isinstance(step, str) else step for step in path)
            names = [str(step) for step, pattern in zip(path, safe, strict=True) if step != pattern]
            yield f"body.{path_text(safe)}", ".".join([*map(str, positions), *names]), item
    for name, value in message.properties.to_python().items():
        plain = as_python(value)
        if isinstance(plain, dict):
            yield from ((f"headers.{key}", "", item) for key, item in plain.items() if not OF_BROKER.fullmatch(key))
        else:
            yield f"properties.{name}", "", plain


def _tags(field: Field) -> Iterator[str]:
    """Yield the tags on the wire of a field and of those in it."""
    yield field.tag
    if isinstance(field.value, Table):
        yield from (tag for _, inner in field.value for tag in _tags(inner))
    elif field.tag == "A" and isinstance(field.value, tuple):
        yield from (tag for inner in field.value if isinstance(inner, Field) for tag in _tags(inner))


def _input_texts(message: RecordedMessage) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the texts that came with a message, each with where it stood; the first place of a text comes last."""
    for path, at, value in reversed(list(_leaves(message))):
        text = _plain_text(value)
        if len(text) >= _REFERENCE_MIN or MADE_UP.fullmatch(text):
            for position in at.split("."):
                path = path.replace("[]", f"[{position}]", 1)
            yield (_type_of(value), text), f"{{{path}}}"


def _type_of(value: object) -> str:
    if isinstance(value, str):
        return TEXT
    if isinstance(value, float):
        return FLOAT
    return INTEGER if isinstance(value, int) and not isinstance(value, bool) else OTHER


def type_of_text(text: str) -> str:
    """Return the type of a value that `value_text` has written; "" if that does not show."""
    if text[:1] == '"':
        # Behind a text stands its tag if it is no text, but a timestamp or the like.
        return TEXT if text[-1] == '"' else ""
    if text[:1].isdigit() or text[:1] == "-":
        return FLOAT if set(".eE") & set(text) else INTEGER
    return ""


def _distinguishing(message: TracedMessage | RecordedMessage) -> set[str]:
    """Return the values of a message that may distinguish it from others: no flags, no delivery mode, no priority."""
    return {
        _plain_text(value)
        for path, _, value in _leaves(message)
        if isinstance(value, str) or not (value is None or isinstance(value, bool) or path.startswith("properties."))
    }


def _ids_in(text: str) -> Iterator[str]:
    """Yield the ids in a text that came with a message: these are not made anew in each run. Instants may be moved."""
    for found in map(itemgetter(0), MADE_UP.finditer(text)):
        if ":" not in found and not (found.isdecimal() and is_of_now(int(found))):
            yield found


def _plain_text(value: object) -> str:
    """Return a value as a text that does not show its type."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else _json(value)


def _with_places(text: str, inputs: _Inputs) -> str:
    """Return a text with places where it holds what came with the message, longest first."""
    places = inputs.places
    if any(given in text for _, given in places):
        for name in sorted(places, key=lambda it: (-len(it[1]), it)):
            if name[1] in text:
                place = places[name].replace("\\", r"\\")
                text = re.sub(rf"(?<![^\W_]){re.escape(name[1])}(?![^\W_])", place, text)
    return text


def value_text(value: object, inputs: _Inputs = _NO_INPUTS) -> str:
    """Return a value as text that is the same in each run."""
    own, text = _type_of(value), _plain_text(value)
    for given in (own, *_TYPES):
        if (given, text) in inputs.places:
            return inputs.places[given, text] + (f" as {own}" if given != own else "")
    if is_of_now(value):
        return _form_of_now(value)
    return _json(masked_body(_with_places(value, inputs), inputs.recorded) if isinstance(value, str) else value)


def _form_of_now(value: object) -> str:
    """Return the form of an instant of now. Its last digits may be left out if they are 0, and offsets change."""
    if isinstance(value, str):
        zone = _ZONE.search(value[10:])
        time = f"{value[10]}hh:mm" if len(value) > 10 else ""
        return f"now as YYYY-MM-DD{time}{'' if zone is None else 'Z' if zone[0] in 'Zz' else '+hh:mm'}"
    if isinstance(value, int | float):
        return f"now as {_type_of(value)} in {'ms' if value > MILLISECONDS_MIN else 's'}"
    return "now"


def _json(value: Any) -> str:
    return json.dumps(value, default=str, sort_keys=True)


def _often(count: int) -> str:
    # How often a loop has run in the time that it had is chance.
    return f"more than {DELIVERIES_MAX} times" if count > DELIVERIES_MAX else f"{count} times"


def _joined(values: list[str], is_of_copies: bool) -> str:
    counts = sorted(Counter(values).items())
    times = _often if is_of_copies else "{} times".format
    return ", ".join(value if count == 1 else f"{value} ({times(count)})" for value, count in counts)


def digest_of(lines: Iterable[str]) -> str:
    """Return a short text that only these lines have, in any order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode("utf-8", "surrogatepass")).hexdigest()[:16]
