"""How far a long command is: a bar with the elapsed and the remaining time, where stderr is a terminal.

Elsewhere, in a log or a pipe, nothing is drawn, and what the work says about itself is printed as plain lines. The bar
is tqdm's: half a megabyte and no dependencies, where rich takes three. Without tqdm, there are only the lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

_FORMAT: Final = (
    "leveret: {desc}{percentage:3.0f} % |{bar}| {n:,} of {total:,}{unit}, {elapsed} elapsed, {remaining} remaining"
)


# Yields the bar for a piece of work, from its size and unit.
Progress = Callable[[int, str], AbstractContextManager["Bar"]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of work of known size. `advance` counts what is done, and `say` names what is being done."""

    advance: Callable[[int], object]
    say: Callable[[str], object]


@contextmanager
def progress(total: int, unit: str) -> Iterator[Bar]:
    """Yield a bar for `total` things of a kind, such as 40 "files". It disappears at the end of the work."""
    tqdm = _tqdm() if sys.stderr.isatty() else None
    if tqdm is None:
        yield Bar(lambda count: None, say)
        return
    with tqdm(
        total=total, unit=f" {unit}", leave=False, dynamic_ncols=True, bar_format=_FORMAT, file=sys.stderr
    ) as bar:
        yield Bar(bar.update, lambda text: bar.set_description_str(f"{text} "))


@contextmanager
def silence(total: int, unit: str) -> Iterator[Bar]:
    """Yield a bar that is never drawn, for work inside another program."""
    yield Bar(lambda count: None, lambda text: None)


def _tqdm() -> Any:
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm


def say(text: str) -> None:
    """Print a line about the work on stderr."""
    print(f"leveret: {text}", file=sys.stderr, flush=True)
