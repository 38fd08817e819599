"""Ends a run of tests if one hangs so that pytest-timeout cannot stop it, and says where.

pytest's own `faulthandler_timeout` starts a thread for each test and waits until it has ended. With more workers than
processors, that takes milliseconds. One thread watches all tests that begin within a second.
"""

from __future__ import annotations

import faulthandler
import math
import os
import time
from typing import Final

import pytest

_SHARED_S: Final = 1.0


class Watch:
    """A plugin of pytest that ends the process once a test has taken `limit_s` seconds, or a second less."""

    def __init__(self, limit_s: float) -> None:
        """Create a watch that begins with the first test."""
        self._limit_s = limit_s
        self._errors = 2
        self._began_at = -math.inf

    def pytest_configure(self) -> None:
        """Keep the error output: what a test itself writes to it, pytest captures."""
        self._errors = os.dup(2)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Begin anew, unless the test shares the watch of the one before."""
        now = time.monotonic()
        if now > self._began_at + _SHARED_S:
            faulthandler.dump_traceback_later(self._limit_s, exit=True, file=self._errors)
            self._began_at = now
        if "pytester" in getattr(item, "fixturenames", ()):
            # A test that fails in the run within this one ends the watch.
            self._began_at = -math.inf

    def pytest_exception_interact(self) -> None:
        """Let the next test begin anew: at a failure pytest ends the watch, because it may start a debugger."""
        self._began_at = -math.inf

    def pytest_unconfigure(self) -> None:
        """End the watch."""
        faulthandler.cancel_dump_traceback_later()
        os.close(self._errors)
