"""A sender of webhooks that tries again after 1 minute, 10 minutes and 1 hour, with aio-pika."""
