"""The command `leveret record`: the messages of a real server, without personal data, in a file that a test replays."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from leveret.errors import BrokerError
from leveret.wording import count_text, span_text

if TYPE_CHECKING:
    from leveret.recording.client import RecordingClient
    from leveret.recording.privacy import Privacy
    from leveret.recording.rec_file import RecordedMessage

_KEY_VARIABLE: Final = "LEVERET_HASH_KEY"
_PROPOSED_OF: Final = 100
_LOOK_EVERY_S: Final = 0.25
_SILENT_S: Final = 5
_EXAMPLES: Final = """\
examples:
  leveret record amqp://guest:guest@localhost:5672 --exchange orders --propose
      read 100 messages, write nothing, and propose which fields to hash or drop
  leveret record amqp://... --exchange orders --hash body.customer.email --drop '*token*' --limit 10000 -o orders.rec
      record what is published to the exchange orders
  leveret record amqp://... --queue billing -o orders.rec
      record what its exchanges send to the queue billing: its bindings are read from the management API
  leveret record amqp://... --queue billing --firehose -o orders.rec
      also record what the consumers of billing publish; first: rabbitmqctl trace_on
  leveret record saved/ -o orders.rec
      record what rabtap tap --saveto saved has written
  leveret record traces/20260726T101500-3f9a1c07.main.jsonl.gz --exchange orders -o orders.rec
      record what was published to orders in a trace with trace_bodies

Nothing is taken from any queue, and nothing is left on the server. Ctrl-C ends the recording in good order.
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    record = commands.add_parser(
        "record",
        help="record the messages of a server, to replay them in a test",
        description="Record the messages of a server, or of files that have them, to replay them in a test "
        "(docs/how-to/replay.md). Exits with 1 if the server ended the recording, or a trace is cut; the file then has "
        "what came before.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    record.add_argument(
        "source",
        metavar="SOURCE",
        help="the server: amqp://user:password@host:port/vhost; or a folder or file of rabtap, or a leveret trace",
    )
    record.add_argument("--vhost", metavar="NAME", help="the virtual host (default: that of the URL, or /)")
    record.add_argument("--queue", metavar="NAME", help="record what is published for this queue, through a copy of it")
    record.add_argument("--exchange", metavar="NAME", help="record what is published to this exchange")
    record.add_argument(
        "--key", metavar="KEY", action="append", help="with --exchange: only these binding keys (default: all)"
    )
    record.add_argument(
        "--firehose", action="store_true", help="read RabbitMQ's firehose: deliveries too, and what consumers publish"
    )
    record.add_argument("--output", "-o", metavar="FILE", help="the recording, such as orders.rec")
    field = "a field (body.a.b[].c), a header (headers.x), a name anywhere ('*email*') or a pattern ('/regex/')"
    record.add_argument("--drop", metavar="FIELD", action="append", default=[], help=f"leave out {field}; repeatable")
    record.add_argument("--hash", metavar="FIELD", action="append", default=[], help="hash it: equal stays equal")
    record.add_argument(
        "--hash-key", metavar="KEY", help=f"the key of hashes, or in {_KEY_VARIABLE} (default: a new one each time)"
    )
    record.add_argument("--sample", metavar="RATE", type=float, default=1.0, help="record this part, such as 0.1")
    record.add_argument("--limit", metavar="N", type=int, help="end after so many messages")
    record.add_argument("--seconds", metavar="S", type=float, help="end after this time")
    record.add_argument("--management", metavar="URL", help="its management API (default: the AMQP port + 10000)")
    record.add_argument(
        "--propose", action="store_true", help="write nothing, and print which fields to hash or drop, by what was seen"
    )
    record.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from leveret.recording.client import RecordingClient
    from leveret.recording.files import stored_messages
    from leveret.recording.privacy import Privacy, rule_of
    from leveret.recording.sources import without_exclusive

    _refuse_wrong(options)
    rules = [rule_of(text, is_hashed=False) for text in options.drop]
    rules += [rule_of(text, is_hashed=True) for text in options.hash]
    privacy = Privacy(rules, options.hash_key or os.environ.get(_KEY_VARIABLE))
    if "://" not in options.source:
        vhost = options.vhost or "/"
        messages = _Messages(options, stored_messages(options.source, vhost, options.exchange))
        code = _record(options, messages, privacy, vhost, {})
        _say("exchanges and queues are not part of the recording; replay it with definitions= or declare=False")
        return code
    with RecordingClient(options.source, options.vhost) as client:
        definitions = _definitions(options, client.vhost)
        bindings = _bindings(options, definitions)
        with _interruptible() as interrupts:
            client.listen(bindings)
            arrivals = _Arrivals(options, client, interrupts)
            kept, exclusive = without_exclusive(definitions)
            if exclusive:
                _say(f"bindings of queues that end with their connection are not recorded: {', '.join(exclusive)}")
            return _record(options, arrivals, privacy, client.vhost, kept)


