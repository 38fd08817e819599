"""The command that runs a campaign::

    python -m tests.lockstep --oracle 4.3=amqp://guest:guest@127.0.0.1:5643/ --seed 1 --count 1000 --steps 40 --jobs 4

Programs have the seeds SEED, SEED+1, ...; ``--count 1`` repeats a single one. The exit code is the number of programs
that the servers answered differently.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

from . import recordings
from .campaign import KINDS, record
from .steps import text
from .workers import run


def main() -> int:
    """Run a campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.lockstep", description="leveret and RabbitMQ in lockstep")
    parser.add_argument("--oracle", required=True, metavar="VERSION=URL")
    parser.add_argument("--kind", choices=KINDS, default="programs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--no-shrink", action="store_true", help="only say which programs differ, and where")
    parser.add_argument("--record", action="store_true", help="keep what the server answers, for test_recorded.py")
    parser.add_argument("--show", action="store_true", help="print the programs instead of playing them")
    options = parser.parse_args()
    seeds = list(range(options.seed, options.seed + options.count))
    if options.show:
        for seed in seeds:
            print(f"seed {seed}\n{text(KINDS[options.kind].generate(seed, options.steps))}")
        return 0
    version, url = options.oracle.split("=", 1)
    if options.record:
        # Programs do on purpose the things that leveret warns about.
        warnings.simplefilter("ignore")
        print(recordings.save(version, options.kind, record(options.kind, version, url, seeds, options.steps)))
        return 0
    started = time.monotonic()
    total = run(options.kind, version, url, seeds, options.steps, options.jobs, is_shrinking=not options.no_shrink)
    seconds = time.monotonic() - started
    print(f"seeds {seeds[0]} to {seeds[-1]}, {options.steps} steps\n{total}")
    print(f"{seconds:.0f} s, {total.sequences / seconds:.1f} sequences/s")
    return min(len(total.differing), 100)


if __name__ == "__main__":
    sys.exit(main())
