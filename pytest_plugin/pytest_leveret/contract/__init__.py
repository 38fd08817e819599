"""The contract of a suite: a lock of the messages that its tests send and receive, written and checked by runs."""
