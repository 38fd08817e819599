"""The pytest plugin of leveret: fixtures, markers, options and reports.

`MakeLeveret` is the type of the fixture `make_leveret`. The fixtures `leveret` and `leveret_session` are brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Unpack

if TYPE_CHECKING:
    from leveret import Broker, BrokerOptions

__all__ = ["MakeLeveret"]


class MakeLeveret(Protocol):
    """A function that starts another broker with each call and takes the keywords of `leveret.Broker`."""

    def __call__(self, **options: Unpack[BrokerOptions]) -> Broker:
        """Start a broker. Missing keywords come from the marker, the command line, the environment or the ini file."""
