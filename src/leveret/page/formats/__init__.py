"""Stories as files: HTML with its index, text, and diagrams."""
