"""`python -m examples [NAME ...]`: run the stories of all examples, or of the named ones."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from examples.node.running import why_not
from leveret import LeveretWarning

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


def _without_spark() -> str | None:
    return None if find_spec("pyspark") else "needs Spark: pip install 'leveret[spark-local]'"


# What stories need that the extra `examples` does not bring: why they cannot run, None if they can.
NEEDS: dict[str, Callable[[], str | None]] = {
    "node": why_not,
    "spark_job": _without_spark,
    "trace_to_spark": _without_spark,
}


def main(names: list[str]) -> int:
    """Run the stories that can run here; return 2 for an unknown name."""
    unknown = [name for name in names if name not in STORIES]
    if unknown:
        print(f"unknown example {', '.join(unknown)}; expected one or more of {', '.join(STORIES)}", file=sys.stderr)
        return 2
    left = {name: why for name, needs in NEEDS.items() if name in (names or STORIES) and (why := needs()) is not None}
    # leveret's warnings belong to what an example shows. Those of other packages do not.
    warnings.simplefilter("ignore")
    warnings.simplefilter("always", LeveretWarning)
    warnings.showwarning = _show
    for name in names or STORIES:
        if name in left:
            continue
        story = import_module(f"examples.{name}.story")
        print(f"{name}: {(story.__doc__ or '').splitlines()[0]}")
        story.tell()
        print()
    if left:
        print("These need more than the extra `examples` installs:")
    for name, why in left.items():
        print(f"  {name}: {why}")
    return 0


def _show(message: Warning | str, *_: object, **__: object) -> None:
    print(f"  leveret warns: {str(message).splitlines()[0]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
