"""Tests that are recorded, the tables that Spark makes from the traces, and a report to read.

This example has no application; it records the tests of other examples.
"""
