"""Write the page of the table of features: `python -m tests.features`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.features.printing import page

PAGE: Final = Path(__file__).parents[2] / "docs/reference/features.md"

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
