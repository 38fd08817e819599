"""The marker `leveret_fault`: what should go wrong in the broker of one test, as `broker.faults.add` takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from pytest_leveret.markers import place_of

if TYPE_CHECKING:
    from leveret import Broker

NAME: Final = "leveret_fault"
LINE: Final = (
    "leveret_fault(on='basic.ack', do=ResetPeer(), after=0, times=None, ...): what should go wrong in the broker "
    "of the fixture `leveret`, in the words of `leveret.faults.add`; several markers are several rules, those of the "
    "module first."
)


def set_faults(item: pytest.Item, broker: Broker) -> None:
    """Add the rules that a test is marked with; one that cannot be meant fails the test before it runs."""
    for mark in reversed(list(item.iter_markers(NAME))):
        try:
            if mark.args:
                raise TypeError("the marker takes keywords only, as in leveret_fault(on='basic.ack', do=...)")
            broker.faults.add(**{"do": None, **mark.kwargs})
        except (TypeError, ValueError) as error:
            raise _wrong_marker(item, str(error)) from None


def refuse_wrong_marker(item: pytest.Item) -> None:
    """End a test that is marked and has no broker to go wrong; one that asks for fixtures as it runs may get one."""
    fixtures = getattr(item, "fixturenames", ())
    if "leveret" in fixtures or all(mark.name != NAME for mark in item.own_markers):
        return
    if "make_leveret" in fixtures:
        raise _wrong_marker(
            item,
            "the marker is for the broker of the fixture leveret, which the test does not use; "
            "a broker of make_leveret is told by broker.faults.add(...), with the same words",
        )
    if "request" not in fixtures or "leveret_session" in fixtures:
        raise _wrong_marker(item, "the test does not use the fixture leveret, so there is no broker to go wrong")


def _wrong_marker(item: pytest.Item, text: str) -> BaseException:
    return pytest.fail.Exception(f"{place_of(item)}: {NAME}: {text}", pytrace=False)
