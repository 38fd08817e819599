"""The random lockstep machine: seeded programs drive leveret and a real RabbitMQ side by side.

After each step the machine waits until both servers are at rest and compares everything they sent. At the end it drains
every queue. If the servers differ, it shrinks the program to the few steps that show the difference.
``python -m tests.lockstep --help`` describes campaigns. ``test_recorded.py`` replays programs against recorded answers
of a real server. ``exclusions.py`` lists what cannot be compared, with the reasons.
"""
