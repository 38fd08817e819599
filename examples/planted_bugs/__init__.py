"""A correct worker, and three with one bug each that shows only if a connection is lost, with pika."""
