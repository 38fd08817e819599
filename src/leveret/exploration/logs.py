"""The log records of clients: held back during each run, and shown for the one run that is reported.

A hundred runs of a client that reconnects log a thousand warnings, which would hide the one that matters.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from leveret.exploration.strays import STRAYS


class LogBuffer(logging.Handler):
    """A handler that stores records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Store a record, formatted now because its arguments may change before it is shown."""
        record.msg, record.args = record.getMessage(), None
        if record.exc_info:
            record.exc_text, record.exc_info = logging.Formatter().formatException(record.exc_info), None
        self.records.append(record)


@contextmanager
def buffered_logs(records: list[logging.LogRecord]) -> Iterator[None]:
    """Collect in `records` what the root logger would show."""
    root, buffer = logging.getLogger(), LogBuffer()
    buffer.addFilter(STRAYS)
    before, root.handlers = root.handlers, [buffer]
    try:
        yield
    finally:
        root.handlers = before
        records += buffer.records


def show_logs(records: list[logging.LogRecord]) -> None:
    """Show records as if they were logged now."""
    for record in records:
        logging.getLogger(record.name).handle(record)
