"""The columns of a trace are declared once: the pipeline's schema follows the trace format."""

from __future__ import annotations

import subprocess
import sys

from leveret.pipeline.schema import EVENTS, FILES, HEADER, LINE, RUNS
from leveret.trace import schema as trace_schema

WITH_ONE_COLUMN_MORE = """
from leveret.trace import schema
schema.COLUMNS["colour"] = "boolean"
schema.HEADER["machine"] = "long"
from leveret.pipeline.schema import EVENTS, FILES, RUNS
print(EVENTS["colour"].dataType.typeName(), RUNS["machine"].dataType.typeName(), FILES["machine"].dataType.typeName())
"""
SPARK_NAMES = {"long": "long", "int": "integer", "string": "string", "boolean": "boolean"}


def test_the_lines_of_a_trace_have_the_columns_of_its_format() -> None:
    columns = {field.name: field.dataType.typeName() for field in LINE}

    assert list(columns.items()) == [(name, SPARK_NAMES[kind]) for name, kind in trace_schema.COLUMNS.items()]


def test_the_header_of_a_trace_has_the_columns_of_its_format() -> None:
    columns = {field.name: field.dataType.typeName() for field in HEADER if field.name != "v"}

    assert list(columns.items()) == [(name, SPARK_NAMES[kind]) for name, kind in trace_schema.HEADER.items()]


def test_every_column_of_the_bronze_tables_may_be_null() -> None:
    assert [field.name for table in (EVENTS, RUNS, FILES) for field in table if not field.nullable] == []


def test_a_column_that_the_trace_format_adds_reaches_the_bronze_tables() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITH_ONE_COLUMN_MORE], capture_output=True, text=True, timeout=60, check=True
    )

    assert ran.stdout.split() == ["boolean", "long", "long"]
