"""What the management API always answers: the flags of RabbitMQ's versions, and what leveret has no figure for.

`constant.json` holds the feature flags and deprecated features that 4.3.6, 4.0.5 and 3.10.8 list with only the
management plugin's own flags added, and those of 4.2.9 and 3.13.7 by their sources. It also holds the descriptions of
exchange types, and zeros: memory, garbage and bytes are those of a process, of which a broker is only a part, and
leveret has no disk.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def constant(name: str) -> Any:
    """Return what the file has under a name. Copy it before you change it."""
    return json.loads(files(__package__).joinpath("constant.json").read_text(encoding="utf-8"))[name]
