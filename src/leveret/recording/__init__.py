"""Recordings: the messages of a real server in a file, and what the code under test makes of them.

`command` is `leveret record`. It reads a server through `client`, or `files`, takes personal data out with `privacy`,
and writes a `rec_file`. `replay` publishes the messages of such a file to the code under test, one at a time. `judging`
compares what became of them with what an earlier run showed. The design: docs/how-to/replay.md.
"""
