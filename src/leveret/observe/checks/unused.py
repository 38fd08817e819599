"""Faults that a test asked for and that never happened: it did not test what it meant to.

A fault that is added while the test allows it need not happen, as one that is added with `optional=True`. What was told
once is not told again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from leveret.observe.checks.finding import Allowance, Finding

CHECK: Final = "unused_fault"


class Planned(Protocol):
    """What this knows of a fault: the rule of `leveret.faults`."""

    # Whether it need not happen.
    optional: bool
    # Whether the test has been told.
    is_reported: bool

    @property
    def is_unused(self) -> bool:
        """Whether it should have happened and has not."""

    @property
    def places(self) -> Mapping[str, object]:
        """Whose it was to be: the queue, the client."""

    def complaint(self) -> str:
        """What is wrong when it never happened."""


class Unused:
    """This looks at the faults of one broker."""

    def __init__(self, planned: Callable[[], Sequence[Planned]]) -> None:
        """`planned` are all faults that were added, oldest first."""
        self._planned: Final = planned
        self._seen_count = 0

    def feed(self, allowances: Iterable[Allowance]) -> None:
        """Let what was added under these allowances be optional."""
        planned = self._planned()
        for fault in planned[self._seen_count :]:
            finding = unused_finding(fault)
            if any(allowance.covers(finding) for allowance in allowances):
                fault.optional = True
        self._seen_count = len(planned)

    def left(self) -> list[Finding]:
        """What never happened and was not told."""
        unused = [fault for fault in self._planned() if fault.is_unused and not fault.is_reported]
        for fault in unused:
            fault.is_reported = True
        return [unused_finding(fault) for fault in unused]


def unused_finding(fault: Planned) -> Finding:
    """What there is to say about one."""
    queue, client = (fault.places.get(name) for name in ("queue", "client"))
    return Finding(
        CHECK,
        "/",
        fault.complaint(),
        queue=queue if isinstance(queue, str) else None,
        client=client if isinstance(client, str) else None,
    )
