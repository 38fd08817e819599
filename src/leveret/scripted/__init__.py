"""Scripted peers: consumers and responders that a test controls itself, in place of the other side.

They are consumers of the model like any client's, but without a socket. They take turns with other consumers, have a
prefetch and a priority, and hold the messages they have not settled. The trace records their actions as the test's own.
"""
