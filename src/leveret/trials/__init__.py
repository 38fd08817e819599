"""Trials: one run of a scenario or a test under treatments, and what all that runs them again has in common.

`pool` has the processes that run trials side by side. `watchdog` ends a trial that hangs, and says where.
"""
