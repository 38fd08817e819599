"""Scenarios of RabbitMQ's management API: recorded on real servers, replayed on leveret."""
