"""A warehouse for other programs: DataFrames and SQL."""
