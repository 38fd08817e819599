"""A run on a real RabbitMQ: a proxy in front of it, and a mirror that shows its deeds as leveret's own events."""
