"""Streams: logs that each consumer reads from its own offset."""
