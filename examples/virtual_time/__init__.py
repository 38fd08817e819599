"""A sender of webhooks that retries after 1 minute, 10 minutes and 1 hour, with aio-pika."""
