"""The data pipeline: what the traces of many runs say together, on Spark through PySpark.

Every step is a function from DataFrames to a DataFrame in the session of whoever calls it. Importing this package needs
nothing but the standard library; its modules need the extra `spark` or `spark-local`.
"""
