"""A worker that is right, and three that have a bug each which shows only when a connection is lost, with pika."""
