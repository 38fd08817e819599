"""The size of a snapshot of many runs, and how long it takes to write and to read.

python -m tests.pipeline.snapshot_size [RUNS]
"""

from __future__ import annotations

import sys
import time

from leveret.pipeline.snapshots import decode, encode
from tests.pipeline.test_snapshots import many_runs

if __name__ == "__main__":
    state = many_runs(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    began = time.perf_counter()
    snapshot = encode(state)
    written = time.perf_counter()
    decode(snapshot)
    read = time.perf_counter()
    size = f"{len(state.runs)} runs: {len(snapshot) / 1e6:.1f} MB"
    print(f"{size}, written in {written - began:.1f} s, read in {read - written:.1f} s")
