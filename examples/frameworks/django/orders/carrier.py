"""The carrier's web service."""

from __future__ import annotations


class CarrierError(Exception):
    """The carrier cannot take an order now."""


class Carrier:
    """The carrier's web service."""

    def collect(self, number: int) -> None:
        """Ask for an order to be collected; raise CarrierError if the carrier cannot take it now."""


carrier = Carrier()
