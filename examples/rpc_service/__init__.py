"""A service that answers questions, and its client, with aio-pika and direct reply-to."""
