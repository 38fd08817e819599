"""Documents that say what messages have to be, AsyncAPI and JSON Schema: reading, checking, writing, and as locks."""
