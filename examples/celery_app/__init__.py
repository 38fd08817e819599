"""A Celery application, tested with a worker in a thread and with a prefork worker in its own processes."""
