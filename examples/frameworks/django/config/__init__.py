"""The settings and URLs of the shop."""
