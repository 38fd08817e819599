"""A warehouse for other programs: DataFrames, SQL and Delta tables."""
