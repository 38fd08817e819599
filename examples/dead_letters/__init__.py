"""A worker that retries failed jobs through a TTL queue, and sets aside those that fail for good, with pika."""
