"""`python -m examples [NAME ...]`: run the stories of all examples, or of the named ones."""

from __future__ import annotations

import sys
from importlib import import_module

# Each is a module `story` in the folder of its name. It is imported when it runs, for some import much.
STORIES = (
    "first_test",
    "dead_letters",
    "virtual_time",
    "rpc_service",
    "planted_bugs",
    "full_depots",
    "unittest_only",
    "without_docker",
    "replay",
    "node",
    "spark_job",
    "trace_to_spark",
)


def main(names: list[str]) -> int:
    """Run the stories; return 2 for an unknown name."""
    unknown = [name for name in names if name not in STORIES]
    if unknown:
        print(f"unknown example {', '.join(unknown)}; expected one or more of {', '.join(STORIES)}", file=sys.stderr)
        return 2
    for name in names or STORIES:
        story = import_module(f"examples.{name}.story")
        print(f"{name}: {(story.__doc__ or '').splitlines()[0]}")
        story.tell()
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
