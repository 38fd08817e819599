"""Count what the scenarios prove, and rewrite the documentation: `python -m tests.features.count`."""

from __future__ import annotations

import json
from pathlib import Path

import leveret.features
from leveret.features import printing, rows
from tests.features.proofs import counts_of

ROOT = Path(__file__).parents[2]
COUNTS = Path(leveret.features.__file__).with_name("scenarios.json")
TABLE_OF_FEATURES = ROOT / "docs/reference/features.md"


def main() -> None:
    """Write scenarios.json beside the table, and the page that shows it."""
    COUNTS.write_text(json.dumps(counts_of(rows()), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    TABLE_OF_FEATURES.write_text(printing.print_table(None, "markdown"), encoding="utf-8")


if __name__ == "__main__":
    main()
