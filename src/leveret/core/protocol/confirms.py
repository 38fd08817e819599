"""Publisher confirms of one channel: sequence numbers, and what is owed to the publisher.

Outcomes are collected while a batch of input is handled, and sent at its end. Neighbours of one kind share one method
with `multiple`; a lone ack has no `multiple`. RabbitMQ always sets `multiple` on a nack, so a nack covers only what is
not settled.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from leveret.core.model.message import Message
from leveret.core.wire.methods import BasicAck, BasicNack

# The outcome of one publish: its number, whether all its queues took it, and the message. A plain tuple, because there
# is one for every publish.
Outcome = tuple[int, bool, Message]


# A method for the publisher, and the publishes it covers, in order.
Answer = tuple[BasicAck | BasicNack, list[Outcome]]


class Confirms:
    """The confirms of one channel in confirm mode."""

    __slots__ = ("has_refused", "last_sequence", "outcomes", "withheld")

    def __init__(self) -> None:
        # The number of the last publish; the first one after confirm.select is 1.
        self.last_sequence = 0
        # Confirms that a fault withholds. No other answer may cover them.
        self.withheld: dict[int, None] = {}
        # Settled and not yet sent, in the order of publishing.
        self.outcomes: list[Outcome] = []
        # Whether one of them was refused.
        self.has_refused = False

    def settle(self, sequence: int, message: Message, is_taken: bool) -> None:
        """Record that all queues took a publish, or that one refused it. Hot: once per publish."""
        self.outcomes.append((sequence, is_taken, message))
        if not is_taken:
            self.has_refused = True

    def pop_answers(self) -> list[Answer]:
        """Return what the publisher is owed, and owe nothing more."""
        outcomes, self.outcomes = self.outcomes, []
        has_refused, self.has_refused = self.has_refused, False
        if self.withheld:
            return [(_method([outcome], covers_earlier=False), [outcome]) for outcome in outcomes]
        if not has_refused:
            return [(BasicAck(outcomes[-1][0], len(outcomes) > 1), outcomes)] if outcomes else []
        runs = [list(group) for _, group in groupby(outcomes, key=itemgetter(1))]
        return [(_method(run, covers_earlier=True), run) for run in runs]


def _method(run: list[Outcome], *, covers_earlier: bool) -> BasicAck | BasicNack:
    sequence, is_taken, _ = run[-1]
    return BasicAck(sequence, len(run) > 1) if is_taken else BasicNack(sequence, covers_earlier, True)
