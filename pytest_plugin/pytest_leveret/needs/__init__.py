"""What consumers need of messages, measured: `leveret needs` runs tests again with each field changed on its way.

`bodies` are the fields of messages and how they change. A `run` is one run of a test in a worker, and `effects` are
what it shows. The `survey` decides what to run, `findings` hold what follows for each field. `report` says it, and
`locking` writes it to a lock.
"""

from __future__ import annotations

from typing import Final

import pytest

# Whether the run is a survey.
IS_SURVEY: Final = pytest.StashKey[bool]()
