"""Recordings: the messages of a real server in a file, and what the code under test makes of them.

`command` is `leveret record`. It reads a server through `client` and `management`, where `sources` says, or `files`,
takes personal data out with `privacy`, and writes a `rec_file`. `replay` publishes the messages of such a file to the
code under test, one at a time, and `outcomes` watches what becomes of them. `judging` compares that with what an
earlier run showed. How it is used: docs/how-to/replay.md.
"""
