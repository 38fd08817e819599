"""`python -m tests.replay 500`: replay so many messages to a service with each client; print digests and times."""

from __future__ import annotations

import sys

from tests.replay.frameworks import main

main(int(sys.argv[1]))
