"""All tables of one run, from its events."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from leveret.pipeline.kernel import control
from leveret.pipeline.kernel.events import Events
from leveret.pipeline.kernel.rules import Run
from leveret.pipeline.kernel.subjects import (
    changes,
    copies,
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


def tables_of(
    events: pa.Table, *, commit: str | None = None, began: int | None = None, truncated: Collection[str] = ()
) -> dict[str, pa.Table]:
    """Return the tables of one run by their names.

    `events` has the columns `events.NEEDED`, in any order; strings may be dictionary codes. The others come from
    `runs`: the run's commit, the microsecond at which it began, and the workers of which a part is missing.
    """
    every = Events.of(events)
    controls = control.control_of(every)
    all_copies = copies.copies_of(every, copies.lives_of(every))
    all_holds = holds.holds_of(all_copies)
    all_consumers = holds.consumers_of(all_copies, all_holds)
    all_messages = messages.messages_of(every, all_copies)
    all_tests = tests.tests_of(controls)
    all_queues = queues.test_queues_of(all_copies)
    all_shapes = shapes.shapes_of(controls, all_tests, all_copies, all_holds, all_messages)
    run = Run(every, controls, all_tests, all_copies, all_messages, all_holds, all_consumers, all_queues)
    control_table = control.control(controls)
    routes_table = coverage.routes(every, all_messages)
    copies_table = copies.copies(all_copies, *holds.holder_numbers(all_copies, all_holds, all_consumers))
    consumers_table = holds.consumers(all_copies, all_consumers)
    test_queues_table = queues.test_queues(all_queues)
    latency_hist_table = queues.latency_hist(all_copies)
    tests_table = tests.tests(controls, all_tests, all_messages)
    lineage_table = lineage.run_lineage(all_copies)
    about = {"commit": commit, "began": began}
    return {
        "control": control_table,
        "copies": copies_table,
        "messages": messages.messages(all_messages),
        "tests": tests_table,
        "consumers": consumers_table,
        "routes": routes_table,
        "test_queues": test_queues_table,
        "latency_hist": latency_hist_table,
        "queue_stats": queues.queue_stats(test_queues_table, latency_hist_table),
        "consumer_stats": holds.consumer_stats(consumers_table),
        "run_lineage": lineage_table,
        "run_coverage": coverage.run_coverage(control_table, routes_table, consumers_table),
        "run_counts": changes.run_counts(all_queues, all_messages, lineage_table, tests_table, about),
        "run_shapes": shapes.run_shapes(all_shapes, about),
        "run_clients": shapes.run_clients(all_shapes),
        "fingerprints": fingerprints.fingerprints(copies_table, tests_table, commit),
        "fault_effect": faults.fault_effect(controls, all_tests, test_queues_table),
        "violations": violations.violations(run, truncated),
    }
