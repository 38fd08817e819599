"""Three services with FastStream, whose documents are those that FastStream makes of them."""
