"""The check for misspelt arguments of queues, exchanges and consumers, which RabbitMQ accepts and ignores.

An argument that resembles none of RabbitMQ's is the program's own and is not reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from leveret.core.model.queues.arguments import QUEUE_ARGUMENTS
from leveret.core.model.queues.queue_types import CONSUMER_ARGUMENTS
from leveret.core.wire.values import Table
from leveret.trace import events

# How alike two names are, from 0 to 1. "max-len" is a misspelling; "message-type" is not one of "message-ttl".
_ALIKE: Final = 0.82
# Names without "x-", with hyphens, as `_bare` returns them: those that RabbitMQ has and leveret has no use for.
_ELSEWHERE: Final = ("cancel-on-ha-failover", "quorum-target-group-size")


def _bare(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("x-")


def _by_bare_name(*names: str) -> Mapping[str, str]:
    return {_bare(name): name for name in names}


_KNOWN: Final = {
    events.QUEUE_DECLARE: _by_bare_name(*QUEUE_ARGUMENTS),
    events.EXCHANGE_DECLARE: _by_bare_name(
        *("alternate-exchange", "x-delayed-type", "hash-header", "hash-property"),
        *("x-recent-history-length", "x-recent-history-no-store"),
    ),
    events.CONSUME: _by_bare_name(*sorted(CONSUMER_ARGUMENTS)),
}


def misspelt(kind: str, arguments: Table) -> list[tuple[str, str]]:
    """Return the misspelt arguments in a declaration or a consume, each with the name that it resembles."""
    names = _KNOWN[kind]
    misspellings = []
    for name, _ in arguments:
        bare = _bare(name)
        if name not in names.values() and bare not in _ELSEWHERE:
            close = get_close_matches(bare, names, n=1, cutoff=_ALIKE)
            misspellings += [(name, names[close[0]])] if close else []
    return misspellings
