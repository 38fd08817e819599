"""Messages: the fate of each published message, from its copies and from what the publisher was answered.

The publishes are in the order of time, most often also in that of message numbers, so a copy finds its message by a
search and needs no sort. Then each column is a sum or a maximum over a message's copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.codes import OUTCOMES
from leveret.pipeline.kernel.columns import NO_ROW, NULL, Array, names_of, pick, table
from leveret.pipeline.kernel.events import Events
from leveret.pipeline.kernel.groups import Index, Numbering
from leveret.pipeline.kernel.subjects.copies import Copies
from leveret.trace.events import CONFIRMED, NACKED_CONFIRM, PUBLISHED, RETURNED

_OUTCOMES: Final = (*OUTCOMES, "open", "returned")
_OPEN, _RETURNED, _DROPPED = (_OUTCOMES.index(name) for name in ("open", "returned", "dropped"))


@dataclass(frozen=True)
class Messages:
    """One row for each publish of a message: the position of its event, and the fate of the message.

    `index` finds a message by `Events.message_id`.
    """

    events: Events
    event: Array
    index: Index
    copies: Array
    hops: Array
    # 1 for an ack, 0 for a nack, -1 for neither.
    confirmed: Array
    returned: Array
    outcome: Array
    end_to_end_us: Array


def messages_of(events: Events, copies: Copies) -> Messages:
    """Return the messages of these events."""
    event = np.flatnonzero(events.kind.is_in([PUBLISHED]) & (events.msg != NULL))
    index = Index(events.message_id[event])
    # Should a message be published twice, both rows have the fate of the message.
    row = index.find(events.message_id[event])
    copy_message = index.find(events.message_id[copies.last])
    known = np.flatnonzero(copy_message != NO_ROW)
    # The copies by their message.
    fates = Numbering(copy_message[known], event)
    open_count = fates.sums(copies.is_open[known])
    copy_count = fates.counts()
    last_end = np.maximum(fates.highest(copies.end[known]), NO_ROW)
    settled_at = fates.highest(copies.settled_at[known])
    returned = _answered(events, index, RETURNED, len(event))
    is_confirmed = _answered(events, index, CONFIRMED, len(event))
    is_nacked = _answered(events, index, NACKED_CONFIRM, len(event))
    of_last_end = pick(copies.outcome, pick(copies.of_event, last_end, NO_ROW), _DROPPED)
    outcome = np.select([open_count > 0, copy_count > 0, returned], [_OPEN, of_last_end, _RETURNED], _DROPPED)
    has_span = (open_count == 0) & (settled_at != NULL) & (events.ts[event] != NULL)
    return Messages(
        events=events,
        event=event,
        index=index,
        copies=copy_count[row],
        hops=fates.sums(copies.src_copy[known] != NULL)[row],
        confirmed=np.where(is_confirmed, 1, np.where(is_nacked, 0, -1))[row],
        returned=returned[row],
        outcome=outcome[row],
        end_to_end_us=np.where(has_span[row], settled_at[row] - events.ts[event], NULL),
    )


def _answered(events: Events, index: Index, kind: str, count: int) -> Array:
    """Return for each message whether it has an event of this kind."""
    answers = np.flatnonzero(events.kind.is_in([kind]) & (events.msg != NULL))
    message = index.find(events.message_id[answers])
    has_answer = np.zeros(count, bool)
    has_answer[message[message != NO_ROW]] = True
    return has_answer


def messages(rows: Messages) -> pa.Table:
    """Return the table `messages`."""
    events, event = rows.events, rows.event
    return table(
        schema.MESSAGES,
        {
            **events.file_of(event),
            **events.names_of(event, "test", "vhost", "exchange", "routing_key"),
            "msg": events.msg[event],
            "seq": events.seq[event],
            "published_at": events.ts[event],
            "publish_number": events.tag[event],
            "copies": rows.copies,
            "returned": rows.returned,
            "confirmed": pa.array(rows.confirmed == 1, mask=rows.confirmed < 0),
            "hops": rows.hops,
            "outcome": names_of(list(_OUTCOMES), rows.outcome),
            "end_to_end_us": rows.end_to_end_us,
        },
    )
