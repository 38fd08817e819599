"""A Spark job that is fed from a queue and answers into another, tested with crashes in its middle.

Needs `leveret[spark-local]`, or `leveret[spark]` where there is a Java. Whoever makes the session calls
`leveret.spark.register(spark)` once; the job itself is plain PySpark.
"""
