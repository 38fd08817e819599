"""A service that answers requests, and its client, with aio-pika and direct reply-to."""
