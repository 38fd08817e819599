"""A campaign: pairs of services with random topologies, of which `leveret contract check` says what a broker does.

`python -m tests.contract.routes --pairs 60 --seed 1` makes the locks of each pair from the events of a broker, as a run
does. The consumer's own tests publish to its queues, or through any exchange with other keys and headers than the shop.
Then it publishes the shop's messages into the topology of both, and compares each that reaches a queue with what the
consumer has received there. With `--url`, that broker is a RabbitMQ. A verdict is wrong if it calls a break what fits,
or a fit what breaks; "may reach" is right only where the locks cannot show it, and "may break" only where a message
fits some of what the consumer has received by other keys, and not all.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pika
from pytest_leveret.contract.lock import Lock
from pytest_leveret.contract.observing import Observer

from leveret import Broker
from leveret.cli import main as leveret

KEYS: Final = ("order.created", "order.paid", "eu.order.created", "order", "")
PATTERNS: Final = (*KEYS, "order.*", "#", "*.created", "order.#", "eu.#", "*", "*.*.created")
HEADERS: Final[dict[str, tuple[object, ...]]] = {
    "kind": ("pay", "book", "gift"),
    "region": ("eu", "us"),
    "x-level": ("gold", "basic"),
    "urgent": (True, False),
}
# A lock keeps the names of these headers, and not their values.
REDACTED: Final[dict[str, tuple[object, ...]]] = {"tenant": ("acme", "initech"), "amount": (1, 2)}
MATCHES: Final = ("all", "any", "all-with-x", "any-with-x")
TYPES: Final = ("direct", "fanout", "topic", "headers")
CHANCE: Final = ("x-random", "x-consistent-hash", "x-modulus-hash", "x-local-random")
# What the consumer has received, and what it has not.
GOOD: Final[dict[str, object]] = {"id": 7}
BAD: Final[dict[str, object]] = {"id": "seven"}


@dataclass
class Exchange:
    name: str
    type: str
    arguments: dict[str, Any]


@dataclass
class Binding:
    source: str
    target: str
    is_queue: bool
    key: str
    arguments: dict[str, Any]


@dataclass
class Message:
    exchange: str
    key: str
    headers: dict[str, Any]
    body: dict[str, Any]


class Kind(NamedTuple):
    """What a lock keeps as one message, and the queues that it reaches."""

    exchange: str
    key: str
    headers: dict[str, Any]
    bodies: set[str]
    queues: set[str]


@dataclass
class Pair:
    """What two services declare and send. The shop declares the first of the exchanges and bindings."""

    exchanges: list[Exchange]
    bindings: list[Binding]
    queues: list[str]
    messages: list[Message]
    # What the consumer's own tests send.
    tests: list[Message]
    # How many of the exchanges and bindings the shop declares, and whether the consumer declares those too.
    shop_exchanges: int
    shop_bindings: int
    consumer_declares_all: bool


def pair_of(chance: random.Random) -> Pair:
    """Return a random pair."""
    names = ["orders", "second", "third", "fourth"][: chance.randint(1, 4)]
    types = TYPES if chance.random() < 0.8 else TYPES + CHANCE
    headers = HEADERS if chance.random() < 0.8 else HEADERS | REDACTED
    exchanges = []
    for name in names:
        arguments: dict[str, Any] = {}
        if chance.random() < 0.4:
            arguments["alternate-exchange"] = chance.choice([*names, "nowhere", "amq.fanout"])
        kind = chance.choice(types)
        if chance.random() < 0.05:
            kind, arguments["x-delayed-type"] = "x-delayed-message", kind if kind in TYPES else "topic"
        exchanges.append(Exchange(name, kind, arguments))
    by_name = {each.name: each for each in exchanges} | {"amq.fanout": Exchange("amq.fanout", "fanout", {})}
    queues = ["billing", "audit"][: chance.randint(1, 2)]
    bindings = []
    for _ in range(chance.randint(0, 3) if len(names) > 1 else 0):
        source, target = chance.choice(exchanges), chance.choice(exchanges)
        if source.type != "x-local-random":
            bindings.append(binding_of(chance, source, target.name, False, headers))
    for queue in queues:
        for _ in range(chance.randint(1, 2)):
            bindings.append(binding_of(chance, by_name[chance.choice([*by_name])], queue, True, headers))
    messages = [message_of(chance, queues, headers) for _ in range(chance.randint(1, 3))]
    pair = Pair(
        exchanges,
        bindings,
        queues,
        messages,
        tests_of(chance, [*by_name], bindings, queues, headers),
        shop_exchanges=chance.randint(1, len(exchanges)),
        shop_bindings=0,
        consumer_declares_all=chance.random() < 0.5,
    )
    if pair.shop_exchanges == len(exchanges):
        pair.shop_bindings = sum(not each.is_queue for each in bindings) * chance.randint(0, 1)
    return pair


def binding_of(
    chance: random.Random, source: Exchange, target: str, is_queue: bool, headers: dict[str, tuple[object, ...]]
) -> Binding:
    kind = source.arguments.get("x-delayed-type", source.type)
    key = chance.choice(PATTERNS if kind == "topic" else KEYS)
    if kind == "x-consistent-hash":
        key = "1"
    if kind == "x-local-random":
        key = ""
    arguments: dict[str, Any] = {}
    if kind == "headers" and chance.random() < 0.9:
        arguments = {
            name: None if chance.random() < 0.2 else chance.choice(headers[name])
            for name in chance.sample([*headers], chance.randint(0, 2))
        }
        if chance.random() < 0.8:
            arguments["x-match"] = chance.choice(MATCHES)
    return Binding(source.name, target, is_queue, key, arguments)


def message_of(chance: random.Random, queues: list[str], headers: dict[str, tuple[object, ...]]) -> Message:
    given: dict[str, Any] = {
        name: chance.choice(headers[name]) for name in chance.sample([*headers], chance.randint(0, len(headers)))
    }
    if chance.random() < 0.1:
        given[chance.choice(("CC", "BCC"))] = [chance.choice((*KEYS, *queues))]
    body = dict(chance.choice((GOOD, BAD)))
    if chance.random() < 0.15:
        return Message("", chance.choice([*queues, "elsewhere"]), given, body)
    return Message("orders", chance.choice(KEYS), given, body)


def tests_of(
    chance: random.Random,
    exchanges: list[str],
    bindings: list[Binding],
    queues: list[str],
    headers: dict[str, tuple[object, ...]],
) -> list[Message]:
    """Return what the consumer's own tests send, with headers only where a binding asks for them."""
    asked = [name for name in headers if any(name in each.arguments for each in bindings)]
    tests = [Message("", queue, {}, GOOD) for queue in queues if chance.random() < 0.5]
    for _ in range(chance.randint(1, 4)):
        given = {name: chance.choice(headers[name]) for name in chance.sample(asked, chance.randint(0, len(asked)))}
        tests.append(
            Message(chance.choice(exchanges), chance.choice(KEYS), given, GOOD if chance.random() < 0.8 else BAD)
        )
    return tests


