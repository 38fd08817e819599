"""What clients log, and the threads that scenarios leave behind, which use a client although their broker has stopped.

A hundred runs of a client that reconnects log a thousand warnings, which would hide the one that matters. So the log
records of each run are held back, and shown for the one run that is reported. The summary of an exploration names the
threads that were left behind. Such a thread often reconnects for ever and logs each attempt, which would fill the
report of whatever test runs next. So what it logs is not shown.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from leveret.observe.calls.callers import client_line, standing_line
from leveret.wording import count_text

# How long the threads of a scenario may take to end after its broker, before the summary names them.
_GRACE_S: Final = 0.5


class Strays(logging.Filter):
    """The threads of this process that scenarios have left behind. As a filter it drops what they log."""

    def __init__(self) -> None:
        super().__init__()
        self._threads: frozenset[threading.Thread] = frozenset()
        # Threads that may be between two calls of their client: they are in one when they log.
        self._others: frozenset[threading.Thread] = frozenset()

    def note(self, before: Iterable[threading.Thread]) -> list[threading.Thread]:
        """Note the threads that were not there `before` and are in a client now, and return them."""
        new = frozenset(threading.enumerate()).difference(before, self._threads)
        left_behind = [thread for thread in new if client_line(thread.ident or 0) is not None]
        self._threads = self._threads.union(left_behind)
        self._others = new.difference(left_behind)
        return left_behind

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record comes from another thread."""
        if _is_one(record.thread, self._threads):
            return False
        return not (_is_one(record.thread, self._others) and client_line(record.thread or 0) is not None)

    def hide(self, handlers: Iterable[logging.Handler]) -> None:
        """Drop what they log in these handlers."""
        for handler in handlers if any(thread.is_alive() for thread in self._threads | self._others) else ():
            handler.addFilter(self)


def _is_one(ident: int | None, threads: Iterable[threading.Thread]) -> bool:
    # A thread that has ended leaves its number to another one.
    return any(thread.ident == ident and thread.is_alive() for thread in threads)


STRAYS: Final = Strays()


def lines_of(threads: Iterable[threading.Thread]) -> list[str]:
    """Return a text for each line of user code at which some of these threads go on living."""
    patience = _GRACE_S
    alive = []
    for thread in threads:
        thread.join(patience)
        if thread.is_alive():
            patience = 0
            alive.append(thread)
    counts = Counter(str(standing_line(thread.ident or 0) or thread.name) for thread in alive)
    return [f"{count_text(count, 'thread')} at {line}" for line, count in counts.items()]


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
