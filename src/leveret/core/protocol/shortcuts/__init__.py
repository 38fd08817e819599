"""Shortcuts beside the plain path of a message, each for a client that repeats itself."""
