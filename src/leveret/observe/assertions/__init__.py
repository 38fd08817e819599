"""Assertions: what a test asks of its messages, how the answer is found, and why it is missing."""
