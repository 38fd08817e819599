"""The flake doctor, `--leveret-flaky`: it runs one test many times in different orders and names the order it fails in.

`doctor` directs it, and serves in the processes that run the test. A `play` delays what clients and the broker send, by
`delays`, and records the `steps` of one run. `search` finds the order that separates failed runs from passed ones, and
`report` says it.
"""

from __future__ import annotations

from typing import Final

import pytest

_COUNT: Final = 200
_FLAKY: Final = "leveret_flaky"
_SEED: Final = "leveret_flaky_seed"


def add_options(parser: pytest.Parser) -> None:
    """Add the options of the doctor."""
    group = parser.getgroup("leveret", "leveret, an AMQP broker for tests")
    group.addoption(
        "--leveret-flaky",
        dest=_FLAKY,
        metavar="NUMBER",
        nargs="?",
        const=str(_COUNT),
        default=None,
        help=f"run one test this many times in different orders (default: {_COUNT}) and say why it fails in some",
    )
    group.addoption(
        "--leveret-flaky-seed",
        dest=_SEED,
        metavar="SEED",
        default=None,
        help="run tests in the order of this seed, as the report of --leveret-flaky names it",
    )


def complete_arguments(arguments: list[str]) -> None:
    """Give the option its number, so that argparse does not take the test that follows for it."""
    arguments[:] = [f"{word}={_COUNT}" if word == "--leveret-flaky" else word for word in arguments]


def prepare(config: pytest.Config) -> None:
    """Read the options. Raises UsageError if one is invalid."""
    count, seed = _number(config, _FLAKY), _number(config, _SEED)
    if count is not None or seed is not None:
        # Most runs need none of it.
        from pytest_leveret.flaky import doctor

        doctor.prepare(config, count, seed)


def _number(config: pytest.Config, name: str) -> int | None:
    text = config.getoption(name, None)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise pytest.UsageError(f"--{name.replace('_', '-')}: {text!r} is not a whole number of 1 or more")
    return int(text)
