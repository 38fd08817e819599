"""Scripted peers: what a test puts in the place of the other side, a consumer in its own hand or a canned responder.

They are consumers of the model like any client's, without a socket: they take their turn, have a prefetch and a
priority, and hold what they have not settled. The trace tells what they do as the test's own doing.
"""
