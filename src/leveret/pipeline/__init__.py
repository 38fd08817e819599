"""The data pipeline: tables from the traces of many runs, made by Spark through PySpark.

Every step is a function from DataFrames to a DataFrame, in the caller's session. Importing this package needs only the
standard library; its modules need the extra `spark` or `spark-local`.
"""
