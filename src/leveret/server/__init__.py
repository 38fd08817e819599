"""The only I/O: one thread, one selector, the sockets."""
