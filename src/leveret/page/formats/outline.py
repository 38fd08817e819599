"""A story as text: what `leveret trace show` prints."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from leveret.page.story import Story
from leveret.trace.events import printable
from leveret.wording import count_text, span_text


def outline_of(story: Story, limit: int | None = None) -> str:
    """Return a story as text, for a terminal or a file; of its events, messages and queues the first `limit` each."""
    parts = [_head(story), *(part(story, limit) for part in (_sequence, _messages, _queues, _unroutable))]
    lines = [line for part in parts for line in ["", *part] if part][1:]
    return printable("\n".join(lines)) + "\n"


def _left_out(items: list[dict[str, Any]], what: str, limit: int | None) -> list[str]:
    left = 0 if limit is None else len(items) - limit
    return [f"  ... and {count_text(left, what)} more"] if left > 0 else []


def _head(story: Story) -> list[str]:
    test = story["test"]
    spent = f" in {test['seconds']:.3f} s" if "seconds" in test else ""
    moved = f", {test['broker_seconds']:.3f} s by the broker's clock" if "broker_seconds" in test else ""
    lines = [f"{test.get('id') or 'a test'} {test.get('outcome', '')}{spent}{moved}".rstrip()]
    if story["causes"]:
        lines += ["what went wrong:", *(f"  {cause['sentence']}" for cause in story["causes"])]
    if "error" in test:
        lines += [f"  {line}" for line in test["error"]["text"].splitlines()]
    if story["noticed"]:
        lines += ["also noticed:", *(f"  {cause['sentence']}" for cause in story["noticed"])]
    for broker in story["brokers"]:
        seed = f", seed {broker['seed']}" if "seed" in broker else ""
        lines.append(f"{broker['id']}: {broker['title']}, RabbitMQ {broker['rabbitmq'] or 'of unknown version'}{seed}")
        if broker["dropped_events"]:
            lines.append("  older events were dropped")
        for fault in broker["faults"]:
            lines.append(f"  fault {fault['text']}: {_fired(fault['fired'])}")
        for check in broker["checks"]:
            lines += [f"  {line}" for line in check["text"].splitlines()]
    if story["cut"]["events"]:
        lines.append(f"{count_text(story['cut']['events'], 'earlier event')} left out")
    return lines


def _fired(count: int) -> str:
    return "never fired" if not count else f"fired {count} times" if count > 1 else "fired once"


def _sequence(story: Story, limit: int | None) -> list[str]:
    # The lines name the broker themselves if there are two.
    labels = {lane["id"]: "test" if lane["kind"] == "test" else lane["label"] for lane in story["lanes"]}
    is_one = len(story["brokers"]) == 1
    lines: list[str] = []
    for is_setup, events in groupby(story["events"][:limit], lambda event: "setup" in event):
        if is_setup:
            lines.append(f"  ({count_text(len(list(events)), 'event')} of set-up)")
            continue
        for event in events:
            if "leap" in event:
                lines.append(f"  ... {span_text(event['leap'])} of the broker's time later")
            lines.append(_event_line(event, labels, is_one=is_one))
    return ["events:", *(lines or ["  none"]), *_left_out(story["events"], "event", limit)]


def _event_line(event: dict[str, Any], labels: dict[str, str], *, is_one: bool) -> str:
    at = f"{event['t'] / 1_000_000:10.6f}" if "t" in event else f"{event['i']:10}"
    ends = " -> ".join([labels[event[end]] for end in ("from", "to") if end in event])
    broker = "" if is_one or not ends else f"{(event.get('from') or event['to']).partition('/')[0]} "
    line = f"  at {event['line']}" if "line" in event else ""
    mark = "!" if event.get("tone") == "bad" else " "
    return f"{mark}{at}  {broker}{ends}: {event['text']}{line}" if ends else f"{mark}{at}  {event['text']}{line}"


def _messages(story: Story, limit: int | None) -> list[str]:
    lines = ["messages:"]
    for message in story["messages"][:limit]:
        by = f", published by {message['publisher']}" if "publisher" in message else ""
        line = f" at {message['line']}" if "line" in message else ""
        where = f"{message['exchange']!r} {message['routing_key']!r}"
        lines.append(f"  {_name_of(message)} {message['label']} to {where}{by}{line}")
        lines.append(f"      {message['outcome']}")
        if "caused_by" in message:
            cause = message["caused_by"]
            guess = " (a guess)" if cause.get("guess") else ""
            lines.append(f"      caused by #{cause['message']}: {cause['how']}{guess}")
    return [*lines, *_left_out(story["messages"], "message", limit)] if len(lines) > 1 else ["messages: none"]


def _name_of(message: dict[str, Any]) -> str:
    """Return the name of a message: "#3", or "#3 of b2" in a test with two brokers."""
    return str(message.get("name", f"#{message['number']}"))


def _queues(story: Story, limit: int | None) -> list[str]:
    lines = ["queues:"]
    for queue in story["queues"][:limit]:
        ready, unacked, consumers = queue["series"][-1][2:] if queue["series"] else (0, 0, 0)
        gone = ", deleted" if queue.get("deleted") else ""
        counts = f"{ready} ready, {unacked} unacked, {count_text(consumers, 'consumer')}"
        lines.append(f"  {queue['name']}: {counts}{gone}")
        for binding in queue["bindings"]:
            used = count_text(binding["count"], "message") if binding["count"] else "unused"
            lines.append(f"      bound to {binding['exchange']!r} with key {binding['key']!r}: {used}")
    return [*lines, *_left_out(story["queues"], "queue", limit)] if len(lines) > 1 else ["queues: none"]


def _unroutable(story: Story, limit: int | None) -> list[str]:
    labels = {node["id"]: node["label"] for node in story["topology"]["nodes"]}
    lines = []
    for lost in story["topology"]["unroutable"][:limit]:
        where = labels.get(lost["exchange"], lost["exchange"])
        lines.append(f"  {lost['key']!r} at {where}: {count_text(len(lost['messages']), 'message')}")
        for near in lost["near"]:
            lines.append(f"      nearly {near['key']!r} to {labels.get(near['to'], near['to'])}: {near['why']}")
    return ["routed to no queue:", *lines] if lines else []
