"""What a test may see: views, assertions, and knowing when the broker is idle."""
