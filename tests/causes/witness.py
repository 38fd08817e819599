"""A plugin of pytest that checks each sentence about a failed test against what its broker recorded.

It writes a line of JSON for each failed test to the file that `CAUSES_WITNESS` names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Check what leveret says of a test that failed."""
    report = yield
    path = os.environ.get("CAUSES_WITNESS")
    if path is not None and report.failed:
        line = {"test": item.nodeid, "error": str(call.excinfo and call.excinfo.exconly())[:300], "said": judged(item)}
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return report


# So many events may come while a test is diagnosed.
_WHILE_ASKED = 20


def _wrong(sentence: str, cuts: list[list[Any]], now: int) -> list[str]:
    """Return what is wrong with a sentence at the moment at which it is least wrong."""
    from tests.causes.truth import Facts, problems_of

    return min((problems_of(sentence, Facts(events, now)) for events in cuts), key=len)


def judged(item: pytest.Item) -> list[dict[str, object]]:
    """Return each sentence about a failed test, with what is wrong with it."""
    from pytest_leveret import brokers
    from pytest_leveret.reports import diagnosing

    from leveret.engine.harness import Harness
    from leveret.story.causes import sentence
    from leveret.trace.events import Event

    said: list[dict[str, object]] = []
    for broker in brokers.brokers_of(item):
        found = diagnosing.diagnosis_of(item, broker)
        causes = [] if found is None else found.causes
        raw = Harness(broker)._engine.recorder.raw()
        until = len(raw) - diagnosing.later_count(item, broker)
        failed = diagnosing.failed_at(item)
        reading = Harness(broker).reading(item.nodeid)
        now = raw[until - 1][1] if until else 0
        if reading is not None and failed is not None:
            now = max(now, reading.clock_at(failed) or 0)
        # Without a known moment, the test was diagnosed while its clients went on: at any of the last events.
        until = until if diagnosing.later_count(item, broker) else max(0, until - _WHILE_ASKED)
        cuts = [[Event(one) for one in raw[:end]] for end in range(len(raw), until - 1, -1)]
        for cause in causes:
            text = sentence(cause)
            own = text.removeprefix(f"{cause.names['broker']}: ") if "broker" in cause.names else text
            own = own.removeprefix("perhaps ")
            said.append({"kind": cause.kind, "sentence": text, "rank": cause.rank, "wrong": _wrong(own, cuts, now)})
    return said
