"""The marker `leveret_fault`: what should go wrong in the broker of one test, as `broker.faults.add` takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from leveret import Broker

NAME: Final = "leveret_fault"
LINE: Final = (
    "leveret_fault(on='basic.ack', do=DropConnection(), after=0, times=None, ...): what should go wrong in the broker "
    "of the fixture `leveret`, in the words of `leveret.faults.add`; several markers are several rules, those of the "
    "module first."
)


def set_faults(item: pytest.Item, broker: Broker) -> None:
    """Add the rules that a test is marked with; one that cannot be meant fails the test before it runs."""
    for mark in reversed(list(item.iter_markers(NAME))):
        try:
            if mark.args:
                raise TypeError("the marker takes keywords only, as in leveret_fault(on='basic.ack', do=...)")
            broker.faults.add(**mark.kwargs)
        except (TypeError, ValueError) as error:
            path, line, _ = item.location
            raise pytest.fail.Exception(f"{path}:{(line or 0) + 1}: {NAME}: {error}", pytrace=False) from None
