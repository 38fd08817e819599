"""The commands on one test of a trace file: `leveret trace page` and `leveret trace show`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from leveret.page.story import Story

_EXAMPLES: Final = """\
examples:
  leveret trace page traces/20260726T101500-3f9a1c07.main.jsonl.gz --test test_billing -o billing.html
      write a page on one test; part of a name is enough if only one test has it
  leveret trace show traces/20260726T101500-3f9a1c07.main.jsonl.gz --test test_billing
      print the same as text
  leveret trace show traces/20260726T101500-3f9a1c07.main.jsonl.gz --test test_billing --format mermaid
      print a sequence diagram for a pull request

FILE is a trace file, of leveret or of RabbitMQ's firehose (docs/how-to/recording.md).
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to the parser of the command line."""
    trace = commands.add_parser(
        "trace",
        help="show one test of a trace file",
        description="Show one test of a trace file.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    steps = trace.add_subparsers(title="commands", dest="step", required=True)
    page = steps.add_parser("page", help="write an HTML page on it", description="Write an HTML page on one test.")
    _add_file(page)
    page.add_argument("--output", "-o", default="page.html", metavar="FILE", help="the page (default: page.html)")
    page.set_defaults(run=_page)
    show = steps.add_parser(
        "show", help="print it as text, or as a diagram", description="Print one test as text, or as a diagram."
    )
    _add_file(show)
    show.add_argument(
        "--format",
        choices=("text", "mermaid"),
        default="text",
        help="text, or a sequence diagram for Mermaid (default: text)",
    )
    show.set_defaults(run=_show)


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a trace file")
    parser.add_argument(
        "--test", metavar="NODEID", help="the test, by pytest's name for it; may be left out if the file has one test"
    )


def _story(options: argparse.Namespace) -> Story:
    from leveret.page.readings.trace_source import read_test
    from leveret.page.story import story_of

    recorded = read_test(options.file, options.test)
    return story_of(recorded.readings, recorded.test, source=recorded.source)


def _page(options: argparse.Namespace) -> int:
    from leveret.page.formats.html import save

    print(save(_story(options), options.output))
    return 0


def _show(options: argparse.Namespace) -> int:
    if options.format == "mermaid":
        from leveret.page.formats.mermaid import mermaid_of

        text = mermaid_of(_story(options))
    else:
        from leveret.page.formats.outline import outline_of

        text = outline_of(_story(options))
    sys.stdout.write(text)
    return 0
