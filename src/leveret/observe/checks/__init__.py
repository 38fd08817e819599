"""Strict checks: would production have lost it? What a test did not look at is judged when it ends.

`table` says which checks there are, `ledger` follows the trace and notes what each of them means, `telling` puts it
into words, and `judge` keeps all of it for one broker.
"""
