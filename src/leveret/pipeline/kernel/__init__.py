"""The tables of one run, computed from its events on columns, without Spark.

`tables.tables_of` is the entrance, and `trace.TraceTables` makes events of a trace file. There is one file for each
subject, and its docstring says which sort and which sums the table needs. All of them work on arrays with one value for
each event or copy, so the cost of an event is that of a few array operations. The package needs numpy and pyarrow. A
run must fit into memory: a process with a run of a million events takes 0.8 GB.
"""
