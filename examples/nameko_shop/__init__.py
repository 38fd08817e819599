"""Services with nameko, which lives on eventlet: one calls another, and an event goes to a third."""
