"""From bytes to handlers: frames are read, put together to methods with contents, and dispatched."""
