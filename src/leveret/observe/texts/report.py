"""The report of a failed test: what fits a screen of a broker's state, the errors it sent, and its last events.

An error of an assertion or a wait carries it as a note, with the state at that moment. The names of clients come from
the recorded events, because a client that matters has often disconnected by then. RabbitMQ's text about a denied
feature names a line of rabbitmq.conf; a test has no such file, so the report names what the test can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from leveret.clocks import SystemClock
from leveret.core.model.node import Node
from leveret.core.protocol.receiving import strangers
from leveret.observe.calls.callers import Stack, stacks_of_users
from leveret.observe.texts.advice import DEFINITIONS, advice
from leveret.observe.texts.handle import MADE, Handle
from leveret.observe.texts.state import connections, queue_lines
from leveret.observe.texts.story import Story
from leveret.story.entities import Fact
from leveret.story.timeline import Timeline
from leveret.trace import events
from leveret.trace.events import Event, printable
from leveret.trace.ring import KeptEvents
from leveret.wording import client_place_text, count_text

_LISTED: Final = 5
# What came from a peer that opened no connection, and what to do about it.
_STRANGERS: Final = {
    strangers.TLS: (
        "a TLS hello arrived on the port without TLS",
        "give the client broker.url, or start the broker with tls=True and give it broker.tls.url",
    ),
    strangers.HTTP: (
        "an HTTP request arrived on the port for AMQP",
        "the management API has a port of its own: start the broker with management=True and use broker.management_url",
    ),
    strangers.AMQP_1_0: (
        "a client that speaks AMQP 1.0 arrived",
        "leveret speaks AMQP 0-9-1: use a client such as pika or aio-pika",
    ),
    strangers.PLAIN_AMQP: (
        "AMQP without TLS arrived on the port for TLS",
        "give the client broker.url, or let it use TLS, as in broker.tls.url",
    ),
}
_WIDTH: Final = 120
_CLOCK_HELD: Final = "the clock is held, so nothing comes due: move it with broker.clock.advance(), or release() it"
_JUMPS: Final = (
    "time jumps to what is due in the broker. What your application times by its own clock, such as a schedule or a "
    "sleep, is not due there: docs/how-to/schedulers.md says how to move it"
)
_DECLARED: Final = {events.QUEUE_DECLARE: "queue", events.EXCHANGE_DECLARE: "exchange"}


class Report(str):
    """The text of a report, which knows the broker that it is about, and the moment."""

    __slots__ = ("broker", "moment", "stacks", "wall")

    # The broker in a sentence: "the broker on port 5672".
    broker: str
    # When it was made: how much the broker had recorded, and microseconds since the epoch.
    moment: int
    wall: int
    # Where threads and tasks stood then.
    stacks: list[Stack]

    @classmethod
    def about(cls, text: str, broker: str, moment: int) -> Report:
        """Return a text as the report on a broker."""
        report = cls(text)
        report.broker, report.moment, report.wall = broker, moment, SystemClock().now()
        report.stacks = stacks_of_users()
        return report


def reports_of(error: BaseException) -> list[Report]:
    """Return the reports that an error carries as notes."""
    return [note for note in getattr(error, "__notes__", ()) if isinstance(note, Report)]


def take_reports(error: BaseException) -> list[Report]:
    """Remove the reports from the notes of an error, and return them."""
    taken = reports_of(error)
    if taken:
        error.__notes__ = [note for note in error.__notes__ if not isinstance(note, Report)]
    return taken


class Facts:
    """What a report takes from a broker, under its lock. The text is composed without the lock, as it takes long."""

    def __init__(
        self,
        node: Node,
        recorder: KeptEvents,
        timeline: Timeline,
        *,
        queues: Sequence[str] = (),
        later_count: int = 0,
        handle: Handle = MADE,
    ) -> None:
        """What is about the given queues comes first. `timeline` is of all events of the recorder.

        The last `later_count` events are the clean-up of a test that had failed before, of which the report says less.
        """
        until = len(timeline.facts) - later_count
        self.later_count = later_count
        self.recorded_count = recorder.recorded_count
        self.is_recorded, self.has_dropped = recorder.is_on, recorder.has_dropped
        self.timeline = timeline.at(until)
        self.states = _states(node, self.timeline, timeline.facts[until:])
        self.queue_lines = queue_lines(node, first=queues)
        self.stranger_lines = stranger_lines(node)
        self.refusal_lines = refusal_lines(self.timeline, node, handle)
        self.internal_errors = list(node.internal_errors)


def report_text(
    facts: Facts,
    title: str,
    *,
    messages: Sequence[int] = (),
    url_variables: Sequence[str] = (),
    is_url_read: bool = True,
    is_clock_held: bool = False,
    is_jumping: bool = False,
) -> str:
    """Return the whole report under a title. What is about the given messages comes first.

    The error beside the report has described these messages, so the report only names their numbers. `url_variables`
    are the environment variables that hold the broker's URL. If the test has published by itself and nothing has read
    that URL, it needs no client.
    """
    timeline = facts.timeline
    story = Story(timeline)
    parts = [title, f"set-up: {story.set_up(facts.states)}"]
    if facts.stranger_lines:
        parts += facts.stranger_lines
    elif (
        facts.is_recorded
        and not facts.has_dropped
        and not timeline.has_clients
        and (is_url_read or all(life.published is None for life in timeline.messages.values()))
    ):
        parts.append(_no_client(url_variables))
    parts += [_JUMPS if is_jumping else _CLOCK_HELD] if is_clock_held else []
    parts += _queues("queues when the test failed", _counts(timeline)) if facts.later_count else []
    parts += _queues("queues after its clean-up" if facts.later_count else "queues", facts.queue_lines)
    parts += _section("errors sent to clients:", facts.refusal_lines)
    if facts.internal_errors:
        from traceback import format_exception

        lines = [line for error in facts.internal_errors for line in "".join(format_exception(error)).splitlines()]
        parts += _section("errors inside leveret:", lines)
    if facts.is_recorded:
        lines = story.lines(messages)
        parts += _section(story.title(messages, has_dropped=facts.has_dropped), lines)
        parts += [] if lines else [f"events: {story.left_out(messages) or 'none'}"]
    else:
        parts.append("no events recorded: the broker has record='off'; use record='recent'")
    return printable("\n".join(parts))


def _no_client(url_variables: Sequence[str]) -> str:
    if not url_variables:
        return (
            "no client has connected: give your application the url of this broker, or name the variable that it "
            "reads in leveret_url_env"
        )
    names = ", ".join(url_variables)
    return f"no client has connected: leveret_url_env sets {names} to this broker's url; does your application read it?"


def stranger_lines(node: Node) -> list[str]:
    """Return a line for each other protocol that peers spoke, with the way out."""
    lines = []
    for stranger, line in node.strangers.items():
        what, way_out = _STRANGERS[stranger]
        lines.append(f"{what}{'' if line is None else f', during the call at {line}'}: {way_out}")
    return lines


def _states(node: Node, timeline: Timeline, later: Sequence[Fact]) -> dict[int, str]:
    """Return what to know about connections that are blocked, or were closed before the later events."""
    open_now = {connection.number: connection for connection in connections(node)}
    closed_later = {fact.conn for fact in later if fact.kind == events.CONN_CLOSE}
    closed = {
        number: " (closed)" for number in timeline.connections if number not in open_now and number not in closed_later
    }
    return closed | {
        number: " (blocked by an alarm)" for number, connection in open_now.items() if connection.is_blocked
    }


def _queues(title: str, lines: list[str]) -> list[str]:
    """Return the queues in one line if they fit."""
    line = f"{title}: {'; '.join(lines) or 'none'}"
    return _section(f"{title}:", lines) if len(line) > _WIDTH else [line]


def _counts(timeline: Timeline) -> list[str]:
    """Return what the queues held."""
    held = [
        (queue.name, len(queue.ready), len(queue.unacked), len(queue.living_consumers))
        for queue in timeline.queues.values()
    ]
    return [
        f"{name} {ready} ready, {unacked} unacked, {count_text(consumers, 'consumer')}"
        for name, ready, unacked, consumers in held
        if ready or unacked or consumers
    ]


def _section(title: str, lines: list[str]) -> list[str]:
    return ["\n".join([title, *(f"  {line}" for line in lines)])] if lines else []


def refusal_lines(timeline: Timeline, node: Node, handle: Handle) -> list[str]:
    """Return the last errors that clients got in this test, with the lines that caused them, and what to do."""
    refusals = [refusal for refusal in timeline.refusals if refusal.place >= timeline.began]
    if not refusals:
        return []
    # A client that connects again and again gets the same error each time.
    alike: dict[tuple[object, ...], tuple[Fact, int]] = {}
    for refusal in refusals:
        sign = (refusal.client, refusal.code, refusal.text, refusal.cause, refusal.caller or refusal.opener)
        alike[sign] = refusal, alike.pop(sign, (refusal, 0))[1] + 1
    shown = list(alike.values())[-_LISTED:]
    earlier = len(refusals) - sum(count for _, count in shown)
    lines = [f"... and {count_text(earlier, 'earlier error')}"] if earlier else []
    for refusal, count in shown:
        lines += _refusal(refusal, count)
    declarers = declarers_of(timeline) | {
        (kind, vhost, name): DEFINITIONS for vhost, kind, name, *rest in node.defined or () if not rest
    }
    return lines + list(dict.fromkeys(line for refusal in refusals for line in advice(refusal, declarers, handle)))


def declarers_of(timeline: Timeline) -> dict[tuple[str, str, str], str]:
    """Return who first declared what exists, by kind, virtual host and name: a client, or the test and its line."""
    declarers: dict[tuple[str, str, str], str] = {}
    for fact in timeline.facts:
        if (kind := _DECLARED.get(fact.kind)) is not None:
            declarers.setdefault((kind, fact.vhost, str(fact.get(kind))), timeline.who(fact))
    return declarers


def _refusal(refusal: Event, count: int) -> list[str]:
    summary = refusal.text.partition("\n")[0]
    name = cast("str | None", refusal.client) or "a client"
    who = "the test" if refusal.conn is None else client_place_text(name, refusal.conn, refusal.chan)
    lines = [f"{who} got {refusal.code} {summary}{f' ({count} times)' if count > 1 else ''}"]
    lines += [f"  because {refusal.cause}"] if refusal.cause is not None else []
    if refusal.caller is not None:
        return [*lines, f"  during the call at {refusal.caller}"]
    if refusal.opener is not None:
        return [*lines, f"  on the connection opened at {refusal.opener}"]
    return lines
