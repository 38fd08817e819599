"""An AMQP conversation: bytes in, calls on the model; what the model answers, bytes out."""
