"""A campaign of random and hostile requests to the HTTP port, while a witness publishes and consumes over AMQP::

    python -m tests.http.campaign --requests 50000 --seed 1

Every request must be answered, none with 500, and the witness must get what it published, in order. What would reach
the witness by right is left out: its virtual host, the user guest, a reset of the broker, faults of all virtual hosts.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from random import Random
from urllib.parse import quote

import pika

from leveret import Broker
from leveret.engine.harness import Harness
from leveret.http.control.endpoint import ENDPOINTS as CONTROL
from leveret.http.management.endpoints import ENDPOINTS as MANAGEMENT
from tests.http.client import GUEST, raw

_PATIENCE_S = 30
_THREADS = 4
_WITNESS = "witness"
_FUZZED = "fuzzed"
# They reach every client, so the witness too; or they stop time, for which it does not wait.
_LEFT_OUT = ("/leveret/v1/reset", "/leveret/v1/restart", "/leveret/v1/clock/")
_PATHS = [
    *((row.method, row.template) for row in MANAGEMENT),
    *((row.method, row.template) for row in CONTROL if not row.template.startswith(_LEFT_OUT)),
    *(("GET", path) for path in ("/", "/live", "/live/queue", "/assets", "/favicon.ico")),
]
_METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "X" * 200, "M-SEARCH")
_NAMES = ("%2F", _FUZZED, "q", "e", "u", "amq.direct", "amq.default", "a.b", "1", "published", "~", "q%20r", "%C3%A4")
_BAD_NAMES = (
    *("%ff", "%", "%zz", "%2", "%00", "%0d%0a", "%ED%A0%80", "..", ".", "%2e%2e", "", "%F4%90%80%80", "a" * 300),
    *("%25ff", "*", "(", "a|b", "'", '"', "<x>", "{vhost}", "\\", ";", "%C0%80", "9" * 400, "-1", "1e999", "NaN"),
)
_PATTERNS = (
    *("^(a+)+$", "(a|a)*b", "(", "[", "a{99999999999}", "(?P<x>a)(?P=x)+", "(.*)*x", "((((((((a*)*)*)*)*)*)*)*)*", "*"),
    *("a{65535}{65535}", "(?i)x", "\\", "(?#", "x{1,2}{3}", "^(?=(a+)+$)", "(?<=a*)", "\\1", "(?(1)a|b)", "(" * 300),
)
_PARAMETERS = (
    *(
        "page",
        "page_size",
        "name",
        "use_regex",
        "columns",
        "sort",
        "sort_reverse",
        "disable_stats",
        "download",
        "kinds",
    ),
    *("enable_queue_totals", "msg_rates_age", "msg_rates_incr", "lengths_age", "lengths_incr", "if-unused", "if-empty"),
    *("queue", "from", "vhost", "limit", "after", "timeout", "family", "unknown", "", "q[]", "node_stats_age"),
)
_VALUES: tuple[object, ...] = (
    *(None, True, False, 0, 1, -1, 1.5, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 1e300, "", "x", "a" * 5000, "/"),
    *(
        [],
        {},
        [[]],
        {"a": {"b": [None]}},
        ["x", 1],
        "\x00",
        "\r\n",
        "é",
        "😀",
        "1",
        "all",
        "classic",
        "quorum",
        "stream",
    ),
    *("ack_requeue_true", "reject_requeue_false", "auto", "base64", "string", "%", "fanout", "=", "a,b", "-1", "1e9"),
)
_KEYS = (
    *(
        "durable",
        "auto_delete",
        "arguments",
        "type",
        "internal",
        "routing_key",
        "properties",
        "payload",
        "count",
        "value",
    ),
    *("payload_encoding", "ackmode", "encoding", "truncate", "pattern", "definition", "priority", "apply-to", "tags"),
    *(
        "password",
        "password_hash",
        "hashing_algorithm",
        "configure",
        "write",
        "read",
        "exchange",
        "queue",
        "body",
        "json",
    ),
    *("headers", "body_base64", "mandatory", "times", "timeout", "fault", "on", "when", "seconds", "name", "users"),
    *("vhosts", "queues", "exchanges", "bindings", "policies", "permissions", "parameters", "action", "destination"),
    *("source", "code", "text", "client", "description", "default_queue_type", "delivery_mode", "to", "reason", "x"),
)
_BROKEN = (
    *(
        b"{",
        b"",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b"\xff",
        b'{"a":1,}',
        b"{'a':1}",
        b"\xef\xbb\xbf{}",
        b"[" * 50_000,
        b"tru",
    ),
    *(
        rb'{"durable":{"a":"\ud800"}}',
        rb'{"\udc00":1}',
        rb'{"payload":"\ud800\ud800"}',
        b'{"a":NaN}',
        b'{"value":1e999}',
    ),
    *(
        b'{"value":' + b"9" * 5000 + b"}",
        b'{"a":1}{"a":2}',
        b'{"type":"\xed\xa0\x80"}',
        "{}".encode("utf-16"),
        b"{}\x00",
    ),
)
_RAW = (
    *(b"GET\r\n\r\n", b"\r\n\r\nGET / HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\nhost: localhost\r\n\r\n", bytes(50)),
    *(b"GET  / HTTP/1.1\r\nhost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\nhost localhost\r\n\r\n", b"AMQP\0\0\x09\1"),
    *(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n", b"GET / HTTP/1.1\r\n: x\r\n\r\n"),
    *(b"GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", b"\x16\x03\x01\r\n"),
    *(b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b"GET / HTTP/1.1\n\n"),
    *(b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n", b"GET /a b HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    *(b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\n\r\n"),
    *(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999999\r\n\r\n", b"OPTIONS * HTTP/1.1\r\n\r\n"),
)  # fmt: skip


def request(random: Random) -> tuple[str, bytes]:
    """Return the method and the bytes of a request."""
    if random.random() < 0.03:
        return "GET", random.choice(_RAW) + b"\r\n\r\n"
    method, template = random.choice(_PATHS)
    if random.random() < 0.1:
        method = random.choice(_METHODS)
    parts = [_segment(random) if part.startswith("{") else part for part in template.split("/")]
    if random.random() < 0.05:
        parts.insert(random.randrange(1, len(parts) + 1), _segment(random))
    path = "/".join(parts) or "/"
    if random.random() < 0.5:
        path += "?" + "&".join(_parameter(random) for _ in range(random.randint(0, 4)))
    body = b"" if method in ("GET", "HEAD", "OPTIONS") and random.random() < 0.95 else _body(random, template)
    lines = [f"{method} {path} HTTP/1.1".encode(), *_headers(random), b"content-length: %d" % len(body), b"", body]
    return method, b"\r\n".join(lines)


def _segment(random: Random) -> str:
    return random.choice(_NAMES if random.random() < 0.75 else _BAD_NAMES)


def _parameter(random: Random) -> str:
    if random.random() < 0.1:
        return random.choice(_BAD_NAMES).replace("\\", "%5C")
    value = random.choice((*_PATTERNS, *map(str, _VALUES)))
    given = quote(value, safe="") if random.random() < 0.8 else _segment(random)
    return f"{random.choice(_PARAMETERS)}={given[:3000]}"


def _headers(random: Random) -> Iterator[bytes]:
    if random.random() < 0.97:
        yield b"host: localhost"
    yield b"connection: close"
    if random.random() < 0.95:
        yield b"authorization: " + GUEST.encode()
    else:
        yield random.choice(
            (b"authorization: Basic ?", b"authorization: Basic //8=", b"authorization: Bearer x", b"x: y")
        )
    if random.random() < 0.8:
        yield b"content-type: application/json"
    if random.random() < 0.1:
        yield random.choice(
            (
                *(
                    b"origin: http://example.com",
                    b"accept: text/html",
                    b"accept: ;;;",
                    b"x-reason: \xff\xfe",
                    b"expect: x",
                ),
                *(
                    b"content-type: multipart/form-data",
                    b"content-type: multipart/form-data; boundary=",
                    b"range: bytes=9-",
                ),
                *(
                    b"x: " + b"y" * 9000,
                    b"if-none-match: *",
                    b"cookie: a=\x01",
                    b"transfer-encoding: identity",
                    b"te: x",
                ),
            )
        )


def _body(random: Random, template: str) -> bytes:
    if random.random() < 0.2 and not template.endswith("/faults"):
        return random.choice(_BROKEN)
    value = {key: _value(random) for key in random.sample(_KEYS, random.randint(0, 6))}
    if "/assert/" in template or "/wait" in template:
        value["timeout"] = random.choice((0, 0.01, -1, "x", None))
    if template.endswith("/faults"):
        value["vhost"] = _FUZZED
    return json.dumps(value).encode()


def _value(random: Random) -> object:
    if random.random() < 0.15:
        return {"regex": random.choice(_PATTERNS)}
    if random.random() < 0.2:
        return {key: random.choice(_VALUES) for key in random.sample(_KEYS, random.randint(0, 3))}
    return random.choice(_VALUES)


@dataclass
class Report:
    """What a campaign found."""

    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    witnessed: int = 0
    slowest_s: float = 0.0
    slowest: bytes = b""
    worst_round_trip_s: float = 0.0

    def __str__(self) -> str:
        statuses = ", ".join(f"{status}: {count}" for status, count in sorted(self.statuses.items()))
        return (
            f"{self.statuses.total()} requests answered ({statuses}), the slowest in {self.slowest_s:.2f} s; "
            f"the witness got its {self.witnessed} messages, the slowest in {self.worst_round_trip_s:.2f} s; "
            f"{len(self.faults)} faults"
        )


def run(count: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Report:
    """Send so many requests, and return what came of them."""
    report = Report()
    with Broker(management=True, vhosts={_WITNESS, _FUZZED}, checks="all=off") as broker:
        with witness(broker, report):
            threads = [
                threading.Thread(target=_send_all, args=(broker, range(at, count, _THREADS), seed, report, say))
                for at in range(_THREADS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        report.faults += [f"internal error: {error!r}" for error in Harness(broker).take_internal_errors()]
    return report


def _send_all(broker: Broker, numbers: range, seed: int, report: Report, say: Callable[[str], None]) -> None:
    for number in numbers:
        method, sent = request(Random(f"{seed}.{number}"))
        began = time.monotonic()
        try:
            status = _status(broker, method, sent)
        except (OSError, HTTPException) as error:
            report.faults.append(f"unanswered ({error!r}), request {number}: {sent[:300]!r}")
            continue
        took_s = time.monotonic() - began
        if took_s > report.slowest_s:
            report.slowest_s, report.slowest = took_s, sent[:300]
        report.statuses[status] += 1
        if status == 500:
            report.faults.append(f"500, request {number}: {sent[:600]!r}")
        if number % 5000 == 0:
            say(str(report))


def _status(broker: Broker, method: str, sent: bytes) -> int:
    with raw(broker) as client:
        client.settimeout(_PATIENCE_S)
        client.sendall(sent)
        response = HTTPResponse(client, method=method)
        response.begin()
        if response.getheader("content-type") != "text/event-stream":
            response.read()
        response.close()
        return response.status


@contextmanager
def witness(broker: Broker, report: Report) -> Iterator[None]:
    """Publish and consume in a virtual host of its own, on a thread, until the block ends."""
    ended = threading.Event()

    def testify() -> None:
        parameters = pika.URLParameters(broker.url_for(_WITNESS))
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("q", durable=True)
            messages = channel.consume("q", auto_ack=False, inactivity_timeout=_PATIENCE_S)
            while not ended.is_set():
                body, began = str(report.witnessed).encode(), time.monotonic()
                channel.basic_publish("", "q", body)
                method, _, received = next(messages)
                assert received == body, f"the witness got {received!r} for {body!r}"
                channel.basic_ack(method.delivery_tag)
                report.witnessed += 1
                report.worst_round_trip_s = max(report.worst_round_trip_s, time.monotonic() - began)
            channel.cancel()

    def testify_and_report() -> None:
        try:
            testify()
        except Exception as error:
            report.faults.append(f"the witness was harmed: {error!r}")

    thread = threading.Thread(target=testify_and_report)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def main() -> int:
    """Run a campaign; return the number of faults, as the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.http.campaign", description="send hostile requests to leveret"
    )
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    report = run(options.requests, options.seed, lambda text: print(f"... {text}", flush=True))
    print(f"seed {options.seed}: {report}\nthe slowest: {report.slowest!r}")
    for fault in report.faults:
        print(fault)
    return min(len(report.faults), 100)


if __name__ == "__main__":
    sys.exit(main())