def _refuse_wrong(options: argparse.Namespace) -> None:
    is_file = "://" not in options.source
    if is_file and not os.path.exists(options.source):
        raise BrokerError(
            f"{options.source!r} is neither a URL of a server nor a file; give amqp://user:password@host:port, or what "
            "rabtap or a trace has saved"
        )
    of_server = [it for it in ("queue", "key", "firehose", "seconds", "management") if getattr(options, it)]
    if is_file and of_server:
        raise BrokerError(
            f"--{of_server[0]} is for a server, and {options.source} is a file; choose its messages with --exchange"
        )
    if not is_file and options.queue is None and options.exchange is None and not options.firehose:
        raise BrokerError("record what? Give --exchange orders, --queue billing, or --firehose for all messages")
    if options.queue is not None and options.exchange is not None:
        raise BrokerError("--queue and --exchange were both given; give one of them")
    if options.output is None and not options.propose:
        raise BrokerError("give -o orders.rec to write the recording, or --propose to see which fields are personal")
    if not 0 < options.sample <= 1:
        raise BrokerError(f"--sample {options.sample:g} is no part of all messages; give one such as 0.1")
    if options.limit is not None and options.limit < 1:
        raise BrokerError(f"--limit {options.limit} records nothing; give a positive number")
    if options.key and (options.exchange is None or options.firehose):
        raise BrokerError("--key is a binding key for --exchange, without --firehose")


def _definitions(options: argparse.Namespace, vhost: str) -> dict[str, Any]:
    """Return what the server's management API knows of the virtual host; nothing if it cannot be asked."""
    from leveret.recording.management import ManagementClient, ManagementError, url_beside
    from leveret.recording.sources import kept_definitions

    try:
        url = options.management or url_beside(options.source)
        return kept_definitions(ManagementClient(url).ask("GET", "definitions", vhost))
    except (ManagementError, AttributeError, TypeError) as error:
        if options.queue is not None and not options.firehose:
            raise BrokerError(
                f"--queue {options.queue}: its bindings are read from the management API ({error}); give its URL with "
                "--management, or use --exchange or --firehose"
            ) from None
        _say(f"exchanges and queues are not part of the recording ({error}); replay it with definitions=")
        return {}


def _bindings(options: argparse.Namespace, definitions: dict[str, Any]) -> list[Any]:
    from leveret.core.wire.values import Table
    from leveret.recording.sources import TRACE_EXCHANGE, bindings_beside, bindings_to

    if options.firehose:
        deliveries = f"deliver.{'#' if options.queue is None else options.queue}"
        return [(TRACE_EXCHANGE, "publish.#", Table.EMPTY), (TRACE_EXCHANGE, deliveries, Table.EMPTY)]
    if options.queue is not None:
        _say(f"what is published straight to {options.queue!r}, without an exchange, is seen with --firehose only")
        return bindings_beside(options.queue, definitions)
    return bindings_to(options.exchange, options.key, definitions)


class _Messages:
    """The messages of a source, as far as --sample and --limit let them be recorded."""

    def __init__(self, options: argparse.Namespace, source: Iterable[RecordedMessage]) -> None:
        """`source` has all messages; iterating over it raises BrokerError if there should be more."""
        self._options = options
        self._source = source
        # How many publishes were taken, and how many were left out by the sampling rate.
        self.count = 0
        self.skipped_count = 0
        self.began_at = time.monotonic()
        # Why the source ended before its time; None if it did not.
        self.failure: BrokerError | None = None

    def __iter__(self) -> Iterator[RecordedMessage]:
        options = self._options
        limit = options.limit or (_PROPOSED_OF if options.propose else None)
        try:
            for message in self._source:
                if message.queue is None and options.sample < 1 and random.random() >= options.sample:
                    self.skipped_count += 1
                    continue
                yield message
                self.count += message.queue is None
                if self.count == limit:
                    return
        except BrokerError as error:
            self.failure = error


