"""This package is the random lockstep machine: seeded programs drive leveret and a real RabbitMQ side by side.

After each step both servers are brought to rest and everything they sent is compared; at the end every queue is
drained. What differs is shrunk to the few steps that show it. ``python -m tests.lockstep --help`` is a campaign;
``test_recorded.py`` replays programs whose answers a real server gave once. What cannot be compared stands in
``exclusions.py``, with the reason.
"""
