"""RabbitMQ's management API, as pure functions of a request and the broker's state."""
