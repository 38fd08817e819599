"""AMQP 0-9-1 as a data source and sink of Spark, built on pika: queues as DataFrames, DataFrames as messages.

A stream acknowledges messages once Spark has committed them. A task that writes messages ends once the broker has
confirmed them. docs/how-to/spark-amqp.md describes the guarantees and what they rest on.
"""
