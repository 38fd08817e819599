"""The same tests again: on newer versions of RabbitMQ, or on a real server."""
