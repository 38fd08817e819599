"""How far a long command is: a bar with the elapsed and the remaining time, where stderr is a terminal.

Elsewhere, in a log or a pipe, nothing is drawn, and each kind of work is named in a plain line. The bar is tqdm's: half
a megabyte and no dependencies, where rich takes three. Without tqdm, as beside a pyarrow that was installed for another
reason, there are only the lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import Final

_FORMAT: Final = (
    "leveret: {desc}{percentage:3.0f} % |{bar}| {n:,} of {total:,}{unit}, {elapsed} elapsed, {remaining} remaining"
)

# Takes what is being done and to how many events; yields a function that counts those that it was done to.
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], object]]]


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], object]]:
    """Show how far work on `total` events is. The bar disappears at the end of the work."""
    if not sys.stderr.isatty() or find_spec("tqdm") is None:
        say(what)
        yield lambda count: None
        return
    from tqdm import tqdm

    with tqdm(
        desc=f"{what} ",
        total=total,
        unit=" events",
        leave=False,
        dynamic_ncols=True,
        bar_format=_FORMAT,
        file=sys.stderr,
    ) as bar:
        yield bar.update


@contextmanager
def silence(what: str, total: int) -> Iterator[Callable[[int], object]]:
    """Show nothing, for work inside another program."""
    yield lambda count: None


def say(text: str) -> None:
    """Print a line about the work on stderr."""
    print(f"leveret: {text}", file=sys.stderr, flush=True)
