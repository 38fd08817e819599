"""The texts of the strict checks: what happened to which messages, who published them, and how to allow it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final

from leveret.observe.checks.finding import Finding
from leveret.observe.checks.table import CHECKS
from leveret.observe.texts.handle import Handle
from leveret.trace import events
from leveret.trace.events import Event, RawEvent, content
from leveret.wording import count_text, masked_name

_LISTED: Final = 5


class PublisherTexts:
    """The publisher of each message in a trace: a client, or the test and its line."""

    def __init__(self, raw_events: Collection[RawEvent]) -> None:
        self._texts: dict[int, str] = {}
        if not raw_events:
            return
        # Imported here because most tests find nothing.
        from leveret.story.clients import Clients

        clients = Clients()
        for event in (Event(raw) for raw in raw_events if raw[0] in (*Clients.KINDS, events.PUBLISHED)):
            clients.take(event)
            if event.kind == events.PUBLISHED:
                self._texts.setdefault(event.message.id, clients.who(event))

    def publisher_of(self, message_id: int) -> str:
        """Return the publisher of a message as text."""
        return self._texts.get(message_id, "an unknown publisher before the trace begins")


def group_text(check_name: str, findings: Sequence[Finding], publishers: PublisherTexts, handle: Handle) -> str:
    """Return one text for all findings of a check. `handle` is that of the broker."""
    check = CHECKS[check_name]
    count = sum(finding.thing_count for finding in findings)
    lines = [f"{check_name}: {count_text(count, check.noun)} {check.text}"]
    # What differs only in generated names has one cause, and one line.
    alike: dict[str, list[str]] = {}
    for finding in findings:
        alike.setdefault(_line(finding, publishers, masked_name), []).append(_line(finding, publishers, str))
    listed = {lines[0] if len({*lines}) == 1 else masked: len(lines) for masked, lines in alike.items()}
    # Each declaration needs a change of its own, so all are listed.
    most = len(listed) if check.noun == "declaration" else _LISTED
    for line, times in list(listed.items())[:most]:
        lines.append(f"  {line}" + (f" (x{times})" if times > 1 else ""))
    if len(listed) > most:
        lines.append(f"  ... and {len(listed) - most} more")
    return "\n".join([*lines, f"  {_how_to_allow(findings[0], handle)}"])


def incomplete_text(names: Sequence[str], size: int) -> str:
    """Return the text for a trace that has dropped events before the checks read them."""
    return (
        f"{', '.join(names)}: checked only in part, because the trace holds only the last {size} events and has "
        "dropped older ones; call broker.check() earlier, or broker.events.clear() at the beginning"
    )


def blind_text(names: Sequence[str]) -> str:
    """Return the text for checks that need a trace, on a broker that records none."""
    return f"{', '.join(names)}: cannot be checked without a trace; use Broker(record='recent')"


def _line(finding: Finding, publishers: PublisherTexts, named: Callable[[str], str]) -> str:
    # Imported here because most tests find nothing.
    from leveret.story.causes import clause

    message, text = finding.message, clause(finding.cause)
    if message is None:
        return text
    queue = finding.place("queue")
    where = f"in queue {named(str(queue))!r}: " if queue is not None else ""
    origin = f"{message.exchange!r} {named(message.routing_key)!r} {content(message)}"
    why = f"; {text}" if text else ""
    return f"{where}{origin}, published by {finding.publisher or publishers.publisher_of(message.id)}{why}"


def _pattern(name: object) -> str:
    """Return a name as code that finds it in the next run too."""
    if not isinstance(name, str) or masked_name(name) == name:
        return repr(name)
    return f"re.compile({'.*'.join(map(re.escape, masked_name(name).split('*')))!r})"


def _how_to_allow(finding: Finding, handle: Handle) -> str:
    name = finding.check
    in_call = CHECKS[name].allowed_by
    first = "" if in_call is None else f"{in_call}, "
    limit = next(
        (
            f", {keyword}={_pattern(value)}"
            for keyword in ("queue", "exchange", "client")
            if (value := finding.place(keyword))
        ),
        "",
    )
    here = f'{handle.name}.allow("{name}"{limit}), ' if handle.name else ""
    ways = handle.ways_to_set("checks", f'"{name}=off"', f"{name}=off")
    return f"if you expect this: {first}{here}{ways}"
