"""The watchdog of a trial: it ends one that hangs, and says where.

A trial that is to end loses its brokers first, so that its clients give up. If that does not end it, its thread is
interrupted. A debugger at its prompt is no hang.
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from leveret.observe.calls.callers import is_at_prompt, standing_line


def ends_within(over: threading.Event, thread: int, limit: float) -> bool:
    """Wait until a trial is over, and return whether it was within `limit` seconds of real time.

    Wait longer while a debugger holds up its thread.
    """
    while not over.wait(limit):
        if not is_at_prompt(thread):
            return False
    return True


def hang_text(thread: int, limit: float) -> str:
    """Return the text for a scenario that did not end within `limit` seconds, with the line where its thread waits."""
    line = standing_line(thread)
    return f"it did not end within {limit:g} s: it was waiting {f'at {line}' if line else 'outside your code'}"


class Watchdog:
    """What looks after the trial that runs in its block, on the thread that enters the block.

    A KeyboardInterrupt of its own ends with the block.
    """

    def __init__(
        self, look: Callable[[threading.Event], bool], end: Callable[[], None], patience_s: Sequence[float]
    ) -> None:
        """`look` returns whether the trial has to be ended, or False once the event is set. `end` begins to end it.

        If the block goes on for the first of `patience_s` seconds, it is interrupted; and again after each other one.
        """
        self._look: Final = look
        self._end: Final = end
        self._patience_s: Final = patience_s
        # Whether the trial is beyond the watch, whether its block has ended, and whether it was ended from here.
        self._over: Final = threading.Event()
        self._ended: Final = threading.Event()
        self._lock: Final = threading.Lock()
        self.has_bitten = False
        self._has_interrupted = False
        self._watched: Final = threading.get_ident()
        is_main = threading.current_thread() is threading.main_thread()
        self._is_background: Final = is_main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    def __enter__(self) -> Self:
        # A process in the background of a shell inherits that SIGINT is ignored: then nothing would interrupt the test.
        if self._is_background:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=self._watch, daemon=True, name="leveret watchdog").start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        with self._lock:
            self._over.set()
            self._ended.set()
        if self._is_background:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return self._has_interrupted and isinstance(error, KeyboardInterrupt)

    def call_off(self) -> bool:
        """End the watch, and return whether the trial has come so far by itself."""
        with self._lock:
            self._over.set()
            return not self.has_bitten

    def _watch(self) -> None:
        if not self._look(self._over):
            return
        with self._lock:
            if self._over.is_set():
                return
            self.has_bitten = True
        self._end()
        for seconds in self._patience_s:
            if self._ended.wait(seconds):
                return
            with self._lock:
                if not self._ended.is_set():
                    self._has_interrupted = True
                    _interrupt(self._watched)


def _interrupt(thread: int) -> None:
    """Raise KeyboardInterrupt in a thread, which is the main one."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, signal.SIGINT)
    else:
        _thread.interrupt_main()
