"""The messages of each test as spans of OpenTelemetry, in files of OTLP/JSON (`--leveret-otlp=DIR`).

A publish is a span of a producer. It ends when the broker answers it, and its parent is the span in the header
`traceparent`. Each delivery is a span of a consumer below it, from the delivery until the client settles it. Each
client is a service. Messages without a `traceparent` have a trace each.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from pytest_leveret.brokers import brokers_of, refuse_directory
from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.guard import Guarded, register
from pytest_leveret.options import read_settings
from pytest_leveret.options.table import OTLP
from pytest_leveret.reports.pages import file_name

if TYPE_CHECKING:
    from leveret import Broker
    from leveret.story.entities import CopyLife, DeliveryLife, MessageLife
    from leveret.trace.events import Event, TracedMessage

# The attribute of a report whose test has a file.
_MARK: Final = "leveret_spans"
_BROKERS: Final = pytest.StashKey["list[Broker]"]()
# The numbers of OTLP's protobuf.
_PRODUCER: Final = 4
_CONSUMER: Final = 5
_ERROR: Final = 2

Value = str | int | float | bool | None
Json = dict[str, Any]


def prepare(config: pytest.Config) -> None:
    """Read the option. Raises UsageError if it is invalid."""
    setting = read_settings(config, OTLP).get("otlp")
    if setting is not None:
        refuse_directory(setting)
        register(config, Writing(setting.value), "leveret-otlp", "name the folder of the spans")


class Writing:
    """The part of the plugin that writes the files."""

    def __init__(self, folder: str) -> None:
        """Write to this folder."""
        self._folder: Final = Path(folder)
        self._has_written = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write what a test has sent, once its teardown has run."""
        result = yield
        if result.when != "teardown":
            # A fixture of the session may end with this test, and then it is none of the test's brokers any more.
            item.stash[_BROKERS] = brokers_of(item)
        elif _BROKERS in item.stash:
            with Guarded("write the spans", item, result):
                if self._write(item):
                    setattr(result, _MARK, True)
        return result

    def _write(self, item: pytest.Item) -> bool:
        brokers = item.stash[_BROKERS]
        del item.stash[_BROKERS]
        resources = [
            it for number, broker in enumerate(brokers) for it in _Spans(broker, item.nodeid, number).resources()
        ]
        if resources:
            self._folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"resourceSpans": resources}, indent=1)
            (self._folder / file_name(item.config, item.nodeid, ".json")).write_text(
                f"{text}\n", encoding="utf-8", newline="\n"
            )
        return bool(resources)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that there is a file, which may come from a worker."""
        self._has_written |= hasattr(report, _MARK)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the folder, if it has got a file."""
        if self._has_written:
            terminalreporter.write_line(f"leveret: the spans of this run are in {self._folder}")


