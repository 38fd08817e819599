"""The pytest plugin: fixtures, the marker, ini options and the report.

`MakeLeveret` is the type of the fixture `make_leveret`. The fixtures `leveret` and `leveret_session` are brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Unpack

if TYPE_CHECKING:
    from leveret import Broker, BrokerOptions

__all__ = ["MakeLeveret"]


class MakeLeveret(Protocol):
    """A function that starts another broker each time it is called, with the keywords of `leveret.Broker`."""

    def __call__(self, **options: Unpack[BrokerOptions]) -> Broker:
        """Start a broker; what is left out comes from marker, command line, environment or ini file."""