@contextmanager
def connected(url: str, name: str) -> Iterator[Any]:
    """Yield a channel of a client with this name."""
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": name}
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel


def declare(channel: Any, exchanges: list[Exchange], bindings: list[Binding], queues: list[str]) -> None:
    for exchange in exchanges:
        channel.exchange_declare(exchange.name, exchange.type, durable=True, arguments=exchange.arguments)
    for queue in queues:
        channel.queue_declare(queue, durable=True)
    for it in bindings:
        if it.is_queue:
            channel.queue_bind(it.target, it.source, it.key, it.arguments)
        else:
            channel.exchange_bind(it.target, it.source, it.key, it.arguments)


def publish(channel: Any, message: Message) -> None:
    properties = pika.BasicProperties(content_type="application/json", headers=message.headers or None)
    channel.basic_publish(message.exchange, message.key, json.dumps(message.body).encode(), properties)


def shop_lock(pair: Pair) -> Lock:
    """Return the lock that a run of the shop's tests writes."""
    lock = Lock()
    with Broker(checks="off") as broker:
        observer = Observer(broker)
        with connected(broker.url, "shop") as channel:
            declare(channel, pair.exchanges[: pair.shop_exchanges], pair.bindings[: pair.shop_bindings], [])
            for message in pair.messages:
                publish(channel, message)
        observer.read(lock)
    return lock


