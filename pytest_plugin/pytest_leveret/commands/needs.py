"""The command `leveret needs`: run tests again with changed messages, and print what the consumers need."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

_SECONDS: Final = 120.0


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser."""
    needs = commands.add_parser(
        "needs",
        help="measure what consumers need of the messages that they receive",
        description="Run the tests of a consumer as they are, then again with each field of each message removed, "
        "null, or of another type, and print what became of it. What follows the first test goes to pytest, such as "
        "-k NAME.",
    )
    _add_options(needs)
    needs.add_argument(
        "pytest", nargs=argparse.REMAINDER, metavar="...", help="tests, and options of pytest such as -k"
    )
    needs.set_defaults(run=_run)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds",
        type=float,
        default=_SECONDS,
        help=f"start no more runs after this time (default: {_SECONDS:.0f})",
    )
    parser.add_argument(
        "--lock",
        type=Path,
        metavar="FILE",
        help="write the needs to the entries of the consumers in this lock (default: the file of leveret_contract)",
    )


def _run(options: argparse.Namespace) -> int:
    # They may follow the tests as well.
    parser = argparse.ArgumentParser(prog="leveret needs", add_help=False, allow_abbrev=False)
    _add_options(parser)
    parser.set_defaults(seconds=options.seconds, lock=options.lock)
    options, of_pytest = parser.parse_known_args(options.pytest)
    if not options.seconds > 0:
        raise ValueError(f"--seconds={options.seconds:g} is not a number above 0")
    import pytest

    from pytest_leveret.contract.lock import read
    from pytest_leveret.needs.survey import Survey
    from pytest_leveret.trials.processes import NO_RECORDS

    if options.lock is not None:
        # A file that cannot be read need not wait for the tests.
        read(options.lock)
    survey = Survey(options.seconds, options.lock)
    # Workers print nowhere, and one file for the output of several processes would be torn.
    ours = ["-q", "-s", "--disable-warnings"]
    code = pytest.main(["--leveret-contract=off", *of_pytest, *ours, *NO_RECORDS], plugins=[survey])
    if survey.error is not None:
        raise survey.error
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return 2
    return int(bool(survey.findings.unusable))
