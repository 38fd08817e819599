"""leveret beside Spark: starting it without a Java of one's own, and AMQP as a data source and sink.

Importing this package needs nothing but the standard library.
"""
