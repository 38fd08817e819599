"""What services need of messages, and the services that show it."""
