"""The state of a broker: vhosts, exchanges, queues and consumers. It knows no frames, channel numbers or sockets."""
