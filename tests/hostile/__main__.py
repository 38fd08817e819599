"""The command that runs a campaign of hostile input. The exit code is 1 if there was a fault."""

from __future__ import annotations

import argparse
import faulthandler
import sys
import warnings

from .campaign import Report, feed_core, feed_tcp


def _say(report: Report) -> None:
    print(f"... {report}", flush=True)


def main() -> int:
    """Run a campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description="feed mutated frames to leveret")
    parser.add_argument("--frames", type=int, default=0, help="how many mutated frames to feed without sockets")
    parser.add_argument("--conversations", type=int, default=0, help="how many conversations to have over TCP")
    parser.add_argument("--rabbitmq", default="4.3", metavar="VERSION")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    # A frame that is never answered shows where.
    faulthandler.enable()
    reports = []
    if options.frames:
        reports.append(feed_core(options.frames, options.rabbitmq, options.seed, _say))
    if options.conversations:
        reports.append(feed_tcp(options.conversations, options.rabbitmq, options.seed, _say))
    for report in reports:
        print(f"RabbitMQ {options.rabbitmq}, seed {options.seed}\n{report}")
    return int(any(report.faults for report in reports))


if __name__ == "__main__":
    sys.exit(main())
