"""The command that runs a soak::

    python -m tests.soak --minutes 10 --seed 1

The exit code is 1 if a message is not accounted for.
"""

from __future__ import annotations

import argparse
import logging
import sys

from tests.soak.soak import Soak


def main() -> int:
    """Run a soak."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Clients under every fault")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name in ("pika", "aio_pika", "aiormq", "asyncio"):
        # They report every connection that they lose.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    result = Soak(options.seed).run(seconds=60 * options.minutes)
    print(f"seed {options.seed}: {result}")
    return 0 if result.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