class _Arrivals(_Messages):
    """The messages that arrive from a server until the time, Ctrl-C or the server ends that."""

    def __init__(self, options: argparse.Namespace, client: RecordingClient, interrupts: list[int]) -> None:
        super().__init__(options, self._arriving())
        self._client = client
        self._interrupts = interrupts

    def _arriving(self) -> Iterator[RecordedMessage]:
        from leveret.recording.sources import FirehoseReader, published

        options = self._options
        firehose = FirehoseReader(options.queue, options.exchange) if options.firehose else None
        is_over = False
        while not is_over:
            is_over = bool(self._interrupts) or self._is_over()
            commands = self._client.last_deliveries() if is_over else self._client.deliveries(_LOOK_EVERY_S)
            at = time.time_ns() // 1000
            for arrived in (published(command, at) for command in commands):
                message = arrived if firehose is None else firehose.read(arrived)
                if message is not None:
                    yield message
            self._show_progress()

    def _is_over(self) -> bool:
        seconds = self._options.seconds
        return seconds is not None and time.monotonic() - self.began_at >= seconds

    def _show_progress(self) -> None:
        if sys.stderr.isatty():
            silent = not self.count and time.monotonic() - self.began_at > _SILENT_S
            hint = "; is the firehose on? rabbitmqctl trace_on" if silent and self._options.firehose else ""
            sys.stderr.write(f"\r{count_text(self.count, 'message')}{hint}; Ctrl-C ends the recording ")
            sys.stderr.flush()


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Give a list that gets an item at Ctrl-C or SIGTERM, which then do not interrupt anything."""
    interrupts: list[int] = []
    before = {}
    # Only the main thread can take signals.
    with suppress(ValueError):
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda number, _: interrupts.append(number))
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _propose(messages: _Messages) -> int:
    from leveret.recording.privacy import add_message, proposals
    from leveret.trace.shapes import Shape

    shape = Shape()
    for message in messages:
        if message.queue is None:
            add_message(shape, message)
    lines = list(proposals(shape))
    _say(f"{count_text(messages.count, 'message')} seen; look through the fields, and add what is personal")
    for line in lines:
        print(line)
    return 0


def _record(
    options: argparse.Namespace, messages: _Messages, privacy: Privacy, vhost: str, definitions: dict[str, Any]
) -> int:
    from leveret.recording.rec_file import RecordingWriter
    from leveret.trace.redaction import REDACTED

    if options.propose:
        return _propose(messages)
    facts = {"vhost": vhost, "definitions": definitions}
    facts |= {"queue": options.queue, "exchange": options.exchange, "firehose": options.firehose}
    facts |= {"sample": options.sample, "dropped": options.drop, "hashed": options.hash}
    hidden_count = 0
    with RecordingWriter(options.output, facts) as writer:
        for message in messages:
            hidden_count += REDACTED in str(message.headers)
            writer.add(privacy.cleaned(message))
    span = span_text(round((time.monotonic() - messages.began_at) * 1_000_000))
    skipped = f", {messages.skipped_count} left out by --sample" if messages.skipped_count else ""
    print(f"{options.output}: {count_text(messages.count, 'message')} in {span}{skipped}")
    for rule in privacy.rules:
        found = privacy.counts[rule.text]
        hint = "" if found else "; check its name"
        print(f"{'hashed' if rule.is_hashed else 'dropped'} {rule.text}: {count_text(found, 'value')}{hint}")
    if privacy.opaque_count:
        print(f"bodies left out whole, since they are no JSON and may hold such a field: {privacy.opaque_count}")
    if hidden_count:
        print(f"with a header that is {REDACTED}, as a trace hides it: {count_text(hidden_count, 'message')}")
    if privacy.unsearched_count:
        print(f"bodies kept, but not searched, since they are no text: {privacy.unsearched_count}")
    if not messages.count and messages.failure is None:
        way = "is the firehose on? rabbitmqctl trace_on" if options.firehose else "check the names of what is recorded"
        _say(f"no message came, so there is nothing to replay; {way}, or record for longer")
    if messages.failure is not None:
        _say(f"{messages.failure}; {options.output} has what came before")
    return 0 if messages.failure is None else 1


def _say(text: str) -> None:
    print(f"leveret: {text}", file=sys.stderr)
