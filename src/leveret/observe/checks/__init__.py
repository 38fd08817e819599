"""The strict checks: at the end of a test they report what production would have lost unseen.

`table` lists the checks and their levels. `trace_checks` finds losses and errors in the trace; `leftovers` and
`unused_faults` look at the end of the test. `texts` puts findings into words, and `judge` runs all of it for a broker.
"""