def consumer_lock(pair: Pair) -> tuple[Lock, list[set[str]]]:
    """Return the lock that a run of the consumer's tests writes, and the queues that each of their messages reached."""
    lock = Lock()
    leading = leading_to_headers(pair)
    with Broker(checks="off") as broker:
        observer = Observer(broker)
        own = 0 if pair.consumer_declares_all else pair.shop_exchanges
        with connected(broker.url, "test") as channel:
            declare(channel, pair.exchanges[:own], [], [])
        with connected(broker.url, "consumer") as channel:
            declare(channel, pair.exchanges[own:], pair.bindings, pair.queues)
            found = []
            for it in pair.tests:
                headers = it.headers if it.exchange in leading else None
                broker.publish(it.exchange, it.key, json=it.body, headers=headers)
                found.append(taken(channel, pair.queues))
        observer.read(lock)
    return lock, found


def taken(channel: Any, queues: list[str]) -> set[str]:
    """Take what is in the queues, and return those that had something."""
    found = set()
    for queue in queues:
        while (method := channel.basic_get(queue)[0]) is not None:
            channel.basic_ack(method.delivery_tag)
            found.add(queue)
    return found


def reached(pair: Pair, url: str) -> list[set[str]]:
    """Return the queues that each of the shop's messages reaches if it is published into the topology of both."""
    with connected(url, "both") as channel:
        declare(channel, pair.exchanges, pair.bindings, pair.queues)
        found = []
        for message in pair.messages:
            publish(channel, message)
            found.append(taken(channel, pair.queues))
        for queue in pair.queues:
            channel.queue_delete(queue)
        for exchange in pair.exchanges:
            channel.exchange_delete(exchange.name)
    return found


def leading_to_headers(pair: Pair) -> set[str]:
    """Return the headers exchanges, and those from which a message may come to one."""
    ways = {(each.source, each.target) for each in pair.bindings if not each.is_queue}
    ways |= {(each.name, each.arguments.get("alternate-exchange", "")) for each in pair.exchanges}
    found = {each.name for each in pair.exchanges if "headers" in (each.type, each.arguments.get("x-delayed-type"))}
    for _ in pair.exchanges:
        found |= {source for source, target in ways if target in found}
    return found


def kinds_of(pair: Pair, messages: list[Message], places: list[set[str]], asked: set[str] | None) -> list[Kind]:
    """Return messages by what a lock keeps apart, with headers only if brokers route by them, of `asked` names."""
    leading = leading_to_headers(pair)
    kinds: dict[tuple[object, ...], Kind] = {}
    for message, queues in zip(messages, places, strict=True):
        is_by_headers = message.exchange in leading and asked is not None
        own = {name: value for name, value in message.headers.items() if is_by_headers or name in ("CC", "BCC")}
        key = (message.exchange, message.key, json.dumps(own, sort_keys=True).replace("BCC", "CC"))
        routed = {name: value for name, value in own.items() if asked is not None and name in asked}
        kind = kinds.setdefault(key, Kind(message.exchange, message.key, routed, set(), set()))
        kind.bodies.add(json.dumps(message.body))
        kind.queues.update(queues)
    return [*kinds.values()]


def truth_of(pair: Pair, places: list[set[str]], received: list[set[str]]) -> tuple[bool, bool, int, int]:
    """Return whether the shop breaks the consumer, whether it may, and how much is not read and how much not sent."""
    asked = {name for each in pair.bindings for name in each.arguments}
    sent = kinds_of(pair, pair.messages, places, asked if knows_headers(pair) else None)
    known = [each for each in kinds_of(pair, pair.tests, received, asked) if each.queues]
    breaks = may_break = False
    for each in sent:
        for queue in each.queues:
            here = [kind for kind in known if queue in kind.queues]
            same = [kind for kind in here if (kind.exchange, kind.key, kind.headers) == each[:3]]
            bodies = [kind.bodies for kind in same or here]
            if bodies and not each.bodies <= set().union(*bodies):
                breaks = True
            elif not all(each.bodies <= accepted for accepted in bodies):
                may_break = True
    read, fed = set().union(*(each.queues for each in known)), set().union(*places)
    unread = sum(each.queues.isdisjoint(read) for each in sent)
    return breaks, may_break, unread, sum(each.queues.isdisjoint(fed) for each in known)


