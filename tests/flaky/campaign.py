"""The campaign of the flake doctor: every flaky test of `patterns.py` must get its cause, and no mended twin any.

Run it with `python -m tests.flaky.campaign`; name patterns to run only those, and give another number of runs with
`--count`.
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import pytest
from pytest_leveret.flaky.report import Diagnosis, statement_of
from pytest_leveret.flaky.steps import LINE

from tests.flaky import patterns

FILE = Path(__file__).with_name("patterns.py")
# By pattern: what must not come first, and what it then comes before. An act of "line" is the line that fails.
_ACTS = {"publish", "ack", "delivery", "confirm", "basic.consume", "basic.consume-ok"}
_STARTS = {"connection.start", "connection.tune", "connection.open-ok", "channel.open", "channel.open-ok"}
CAUSES: dict[str, tuple[set[str], set[str]]] = {
    "looks_at_once": ({LINE}, {"ack"}),
    "waits_for_the_wrong_thing": ({LINE}, {"publish"}),
    "two_consumers_race": (_ACTS | _STARTS, _ACTS | _STARTS),
    "counts_before_the_ack": ({LINE}, {"ack"}),
    "publishes_before_the_subscription": ({"publish"}, {"queue.bind", "queue.declare", "queue.declare-ok"}),
    "two_publishers_race": (_STARTS | _ACTS, _STARTS | _ACTS),
    "sleeps": ({LINE}, {"ack", "delivery"}),
    "looks_for_a_consumer_at_once": ({LINE}, {"basic.consume"}),
    "waits_for_the_first_of_two_stages": ({LINE}, {"ack"}),
    "waits_for_the_first_message": ({LINE}, {"ack"}),
    "waits_for_an_early_ack": ({LINE}, {"publish"}),
    "first_worker_gets_the_message": (_ACTS, _ACTS),
    "gets_before_the_publish": ({LINE, "basic.get"}, {"publish"}),
    "purges_too_early": ({"queue.purge"}, {"publish"}),
    "uses_a_queue_of_another_client": ({"publish"}, {"queue.declare"}),
    "reads_what_a_handler_sets": ({LINE}, {"ack", "delivery"}),
    "reply_is_not_there_yet": ({LINE, "basic.get"}, {"publish"}),
    "cancels_before_the_last_delivery": ({LINE, "basic.cancel"}, {"publish", "delivery"}),
    "counts_connections_too_early": ({LINE}, {"connection.close", "connection.close-ok", "channel.close"}),
    "two_clients_declare_differently": ({"queue.declare"}, {"queue.declare"}),
    "who_comes_last_is_kept": ({"publish"}, {"publish"}),
    "two_services_answer_in_order": ({"publish", "delivery"}, {"publish", "delivery"}),
    "dead_letter_is_not_there_yet": ({LINE}, {"basic.reject", "reject"}),
    "waits_for_one_of_two_subscribers": ({LINE}, {"ack"}),
    "a_coroutine_looks_at_once": ({LINE}, {"ack"}),
    "takes_a_publish_for_done": ({LINE}, {"confirm"}),
    "unbinds_too_early": ({"queue.unbind"}, {"publish"}),
    "two_services_want_a_queue_alone": ({"basic.consume"} | _STARTS, {"basic.consume"} | _STARTS),
    "counts_the_retry_too_early": ({LINE}, {"nack", "delivery"}),
    "publishes_to_a_queue_that_may_be_gone": ({"basic.cancel", "channel.close", "connection.close"}, {"publish"}),
}


@dataclass
class Examined:
    """One test, what the doctor says about it, and how long that took."""

    name: str
    diagnosis: Diagnosis
    seconds: float

    @property
    def statement(self) -> str:
        finding = self.diagnosis.finding
        if finding is None:
            return "no cause needed"
        return "no order" if finding.order is None else statement_of(finding.order)

    @property
    def is_right(self) -> bool:
        """Whether the doctor names the cause of a flaky test, or finds nothing wrong with a mended one."""
        finding = self.diagnosis.finding
        if self.name.endswith("_mended"):
            return not self.diagnosis.failed
        if finding is None or finding.order is None:
            return False
        firsts, seconds = CAUSES[self.name.removeprefix("test_").removesuffix("_flaky")]
        order = finding.order
        return order.first.act in firsts and order.second.act in seconds


class _Witness:
    """A plugin that takes what the doctor of a session has found."""

    diagnosis: Diagnosis | None = None

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        doctor = session.config.pluginmanager.get_plugin("leveret-flaky-doctor")
        assert doctor is not None
        self.diagnosis = doctor.diagnosis


def names() -> list[str]:
    """Return all tests of the patterns."""
    return [name for name, _ in inspect.getmembers(patterns, inspect.isfunction) if name.startswith("test_")]


def examine(name: str, count: int) -> Examined:
    """Let the doctor examine one test."""
    witness, began = _Witness(), perf_counter()
    plugins = ["-p", "pytest_leveret.plugin", "-p", "no:cacheprovider", "-W", "ignore"]
    plugins += ["-c", os.devnull, f"--rootdir={FILE.parent}"]
    pytest.main([f"{FILE}::{name}", f"--leveret-flaky={count}", *plugins], plugins=[witness])
    assert witness.diagnosis is not None, f"{name} was not examined"
    return Examined(name, witness.diagnosis, perf_counter() - began)


def main(wanted: Iterable[str], count: int) -> int:
    """Examine the patterns, print a line for each test, and return the number of wrong answers."""
    wrong = []
    for name in names():
        if wanted and not any(word in name for word in wanted):
            continue
        examined = examine(name, count)
        diagnosis = examined.diagnosis
        mark = "right" if examined.is_right else "WRONG"
        if not examined.is_right:
            wrong.append(name)
        print(
            f"{mark} {name}: fails {len(diagnosis.failed)} of {len(diagnosis.runs)}, {diagnosis.order_count} orders, "
            f"{examined.seconds:.0f} s: {examined.statement}",
            flush=True,
        )
        if not examined.is_right and diagnosis.failed:
            print(f"      {diagnosis.failed[0].error.splitlines()[0][:150] if diagnosis.failed[0].error else ''}")
    print(f"{len(wrong)} wrong: {', '.join(wrong)}")
    return len(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--count", type=int, default=200)
    given = parser.parse_args()
    # Only what the patterns need, so that each process starts quickly.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.exit(main(given.patterns, given.count) > 0)
