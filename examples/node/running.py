"""How node runs the tests of the service, and what it needs for that."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

_HERE = Path(__file__).parent


def why_not() -> str | None:
    """Return why node cannot run the tests here, or None if it can."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not (_HERE / "node_modules" / "amqplib").is_dir():
        return "amqplib is not installed: npm ci --prefix examples/node"
    return None


def run_tests(broker_url: str) -> subprocess.CompletedProcess[str]:
    """Run the tests on the broker at this URL, and return what they print, as TAP."""
    return subprocess.run(
        ["node", "--test", "--test-reporter=tap", "billing.test.js"],
        cwd=_HERE,
        env={**os.environ, "LEVERET_HTTP": broker_url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
