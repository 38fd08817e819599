"""What strict checks say: what happened, to which messages, by whom, at which line; and how to allow it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from leveret.observe.checks.finding import Finding
from leveret.observe.checks.table import CHECKS
from leveret.observe.wording import count_text
from leveret.trace import events
from leveret.trace.events import Event, preview

if TYPE_CHECKING:
    from leveret.trace.events import RawEvent

_LISTED: Final = 5


class Publishers:
    """Who published each message of a trace, and the line of the test that did."""

    def __init__(self, raw_events: Iterable[RawEvent]) -> None:
        self._texts: dict[int, str] = {}
        clients: dict[int, str] = {}
        caller: str | None = None
        for raw in raw_events:
            if raw[0] == events.PUBLISHED:
                event = Event(raw)
                self._texts.setdefault(event.message.id, _publisher_text(event, clients, caller))
            elif raw[0] == events.CONN_OPEN:
                event = Event(raw)
                clients[event.conn or 0] = event.client
            elif raw[0] == events.CALLED:
                caller = Event(raw).caller

    def of(self, message_id: int) -> str:
        """Who published it."""
        return self._texts.get(message_id, "somebody, before the trace begins")


def group_text(check_name: str, findings: Sequence[Finding], publishers: Publishers) -> str:
    """What one check found, all of it in one text."""
    check = CHECKS[check_name]
    count = sum(finding.count for finding in findings)
    lines = [f"{check_name}: {count_text(count, check.noun)} {check.text}"]
    listed: dict[str, int] = {}
    for finding in findings:
        line = _line(finding, publishers)
        listed[line] = listed.get(line, 0) + 1
    for line, times in list(listed.items())[:_LISTED]:
        lines.append(f"  {line}" + (f" (x{times})" if times > 1 else ""))
    if len(listed) > _LISTED:
        lines.append(f"  ... and {len(listed) - _LISTED} more")
    return "\n".join([*lines, f"  {_way_out(findings[0])}"])


def incomplete_text(names: Sequence[str], size: int) -> str:
    """What is said when the trace was too short."""
    return (
        f"{', '.join(names)}: not everything could be checked, for the trace holds the last {size} events and older "
        "ones are gone; check earlier (broker.check()), or begin with broker.events.clear()"
    )


def blind_text(names: Sequence[str]) -> str:
    """What is said when there is no trace though a check was asked for."""
    return f"{', '.join(names)}: cannot be checked without a trace; use record='ring'"


def _line(finding: Finding, publishers: Publishers) -> str:
    message = finding.message
    if message is None:
        return finding.text
    where = f"in queue {finding.queue!r}: " if finding.queue is not None else ""
    origin = f"{message.exchange!r} {message.routing_key!r} {preview(message.body)}"
    why = f"; {finding.text}" if finding.text else ""
    return f"{where}{origin}, published by {publishers.of(message.id)}{why}"


def _publisher_text(event: Event, clients: dict[int, str], caller: str | None) -> str:
    if event.conn is None:
        return "the test" if caller is None else f"the test at {caller}"
    name = clients.get(event.conn, "a client")
    return f"{name} (connection {event.conn}, channel {event.chan})"


def _way_out(finding: Finding) -> str:
    name = finding.check
    way_out = CHECKS[name].way_out
    first = "" if way_out is None else f"{way_out}, "
    place = next(
        (
            f", {keyword}={value!r}"
            for keyword, value in (
                ("queue", finding.queue),
                ("exchange", finding.exchange),
                ("client", finding.client),
            )
            if value
        ),
        "",
    )
    return (
        f'if that is meant: {first}broker.allow("{name}"{place}), @pytest.mark.leveret(checks="{name}=off"), '
        f"or leveret_checks = {name}=off in the ini file"
    )
