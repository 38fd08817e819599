"""Why an assertion could not be answered at all, and what strict checks raise and warn with.

A broker that answered "no" is an AssertionError instead.
"""

from __future__ import annotations


class UnknownName(LookupError):
    """Nobody ever declared or used a queue, exchange or virtual host of this name: a typo must not make a test pass."""


class IncompleteTrace(RuntimeError):
    """The trace does not hold what the assertion needs; the text names the option that makes it."""


class CheckFailed(AssertionError):
    """A strict check found what production would have lost, and its level is "error"; the text says how to allow it."""


class LeveretWarning(UserWarning):
    """A strict check found something and its level is "warning", or could not look at everything."""


# Known by the name they are imported by: it is what a summary line of a failing test shows.
for _public in (UnknownName, IncompleteTrace, CheckFailed, LeveretWarning):
    _public.__module__ = "leveret"
