"""Orders: placed by a view, shipped by a worker."""
