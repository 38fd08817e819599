"""A worker that retries what fails by way of a TTL queue and sets aside what fails for good, with pika."""
