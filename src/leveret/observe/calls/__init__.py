"""Calls of a test: their check, the answer to a mistake, and the line that made them."""
