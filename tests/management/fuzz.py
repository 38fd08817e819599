"""Random requests with values of every type: leveret refuses what it cannot read, and never fails::

    python -m tests.management.fuzz --count 20000 --seed 1 [--oracle 4.3=amqp://guest:guest@127.0.0.1:5672]

With a server, each request goes to both, and each kind of request is printed once that the server accepts and leveret
refuses, or the other way round. The server should hold nothing of value: some values are stored and crash it later.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from urllib.parse import quote

from leveret.http.management.endpoints import ENDPOINTS
from tests.recording import LATEST

from . import target
from .scenario import Asking

_VHOST = "fuzzed"
_NAMES = ("a", "b", "c d", "ä", "e/f", "amq.default", "amq.direct")
# The values of a path. The users are the fuzzer's own.
_PARTS = {
    "vhost": (_VHOST, _VHOST, _VHOST, _VHOST, "nothing"),
    "user": ("fuzzed-user", "fuzzed-other"),
    "kind": ("q", "e", "x"),
    "component": ("vhost-limits", "operator_policy", "shovel"),
    "name": ("limits", "max-queues", "max-connections", "max-channels", "p", "fuzzed-name"),
    "properties": ("~", "k", "a.b", "%23"),
    "action": ("sync",),
}
# They would change what others use, or the server's own state.
_LEFT_OUT = ("/api/reset", "/api/rebalance", "/api/feature-flags", "/api/cluster-name", "/api/auth", "/api/login")
_WEIGHTS = {"GET": 1, "PUT": 10, "POST": 10, "DELETE": 1}
_LEFT_OUT_WRITES = ("/api/connections", "/api/nodes", "/api/global-parameters")
_KEYS = (
    *("durable", "auto_delete", "internal", "arguments", "type", "node", "routing_key", "properties", "payload"),
    *("payload_encoding", "ackmode", "count", "encoding", "truncate", "pattern", "definition", "priority", "apply-to"),
    *("value", "password", "password_hash", "hashing_algorithm", "tags", "administrator", "limits", "permissions"),
    *("configure", "write", "read", "exchange", "users", "description", "default_queue_type", "defaultqueuetype"),
    *("tracing", "metadata", "queues", "exchanges", "bindings", "policies", "parameters", "vhosts", "name", "action"),
    *("source", "destination", "destination_type", "headers", "user_id", "expiration", "timestamp", "vhost", "user"),
)
_WORDS = (
    *(
        "",
        "a",
        "b",
        "text",
        "true",
        "false",
        "5",
        "-1",
        "[",
        "^a",
        "ä",
        "null",
        "undefined",
        "string",
        "base64",
        "aGk=",
    ),
    *("auto", "ack_requeue_true", "ack_requeue_false", "reject_requeue_false", "direct", "fanout", "queue", "exchange"),
    *("queues", "all", "classic", "quorum", "stream", "x-max-length", "x-queue-type", "max-length", "k" * 300),
    *("guest", _VHOST, "limits", "vhost-limits", "operator_policy", "management"),
)
_NUMBERS = (0, 1, 5, -1, 255, 256, 2**31, 2**63, 2**64, 2**70, 1.5, -0.5, 1e300)
# What each request needs, so that most get past the first check.
_NEEDED = {
    "publish": {"properties": {}, "routing_key": "a", "payload": "x", "payload_encoding": "string"},
    "get": {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"},
    "policies": {"pattern": "", "definition": {"max-length": 3}},
    "permissions": {"configure": "", "write": "", "read": "", "exchange": "amq.topic"},
    "limits": {"value": 5},
    "parameters": {"value": {}},
    "users": {"password": "x", "tags": ""},
    "bulk-delete": {"users": []},
    "actions": {"action": "sync"},
}
_QUERIES = ("page", "page_size", "name", "use_regex", "columns", "sort", "sort_reverse", "disable_stats", "if-unused")

Asked = tuple[str, str, bytes]


def value(random: Random, depth: int = 0) -> object:
    """Return a value of any type of JSON."""
    kind = random.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return random.choice((None, True, False))
    if kind == 1:
        return random.choice(_NUMBERS)
    if kind < 5:
        return random.choice(_WORDS)
    if kind == 5:
        return [value(random, depth + 1) for _ in range(random.randrange(3))]
    return {random.choice(_KEYS + _WORDS): value(random, depth + 1) for _ in range(random.randrange(4))}


def requests(random: Random, count: int) -> Iterator[Asked]:
    """Yield requests: the method, the path with its query, and the body."""
    chosen = [
        each
        for each in ENDPOINTS
        if LATEST in each.versions
        and not each.template.startswith(_LEFT_OUT)
        and not (each.method != "GET" and each.template.startswith(_LEFT_OUT_WRITES))
        and (each.method, each.template) != ("DELETE", "/api/vhosts/{vhost}")
    ]
    weights = [_WEIGHTS[each.method] for each in chosen]
    for _ in range(count):
        (endpoint,) = random.choices(chosen, weights)
        parts = [_filled(random, part) for part in endpoint.template.split("/")]
        pairs = [f"{random.choice(_QUERIES)}={quote(str(value(random, 9)))}" for _ in range(random.randrange(3))]
        query = f"?{'&'.join(pairs)}" if pairs and random.random() < 0.3 else ""
        body = b"" if endpoint.method in ("GET", "DELETE") else _body(random, endpoint.template)
        yield endpoint.method, "/".join(parts) + query, body


def _filled(random: Random, part: str) -> str:
    if not part.startswith("{"):
        return part
    return quote(random.choice(_PARTS.get(part.strip("{}"), _NAMES)), safe="")


def _body(random: Random, template: str) -> bytes:
    if random.random() < 0.05:
        return random.choice((b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"5"))
    needed = [body for word, body in _NEEDED.items() if word in template]
    body: dict[str, object] = dict(needed[-1]) if needed else {}
    keys = [*body, *_KEYS]
    if template.startswith("/api/definitions"):
        # A name of another type is stored, and then the server cannot delete its virtual host.
        item = {"name": "a", "vhost": _VHOST, **{random.choice(_KEYS[:6]): value(random) for _ in range(3)}}
        return json.dumps({random.choice(("queues", "exchanges", "policies")): [{**item, "name": "d"}]}).encode()
    for _ in range(random.randrange(1, 3)):
        body[random.choice(keys[:6] if random.random() < 0.5 else keys)] = value(random)
    return json.dumps(body).encode()


def ask(asking: Asking, asked: Asked) -> tuple[int, bytes]:
    """Ask as guest, and return the status and the body."""
    method, path, body = asked
    headers = {
        "authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
        "content-type": "application/json",
    }
    status, _, answer = asking(method, path, headers, body)
    return status, answer


def campaign(count: int, seed: int, oracle: str | None = None) -> Counter[str]:
    """Send requests, and return how often each status came; a failure of leveret is printed, and counts as "failed"."""
    version, _, url = (oracle or f"{LATEST}=").partition("=")
    statuses: Counter[str] = Counter()
    with ExitStack() as stack:
        _, ours = stack.enter_context(target.leveret(version))
        theirs = stack.enter_context(target.oracle(url, version))[1] if url else None
        for asking in filter(None, (ours, theirs)):
            ask(asking, ("DELETE", f"/api/vhosts/{_VHOST}", b""))
            ask(asking, ("PUT", f"/api/vhosts/{_VHOST}", b"{}"))
        seen: set[tuple[object, ...]] = set()
        for asked in requests(Random(seed), count):
            try:
                status, answer = ask(ours, asked)
            except Exception as error:
                statuses["failed"] += 1
                print(f"leveret failed: {error!r}\n  {asked}")
                continue
            statuses[str(status)] += 1
            if status == 500:
                statuses["failed"] += 1
                print(f"leveret: {status} {answer!r}\n  {asked}")
            if theirs is None:
                continue
            their_status, their_answer = ask(theirs, asked)
            if their_status >= 500:
                statuses["crashed there"] += 1
            difference = (asked[0], asked[1].split("?")[0].split("/")[2:3], status, their_status)
            mark = (*difference[:1], *difference[1], *difference[2:])
            if status // 100 != min(their_status, 400) // 100 and mark not in seen:
                seen.add(mark)
                statuses["differ"] += 1
                print(f"{status} here, {their_status} there {their_answer[:120]!r}\n  {asked}")
        for asking in filter(None, (ours, theirs)):
            ask(asking, ("DELETE", f"/api/vhosts/{_VHOST}", b""))
            for user in _PARTS["user"]:
                ask(asking, ("DELETE", f"/api/users/{user}", b""))
    return statuses


def main() -> int:
    """Run the campaign; return the number of failures, as the exit code."""
    parser = argparse.ArgumentParser(description="send random requests to the management API")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--oracle", metavar="VERSION=URL")
    options = parser.parse_args()
    statuses = campaign(options.count, options.seed, options.oracle)
    print(f"{options.count} requests: {dict(sorted(statuses.items()))}")
    return min(statuses["failed"], 255)


if __name__ == "__main__":
    sys.exit(main())
