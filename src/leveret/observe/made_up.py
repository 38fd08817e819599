"""What clients make up anew each time they run: that it differs says nothing."""

from __future__ import annotations

import re
from typing import Final

# UUIDs, hexadecimal numbers of some length, and long decimal ones.
MADE_UP: Final = re.compile(
    r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b|\b(?=[a-f]*[0-9])[0-9a-f]{8,}\b|\d{5,}", re.I
)
