"""Tests that are recorded, the tables that Spark makes of what happened in them, and a report to read.

There is no application here: those of the other examples are what is recorded.
"""
