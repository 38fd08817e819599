"""The marker `leveret_fault`: a fault for the broker of one test, with the keywords of `broker.faults.add`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from pytest_leveret.markers import place_of

if TYPE_CHECKING:
    from leveret import Broker

NAME: Final = "leveret_fault"
LINE: Final = (
    "leveret_fault(on='basic.ack', do=ResetPeer(), after=0, times=None, ...): add a fault to the broker of the fixture "
    "`leveret`, with the keywords of `broker.faults.add`; each marker adds a rule, those of the module first."
)


def set_faults(item: pytest.Item, broker: Broker) -> None:
    """Add the rules of a test's markers. An invalid marker fails the test before it runs."""
    for mark in reversed(list(item.iter_markers(NAME))):
        try:
            if mark.args:
                raise TypeError("the marker takes keywords only, as in leveret_fault(on='basic.ack', do=...)")
            broker.faults.add(**{"do": None, **mark.kwargs})
        except (TypeError, ValueError) as error:
            raise _wrong_marker(item, str(error)) from None


def refuse_wrong_marker(item: pytest.Item) -> None:
    """Fail a marked test without a broker, unless it uses `request` and so can still get one while it runs."""
    fixtures = getattr(item, "fixturenames", ())
    if "leveret" in fixtures or all(mark.name != NAME for mark in item.own_markers):
        return
    if "make_leveret" in fixtures:
        raise _wrong_marker(
            item,
            "the marker applies to the broker of the fixture leveret, which the test does not use; for a broker of "
            "make_leveret, call broker.faults.add(...) with the same keywords",
        )
    if "request" not in fixtures or "leveret_session" in fixtures:
        raise _wrong_marker(item, "the test does not use the fixture leveret; use it, or remove the marker")


def _wrong_marker(item: pytest.Item, text: str) -> BaseException:
    return pytest.fail.Exception(f"{place_of(item)}: {NAME}: {text}", pytrace=False)
