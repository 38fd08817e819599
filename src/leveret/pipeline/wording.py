"""The words for numbers, outcomes and things, which the report and the lines of `diff` share.

The tables keep short names for queries, such as `leaked`. Readers see one word for each of them, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leveret.story import words
from leveret.trace.events import DEAD_LETTERED

DEFAULT_EXCHANGE: Final = "the default exchange"

# Why a copy was dead-lettered.
REASONS: Final = words.REASONS[DEAD_LETTERED]
# How a copy ended, or where it was when its test ended.
COPY_OUTCOMES: Final = {state: end.outcome for state, end in words.ENDS.items()}

# The numbers of a queue.
MEASURES: Final = {
    "redeliveries": "redelivered",
    "acked": "acknowledged",
    "leaked": "left over",
    "max_depth": "depth",
    **{f"dead_{reason}": f"dead-lettered ({why})" for reason, why in REASONS.items()},
}


def measure(difference: str) -> str:
    """Return the words for what differs: a number of a queue, `reason to queue` of dead letters, or the name itself."""
    reason, to, queue = difference.partition(" to ")
    return f"{REASONS[reason]}{to}{queue}" if to and reason in REASONS else MEASURES.get(difference, difference)


def thing(kind: str, name: str) -> str:
    """Return the name of a thing of this kind of coverage; the default exchange has words for its empty name."""
    is_nameless = (kind == "exchange" and not name) or (kind == "dlx" and name.endswith("-> "))
    return name + DEFAULT_EXCHANGE if is_nameless else name


def copies(part: Mapping[str, object]) -> str:
    """Return the words for copies with one outcome: an element of `parts` of a fingerprint."""
    n, requeues = part["n"], part["requeues"]
    after = f" after {requeues} requeue{'' if requeues == 1 else 's'}" if requeues else ""
    return f"{n:,} {COPY_OUTCOMES.get(str(part['outcome']), part['outcome'])}{after}"
