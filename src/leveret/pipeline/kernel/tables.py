"""All tables of some runs, from their events."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from leveret.pipeline.kernel import control
from leveret.pipeline.kernel.events import Events
from leveret.pipeline.kernel.rules import RuleInput
from leveret.pipeline.kernel.schema import TABLES
from leveret.pipeline.kernel.subjects import (
    copies,
    counts,
    coverage,
    faults,
    fingerprints,
    holds,
    lineage,
    messages,
    queues,
    shapes,
    tests,
    violations,
)
from leveret.pipeline.kernel.subjects.runs import RunFacts


def tables_of(events: pa.Table, facts: Mapping[str, RunFacts] | None = None) -> dict[str, pa.Table]:
    """Return the tables of some runs by their names. Those of several runs are those of each, one after the other.

    `events` has the columns `events.NEEDED`, in any order; strings may be dictionary codes. `facts` has what else is
    known of a run, by its name.
    """
    facts = facts or {}
    every = Events.of(events)
    controls = control.control_of(every)
    all_copies = copies.copies_of(every, copies.lives_of(every))
    all_holds = holds.holds_of(all_copies)
    all_consumers = holds.consumers_of(all_copies, all_holds)
    all_messages = messages.messages_of(every, all_copies)
    all_tests = tests.tests_of(controls)
    all_queues = queues.test_queues_of(all_copies)
    run = RuleInput(every, controls, all_tests, all_copies, all_messages, all_holds, all_consumers, all_queues)
    about = {run: facts.get(run, RunFacts()) for run in every.run.texts}
    found = {
        "control": control.control(controls),
        "copies": copies.copies(all_copies, *holds.holder_numbers(all_copies, all_holds, all_consumers)),
        "messages": messages.messages(all_messages),
        "tests": tests.tests(controls, all_tests, all_messages),
        "consumers": holds.consumers(all_copies, all_consumers),
        "routes": coverage.routes(every, all_messages),
        "test_queues": queues.test_queues(all_queues),
        "latency_hist": queues.latency_hist(all_copies),
        "run_lineage": lineage.run_lineage(all_copies),
        **shapes.shapes_of(controls, all_tests, all_copies, all_holds, all_messages, about),
        "violations": violations.violations(run, about),
    }
    # These are made of the tables before them.
    found |= {
        "queue_stats": queues.queue_stats(found["test_queues"], found["latency_hist"]),
        "consumer_stats": holds.consumer_stats(found["consumers"]),
        "run_coverage": coverage.run_coverage(found["control"], found["routes"], found["consumers"]),
        "run_counts": counts.run_counts(found, all_copies, about),
        "fingerprints": fingerprints.fingerprints(found["copies"], found["tests"], about),
        "fault_effect": faults.fault_effect(controls, all_tests, found["test_queues"]),
    }
    return {name: found[name] for name in TABLES}
