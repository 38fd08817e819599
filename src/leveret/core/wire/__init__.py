"""Bytes to values and back: frames, methods, properties and field tables, without state and without policy."""
