"""The errors of code that runs: what it logs, on whatever logger, and what ends its threads.

Not each logger hands its records on to the root, so a record is seen when it is made.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def errors_seen(
    logged: Callable[[logging.LogRecord], None] | None,
    ended: Callable[[threading.ExceptHookArgs], None],
    *,
    passes_on: bool = False,
) -> Iterator[None]:
    """In this block, call `logged` with each record of a log, and `ended` with each error that ends a thread.

    With `passes_on`, the earlier hook of threads gets these errors too. What other code sets meanwhile
    stays.
    """
    make, before = logging.getLogRecordFactory(), threading.excepthook

    def made(*parts: Any, **more: Any) -> logging.LogRecord:
        record = make(*parts, **more)
        if logged is not None:
            logged(record)
        return record

    def hook(arguments: threading.ExceptHookArgs) -> None:
        ended(arguments)
        if passes_on:
            before(arguments)

    logging.setLogRecordFactory(made)
    threading.excepthook = hook
    try:
        yield
    finally:
        if logging.getLogRecordFactory() is made:
            logging.setLogRecordFactory(make)
        if threading.excepthook is hook:
            threading.excepthook = before
