"""What clients log while connections are lost: kept back, and shown for the one run that is reported.

A hundred runs of a client that reconnects are a thousand warnings, among which nobody finds the one that matters.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Keeper(logging.Handler):
    """This keeps records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one, in words: what it was about may be another by the time it is shown."""
        record.msg, record.args = record.getMessage(), None
        if record.exc_info:
            record.exc_text, record.exc_info = logging.Formatter().formatException(record.exc_info), None
        self.records.append(record)


@contextmanager
def kept_logs(records: list[logging.LogRecord]) -> Iterator[None]:
    """Put what the root logger would show into `records` instead."""
    root, keeper = logging.getLogger(), Keeper()
    before, root.handlers = root.handlers, [keeper]
    try:
        yield
    finally:
        root.handlers = before
        records += keeper.records


def show_logs(records: list[logging.LogRecord]) -> None:
    """Show records as if they were logged now."""
    for record in records:
        logging.getLogger(record.name).handle(record)
