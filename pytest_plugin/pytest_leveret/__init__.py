"""The pytest plugin of leveret: fixtures, markers, options and reports.

`leveret_fixture` makes a fixture with one broker for a class, a module or a package. `MakeLeveret` is the type of the
fixture `make_leveret`. The fixtures `leveret` and `leveret_session` are brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Unpack

from pytest_leveret.fixtures import leveret_fixture

if TYPE_CHECKING:
    from leveret import Broker, BrokerOptions

__all__ = ["MakeLeveret", "leveret_fixture"]


class MakeLeveret(Protocol):
    """A function that starts another broker with each call and takes the keywords of `leveret.Broker`."""

    def __call__(self, *, name: str | None = None, **options: Unpack[BrokerOptions]) -> Broker:
        """Start a broker. Missing keywords come from the marker, the command line, the environment or the ini file.

        Reports and pages call it by its `name`; without one, by the variable of the test that holds it.
        """
