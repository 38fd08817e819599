"""Documents as contracts: AsyncAPI, of FastStream and others, and JSON Schema."""
