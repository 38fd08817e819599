"""The command that writes the table of endpoints into docs/reference/management.md::

    python -m tests.management.count

Each row counts the recorded scenarios that ask the endpoint, on any version. Tests compare the page with the table.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from leveret.http.management.endpoints import ENDPOINTS
from leveret.http.management.routes import ManagementEndpoint
from leveret.http.messages import Request
from leveret.http.router import Router

from .scenario import transcripts

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "management.md"
_BEGIN, _END = "<!-- endpoints -->", "<!-- end of endpoints -->"
_ASKED = re.compile(r"([A-Z]+) (/[^ ?]*)")


def counts() -> dict[tuple[str, str], int]:
    """Return how many recorded scenarios ask each endpoint, by method and template."""
    router = Router(ENDPOINTS)
    asking: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for area, name, version in transcripts.recorded():
        for answer in transcripts.load(version, area, name):
            hit = _ASKED.match(answer[0]) if isinstance(answer[0], str) else None
            found = None if hit is None else router.find(Request(hit[1], f"/api{hit[2]}"))
            if found is not None:
                asking[found.route.method, found.route.template].add((area, name))
    return {key: len(scenarios) for key, scenarios in asking.items()}


def table() -> str:
    """Return the table of endpoints in Markdown."""
    counted = counts()
    rows = [_row(each, counted.get((each.method, each.template), 0)) for each in sorted(ENDPOINTS, key=_by_path)]
    return "\n".join(["| request | access | versions | scenarios |", "| --- | --- | --- | --- |", *rows])


def _row(endpoint: ManagementEndpoint, count: int) -> str:
    versions = "all" if len(endpoint.versions) == 5 else ", ".join(sorted(endpoint.versions, key=_by_number))
    return f"| {endpoint.method} `{endpoint.template}` | {endpoint.who} | {versions} | {count or ''} |"


def _by_number(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _by_path(endpoint: ManagementEndpoint) -> tuple[str, str, str]:
    return endpoint.template, endpoint.method, endpoint.who


def written() -> str:
    """Return the table that the page has."""
    text = PAGE.read_text(encoding="utf-8")
    return text.partition(_BEGIN)[2].partition(_END)[0].strip()


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(_BEGIN, 1)
    PAGE.write_text(f"{before}{_BEGIN}\n\n{table()}\n\n{_END}{rest.split(_END, 1)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
