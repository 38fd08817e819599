"""The words of a story: one table for the kinds of events, one for the ends of copies, one for reasons.

A row holds a template. A slot in braces is filled by `Names`, which says how a text names messages, queues and clients.
Brackets hold what is left out if one of their slots is empty. Angle brackets hold what a drawing shows by its lanes, so
that its texts leave it out: `<{who} >acked {message}` is "acked #1" beside an arrow, and "c2/ch1 acked #1" in a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from leveret.trace import events
from leveret.trace.events import Event, as_python
from leveret.wording import place_text

if TYPE_CHECKING:
    from leveret.trace.redaction import Redaction

Tone = Literal["good", "bad", "warn", "plain"]
GOOD: Final[Tone] = "good"
BAD: Final[Tone] = "bad"
WARN: Final[Tone] = "warn"
PLAIN: Final[Tone] = "plain"
# The lanes that an event leads from and to.
Lane = Literal["client", "exchange", "queue", "destination", "test"]

_PARTS: Final = re.compile(r"<([^>]*)>|\[([^]]*)\]|\{(\w+)\}")
_SLOT: Final = re.compile(r"\{(\w+)\}")


class Words(NamedTuple):
    """The words for an event, its tone, and the lanes that a drawing of it leads from and to."""

    text: str
    start: Lane | None = None
    end: Lane | None = None
    tone: Tone = PLAIN
    # The fields that an event must have for this row to apply: a value, or ANY.
    when: Mapping[str, object] = {}
    # A drawing shows it across all lanes.
    is_across: bool = False


# A field that is set, and neither False nor empty.
ANY: Final = object()
_AGAIN: Final = {"redelivered": True}
_BY_THE_BROKER: Final = {"reason": ANY}

# The first row that applies holds; the last of each kind always does.
KINDS: Final[dict[str, tuple[Words, ...]]] = {
    events.PUBLISHED: (Words("<{who} >published {message}[ {target}]", "client", "exchange"),),
    events.RETURNED: (Words("returned {message}< to {who}> ({reason})", "exchange", "client", BAD),),
    events.CONFIRMED: (Words("confirmed {message}< to {who}>", None, "client", GOOD),),
    events.NACKED_CONFIRM: (Words("nacked {message} to its publisher<, {who}>", None, "client", BAD),),
    events.ENQUEUED: (
        Words("{message} entered {queue} as a dead letter", "exchange", "queue", when={"src_copy": ANY}),
        Words("{message} entered {queue}", "exchange", "queue"),
    ),
    events.DELIVERED: (
        Words("redelivered {message}< from {queue}> to {who}", "queue", "client", WARN, _AGAIN),
        Words("delivered {message}< from {queue}> to {who}", "queue", "client"),
    ),
    events.GOT: (
        Words("{who} got {message}< from {queue} again>", "queue", "client", WARN, _AGAIN),
        Words("{who} got {message}< from {queue}>", "queue", "client"),
    ),
    events.ACKED: (
        Words("{message}< of {queue}> counts as acked (no_ack)", "client", "queue", when={"reason": events.NO_ACK}),
        Words("<{who} >acked {message}< of {queue}>", "client", "queue", GOOD),
    ),
    events.NACKED: (Words("<{who} >nacked {message}< of {queue}>", "client", "queue", WARN),),
    events.REJECTED: (Words("<{who} >rejected {message}< of {queue}>", "client", "queue", WARN),),
    events.REQUEUED: (Words("<{who} >requeued {message} to {queue} ({reason})", "queue", None, WARN),),
    events.EXPIRED: (Words("{message} expired in {queue}", "queue", None, BAD),),
    events.DROPPED: (
        Words("<{who} >dropped {message} from {queue} ({reason})", "queue", None, BAD, {"queue": ANY}),
        Words("dropped {message}[ by exchange {exchange}] ({reason})", "exchange", None, BAD),
    ),
    events.DEAD_LETTERED: (
        Words("<{who} >dead-lettered {message} from {queue} ({reason})< {target}>", "queue", "exchange", WARN),
    ),
    events.PURGED: (
        Words("{message} deleted with its queue< {queue}>", "queue", None, WARN, {"reason": "queue_deleted"}),
        Words("{message} purged< from {queue}>", "queue", None, WARN),
    ),
    events.CONN_OPEN: (Words("{connection} {client} connected", "client"),),
    events.CONN_CLOSE: (
        Words("{connection} was still connected when the broker stopped", "client", when={"is_shutdown": True}),
        Words("{connection} lost its connection: {reason}", "client", None, BAD, _BY_THE_BROKER, is_across=True),
        Words("{connection} closed its connection", "client"),
    ),
    events.CHAN_OPEN: (Words("{who} opened", "client"),),
    events.CHAN_CLOSE: (
        Words("{who} was closed: {reason}", "client", None, BAD, _BY_THE_BROKER),
        Words("{who} closed", "client"),
    ),
    events.REFUSED: (Words("{who} was refused: {code} {text}", "client", None, BAD, is_across=True),),
    events.EXCHANGE_DECLARE: (Words("<{who} >declared {type} exchange {exchange}", "client", "exchange"),),
    events.EXCHANGE_DELETE: (Words("<{who} >deleted exchange {exchange}", "client", "exchange"),),
    events.QUEUE_DECLARE: (Words("<{who} >declared queue {queue}", "client", "queue"),),
    events.QUEUE_DELETE: (
        Words("<{who} >deleted queue {queue} ({reason})", "client", "queue", when={"reason": ANY, "conn": ANY}),
        Words("deleted queue {queue} ({reason})", "queue", when={"reason": ANY}),
        Words("<{who} >deleted queue {queue}", "client", "queue"),
    ),
    events.BIND: (
        Words(
            "<{who} >bound {destination_kind} {destination} to {exchange}[ with key {routing_key}]",
            *("client", "destination"),
        ),
    ),
    events.UNBIND: (
        Words(
            "<{who} >unbound {destination_kind} {destination} from {exchange}[ with key {routing_key}]",
            *("client", "destination"),
        ),
    ),
    events.CONSUME: (Words("{who} consumes {queue} as {consumer}", "client", "queue"),),
    events.CANCEL: (
        Words(
            "consumer {consumer} of {queue} was cancelled by the broker ({reason})",
            *("client", "queue", WARN, _BY_THE_BROKER),
        ),
        Words("consumer {consumer} of {queue} was cancelled", "client", "queue"),
    ),
    events.QOS: (Words("{who} set its prefetch to {count}", "client"),),
    events.CALLED: (Words("the test called {call}", "test"),),
    events.TEST_START: (Words("{test} began", "test"),),
    events.TEST_END: (Words("{test} ended[: {outcome}]", "test"),),
    events.FAULT: (
        Words("fault {fault}< ({who})>", "client", None, BAD, {"on": "now"}, is_across=True),
        Words("fault {fault}[ on {on}]< ({who})>", "client", None, BAD, is_across=True),
    ),
}
# A kind that this leveret does not know: a newer one may have written the file.
_OTHER: Final = Words("{kind}[ {message}]", "client")


class End(NamedTuple):
    """The words for how a copy stands or ended: a clause about the message, and a word for the tables of the report."""

    clause: str
    tone: Tone
    outcome: str


# How a copy stands, besides the kinds of events that end one.
READY: Final = "ready"
AGAIN: Final = "undecided"
UNACKED: Final = "unacked"
ENDS: Final[dict[str, End]] = {
    READY: End("<is still >ready[{since}] in {queue}[ after {often}][{untaken}]", WARN, "still waiting at the end"),
    AGAIN: End("<was {how} and is >ready again in {queue} after {often}[{untaken}]", WARN, "requeued at the end"),
    UNACKED: End("<is >unacked[{since}] in {queue}[ after {often}], held by {holder}", WARN, "still held at the end"),
    events.NO_ACK: End(
        "<was >delivered from {queue} with no_ack[ by {holder}]<, so no client acknowledged it>", PLAIN, "acknowledged"
    ),
    events.ACKED: End("<was >acked in {queue}[ by {holder}][ after {often}]", GOOD, "acknowledged"),
    events.EXPIRED: End("expired in {queue}[ after {often}][ ({why})]", BAD, "expired"),
    events.DROPPED: End(
        "<was >dropped from {queue} ({reason})[ by {holder}][ after {often}][ ({why})]", BAD, "dropped"
    ),
    events.DEAD_LETTERED: End(
        "<was >dead-lettered from {queue} ({reason})[ by {holder}][ after {often}][ {target}]", WARN, "dead-lettered"
    ),
    events.PURGED: End("<was >purged from {queue}[ after {often}]", WARN, "removed with or from its queue"),
    "queue_deleted": End("<was >deleted with {queue}[ after {often}]", WARN, "removed with or from its queue"),
    "delivered": End("<was >delivered from {queue} to {holder}, acks are not recorded", PLAIN, "delivered"),
}
# The ends whose words depend on the reason.
BY_REASON: Final[dict[tuple[str, object], str]] = {
    (events.ACKED, events.NO_ACK): events.NO_ACK,
    (events.PURGED, "queue_deleted"): "queue_deleted",
}
# How a copy stands in a word or two, for a flow, where its state is no such word.
STANDS: Final = {AGAIN: "ready again", events.NO_ACK: "taken", "delivered": "taken", UNACKED: "held"}
# A settled copy whose end is not known yet.
_OTHER_END: Final = End("<was >{kind} in {queue}[ by {holder}]", WARN, "undecided")

# Why it happened, by kind and by the reason of the event.
REASONS: Final[dict[str, dict[str, str]]] = {
    events.RETURNED: {"NO_ROUTE": "no queue matched"},
    events.ACKED: {events.NO_ACK: "automatically: the consumer uses no_ack"},
    events.REQUEUED: {
        "nacked": "nacked with requeue",
        "rejected": "rejected with requeue",
        "recovered": "requeued by basic.recover",
        "channel_closed": "requeued because its channel closed",
        "consumer_timeout": "requeued because its consumer held it too long",
    },
    events.DROPPED: {
        "no route": "it had no queue to go to",
        "fault": "a fault that the test injected dropped it",
        "rolled_back": "its transaction was rolled back",
        "uncommitted": "its transaction was not committed",
        "rejected": "rejected, and its queue has no dead-letter exchange",
        "delivery_limit": "it reached the delivery limit, and its queue has no dead-letter exchange",
        "maxlen": "its queue was full and has no dead-letter exchange",
        "cycle": "it would have gone around a cycle of dead-letter queues",
        "no requester": "the client that sent the request had gone before the direct reply came",
        "restart": "the broker was restarted, and the message was not persistent",
        "retention": "the stream's retention limit removed it",
    },
    events.DEAD_LETTERED: {
        "rejected": "rejected",
        "expired": "expired",
        "maxlen": "queue full",
        "delivery_limit": "delivery limit",
    },
    events.PURGED: {"purged": "purged", "queue_deleted": "its queue was deleted"},
}
# The names of fields beside the words.
DETAILS: Final = {
    "tag": "delivery tag",
    "count": "delivered before",
    "consumer": "consumer",
    "multiple": "multiple",
    "redelivered": "redelivered",
    "reason": "reason",
    **{name: name.replace("_", " ") for name in ("arguments", "prefetch_count", "peer", "user", "code", "cause")},
    **{name: name.replace("_", " ") for name in ("exclusive", "no_ack")},
}
# The slots for which `Names` has a method.
_OWN: Final = frozenset({"message", "who", "reason", "target"})
# The slots that hold a name, which a text sets apart.
_QUOTED: Final = frozenset({"queue", "exchange", "destination", "routing_key", "consumer", "client"})


class Names:
    """How a text names what facts name by numbers; this one is about a message that needs no name."""

    def message(self, fact: Event) -> str:
        """Return the name of the message of a fact; "" if it is about none."""
        return "it" if fact.kind in events.ABOUT_MESSAGES or fact.get("msg") is not None else ""

    def quoted(self, name: str) -> str:
        """Return the name of a queue or the like, set apart from the words."""
        return repr(name)

    def who(self, fact: Event) -> str:
        """Return who caused a fact: "c1/ch2", "the test"; "" if neither a client nor the test did."""
        if fact.kind not in events.BY_SOMEONE or (fact.kind == events.FAULT and fact.get("conn") is None):
            return ""
        return channel_text(fact.get("conn"), fact.get("chan"))

    def reason(self, fact: Event) -> str:
        """Return the reason of a fact."""
        return str(fact.get("reason"))

    def target(self, fact: Event) -> str:
        """Return where a message went: "to 'orders' with key 'new'"."""
        exchange, key = str(fact.get("exchange") or ""), str(fact.get("routing_key") or "")
        if not exchange:
            return f"to queue {self.quoted(key)}"
        return f"to {self.quoted(exchange)} with key {self.quoted(key)}"

    def slot(self, fact: Event, name: str) -> str:
        """Return what a slot of a template says about a fact; "" leaves its bracket out."""
        if name in _OWN:
            own: Callable[[Event], str] = getattr(self, name)
            return own(fact)
        if name == "connection":
            return channel_text(fact.get("conn"), None)
        if name == "destination":
            return self.quoted(str(fact.get(name)))
        value = fact.kind if name == "kind" else fact.get(name)
        if value is None or (value == "" and name != "client"):
            return ""
        return self.quoted(str(value)) if name in _QUOTED else str(value)


class Numbers(Names):
    """The names in a text that has no room for what messages say: "#7"."""

    def message(self, fact: Event) -> str:
        """Return the number of a message."""
        number = fact.get("msg")
        return "" if number is None else f"#{number}"


def words_of(fact: Event) -> Words:
    """Return the row of the table that applies to a fact."""
    raw = fact.raw
    for row, conditions in _rows_of(fact.kind):
        for place, value in conditions:
            if raw[place] in (None, False, "") if value is ANY else raw[place] != value:
                break
        else:
            return row
    return _OTHER


@cache
def _rows_of(kind: str) -> list[tuple[Words, list[tuple[int, object]]]]:
    """Return the rows of a kind, each with its fields as places in the tuple of an event."""
    places = events.POSITIONS[kind]
    return [(row, [(places[name], value) for name, value in row.when.items()]) for row in KINDS.get(kind, ())]


def told(fact: Event, names: Names, *, is_drawn: bool = False) -> str:
    """Return what happened, as a drawing or a line of text says it."""
    return filled(words_of(fact).text, partial(names.slot, fact), is_drawn=is_drawn)


def end_of(state: str) -> End:
    """Return the words for how a copy stands."""
    return ENDS.get(state, _OTHER_END)


def why(kind: str, reason: object) -> str:
    """Return why an event with this reason happened."""
    return REASONS.get(kind, {}).get(str(reason), str(reason))


def filled(template: str, slot: Callable[[str], str], *, is_drawn: bool) -> str:
    """Return a template with its slots filled. See the beginning of this module."""
    shown = []
    for text, names, is_optional in _parts(template, is_drawn):
        if not is_optional:
            shown.append(slot(names[0]) if names else text)
        elif all(values := list(map(slot, names))):
            shown.append(text.format(**dict(zip(names, values, strict=True))))
    return "".join(shown)


@cache
def _parts(template: str, is_drawn: bool) -> list[tuple[str, tuple[str, ...], bool]]:
    """Return the parts of a template: text with its slots, and whether all of these must have a value."""
    parts: list[tuple[str, tuple[str, ...], bool]] = []
    end = 0
    for found in _PARTS.finditer(template):
        parts.append((template[end : found.start()], (), False))
        end = found.end()
        beside_drawing, optional, name = found.groups()
        if name is not None:
            parts.append((found[0], (name,), False))
        elif beside_drawing is None or not is_drawn:
            text: str = optional if beside_drawing is None else beside_drawing
            parts.append((text, tuple(_SLOT.findall(text)), True))
    parts.append((template[end:], (), False))
    return [part for part in parts if part[0]]


def details(fact: Event, redaction: Redaction | None = None) -> list[list[str]]:
    """Return the fields of a fact that its words leave out, each with its label. `redaction` hides what is secret."""
    found = []
    is_publish = fact.kind == events.PUBLISHED or fact.kind in events.ANSWERS
    for place, name, label in _details_of(fact.kind):
        value = fact.raw[place]
        is_default = value is False and not (name == "multiple" and fact.kind in events.SETTLING)
        if value is None or is_default or (name == "count" and value == 0):
            continue
        value = as_python(value)
        if value == {}:
            continue
        value = redaction.shown(value) if redaction is not None and isinstance(value, Mapping) else value
        shown = str(value) if not isinstance(value, bool) else "yes" if value else "no"
        found.append(["publish number" if name == "tag" and is_publish else label, shown])
    return found


@cache
def _details_of(kind: str) -> list[tuple[int, str, str]]:
    """Return the fields beside the words of a kind: the place in the tuple of an event, the name and the label."""
    places = events.POSITIONS[kind]
    # Only of a delivery, the count is one of earlier deliveries.
    left_out = () if kind in events.DELIVERIES else ("count",)
    return [(places[name], name, label) for name, label in DETAILS.items() if name in places and name not in left_out]


def done(kind: str) -> str:
    """Return a kind of event as a participle: "acknowledged", "dead-lettered"."""
    return ENDS[kind].outcome if kind == events.ACKED else kind.replace("_", "-")


def deliveries_text(count: int) -> str:
    """Return how often a copy was delivered; "" if it was not."""
    return "" if not count else "1 delivery" if count == 1 else f"{count} deliveries"


def channel_text(conn: object, chan: object) -> str:
    """Return a connection and channel as text: "c1/ch2", "c1", or "the test"."""
    if not isinstance(conn, int):
        return "the test"
    return place_text(conn, chan if isinstance(chan, int) else None)
