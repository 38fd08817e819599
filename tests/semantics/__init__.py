"""The proof that leveret behaves as RabbitMQ does: scenarios, and the answers of real servers to them.

A scenario (``scenarios/``) is a function that talks AMQP through the small raw client of this package. What the server
sends becomes a transcript; transcripts of real RabbitMQ versions are committed in ``transcripts/``. The tests run every
scenario on leveret and compare. With ``LEVERET_ORACLES=4.3=amqp://guest:guest@127.0.0.1:5643`` (comma separated) they
run on those servers too. ``python -m tests.semantics.record`` makes new transcripts.

Nothing here imports leveret's codec, so independent code reads leveret's bytes. Only ``target.py`` knows leveret.
"""
