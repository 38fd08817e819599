"""Shortcuts beside the plain path of a message, each for a client that repeats itself.

`RepeatedPublish` goes straight to the queues found before. `RepeatedMethod` takes a whole publish out of the bytes at
once when only its content is new. `single_acks` settles acknowledgements in runs. Each steps aside when anything could
change the answer: topology, permissions, alarms, transactions, faults. Property tests hold their bytes equal to those
of the plain path.
"""
