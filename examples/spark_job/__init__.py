"""A Spark job that reads from one queue and writes to another, tested with crashes in the middle of its work.

It needs `leveret[spark-local]`, or `leveret[spark]` if you have a Java. The code that makes the session calls
`leveret.spark.register(spark)` once; the job itself is plain PySpark.
"""
