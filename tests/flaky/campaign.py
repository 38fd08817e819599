"""The campaign of the flake doctor: every flaky test must get its cause or its wait, and no mended twin any.

Run it with `python -m tests.flaky.campaign`; name tests of `patterns.py` and `races.py` to run only those. Give another
number of runs with `--count`, and a number of processes that keep the machine busy meanwhile with `--load`.
"""

from __future__ import annotations

import argparse
import inspect
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import pytest
from pytest_leveret.flaky.report import FlakyDiagnosis, text_of_diagnosis
from pytest_leveret.flaky.steps import LINE

from tests.flaky import patterns, races

FOLDER = Path(__file__).parent
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
# By race: the wait that the report must name. None if there is none, and the report says that.
WAITS: dict[str, str | None] = {
    "reads_a_list": "assert_acked('meals')",
    "reads_a_file": "assert_acked('pages')",
    "reads_a_cache": "assert_acked('prices', times=2)",
    "waits_for_the_other_handler": "assert_acked('mail')",
    "waits_for_the_stage_before": "assert_acked('invoices')",
    "reads_what_a_coroutine_sets": "assert_acked('tasks')",
    "looks_in_one_loop": "assert_acked('tasks')",
    "waits_for_the_publish_of_a_handler": "assert_acked('orders')",
    "reads_a_table": "assert_acked('orders')",
    "reads_what_needs_no_ack": None,
    "reads_what_comes_after_the_ack": None,
}
NO_WAIT = (
    "leveret found no event of the broker that shows when that is done. Let the code say so itself, such as with a "
    "threading.Event."
)


@dataclass
class Examined:
    """One test, what the doctor says about it, and how long that took."""

    name: str
    diagnosis: FlakyDiagnosis
    seconds: float

    @property
    def statement(self) -> str:
        lines = text_of_diagnosis(self.diagnosis)
        return lines[1] if self.diagnosis.failed else "no cause needed"

    @property
    def is_silent(self) -> bool:
        """Whether the doctor names neither a cause nor a wait."""
        finding = self.diagnosis.finding
        return finding is None or finding.kind == "none"

    @property
    def is_right(self) -> bool:
        """Whether the doctor names the cause of a flaky test, or finds nothing wrong with a mended one."""
        finding = self.diagnosis.finding
        if self.name.endswith("_mended"):
            return not self.diagnosis.failed
        if finding is None or finding.order is None:
            return False
        name = self.name.removeprefix("test_").removesuffix("_flaky")
        if name in WAITS:
            wait = WAITS[name]
            lines = text_of_diagnosis(self.diagnosis)
            return lines[1].endswith(f": wait for {wait}.") if wait is not None else NO_WAIT in lines
        firsts, seconds = CAUSES[name]
        return finding.order.first.act in firsts and finding.order.second.act in seconds


class _Witness:
    """A plugin that takes what the doctor of a session has found."""

    diagnosis: FlakyDiagnosis | None = None

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        doctor = session.config.pluginmanager.get_plugin("leveret-flaky-doctor")
        assert doctor is not None
        self.diagnosis = doctor.diagnosis


def names() -> dict[str, Path]:
    """Return all tests of the patterns and the races, with their files."""
    return {
        name: Path(str(module.__file__))
        for module in (patterns, races)
        for name, _ in inspect.getmembers(module, inspect.isfunction)
        if name.startswith("test_")
    }


@contextmanager
def load(count: int) -> Iterator[None]:
    """Keep the machine busy with so many processes."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def examine(path: Path, name: str, count: int) -> Examined:
    """Let the doctor examine one test."""
    witness, began = _Witness(), perf_counter()
    plugins = ["-p", "pytest_leveret.plugin", "-p", "no:cacheprovider", "-W", "ignore"]
    plugins += ["-c", os.devnull, f"--rootdir={FOLDER}"]
    pytest.main([f"{path}::{name}", f"--leveret-flaky={count}", *plugins], plugins=[witness])
    assert witness.diagnosis is not None, f"{name} was not examined"
    return Examined(name, witness.diagnosis, perf_counter() - began)


def main(wanted: Iterable[str], count: int) -> int:
    """Examine the patterns, print a line for each test, and return the number of wrong answers."""
    wrong = []
    for name, path in names().items():
        if wanted and not any(word in name for word in wanted):
            continue
        examined = examine(path, name, count)
        diagnosis = examined.diagnosis
        mark = "right" if examined.is_right else "silent" if examined.is_silent else "WRONG"
        if not examined.is_right:
            wrong.append(name)
        print(
            f"{mark} {name}: fails {len(diagnosis.failed)} of {len(diagnosis.runs)}, {diagnosis.order_text}, "
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
    parser.add_argument("--load", type=int, default=0)
    given = parser.parse_args()
    # Only what the patterns need, so that each process starts quickly.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with load(given.load):
        wrong_count = main(given.patterns, given.count)
    sys.exit(wrong_count > 0)
