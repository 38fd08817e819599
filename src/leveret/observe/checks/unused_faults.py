"""The check for faults that a test added but that never happened, so that it did not test what it intended to.

A fault need not happen if it was added with `optional=True` or while the test allowed this check. Each fault is
reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from leveret.observe.checks.finding import Allowance, Finding


class Planned(Protocol):
    """What this check knows of a fault: a rule of `leveret.faults`."""

    # Whether the fault need not happen.
    optional: bool
    # Whether the check has reported it.
    is_reported: bool

    @property
    def is_unused(self) -> bool:
        """Whether the fault is required and has not happened."""

    @property
    def places(self) -> Mapping[str, object]:
        """The places the fault is limited to: the queue, the client."""

    def complaint(self) -> str:
        """Return the text for a fault that never happened."""


class UnusedFaults:
    """The unused faults of a broker."""

    def __init__(self, planned: Callable[[], Sequence[Planned]]) -> None:
        """`planned` returns all faults that the test has added, oldest first."""
        self._planned: Final = planned
        self._seen_count = 0

    def feed(self, allowances: Iterable[Allowance]) -> None:
        """Make the new faults that these allowances cover optional."""
        planned = self._planned()
        for fault in planned[self._seen_count :]:
            finding = unused_finding(fault)
            if any(allowance.covers(finding) for allowance in allowances):
                fault.optional = True
        self._seen_count = len(planned)

    def left(self) -> list[Finding]:
        """Return a finding for each fault that never happened and was not reported yet."""
        unused = [fault for fault in self._planned() if fault.is_unused and not fault.is_reported]
        for fault in unused:
            fault.is_reported = True
        return [unused_finding(fault) for fault in unused]


def unused_finding(fault: Planned) -> Finding:
    """Return the finding for a fault that never happened."""
    places = {name: place for name in ("queue", "client") if isinstance(place := fault.places.get(name), str)}
    return Finding("unused_fault", "/", {**places, "complaint": fault.complaint()})
