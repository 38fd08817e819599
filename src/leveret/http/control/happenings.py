"""The endpoints for what has happened: events as a list, as a stream and as a trace file, and the page.

An event has the columns of a trace file (docs/reference/trace-format.md), whichever way it is read. Values of headers
with secret-looking names are hidden there, and here too. Connections and events have the broker's own numbers, so
answers can be joined. `wall` is missing while the clock stands still, because the broker keeps only its own time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, cast

from leveret.clocks import SystemClock
from leveret.errors import BrokerError, unknown
from leveret.http.control.endpoint import ROOT, VHOST, ControlCall, Handler, Parameter, endpoint
from leveret.http.control.shapes import COUNT, FLAG, TABLE, TEXT, Schema, listed, record
from leveret.http.messages import Response
from leveret.http.stream import FedStream, numbered
from leveret.page.readings.live import checks_of
from leveret.page.readings.reading import OwnNumbers, Reading, RealTime
from leveret.trace import events
from leveret.trace.events import RawEvent
from leveret.trace.jsonl import header_line
from leveret.trace.lines import Lines
from leveret.trace.redaction import Redaction
from leveret.trace.ring import is_of
from leveret.trace.version import __version__
from leveret.wording import names_in

_FILTERS: Final = {
    "kinds": Parameter("only events of these kinds, separated by commas, such as published,acked"),
    "queue": Parameter("only events about this queue"),
}
_EVENTS: Final[Schema] = record({"events": listed(TABLE), "is_complete": FLAG})
_FINDING: Final = record({"check": TEXT, "level": TEXT, "text": TEXT, "messages": listed(COUNT)})
_FROM: Final = Parameter("`start` sends first what was recorded before", {"enum": ["start"]})
_NDJSON: Final = "application/x-ndjson"
_SSE: Final = "text/event-stream"
_REAL: Final = SystemClock()


def _of_both(path: str, answer: Schema | None = None, **more: Any) -> Callable[[Handler], Handler]:
    """Declare the decorated handler as an endpoint for a virtual host, and as one for the whole broker."""

    def declare(handler: Handler) -> Handler:
        endpoint("GET", f"{ROOT}{path}", answer, name_end="OfAll", extent=" of the whole broker", **more)(handler)
        return endpoint("GET", f"{VHOST}{path}", answer, extent=" of a virtual host", **more)(handler)

    return declare


class EventLines:
    """The lines of the events that a request wants, as a trace file has them."""

    def __init__(self, call: ControlCall) -> None:
        """Take what the path and the query of a request want. Raises ValueError for an unknown kind of event."""
        self._vhost = call.scope.vhost if "vhost" in call.values else None
        self._kinds = frozenset(names_in(call.parameters.get("kinds", "")))
        for kind in self._kinds:
            if kind not in events.POSITIONS:
                raise ValueError(unknown("event", kind, events.KINDS))
        self._queue = call.parameters.get("queue")
        self._engine = call.engine
        self._lines = Lines(OwnNumbers(), Redaction(call.engine.redact), keeps_bodies=True)

    def of(self, raw_events: list[RawEvent], first: int) -> list[str]:
        """Return the lines of the events that are wanted, each with its newline. `first` is the first one's number."""
        wanted = [(number, raw) for number, raw in enumerate(raw_events, first) if self._wants(raw)]
        if not wanted:
            return []
        with self._engine.lock:
            real_time = RealTime(self._engine.clock.moves)
        # The marks of a test are no lines, so they take no number.
        next_seq = (number for number, raw in wanted if raw[0] not in events.MARKS).__next__
        lines: list[str] = []
        for at, turn in groupby((raw for _, raw in wanted), key=itemgetter(1)):
            lines += self._lines.write(turn, real_time.exactly_of(cast("int", at)), next_seq)
        return lines

    def _wants(self, raw: RawEvent) -> bool:
        if self._vhost is not None and not is_of(raw, self._vhost):
            return False
        if self._kinds and raw[0] not in self._kinds:
            return False
        if self._queue is None:
            return True
        at = events.POSITIONS[str(raw[0])].get("queue")
        return at is not None and raw[at] == self._queue


def _recorded(call: ControlCall) -> tuple[list[RawEvent], int]:
    _require_recording(call)
    call.engine.sync()
    return numbered(call.engine)


def _require_recording(call: ControlCall) -> None:
    if not call.engine.recorder.is_on:
        raise BrokerError("this broker records nothing; start it with record='recent'")


@_of_both("/events", _EVENTS, query=_FILTERS)
def list_events(call: ControlCall) -> object:
    """List the recorded events."""
    lines = EventLines(call)
    recorded = [json.loads(line) for line in lines.of(*_recorded(call))]
    return {"events": recorded, "is_complete": not call.engine.recorder.has_dropped}


@_of_both("/events/stream", query={**_FILTERS, "from": _FROM}, media=_SSE)
def stream_events(call: ControlCall) -> object:
    """After a first event named open, send the events."""
    lines = EventLines(call)
    _require_recording(call)
    call.engine.sync()
    stream = FedStream(call.pump, call.engine, call.values.get("vhost"), lines.of)
    # The client knows by this that it misses nothing from now on.
    stream.send("{}", "open")
    call.pump.subscribe(stream, from_start=call.parameters.get("from") == "start")
    return stream.response


@_of_both("/trace", query=_FILTERS, media=_NDJSON)
def get_trace(call: ControlCall) -> object:
    """Return a trace file."""
    engine = call.engine
    lines = EventLines(call).of(*_recorded(call))
    now = _REAL.now()
    facts = {
        "run": f"http-{now}",
        "worker": "main",
        "epoch_ns": now * 1000,
        "clock": "held" if engine.clock.moves else "real",
        "broker": f"leveret {__version__}",
        "profile": engine.compat.version,
        "seed": engine.seed,
    }
    text = header_line(facts) + "".join(lines)
    name = ("content-disposition", 'attachment; filename="trace.jsonl"')
    return Response(200, (("content-type", _NDJSON), name), text.encode("ascii"))


@_of_both("/findings", listed(_FINDING))
def list_findings(call: ControlCall) -> object:
    """List what the strict checks have found so far."""
    _require_recording(call)
    engine = call.engine
    engine.sync()
    if "vhost" in call.values:
        checks = call.scope.findings()
    else:
        with engine.lock:
            checks = checks_of(engine.judge, engine.recorder.raw())
    return [
        {"check": check.name, "level": check.level, "text": check.text, "messages": check.messages} for check in checks
    ]


@_of_both("/page", media="text/html")
def get_page(call: ControlCall) -> object:
    """Return the page."""
    from leveret.page.formats.html import page_of
    from leveret.page.readings.live import test_of
    from leveret.page.story import story_of

    recorded, _ = _recorded(call)
    reading: Reading = call.scope.reading() if "vhost" in call.values else call.engine.reading(None)
    page = page_of(story_of([reading], test_of(recorded), source="memory"))
    return Response.of_text(page, "text/html")
