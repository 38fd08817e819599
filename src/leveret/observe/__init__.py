"""Observation: the views, assertions, strict checks and failure texts that a test sees."""
