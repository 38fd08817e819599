"""Whether the documents that locks are exported to are AsyncAPI, by AsyncAPI's own schema of a document.

`npm ci` in the root of the repository installs that schema. `python -m tests.contract.documents.validation` checks the
locks of all services.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
from pytest_leveret.contract.documents.exporting import document_of
from pytest_leveret.contract.lock import read

from tests.contract.running import LOCK, NAMES, SERVICES

SCHEMA = Path(__file__).parents[3] / "node_modules" / "@asyncapi" / "specs" / "schemas" / "3.0.0.json"


def problems(document: dict[str, Any]) -> list[str]:
    """Return in what a document is no AsyncAPI."""
    validator = jsonschema_rs.Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")), validate_formats=True)
    return [f"{'/'.join(map(str, each.instance_path))}: {each.message}" for each in validator.iter_errors(document)]


def main() -> int:
    """Check the document of each service, and return 1 if one is not valid."""
    count = 0
    for name in NAMES:
        for line in problems(document_of(read(SERVICES / name / LOCK), name, "1")):
            print(f"{name}: {line}")
            count += 1
    print(f"{len(NAMES)} exported documents, {count} problems")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
