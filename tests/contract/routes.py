"""A campaign: pairs of services with random topologies, of which `leveret contract check` says what a broker does.

`python -m tests.contract.routes --pairs 60 --seed 1` makes the locks of each pair from the events of a broker, as a run
does. Then it publishes the shop's messages into the topology of both, and compares which of them reach a queue of the
consumer's. With `--url`, that broker is a RabbitMQ. A verdict is wrong if it calls a break what fits, or a fit what
breaks; "may reach" is right only where the locks cannot show it.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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


@dataclass
class Pair:
    """What two services declare and send. The shop declares the first of the exchanges and bindings."""

    exchanges: list[Exchange]
    bindings: list[Binding]
    queues: list[str]
    messages: list[Message]
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


def consumer_lock(pair: Pair) -> Lock:
    """Return the lock that a run of the consumer's tests writes, which send to its queues."""
    lock = Lock()
    with Broker(checks="off") as broker:
        observer = Observer(broker)
        own = 0 if pair.consumer_declares_all else pair.shop_exchanges
        with connected(broker.url, "test") as channel:
            declare(channel, pair.exchanges[:own], [], [])
        with connected(broker.url, "consumer") as channel:
            declare(channel, pair.exchanges[own:], pair.bindings, pair.queues)
            for queue in pair.queues:
                broker.publish("", queue, json=GOOD)
                method, _, _ = channel.basic_get(queue)
                channel.basic_ack(method.delivery_tag)
        observer.read(lock)
    return lock


def reached(pair: Pair, url: str) -> list[list[dict[str, object]]]:
    """Return the bodies that reach the queues when the shop's messages are published into the topology of both."""
    with connected(url, "both") as channel:
        declare(channel, pair.exchanges, pair.bindings, pair.queues)
        for message in pair.messages:
            publish(channel, message)
        bodies = []
        for queue in pair.queues:
            bodies.append([])
            while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
                bodies[-1].append(json.loads(got[2]))
            channel.queue_delete(queue)
        for exchange in pair.exchanges:
            channel.exchange_delete(exchange.name)
    return bodies


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


def verdict_of(pair: Pair, folder: Path) -> tuple[int, str]:
    """Return the exit code and the output of `leveret contract check`."""
    paths = [folder / "shop.lock", folder / "consumer.lock"]
    for path, lock in zip(paths, (shop_lock(pair), consumer_lock(pair)), strict=True):
        path.write_text(lock.text())
    output = io.StringIO()
    with redirect_stdout(output):
        code = leveret(["contract", "check", *map(str, paths)])
    return code, output.getvalue()


def judged(pair: Pair, folder: Path, url: str | None = None) -> tuple[str, str]:
    """Return whether the verdict about a pair is right, as a word, and what explains it."""
    code, output = verdict_of(pair, folder)
    if url is None:
        with Broker(checks="off") as broker:
            bodies = reached(pair, broker.url)
    else:
        bodies = reached(pair, url)
    breaks = any(body == BAD for queue in bodies for body in queue)
    says_may = "may reach" in output
    if code == 1:
        word = "break" if breaks else "WRONG: a break that is none"
    elif says_may:
        word = "may reach" if is_open(pair) else "WRONG: may reach, and the locks show it"
    else:
        word = "WRONG: a fit that breaks" if breaks else "fit"
    return word, f"{pair}\n{bodies}\n{output}"


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
