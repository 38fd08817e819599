"""A worker that needs RabbitMQ, PostgreSQL, Redis and S3, tested without Docker."""
