"""Tests that run again: the runner of one run, the processes for many, and which features of leveret go together."""

from __future__ import annotations

from typing import Final

# The variable of a process that runs tests for another one: the module that serves it, and its port and key.
ADDRESS: Final = "LEVERET_TRIALS"
