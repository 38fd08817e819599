"""A step of a story: one row as an event that a page can draw, with its words, its two lanes and its tone.

`WORDS` has a function for each kind of event. It sees the row and the lanes, and nothing else of the story.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from leveret.core.model.node import SHUTDOWN_TEXT
from leveret.page.lanes import Lanes, channel_text, shown_name
from leveret.page.readings.reading import PageRow
from leveret.trace import events

StoryEvent = dict[str, Any]

GOOD: Final = "good"
BAD: Final = "bad"
WARN: Final = "warn"
PLAIN: Final = "plain"
NO_ACK: Final = "no_ack"

# What prepares the exchange of messages. It is folded until the first message.
SETUP: Final = frozenset(
    {
        *(events.CONN_OPEN, events.CHAN_OPEN, events.EXCHANGE_DECLARE, events.QUEUE_DECLARE, events.BIND),
        *(events.UNBIND, events.CONSUME, events.CALLED, events.EXCHANGE_DELETE, events.QUEUE_DELETE),
        *(events.CANCEL, events.PURGED),
    }
)
# What says nothing of its own once messages flow.
ALWAYS_SETUP: Final = frozenset({events.CONN_OPEN, events.CHAN_OPEN})
# Kinds that a connection, or the test itself, causes.
BY_SOMEONE: Final = frozenset(name for name, kind in events.TABLE.items() if "conn" in kind.fields)
# What a client does with a delivery. Of these, the details say whether more than one was settled.
SETTLING: Final = (events.ACKED, events.NACKED, events.REJECTED)
_SHOWN_FIELDS: Final = {
    "tag": "delivery tag",
    "count": "delivered before",
    "consumer": "consumer",
    "multiple": "multiple",
    "redelivered": "redelivered",
    "reason": "reason",
}


class Step(NamedTuple):
    """The words of an event, the lanes that it leads from and to, and its tone."""

    text: str
    start: str | None
    end: str | None = None
    tone: str = PLAIN
    is_across: bool = False


# From a row, the lanes and the name of its message to the step.
Word = Callable[[PageRow, Lanes, str], Step]


def step_of(row: PageRow, lanes: Lanes, name: str) -> Step:
    """Return the step of a row. `name` is what the story calls its message: "#3"."""
    return WORDS.get(row["kind"], _other)(row, lanes, name)


def details(row: PageRow) -> list[list[str]]:
    """Return the fields of a row that its words leave out."""
    shown = []
    for name, label in _SHOWN_FIELDS.items():
        value = row.get(name)
        if (
            value is not None
            and (value is not False or (name == "multiple" and row["kind"] in SETTLING))
            and not (name == "count" and (value == 0 or row["kind"] == events.QOS))
        ):
            is_publish = name == "tag" and row["kind"] in (events.PUBLISHED, *events.ANSWERS)
            shown.append(["publish number" if is_publish else label, _shown_value(value)])
    attrs = row["attrs"]
    for name in ("arguments", "prefetch_count", "peer", "user", "code", "cause", "exclusive", "no_ack"):
        value = attrs.get(name)
        if value not in (None, False, {}):
            shown.append([name.replace("_", " "), _shown_value(value)])
    return shown


def _shown_value(value: object) -> str:
    return str(value) if not isinstance(value, bool) else "yes" if value else "no"


def _client(row: PageRow, lanes: Lanes) -> str:
    return lanes.client(row.get("conn"))


def _source(row: PageRow, lanes: Lanes) -> str:
    return lanes.exchange(row.get("vhost") or "/", row.get("exchange") or "")


def _queue(row: PageRow, lanes: Lanes) -> str:
    return lanes.queue(row.get("vhost") or "/", row.get("queue") or "")


def _published(row: PageRow, lanes: Lanes, name: str) -> Step:
    exchange, key = row.get("exchange") or "", row.get("routing_key") or ""
    where = f"to {exchange!r} with key {key!r}" if exchange else f"to queue {shown_name(key)!r}"
    return Step(f"published {name} {where}", _client(row, lanes), _source(row, lanes))


def _returned(row: PageRow, lanes: Lanes, name: str) -> Step:
    text = f"returned {name} ({row.get('reason')})"
    return Step(text, _source(row, lanes), _client(row, lanes), BAD)


def _confirmed(row: PageRow, lanes: Lanes, name: str) -> Step:
    return Step(f"confirmed {name}", None, _client(row, lanes), GOOD)


def _nacked_confirm(row: PageRow, lanes: Lanes, name: str) -> Step:
    return Step(f"nacked {name} to its publisher", None, _client(row, lanes), BAD)


def _enqueued(row: PageRow, lanes: Lanes, name: str) -> Step:
    what = "dead letter " if row.get("src_copy") is not None else ""
    return Step(f"{what}{name} entered {shown_name(row.get('queue'))!r}", _source(row, lanes), _queue(row, lanes))


def _delivered(row: PageRow, lanes: Lanes, name: str) -> Step:
    again = "redelivered" if row.get("redelivered") else "delivered"
    text = f"{again} {name} to {channel_text(row.get('conn'), row.get('chan'))}"
    return Step(text, _queue(row, lanes), _client(row, lanes), WARN if row.get("redelivered") else PLAIN)


def _got(row: PageRow, lanes: Lanes, name: str) -> Step:
    text = f"{channel_text(row.get('conn'), row.get('chan'))} got {name}"
    return Step(text, _queue(row, lanes), _client(row, lanes), WARN if row.get("redelivered") else PLAIN)


def _acked(row: PageRow, lanes: Lanes, name: str) -> Step:
    if row.get("reason") == NO_ACK:
        return Step(f"{name} counts as acked (no_ack)", _client(row, lanes), _queue(row, lanes))
    return Step(f"acked {name}", _client(row, lanes), _queue(row, lanes), GOOD)


def _settled(row: PageRow, lanes: Lanes, name: str) -> Step:
    return Step(f"{row['kind']} {name}", _client(row, lanes), _queue(row, lanes), WARN)


def _requeued(row: PageRow, lanes: Lanes, name: str) -> Step:
    return Step(
        f"requeued {name} in {shown_name(row.get('queue'))!r} ({row.get('reason')})", _queue(row, lanes), None, WARN
    )


def _expired(row: PageRow, lanes: Lanes, name: str) -> Step:
    return Step(f"{name} expired in {shown_name(row.get('queue'))!r}", _queue(row, lanes), None, BAD)


def _dropped(row: PageRow, lanes: Lanes, name: str) -> Step:
    if row.get("queue") is None:
        where = f" by exchange {row.get('exchange')!r}" if row.get("exchange") else ""
        return Step(f"dropped {name}{where} ({row.get('reason')})", _source(row, lanes), None, BAD)
    return Step(
        f"dropped {name} from {shown_name(row.get('queue'))!r} ({row.get('reason')})", _queue(row, lanes), None, BAD
    )


def _dead_lettered(row: PageRow, lanes: Lanes, name: str) -> Step:
    text = f"dead-lettered {name} from {shown_name(row.get('queue'))!r} ({row.get('reason')})"
    return Step(text, _queue(row, lanes), _source(row, lanes), WARN)


def _purged(row: PageRow, lanes: Lanes, name: str) -> Step:
    how = "deleted with its queue" if row.get("reason") == "queue_deleted" else "purged"
    return Step(f"{name} {how}", _queue(row, lanes), None, WARN)


def _conn_open(row: PageRow, lanes: Lanes, name: str) -> Step:
    attrs = row["attrs"]
    client = str(attrs.get("client") or "")
    facts = [f"user {attrs['user']}" if attrs.get("user") else "", str(attrs.get("peer") or "")]
    detail = ", ".join(fact for fact in (client, *facts) if fact)
    lane = lanes.client(row.get("conn"), client, detail, attrs.get("opener"))
    return Step(f"{channel_text(row.get('conn'), None)} {client!r} connected", lane)


def _conn_close(row: PageRow, lanes: Lanes, name: str) -> Step:
    who, reason = channel_text(row.get("conn"), None), row.get("reason")
    if reason is None:
        return Step(f"{who} closed its connection", _client(row, lanes))
    if SHUTDOWN_TEXT in str(reason):
        return Step(f"{who} was still connected when the broker stopped", _client(row, lanes))
    return Step(f"{who} lost its connection: {reason}", _client(row, lanes), None, BAD, is_across=True)


def _chan_open(row: PageRow, lanes: Lanes, name: str) -> Step:
    return Step(f"{channel_text(row.get('conn'), row.get('chan'))} opened", _client(row, lanes))


def _chan_close(row: PageRow, lanes: Lanes, name: str) -> Step:
    who, reason = channel_text(row.get("conn"), row.get("chan")), row.get("reason")
    if reason is None:
        return Step(f"{who} closed", _client(row, lanes))
    return Step(f"{who} was closed: {reason}", _client(row, lanes), None, BAD)


def _refused(row: PageRow, lanes: Lanes, name: str) -> Step:
    attrs = row["attrs"]
    who = channel_text(row.get("conn"), row.get("chan"))
    text = f"{who} was refused: {attrs.get('code')} {attrs.get('text')}"
    return Step(text, _client(row, lanes), None, BAD, is_across=True)


def _exchange_declare(row: PageRow, lanes: Lanes, name: str) -> Step:
    text = f"declared {row['attrs'].get('type')} exchange {row.get('exchange')!r}"
    return Step(text, _client(row, lanes), _source(row, lanes))


def _exchange_delete(row: PageRow, lanes: Lanes, name: str) -> Step:
    return Step(f"deleted exchange {row.get('exchange')!r}", _client(row, lanes), _source(row, lanes))


def _queue_declare(row: PageRow, lanes: Lanes, name: str) -> Step:
    return Step(f"declared queue {shown_name(row.get('queue'))!r}", _client(row, lanes), _queue(row, lanes))


def _queue_delete(row: PageRow, lanes: Lanes, name: str) -> Step:
    why = f" ({row['reason']})" if row.get("reason") else ""
    text = f"deleted queue {shown_name(row.get('queue'))!r}{why}"
    if why and row.get("conn") is None:
        return Step(text, _queue(row, lanes))
    return Step(text, _client(row, lanes), _queue(row, lanes))


def _bind(row: PageRow, lanes: Lanes, name: str) -> Step:
    attrs, verb = row["attrs"], "bound" if row["kind"] == events.BIND else "unbound"
    kind, destination = attrs.get("destination_kind", "queue"), attrs.get("destination", row.get("queue"))
    key = f" with key {row['routing_key']!r}" if row.get("routing_key") else ""
    lane = _queue(row, lanes) if kind == "queue" else lanes.exchange(row.get("vhost") or "/", str(destination))
    return Step(f"{verb} {kind} {destination!r} to {row.get('exchange')!r}{key}", _client(row, lanes), lane)


def _consume(row: PageRow, lanes: Lanes, name: str) -> Step:
    who = channel_text(row.get("conn"), row.get("chan"))
    return Step(
        f"{who} consumes {shown_name(row.get('queue'))!r} as {row.get('consumer')!r}",
        _client(row, lanes),
        _queue(row, lanes),
    )


def _cancel(row: PageRow, lanes: Lanes, name: str) -> Step:
    why = f" by the broker ({row['reason']})" if row.get("reason") else ""
    text = f"consumer {row.get('consumer')!r} of {shown_name(row.get('queue'))!r} was cancelled{why}"
    return Step(text, _client(row, lanes), _queue(row, lanes), WARN if why else PLAIN)


def _qos(row: PageRow, lanes: Lanes, name: str) -> Step:
    who = channel_text(row.get("conn"), row.get("chan"))
    return Step(f"{who} set its prefetch to {row.get('count')}", _client(row, lanes))


def _called(row: PageRow, lanes: Lanes, name: str) -> Step:
    return Step(f"the test called {row['attrs'].get('call')}", lanes.test())


def _fault(row: PageRow, lanes: Lanes, name: str) -> Step:
    attrs = row["attrs"]
    on = "" if attrs.get("on") in (None, "now") else f" on {attrs['on']}"
    lane = None if row.get("conn") is None else _client(row, lanes)
    return Step(f"fault {attrs.get('fault')}{on}", lane, None, BAD, is_across=True)


def _other(row: PageRow, lanes: Lanes, name: str) -> Step:
    """Return the step of a kind that this leveret does not know: a newer one may have written the file."""
    lane = _client(row, lanes) if row.get("conn") is not None else None
    return Step(f"{row['kind']} {name}".rstrip(), lane)


WORDS: Final[dict[str, Word]] = {
    events.PUBLISHED: _published,
    events.RETURNED: _returned,
    events.CONFIRMED: _confirmed,
    events.NACKED_CONFIRM: _nacked_confirm,
    events.ENQUEUED: _enqueued,
    events.DELIVERED: _delivered,
    events.GOT: _got,
    events.ACKED: _acked,
    events.NACKED: _settled,
    events.REJECTED: _settled,
    events.REQUEUED: _requeued,
    events.EXPIRED: _expired,
    events.DROPPED: _dropped,
    events.DEAD_LETTERED: _dead_lettered,
    events.PURGED: _purged,
    events.CONN_OPEN: _conn_open,
    events.CONN_CLOSE: _conn_close,
    events.CHAN_OPEN: _chan_open,
    events.CHAN_CLOSE: _chan_close,
    events.REFUSED: _refused,
    events.EXCHANGE_DECLARE: _exchange_declare,
    events.EXCHANGE_DELETE: _exchange_delete,
    events.QUEUE_DECLARE: _queue_declare,
    events.QUEUE_DELETE: _queue_delete,
    events.BIND: _bind,
    events.UNBIND: _bind,
    events.CONSUME: _consume,
    events.CANCEL: _cancel,
    events.QOS: _qos,
    events.CALLED: _called,
    events.FAULT: _fault,
}
