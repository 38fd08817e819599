"""The kinds of faults that exist."""

from __future__ import annotations

from leveret.faults import Fault
from leveret.faults.toxics import ByteFault

_BASES = (Fault, ByteFault)


def kinds(base: type = Fault) -> list[type]:
    """Return the kinds that a test may add, without their base classes."""
    found = [base, *(kind for child in base.__subclasses__() for kind in kinds(child))]
    return [kind for kind in found if kind not in _BASES and kind.__module__.startswith("leveret.faults.")]
