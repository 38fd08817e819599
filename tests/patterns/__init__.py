"""Patterns of policies, and the queues that RabbitMQ chooses by them."""
