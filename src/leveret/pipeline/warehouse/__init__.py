"""A warehouse: its files, the log that says which are current, and what keeps it small."""
