"""The campaign of `leveret needs`: what it finds out about each service must agree with what its code reads.

Run it with `python -m tests.contract.needs`; name services to measure only those. The tables `needs.txt` beside the
services were written by hand, by reading the code alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

SERVICES = Path(__file__).with_name("services")
# Only what the services need, so that each process starts quickly.
PLUGINS = ["-p", "pytest_leveret.plugin", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider"]
SHOW = """
import sys
import pytest
from leveret.trace.shapes.leaves import path_text
from pytest_leveret.needs.survey import Survey

survey = Survey(300)
ours = ["-q", "-s", "--disable-warnings", "--leveret-pages=off", "--leveret-contract=off"]
pytest.main([*sys.argv[1:], *ours], plugins=[survey])
for message in survey.findings.sorted():
    for path, need in message.fields.items():
        print("found:", message.kind.queue, path_text(path), need.verdict.replace("never read", "unread"))
"""

Table = dict[tuple[str, str], str]


def names() -> list[str]:
    """Return all services."""
    return sorted(folder.name for folder in SERVICES.iterdir() if (folder / "needs.txt").exists())


def table_of(name: str) -> Table:
    """Return what a service reads, as written by hand: required, used, typed or unread, by queue and field."""
    lines = (SERVICES / name / "needs.txt").read_text(encoding="utf-8").splitlines()
    return {(queue, path): verdict for queue, path, verdict in map(str.split, lines)}


def measured(name: str) -> tuple[Table, str]:
    """Return what `leveret needs` finds out about a service, and all that it prints."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", SHOW, ".", *PLUGINS]
    with TemporaryDirectory() as folder:
        service = Path(shutil.copytree(SERVICES / name, Path(folder, name)))
        if not (service / "pytest.ini").exists():
            shutil.copy(SERVICES / "pytest.ini", service)
        done = subprocess.run(command, cwd=service, env=environment, capture_output=True, text=True, check=False)
    rows = re.findall(r"^found: (\S+) (\S+) (.+)$", done.stdout, re.MULTILINE)
    return {(queue, path): verdict for queue, path, verdict in rows}, done.stdout + done.stderr


def main(wanted: list[str]) -> int:
    """Measure services, print what differs and how much agrees, and return the number of differences."""
    right = total = 0
    for name in names():
        if wanted and name not in wanted:
            continue
        began = perf_counter()
        found, text = measured(name)
        expected = table_of(name)
        if wanted:
            print(text)
        wrong = {field: found.get(field, "missing") for field in expected if found.get(field) != expected[field]}
        extra = sorted(set(found) - set(expected))
        right, total = right + len(expected) - len(wrong), total + len(expected)
        print(f"{name}: {len(expected) - len(wrong)} of {len(expected)} fields, {perf_counter() - began:.1f} s")
        for (queue, path), verdict in wrong.items():
            print(f"    {queue} {path}: {verdict}, and by hand {expected[queue, path]}")
        for queue, path in extra:
            print(f"    {queue} {path}: {found[queue, path]}, and by hand nothing")
        if not found:
            print(text)
    print(f"{right} of {total} fields agree: {100 * right / max(1, total):.1f} %")
    return total - right


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