def is_open(pair: Pair) -> bool:
    """Return whether locks cannot show the whole way: chance, a value that they redact, headers that they leave out."""
    asked = {name for each in pair.bindings for name in each.arguments if each.arguments[name] is not None}
    by_chance = any(each.type in CHANCE for each in pair.exchanges)
    headers = any("headers" in (each.type, *each.arguments.values()) for each in pair.exchanges)
    return by_chance or bool(asked & {*REDACTED}) or (headers and not knows_headers(pair))


def knows_headers(pair: Pair) -> bool:
    """Return whether the shop itself declares all of the way to the headers exchanges."""
    return pair.shop_exchanges == len(pair.exchanges) and (
        pair.shop_bindings > 0 or all(each.is_queue for each in pair.bindings)
    )


def verdict_of(locks: list[Lock], folder: Path) -> tuple[int, str]:
    """Return the exit code and the output of `leveret contract check`."""
    paths = [folder / "shop.lock", folder / "consumer.lock"]
    for path, lock in zip(paths, locks, strict=True):
        path.write_text(lock.text())
    output = io.StringIO()
    with redirect_stdout(output):
        code = leveret(["contract", "check", *map(str, paths)])
    return code, output.getvalue()


def judged(pair: Pair, folder: Path, url: str | None = None) -> tuple[str, str]:
    """Return whether the verdict about a pair is right, as a word, and what explains it."""
    lock, received = consumer_lock(pair)
    code, output = verdict_of([shop_lock(pair), lock], folder)
    if url is None:
        with Broker(checks="off") as broker:
            places = reached(pair, broker.url)
    else:
        places = reached(pair, url)
    breaks, may_break, unread, unsent = truth_of(pair, places, received)
    said = {title: lines.count("\n  ") for title, lines in re.findall(r"^(\S.*):((?:\n  .*)+)", output, re.MULTILINE)}
    says_may = "may reach a consumer that it would break" in said
    if code == 1:
        word = "break" if breaks else "WRONG: a break that is none"
    elif says_may:
        word = "may reach" if is_open(pair) else "WRONG: may reach, and the locks show it"
    elif is_open(pair):
        word = "WRONG: a fit that breaks" if breaks and "may break" not in output else "fit"
    elif breaks:
        word = "WRONG: a fit that breaks"
    elif said.get("sent, and no consumer reads it", 0) != unread:
        word = "WRONG: what no consumer reads"
    elif said.get("read, and no publisher sends it", 0) != unsent:
        word = "WRONG: what no publisher sends"
    else:
        word = "may break" if "may break a consumer" in output else "fit"
        word = word if may_break == (word == "may break") else f"WRONG: {word}"
    return word, f"{pair}\n{places}\n{received}\n{output}"


def main() -> int:
    """Run the campaign, and return 1 if a verdict is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--url", help="publish on this RabbitMQ, in an empty virtual host; what it lacks is left out")
    options = parser.parse_args()
    words: Counter[str] = Counter()
    for number in range(options.pairs):
        pair = pair_of(random.Random(f"{options.seed} {number}"))
        if options.url is not None and any(each.type not in TYPES for each in pair.exchanges):
            words["left out"] += 1
            continue
        with tempfile.TemporaryDirectory() as folder:
            word, why = judged(pair, Path(folder), options.url)
        words[word] += 1
        if word.startswith("WRONG"):
            print(f"pair {number}: {word}\n{why}", flush=True)
    print(f"{options.pairs} pairs, seed {options.seed}:", ", ".join(f"{n} {word}" for word, n in sorted(words.items())))
    return int(any(word.startswith("WRONG") for word in words))


if __name__ == "__main__":
    sys.exit(main())
