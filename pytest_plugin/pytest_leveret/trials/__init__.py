"""Tests that run again: the processes for that, and which features of leveret go together."""