class _Spans:
    """The spans of one test on one broker."""

    def __init__(self, broker: Broker, test: str, number: int) -> None:
        """Read what happened in a test on its broker of this number."""
        self._test: Final = test
        self._number: Final = number
        self._timeline: Final = harness_of(broker).timeline
        self._began: Final = self._timeline.began_of(test)

    def resources(self) -> Iterator[Json]:
        """Yield the spans of each client."""
        from leveret import __version__

        by_client: dict[str, list[Json]] = {}
        lives = self._timeline.messages.values()
        for life in (one for one in lives if one.last.place >= self._began):
            for client, span in self._of(life):
                by_client.setdefault(client, []).append(span)
        for client, spans in by_client.items():
            resource = _attributes({"service.name": client, "test.case.name": self._test})
            scope = {"name": "leveret", "version": __version__}
            yield {"resource": {"attributes": resource}, "scopeSpans": [{"scope": scope, "spans": spans}]}

    def _of(self, life: MessageLife) -> Iterator[tuple[str, Json]]:
        """Yield the spans of a message, each with its client."""
        from leveret.observe.checks.trace_context import context_of

        context = context_of(life.message)
        trace, parent = context.trace or self._id(16, "trace", life.number), context.span
        if life.published is not None and life.published.place >= self._began:
            own = self._id(8, "publish", life.number)
            span = self._published(life, life.published)
            yield self._timeline.name(life.publisher), {**_identity(trace, own, parent), **span}
            parent = own
        for copy in life.copies.values():
            for place, (delivery, span) in enumerate(self._deliveries(copy)):
                identity = _identity(trace, self._id(8, "deliver", copy.number, place), parent)
                yield self._timeline.name(delivery.connection), {**identity, **span}

    def _published(self, life: MessageLife, published: Event) -> Json:
        from leveret.story.words import BAD, words_of
        from leveret.trace import events

        # What the publisher learns, and what the spans of deliveries show, is no event of the span of the publish.
        left_out = {events.PUBLISHED, *events.ANSWERS, *events.DELIVERIES, *events.SETTLING}
        facts = [*life.facts, *(fact for copy in life.copies.values() for fact in copy.facts)]
        ends = [fact for fact in life.facts if fact.kind in (*events.ANSWERS, *events.RETURNS)]
        failed = next((it for it in life.facts if words_of(it).tone == BAD), None)
        others = sorted((it for it in facts if it.kind not in left_out), key=lambda it: it.at)
        names = {"messaging.operation.name": "publish", "messaging.operation.type": "send"}
        body = {"messaging.message.body.size": len(life.message.body)}
        return _span(
            f"publish {_destination(life.message)}",
            _PRODUCER,
            (published.at, max((it.at for it in ends), default=published.at)),
            {**names, **_about(life.message), **body},
            failed=None if failed is None else str(failed.get("reason") or failed.kind),
            events=others,
        )

    def _deliveries(self, copy: CopyLife) -> Iterator[tuple[DeliveryLife, Json]]:
        """Yield each delivery of a copy with its span, until its client settled it or it was requeued."""
        from leveret.trace import events

        message, queue = copy.message.message, copy.queue.name
        waiting_since: int | None = None
        deliveries = iter(copy.deliveries)
        for fact in copy.facts:
            if fact.kind in (*events.ARRIVALS, *events.REQUEUES):
                waiting_since = fact.at
            if fact.kind not in events.DELIVERIES:
                continue
            delivery = next(deliveries)
            if fact.place < self._began:
                continue
            end = delivery.settled or delivery.requeued
            is_pushed = fact.kind in events.PUSHES
            name, kind = ("process", "process") if is_pushed else ("get", "receive")
            own: dict[str, Value] = {
                "messaging.operation.name": name,
                "messaging.operation.type": kind,
                **_about(message, queue),
                "messaging.rabbitmq.message.delivery_tag": fact.tag,
                "leveret.queue": queue,
                "leveret.redelivered": fact.redelivered,
                "leveret.outcome": "unsettled" if end is None else end.kind,
                "leveret.time_in_queue_ms": None if waiting_since is None else (fact.at - waiting_since) / 1000,
            }
            yield (
                delivery,
                _span(
                    f"{name} {_destination(message, queue)}",
                    _CONSUMER,
                    (fact.at, (self._timeline.now or 0) if end is None else end.at),
                    own,
                    failed=end.kind if end is not None and end.kind in events.REFUSING else None,
                ),
            )

    def _id(self, size: int, *parts: object) -> str:
        """Return an identifier that is the same in each run."""
        return blake2b(repr((self._test, self._number, *parts)).encode(), digest_size=size).hexdigest()


def _identity(trace: str, span: str, parent: str | None) -> Json:
    return {"traceId": trace, "spanId": span, **({} if parent is None else {"parentSpanId": parent})}


def _destination(message: TracedMessage, queue: str = "") -> str:
    """Return the name of a destination as the conventions for RabbitMQ write it."""
    parts = dict.fromkeys(filter(None, (message.exchange, message.routing_key, queue)))
    return ":".join(parts) or "amq.default"


def _about(message: TracedMessage, queue: str = "") -> dict[str, Value]:
    return {
        "messaging.system": "rabbitmq",
        "messaging.destination.name": _destination(message, queue),
        "messaging.rabbitmq.destination.routing_key": message.routing_key or None,
        "messaging.message.id": message.properties.message_id,
        "messaging.message.conversation_id": message.properties.correlation_id,
    }


def _span(
    name: str,
    kind: int,
    times: tuple[int, int],
    attributes: Mapping[str, Value],
    *,
    failed: str | None = None,
    events: Iterable[Event] = (),
) -> Json:
    """Return a span without its ids. Instants are microseconds of the broker's clock."""
    return {
        "name": name,
        "kind": kind,
        "startTimeUnixNano": _nanoseconds(times[0]),
        "endTimeUnixNano": _nanoseconds(times[1]),
        "attributes": _attributes(attributes),
        "events": [
            {
                "timeUnixNano": _nanoseconds(it.at),
                "name": it.kind,
                "attributes": _attributes({name: cast("Value", it.get(name)) for name in ("queue", "reason")}),
            }
            for it in events
        ],
        "status": {} if failed is None else {"code": _ERROR, "message": failed},
    }


def _nanoseconds(at: int) -> str:
    return str(at * 1000)


def _attributes(values: Mapping[str, Value]) -> list[Json]:
    """Return attributes that have a value. In OTLP/JSON, 64-bit integers are strings."""
    return [{"key": name, "value": _value(value)} for name, value in values.items() if value is not None]


def _value(value: str | float) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}
