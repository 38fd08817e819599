"""The firehose of a RabbitMQ, completed: which copy of which message each delivery is.

RabbitMQ reports into which queues a publish was routed, and each delivery from a queue, but not of which publish. A
delivery belongs to the oldest message of its queue with the same content that was not delivered yet; if it is marked as
redelivered, to one that was. A dead letter names the queue in which it died. Acks are not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from leveret.trace import events

PageRow = dict[str, Any]
_CONTENT: Final = ("body_hash", "size", "message_id", "correlation_id")
_OF_ARRIVAL: Final = ("ts", "wall", "vhost", "exchange", "routing_key", "size")


class _Copy:
    def __init__(self, message: int, number: int, queue: tuple[str, str]) -> None:
        self.message = message
        self.number = number
        self.queue = queue
        self.is_delivered = False


class Completion:
    """The copies that the rows of a firehose imply."""

    def __init__(self) -> None:
        self._copies: dict[tuple[object, ...], list[_Copy]] = {}
        self._last_copy = 0
        self._last_message = 0

    def complete(self, rows: Iterable[PageRow]) -> Iterator[PageRow]:
        """Yield the rows with the messages and copies that they are about, and a row for each arrival in a queue."""
        for row in rows:
            if row["kind"] == events.PUBLISHED and row.get("msg") is not None:
                self._last_message = max(self._last_message, row["msg"])
                yield row
                for queue in row["attrs"].get("routed_queues", ()):
                    yield self._arrival(row, row["msg"], str(queue), None)
            elif row["kind"] in events.DELIVERIES and row.get("msg") is None:
                yield from self._delivery(row)
            else:
                yield row

    def _arrival(self, row: PageRow, message: int, queue: str, src_copy: int | None) -> PageRow:
        self._last_copy += 1
        place = (row.get("vhost") or "/", queue)
        self._copies.setdefault(_content(row), []).append(_Copy(message, self._last_copy, place))
        kept: PageRow = {name: row[name] for name in _OF_ARRIVAL if name in row}
        letter = {"properties": row["attrs"].get("properties", {})} if src_copy is not None else {}
        numbers = {"msg": message, "copy": self._last_copy, "src_copy": src_copy}
        return {"kind": events.ENQUEUED, **kept, "queue": queue, **numbers, "attrs": letter}

    def _delivery(self, row: PageRow) -> Iterator[PageRow]:
        alike = self._copies.get(_content(row), [])
        place = (row.get("vhost") or "/", row.get("queue") or "")
        copy = _oldest([copy for copy in alike if copy.queue == place], is_again=bool(row.get("redelivered")))
        if copy is None:
            yield from self._unannounced(row, place, alike)
            copy = self._copies[_content(row)][-1]
        copy.is_delivered = True
        yield {**row, "msg": copy.message, "copy": copy.number}

    def _unannounced(self, row: PageRow, place: tuple[str, str], alike: list[_Copy]) -> Iterator[PageRow]:
        """Yield the arrival of a message that was not published into this queue: a dead letter, or one from before."""
        died = _last_death(row)
        source = next((copy for copy in reversed(alike) if died is not None and copy.queue == (place[0], died)), None)
        if source is not None:
            yield self._arrival(row, source.message, place[1], source.number)
            return
        self._last_message += 1
        yield {**row, "kind": events.PUBLISHED, "msg": self._last_message, "conn": None, "chan": None, "queue": None}
        yield self._arrival(row, self._last_message, place[1], None)


def _content(row: PageRow) -> tuple[object, ...]:
    return tuple(row.get(name) for name in _CONTENT)


def _oldest(copies: list[_Copy], *, is_again: bool) -> _Copy | None:
    fitting = [copy for copy in copies if copy.is_delivered == is_again]
    return next(iter(fitting or copies), None) if is_again or fitting else None


def _last_death(row: PageRow) -> str | None:
    headers: dict[str, Any] = row["attrs"].get("properties", {}).get("headers") or {}
    deaths = headers.get("x-death")
    if isinstance(deaths, list) and deaths and isinstance(deaths[0], dict):
        return str(deaths[0].get("queue"))
    return None
