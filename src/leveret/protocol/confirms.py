"""Publisher confirms of one channel: sequence numbers, and what is owed to the publisher.

Outcomes are collected while a batch of input is handled and sent at its end: neighbours of one kind in one method with
`multiple`, a lone ack without it. RabbitMQ always sets `multiple` on a nack, so a nack covers only what is not settled.
"""

from __future__ import annotations

from leveret.wire.methods import BasicAck, BasicNack


class Confirms:
    """The confirms of one channel in confirm mode."""

    __slots__ = ("_outcomes", "last_sequence", "withheld")

    def __init__(self) -> None:
        # The number of the last publish; the first one after confirm.select is 1.
        self.last_sequence = 0
        # What a fault keeps from the publisher: no other answer may cover it.
        self.withheld: dict[int, None] = {}
        # Settled and not yet told: sequence and whether it was taken, in order of publishing.
        self._outcomes: list[tuple[int, bool]] = []

    def next_sequence(self) -> int:
        """The number of a new publish."""
        self.last_sequence += 1
        return self.last_sequence

    def settle(self, sequence: int, *, is_taken: bool) -> None:
        """A publish was taken by all its queues, or refused by one."""
        self._outcomes.append((sequence, is_taken))

    def take(self) -> list[BasicAck | BasicNack]:
        """The methods that tell the publisher what it is owed, and nothing owed afterwards."""
        methods: list[BasicAck | BasicNack] = []
        outcomes, self._outcomes = self._outcomes, []
        if self.withheld:
            return [
                BasicAck(sequence, False) if is_taken else BasicNack(sequence, False, True)
                for sequence, is_taken in outcomes
            ]
        run_start = 0
        for index, (sequence, is_taken) in enumerate(outcomes):
            is_last = index + 1 == len(outcomes)
            if not is_last and outcomes[index + 1][1] is is_taken:
                continue
            if is_taken:
                methods.append(BasicAck(sequence, index > run_start))
            else:
                methods.append(BasicNack(sequence, True, True))
            run_start = index + 1
        return methods
