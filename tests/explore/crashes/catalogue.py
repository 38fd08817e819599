"""All planted bugs."""

from __future__ import annotations

from tests.explore.crashes import connections, coroutines, deaths
from tests.explore.crashes.planted import Planted

PLANTED: list[type[Planted]] = [
    each
    for module in (connections, coroutines, deaths)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, Planted) and each is not Planted
]
