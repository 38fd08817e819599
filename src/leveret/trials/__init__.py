"""Trials: what all has in common that runs a scenario or a test again under a treatment.

`pool` has the processes that run trials side by side, and `watchdog` ends a trial that hangs and says where. `steps`
name its clients as in every other one; what it shows is counted in `leveret.story.facts`. The treatment itself belongs
to the plan of faults, and what needs pytest to `pytest_leveret.trials` (docs/decisions/0014-one-trial.md).
"""
