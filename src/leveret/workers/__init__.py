"""Programs and functions of the user's as processes beside the test: `broker.worker`.

Each worker gets a port of the broker for itself, so the broker knows which worker a connection belongs to, also one of
a worker's own children, on every system.
"""
