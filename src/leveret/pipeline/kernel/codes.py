"""The numbers that tables hold instead of names, the buckets of histograms, and the exchanges of every vhost."""

from __future__ import annotations

from typing import Final

from leveret.trace.events import ABOUT_COPIES, DEATHS, TABLE

# The kinds of events of a copy. `settle_kind` of a copy is one of them; from 4 on they can end a delivery.
COPY_KINDS: Final = {kind: number for number, kind in enumerate(ABOUT_COPIES, start=1)}
# Numbers below this one are kinds of events of a copy.
KINDS: Final = 16
# The reasons for dead-lettering, as the numbers in `dl_reason`.
DEATH_REASONS: Final = {reason: number for kind in DEATHS for number, reason in enumerate(TABLE[kind].reasons, start=1)}

# The column of `copies` that counts the events of a kind; `deliveries` counts those of all kinds of delivery.
COUNTED: Final = {
    "enqueued": "enqueues",
    "acked": "acks",
    "nacked": "nacks",
    "rejected": "rejects",
    "requeued": "requeues",
    "expired": "expiries",
    "dropped": "drops",
    "dead_lettered": "dead_letters",
    "purged": "purges",
}

# How a copy ended, or its state if it has not: the order of precedence.
OUTCOMES: Final = ("acked", "dead_lettered", "dropped", "expired", "purged", "unacked", "ready", "undecided")

# The growth of a histogram's buckets: bucket 0 is below 1 µs, bucket b from GROWTH ** (b - 1) up to GROWTH ** b.
GROWTH: Final = 1.02

# The exchanges that every virtual host has, and their types.
PREDECLARED: Final = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
}
