"""The wire format: frames, methods, properties and field tables, read from bytes and written to bytes.

It holds no state and no policy.
"""
