"""A shop and its billing with pika, and a first test of both."""
