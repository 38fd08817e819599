"""The columns of a trace are declared once: the pipeline's columns follow the trace format."""

from __future__ import annotations

import subprocess
import sys

from leveret.pipeline.kernel.schema import EVENTS, FILES, LINE, RUNS
from leveret.trace import schema as trace_schema

WITH_ONE_COLUMN_MORE = """
from leveret.trace import schema
schema.COLUMNS["colour"] = "boolean"
schema.HEADER["machine"] = "long"
from leveret.pipeline.kernel.schema import EVENTS, FILES, RUNS
print(EVENTS.field("colour").type, RUNS.field("machine").type, FILES.field("machine").type)
"""
ARROW_NAMES = {"long": "int64", "int": "int32", "string": "string", "boolean": "bool"}


def test_the_lines_of_a_trace_have_the_columns_of_its_format() -> None:
    columns = {field.name: str(field.type) for field in LINE}

    assert list(columns.items()) == [(name, ARROW_NAMES[kind]) for name, kind in trace_schema.COLUMNS.items()]


def test_the_header_of_a_trace_has_the_columns_of_its_format() -> None:
    columns = {field.name: str(field.type) for field in RUNS if field.name in trace_schema.HEADER}

    assert columns == {name: ARROW_NAMES[kind] for name, kind in trace_schema.HEADER.items()}


def test_every_column_of_events_runs_and_files_may_be_null() -> None:
    assert [field.name for table in (EVENTS, RUNS, FILES) for field in table if not field.nullable] == []


def test_a_column_that_the_trace_format_adds_reaches_events_runs_and_files() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITH_ONE_COLUMN_MORE], capture_output=True, text=True, timeout=60, check=True
    )

    assert ran.stdout.split() == ["bool", "int64", "int64"]
