"""`python -m examples [NAME ...]`: run the stories of all examples, or of the named ones."""

from __future__ import annotations

import sys

from examples.dead_letters import story as dead_letters
from examples.first_test import story as first_test
from examples.node import story as node
from examples.planted_bugs import story as planted_bugs
from examples.rpc_service import story as rpc_service
from examples.spark_job import story as spark_job
from examples.trace_to_spark import story as trace_to_spark
from examples.unittest_only import story as unittest_only
from examples.virtual_time import story as virtual_time
from examples.without_docker import story as without_docker

STORIES = {
    "first_test": first_test,
    "dead_letters": dead_letters,
    "virtual_time": virtual_time,
    "rpc_service": rpc_service,
    "planted_bugs": planted_bugs,
    "unittest_only": unittest_only,
    "without_docker": without_docker,
    "node": node,
    "spark_job": spark_job,
    "trace_to_spark": trace_to_spark,
}


def main(names: list[str]) -> int:
    """Run the stories; return 2 for an unknown name."""
    unknown = [name for name in names if name not in STORIES]
    if unknown:
        print(f"unknown example {', '.join(unknown)}; expected one or more of {', '.join(STORIES)}", file=sys.stderr)
        return 2
    for name in names or STORIES:
        story = STORIES[name]
        print(f"{name}: {(story.__doc__ or '').splitlines()[0]}")
        story.tell()
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
