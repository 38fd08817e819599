"""The steps with curl in docs/how-to/other-languages.md run, and the reference has every endpoint."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from leveret import Broker
from leveret.http.control.endpoint import ENDPOINTS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_endpoint_is_in_the_overview() -> None:
    page = (DOCS / "reference/control-api.md").read_text(encoding="utf-8")
    # An assertion has the name that it has in Python, and docs/reference/broker.md has them all.
    templates = [endpoint.template for endpoint in ENDPOINTS if "/assert/" not in endpoint.template]
    words = {part for template in templates for part in template.split("/")[3:] if "{" not in part}

    assert [word for word in sorted(words) if not re.search(rf"[/`]{re.escape(word)}\b", page)] == []


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_steps_with_curl_answer_as_the_page_says() -> None:
    page = (DOCS / "how-to/other-languages.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(\$ .*?)^```", page, re.MULTILINE | re.DOTALL)
    # A step may go on in lines that are indented. Lines that are not are answers.
    steps = [step for block in blocks for step in re.findall(r"^\$ (.*(?:\n    .*)*)", block, re.MULTILINE)]

    with Broker(management=True, checks="all=off") as broker:
        script = "\n".join(steps).replace("http://127.0.0.1:15672", broker.management_url)
        ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True)

    answers = [line for line in ran.stdout.splitlines() if line]
    assert answers[0].startswith('{"name":"test-1","url":"amqp://guest:guest@127.0.0.1:')
    assert '{"routed":true}' in answers
    assert [line for line in answers if '"routing_key":"dead","body":"{\\"id\\": 7}"' in line]
    assert [line for line in answers if "JSON['id'] is 7 instead of 8" in line]
    assert answers[-1].startswith('{"id":1,"fault":"reset_peer","on":"basic.ack"')
    assert len([line for line in answers if '"error"' in line]) == 1
