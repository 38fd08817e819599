"""The size of a snapshot of many runs, and the CPU time it takes to write and to read.

python -m tests.pipeline.snapshot_size [RUNS]
"""

from __future__ import annotations

import sys
import time

from leveret.pipeline.warehouse.log import decode, encode
from tests.pipeline.test_snapshots import many_runs

if __name__ == "__main__":
    state = many_runs(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    began = time.process_time()
    snapshot = encode(state)
    written = time.process_time()
    decode(snapshot)
    read = time.process_time()
    size = f"{len(state.runs)} runs: {len(snapshot) / 1e6:.1f} MB"
    print(f"{size}, written in {written - began:.1f} CPU s, read in {read - written:.1f} CPU s")
