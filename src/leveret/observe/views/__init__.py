"""Views: frozen pictures of queues, messages and connections, and the names that exist."""
