"""AMQP 0-9-1 as a data source and sink of Spark, on pika: queues as DataFrames, DataFrames as messages.

What is read is acknowledged when Spark has committed it, what is written is confirmed before its task ends. The
guarantees, and what they rest on, stand in docs/spark-amqp.md.
"""
