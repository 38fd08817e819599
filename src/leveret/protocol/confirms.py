"""Publisher confirms of one channel: sequence numbers, and what is owed to the publisher.

Outcomes are collected while a batch of input is handled and sent at its end: neighbours of one kind in one method with
`multiple`, a lone ack without it. RabbitMQ always sets `multiple` on a nack, so a nack covers only what is not settled.
"""

from __future__ import annotations

from typing import NamedTuple

from leveret.model.message import Message
from leveret.wire.methods import BasicAck, BasicNack


class Outcome(NamedTuple):
    """What became of one publish: taken by all its queues, or refused by one."""

    sequence: int
    is_taken: bool
    message: Message


class Answer(NamedTuple):
    """A method for the publisher, and the publishes it speaks of, in order."""

    method: BasicAck | BasicNack
    outcomes: list[Outcome]


class Confirms:
    """The confirms of one channel in confirm mode."""

    __slots__ = ("_outcomes", "last_sequence", "withheld")

    def __init__(self) -> None:
        # The number of the last publish; the first one after confirm.select is 1.
        self.last_sequence = 0
        # What a fault keeps from the publisher: no other answer may cover it.
        self.withheld: dict[int, None] = {}
        # Settled and not yet told, in order of publishing.
        self._outcomes: list[Outcome] = []

    def next_sequence(self) -> int:
        """The number of a new publish."""
        self.last_sequence += 1
        return self.last_sequence

    def settle(self, sequence: int, message: Message, *, is_taken: bool) -> None:
        """A publish was taken by all its queues, or refused by one."""
        self._outcomes.append(Outcome(sequence, is_taken, message))

    def take(self) -> list[Answer]:
        """What the publisher is owed, and nothing owed afterwards."""
        outcomes, self._outcomes = self._outcomes, []
        if self.withheld:
            return [Answer(_alone(outcome), [outcome]) for outcome in outcomes]
        answers: list[Answer] = []
        start = 0
        for end in range(1, len(outcomes) + 1):
            if end < len(outcomes) and outcomes[end].is_taken is outcomes[start].is_taken:
                continue
            run = outcomes[start:end] if start or end < len(outcomes) else outcomes
            answers.append(Answer(_together(run), run))
            start = end
        return answers


def _alone(outcome: Outcome) -> BasicAck | BasicNack:
    return BasicAck(outcome.sequence, False) if outcome.is_taken else BasicNack(outcome.sequence, False, True)


def _together(run: list[Outcome]) -> BasicAck | BasicNack:
    last = run[-1]
    return BasicAck(last.sequence, len(run) > 1) if last.is_taken else BasicNack(last.sequence, True, True)
