"""Readings: what one broker did during a test, as rows, from wherever it was recorded."""
