"""Hostile input: mutated frames from a corpus of valid conversations, fed to the core and over TCP.

``python -m tests.hostile --frames 1000000 --rabbitmq 4.3`` feeds the core without sockets, ``--conversations 100000``
talks to a broker over TCP. Either way no internal error may occur, nothing may hang or stay in memory, and a witness
that uses the broker properly all along must be served.
"""
