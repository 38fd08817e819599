"""The I/O of a broker's AMQP: one thread, one poller, the sockets; or `inline`, which has none of these."""
