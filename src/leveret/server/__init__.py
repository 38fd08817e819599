"""The only I/O of a broker: one thread, one poller, the sockets."""
