"""A soak: unmodified clients under every fault for as long as you like, and an account of every message."""
