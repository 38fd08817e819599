"""What a broker is: vhosts, exchanges, queues, consumers. It knows no frames, channel numbers or sockets."""
