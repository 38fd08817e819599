"""Trials: what all has in common that runs a scenario or a test again under a treatment.

`pool` has the processes that run trials side by side, and `watchdog` ends a trial that hangs and says where. `facts`
are what a trial shows, counted, and `steps` name its clients as in every other one. docs/decisions/0014-one-trial.md
says why. The treatment itself belongs to the plan of faults, and what needs pytest to `pytest_leveret.trials`.
"""
