"""Twelve services as users write them, each with its suite and the lock that this has written."""
