"""The same tests again, on newer versions of RabbitMQ."""
