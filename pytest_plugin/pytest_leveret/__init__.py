"""The pytest plugin of leveret: fixtures, markers, options and reports.

`leveret_fixture` makes a fixture with one broker for a class, a module or a package. `MakeLeveret` is the type of the
fixture `make_leveret`. The fixtures `leveret` and `leveret_session` are brokers.
"""

from __future__ import annotations

from pytest_leveret.fixtures import MakeLeveret, leveret_fixture

__all__ = ["MakeLeveret", "leveret_fixture"]
